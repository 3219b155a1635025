//! Notes of failed attempts, in a table of their own: losing them loses nothing that was handled.

use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite, SqlitePool};

use super::NOW;
use crate::inbox::{Attempt, Failed, Handled};
use crate::message::MessageId;
use crate::sink::Cause;
use crate::sqlite::sql;

pub(super) const PRUNE: &str = "
    DELETE FROM outbox_attempts WHERE seq IN (
        SELECT seq FROM outbox_attempts
        WHERE failed_at < CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER) - ? AND consumer = ?
        ORDER BY failed_at LIMIT ?)";

const OF: &str = "
    SELECT consumer, attempt, dead, code, detail, failed_at FROM outbox_attempts WHERE message_id = ? ORDER BY seq";

pub(super) async fn write(pool: &SqlitePool, consumer: &str, failures: &[Failed<'_>]) -> sqlx::Result<()> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    for chunk in failures.chunks(sql::CHUNK) {
        let mut query = QueryBuilder::<Sqlite>::new(
            "INSERT INTO outbox_attempts (consumer, message_id, attempt, dead, code, detail, failed_at) ",
        );
        query.push_values(chunk, |mut row, failed| {
            row.push_bind(consumer.to_owned())
                .push_bind(failed.id.as_str().to_owned())
                .push_bind(failed.attempt)
                .push_bind(failed.dead)
                .push_bind(failed.cause.code.clone().into_owned())
                .push_bind(failed.cause.detail.clone())
                .push(NOW);
        });
        query.build().execute(&mut *tx).await?;
    }
    tx.commit().await
}

/// The notes about a message.
pub(super) async fn of(pool: &SqlitePool, id: &MessageId) -> sqlx::Result<Vec<Handled>> {
    let rows = sqlx::query(OF).bind(id.as_str()).fetch_all(pool).await?;
    let attempt = |row: &SqliteRow| -> sqlx::Result<Attempt> {
        Ok(Attempt {
            attempt: row.try_get("attempt")?,
            cause: Cause::new(row.try_get::<String, _>("code")?, row.try_get::<String, _>("detail")?),
            dead: row.try_get("dead")?,
        })
    };
    let note = |row: &SqliteRow| {
        Ok(Handled {
            consumer: row.try_get("consumer")?,
            at: Timestamp::from_millisecond(row.try_get("failed_at")?).ok(),
            failed: Some(attempt(row)?),
        })
    };
    rows.iter().map(note).collect()
}
