//! What is set aside: claiming it when it is due, and telling which keys it holds.
//!
//! A message that waits is claimed together with those that wait behind it, so that a key that recovers catches
//! up at full speed.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sqlx::sqlite::SqliteConnection;
use sqlx::{QueryBuilder, Row, Sqlite};
use tokio::time::Instant;

use super::lease::Held;
use super::log::{Batch, Reader};
use super::sql;
use crate::message::Message;
use crate::source::Claim;

/// What is due of the messages set aside, if anything.
pub(super) async fn claim(reader: &Reader, held: &mut Held, limit: usize) -> sqlx::Result<Option<Claim>> {
    let looked = Instant::now();
    let mut conn = reader.pool.acquire().await?;
    let due = due(&mut conn, reader, &held.in_flight(), limit).await?;
    let batch = fetch(&mut conn, &due, limit).await?;
    let is_cut = due.len() >= limit || batch.messages.len() < due.len();
    if batch.messages.is_empty() {
        held.any_parked = any(&mut conn, reader).await?;
        held.parked_seen = Some(looked);
        return Ok(None);
    }
    // If there may be more, look again right after the next page of the log.
    held.parked_seen = (!is_cut).then_some(looked);
    held.log_next = true;
    Ok(Some(batch.into_claim(held, None).of_set_aside()))
}

/// How long until the next of them is due, not counting those in open claims.
pub(super) async fn next_due(reader: &Reader, held: &Held) -> sqlx::Result<Option<Duration>> {
    let in_flight = held.in_flight();
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT seq, due - CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER) FROM outbox_parked
         WHERE cursor = ? AND lane = ? AND state = 'waiting' ORDER BY due LIMIT ?",
    )
    .bind(&reader.name)
    .bind(reader.lane)
    .bind(i64::try_from(in_flight.len() + 1).unwrap_or(i64::MAX))
    .fetch_all(&reader.pool)
    .await?;
    let next = rows.into_iter().find(|(seq, _)| !in_flight.contains(seq));
    Ok(next.map(|(_, wait)| Duration::from_millis(u64::try_from(wait).unwrap_or(0))))
}

/// Which of the messages follow one of their key that is set aside.
pub(super) async fn held_flags(
    conn: &mut SqliteConnection,
    cursor: &str,
    messages: &[Message],
) -> sqlx::Result<Vec<bool>> {
    let keys: HashSet<&str> = messages.iter().filter_map(|message| message.key.as_deref()).collect();
    let keys: Vec<&str> = keys.into_iter().collect();
    let held = sql::held_keys(conn, cursor, &keys).await?;
    Ok(messages.iter().map(|message| message.key.as_ref().is_some_and(|key| held.contains(key))).collect())
}

/// A message that is set aside, as far as a claim needs it.
struct Due {
    seq: i64,
    attempts: u32,
}

async fn any(conn: &mut SqliteConnection, reader: &Reader) -> sqlx::Result<bool> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM outbox_parked WHERE cursor = ? AND lane = ?)")
        .bind(&reader.name)
        .bind(reader.lane)
        .fetch_one(conn)
        .await
}

/// Those that are due, each followed by the ones behind it.
async fn due(
    conn: &mut SqliteConnection,
    reader: &Reader,
    in_flight: &HashSet<i64>,
    limit: usize,
) -> sqlx::Result<Vec<Due>> {
    let heads = sqlx::query(
        "SELECT seq, key, attempts FROM outbox_parked WHERE cursor = ? AND lane = ? AND state = 'waiting'
         AND due <= CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER) ORDER BY due, seq LIMIT ?",
    )
    .bind(&reader.name)
    .bind(reader.lane)
    .bind(i64::try_from(limit.saturating_add(in_flight.len())).unwrap_or(i64::MAX))
    .fetch_all(&mut *conn)
    .await?;
    let mut due = Vec::new();
    for head in heads {
        let seq = head.try_get("seq")?;
        if due.len() >= limit {
            break;
        }
        if in_flight.contains(&seq) {
            continue;
        }
        due.push(Due { seq, attempts: head.try_get("attempts")? });
        if let Some(key) = sql::optional_text(&head, "key")? {
            let room = limit - due.len();
            let followers = followers(conn, reader, &key, seq, room).await?;
            due.extend(followers.into_iter().take_while(|next| !in_flight.contains(&next.seq)));
        }
    }
    Ok(due)
}

/// The run of messages behind the one with number `after`: up to the next of the key that has its own say.
async fn followers(
    conn: &mut SqliteConnection,
    reader: &Reader,
    key: &str,
    after: i64,
    room: usize,
) -> sqlx::Result<Vec<Due>> {
    let rows = sqlx::query(
        "SELECT seq, attempts, state FROM outbox_parked INDEXED BY outbox_parked_key
         WHERE cursor = ? AND key = ? AND seq > ?
         AND (state <> 'dead' OR holds = 1) ORDER BY seq LIMIT ?",
    )
    .bind(&reader.name)
    .bind(key)
    .bind(after)
    .bind(i64::try_from(room).unwrap_or(i64::MAX))
    .fetch_all(conn)
    .await?;
    let mut run = Vec::new();
    for row in rows {
        if sql::text(&row, "state")? != "behind" {
            break;
        }
        run.push(Due { seq: row.try_get("seq")?, attempts: row.try_get("attempts")? });
    }
    Ok(run)
}

/// The messages themselves, in the order of `due`.
async fn fetch(conn: &mut SqliteConnection, due: &[Due], limit: usize) -> sqlx::Result<Batch> {
    let mut batch = Batch::default();
    // Few at a time: payloads may be large, and the batch may be full before all are read.
    for chunk in due.chunks(64) {
        let mut query = QueryBuilder::<Sqlite>::new(
            "SELECT seq, id, type, key, content_type, headers, occurred_at, CAST(payload AS BLOB) AS payload
             FROM outbox_messages WHERE seq IN (",
        );
        let mut numbers = query.separated(", ");
        for next in chunk {
            numbers.push_bind(next.seq);
        }
        query.push(")");
        let mut found = HashMap::new();
        for row in query.build().fetch_all(&mut *conn).await? {
            found.insert(row.try_get::<i64, _>("seq")?, sql::message(&row)?);
        }
        for next in chunk {
            if batch.is_full(limit) {
                return Ok(batch);
            }
            if let Some(mut message) = found.remove(&next.seq) {
                message.attempts = next.attempts;
                batch.push(next.seq, message);
            }
        }
    }
    Ok(batch)
}
