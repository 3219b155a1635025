//! Notes of failed attempts, in a table of their own: losing them loses nothing that was handled.

use jiff::Timestamp;
use sqlx::mysql::{MySqlPool, MySqlRow};
use sqlx::{MySql, QueryBuilder, Row};

use super::texts::MOST;
use crate::inbox::{Attempt, Failed, Handled};
use crate::message::MessageId;
use crate::sink::Cause;

const OF: &str = "
    select consumer, attempt, dead, code, detail, timestampdiff(microsecond, '1970-01-01', failed_at) as at
    from outbox_attempts where message_id = ? order by seq";

pub(super) const PRUNE: &str = "
    delete from outbox_attempts where consumer = ? and failed_at < utc_timestamp(6) - interval ? microsecond
    order by failed_at limit ?";

/// Rows per statement.
const ROWS: usize = 500;

pub(super) async fn write(pool: &MySqlPool, consumer: &str, failures: &[Failed<'_>]) -> sqlx::Result<()> {
    // An id that has no room would not find its note again; the other notes shall not suffer from it.
    let fits = |text: &str| text.chars().count() <= MOST as usize;
    let failures: Vec<_> = failures.iter().filter(|failed| fits(failed.id.as_str())).collect();
    for chunk in failures.chunks(ROWS) {
        let mut query = QueryBuilder::<MySql>::new(
            "insert into outbox_attempts (consumer, message_id, attempt, dead, code, detail, failed_at) ",
        );
        query.push_values(chunk, |mut row, failed| {
            row.push_bind(consumer.to_owned())
                .push_bind(failed.id.as_str().to_owned())
                .push_bind(failed.attempt)
                .push_bind(failed.dead)
                .push_bind(failed.cause.code.chars().take(MOST as usize).collect::<String>())
                .push_bind(failed.cause.detail.clone())
                .push("utc_timestamp(6)");
        });
        query.build().persistent(false).execute(pool).await?;
    }
    Ok(())
}

/// The notes about a message.
pub(super) async fn of(pool: &MySqlPool, id: &MessageId) -> sqlx::Result<Vec<Handled>> {
    let rows = sqlx::query(OF).bind(id.as_str()).persistent(false).fetch_all(pool).await?;
    let attempt = |row: &MySqlRow| -> sqlx::Result<Attempt> {
        Ok(Attempt {
            attempt: row.try_get("attempt")?,
            cause: Cause::new(row.try_get::<String, _>("code")?, row.try_get::<String, _>("detail")?),
            dead: row.try_get("dead")?,
        })
    };
    let note = |row: &MySqlRow| {
        Ok(Handled {
            consumer: row.try_get("consumer")?,
            at: Timestamp::from_microsecond(row.try_get("at")?).ok(),
            failed: Some(attempt(row)?),
        })
    };
    rows.iter().map(note).collect()
}
