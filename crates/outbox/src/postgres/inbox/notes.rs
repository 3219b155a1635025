//! Notes of failed attempts, in a table of their own: losing them loses nothing that was handled.

use std::time::Duration;

use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Row};

use crate::error::Result;
use crate::inbox::{Attempt, Failed, Handled};
use crate::message::MessageId;
use crate::postgres::error::classify;
use crate::postgres::row::At;
use crate::sink::Cause;

const WRITE: &str = "
    insert into outbox.attempts (consumer, message_id, attempt, dead, code, detail)
    select $1, * from unnest($2::text[], $3::integer[], $4::boolean[], $5::text[], $6::text[])";

const OF: &str = "
    select consumer, attempt, dead, code, detail, failed_at from outbox.attempts where message_id = $1 order by seq";

pub(super) const PRUNE: &str = "
    delete from outbox.attempts where seq in (
        select seq from outbox.attempts
        where failed_at < (select clock_timestamp() - $1::bigint * interval '1 millisecond') and consumer = $2
        order by failed_at limit $3)";

pub(super) async fn write(pool: &PgPool, consumer: &str, failures: &[Failed<'_>]) -> Result<()> {
    let failed = |error| classify(error, "noting failed attempts");
    // No text here takes a NUL; the other notes shall not suffer from that.
    let failures: Vec<_> = failures.iter().filter(|failed| !failed.id.as_str().contains('\0')).collect();
    let mut tx = pool.begin().await.map_err(failed)?;
    sqlx::query(WRITE)
        .persistent(false)
        .bind(consumer)
        .bind(failures.iter().map(|failed| failed.id.as_str()).collect::<Vec<_>>())
        .bind(
            failures
                .iter()
                .map(|failed| i32::try_from(failed.attempt).unwrap_or(i32::MAX))
                .collect::<Vec<_>>(),
        )
        .bind(failures.iter().map(|failed| failed.dead).collect::<Vec<_>>())
        .bind(failures.iter().map(|failed| &*failed.cause.code).collect::<Vec<_>>())
        .bind(failures.iter().map(|failed| failed.cause.detail.as_str()).collect::<Vec<_>>())
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
    tx.commit().await.map_err(failed)
}

/// The notes about a message.
pub(super) async fn of(pool: &PgPool, id: &MessageId) -> Result<Vec<Handled>> {
    let failed = |error| classify(error, "reading the notes of failed attempts");
    if id.as_str().contains('\0') {
        return Ok(Vec::new());
    }
    let mut tx = pool.begin().await.map_err(failed)?;
    let rows = sqlx::query(OF).persistent(false).bind(id.as_str()).fetch_all(&mut *tx).await;
    let rows = rows.map_err(failed)?;
    tx.rollback().await.map_err(failed)?;
    let attempt = |row: &sqlx::postgres::PgRow| Attempt {
        attempt: u32::try_from(row.get::<i32, _>("attempt")).unwrap_or(0),
        cause: Cause::new(row.get::<String, _>("code"), row.get::<String, _>("detail")),
        dead: row.get("dead"),
    };
    let note = |row: &sqlx::postgres::PgRow| Handled {
        consumer: row.get("consumer"),
        at: Some(row.get::<At, _>("failed_at").0),
        failed: Some(attempt(row)),
    };
    Ok(rows.iter().map(note).collect())
}

/// One step of a statement that takes a window, a consumer if it asks for one, and a limit; tells how many rows went.
pub(super) async fn prune(
    pool: &PgPool,
    text: String,
    window: Duration,
    consumer: Option<&str>,
    step: u32,
) -> sqlx::Result<u64> {
    let window = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
    let mut tx = pool.begin().await?;
    let mut query = sqlx::query(AssertSqlSafe(text)).persistent(false).bind(window);
    if let Some(consumer) = consumer {
        query = query.bind(consumer);
    }
    let pruned = query.bind(i64::from(step)).execute(&mut *tx).await?.rows_affected();
    tx.commit().await?;
    Ok(pruned)
}
