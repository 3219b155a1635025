//! The shop: an application that writes its data and its events in one transaction, and changes its mind at times.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use outbox::sqlite::Outbox;
use outbox::{Message, MessageId};
use rand::RngExt;
use serde_json::json;
use tokio_util::sync::CancellationToken;

const CUSTOMERS: usize = 200;

/// The order of this number can never be mailed; see the mailer.
pub(super) const CURSED_ORDER: u64 = 20;

/// The mail server is busy when the first events of these orders come.
pub(super) fn is_unlucky(order: u64) -> bool {
    order % 25 == 7
}

/// What the shop has committed and what it has taken back, by its own account.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    committed: Mutex<HashSet<MessageId>>,
    rolled_back: Mutex<HashSet<MessageId>>,
}

impl Ledger {
    pub(super) fn committed(&self) -> HashSet<MessageId> {
        self.committed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub(super) fn written(&self) -> u64 {
        self.committed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).len() as u64
    }

    pub(super) fn rolled_back(&self) -> u64 {
        self.rolled_back.lock().unwrap_or_else(std::sync::PoisonError::into_inner).len() as u64
    }

    pub(super) fn rolled_back_ids(&self) -> HashSet<String> {
        let ids = self.rolled_back.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        ids.iter().map(ToString::to_string).collect()
    }
}

/// Makes the shop's own table.
pub(super) async fn open(outbox: &Outbox) -> anyhow::Result<()> {
    let table =
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT NOT NULL, cents INTEGER NOT NULL)";
    sqlx::raw_sql(table).execute(outbox.pool()).await?;
    Ok(())
}

/// Takes orders until the shop closes. Each order is one transaction: its row, and two or three events.
pub(super) async fn trade(
    outbox: Outbox,
    ledger: std::sync::Arc<Ledger>,
    closing: CancellationToken,
) -> anyhow::Result<()> {
    let mut next_of_customer = [0u64; CUSTOMERS];
    for order in 1.. {
        if closing.is_cancelled() {
            break;
        }
        let (customer, cents, changes_its_mind, kinds) = {
            let mut dice = rand::rng();
            let kinds = if dice.random_bool(0.5) { 3 } else { 2 };
            (dice.random_range(0..CUSTOMERS), dice.random_range(500..50_000), dice.random_bool(0.08), kinds)
        };
        // Orders that meet trouble must happen, or there is nothing to show.
        let changes_its_mind = changes_its_mind && order != CURSED_ORDER && !is_unlucky(order);
        let mut tx = outbox.pool().begin_with("BEGIN IMMEDIATE").await?;
        let insert = sqlx::query("INSERT INTO orders (id, customer, cents) VALUES (?, ?, ?)");
        insert.bind(order as i64).bind(format!("customer-{customer}")).bind(cents).execute(&mut *tx).await?;
        let mut events = Vec::new();
        for (step, kind) in
            ["order.placed", "order.paid", "order.shipped"].into_iter().take(kinds).enumerate()
        {
            let number = next_of_customer[customer] + step as u64;
            let body = json!({ "order": order, "cents": cents, "number": number });
            let event = Message::json(kind, &body)?.key(format!("customer-{customer}"));
            events.push(event.saga(format!("order-{order}"), step.to_string()));
        }
        outbox.enqueue_all(&mut tx, &events).await?;
        if changes_its_mind {
            tx.rollback().await?;
            let mut rolled_back =
                ledger.rolled_back.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            rolled_back.extend(events.into_iter().map(|event| event.id));
        } else {
            tx.commit().await?;
            next_of_customer[customer] += events.len() as u64;
            let mut committed = ledger.committed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            committed.extend(events.into_iter().map(|event| event.id));
        }
        // A shop, not a benchmark: leave the database to the others for a moment.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}
