//! Two consumers without a broker: functions that run in one transaction with the inbox.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outbox::sqlite::Outbox;
use outbox::{Failure, Lent, Message, Sink};
use serde::Deserialize;
use sqlx::{Sqlite, Transaction};

use super::shop::{CURSED_ORDER, is_unlucky};

type Tx = Lent<Transaction<'static, Sqlite>>;

/// What the consumers need of an event.
#[derive(Debug, Deserialize)]
pub(super) struct Body {
    pub(super) order: u64,
    pub(super) number: u64,
}

/// Makes the tables that the consumers write to. Nothing in them prevents a repetition: only the inbox does.
pub(super) async fn open(outbox: &Outbox) -> anyhow::Result<()> {
    let tables = "
        CREATE TABLE inventory_effects (message_id TEXT, key TEXT, number INTEGER);
        CREATE TABLE mailer_effects (message_id TEXT, key TEXT, number INTEGER);";
    sqlx::raw_sql(tables).execute(outbox.pool()).await?;
    Ok(())
}

/// Never fails.
pub(super) fn inventory(outbox: &Outbox) -> impl Sink + 'static {
    outbox.inbox().handler("inventory", |tx, message| async move {
        write(tx, "INSERT INTO inventory_effects VALUES (?, ?, ?)", &message).await?;
        Ok(())
    })
}

/// Fails now and then, after it has written; and one message it gives up, until a person tries it again.
pub(super) fn mailer(outbox: &Outbox) -> impl Sink + 'static {
    let mended = Arc::new(AtomicBool::new(false));
    outbox.inbox().handler("mailer", move |tx, message| {
        let mended = Arc::clone(&mended);
        async move {
            let body = write(tx, "INSERT INTO mailer_effects VALUES (?, ?, ?)", &message).await?;
            // Somebody looks at it, has the address corrected and presses the button.
            if body.order == CURSED_ORDER && !mended.swap(true, Ordering::Relaxed) {
                return Err(Failure::dead(format!("order {CURSED_ORDER} had no valid e-mail address")));
            }
            if is_unlucky(body.order) && message.attempts == 0 {
                return Err(Failure::retry("the mail server is busy"));
            }
            Ok(())
        }
    })
}

async fn write(mut tx: Tx, statement: &'static str, message: &Message) -> Result<Body, Failure> {
    let body: Body = serde_json::from_slice(&message.payload)?;
    sqlx::query(statement)
        .bind(message.id.as_str())
        .bind(message.key.as_deref())
        .bind(i64::try_from(body.number)?)
        .execute(&mut *tx)
        .await?;
    Ok(body)
}
