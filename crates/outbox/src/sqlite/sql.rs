//! Rows into messages, and the statements that are put together at run time.
//!
//! The database's clock is `CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)` wherever a time is written or
//! compared: unix milliseconds, never taken from this process.

use std::collections::HashSet;

use bytes::Bytes;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, QueryBuilder, Row, SqlSafeStr, Sqlite, SqliteConnection};

use crate::message::{Headers, Limits, Message, headers_from_json};

/// How many bound values a statement gets; far below SQLite's limit, and the same statement text most times.
pub(super) const CHUNK: usize = 500;

/// A page of the log after a position. The cast makes bytes of whatever was inserted as the payload.
pub(super) const PAGE: &str = "SELECT seq, id, type, key, content_type, headers, occurred_at, \
     CAST(payload AS BLOB) AS payload FROM outbox_messages WHERE seq > ? ORDER BY seq LIMIT ?";

/// The trigger that keeps the limits for whoever writes, in whatever language.
///
/// RAISE takes only a literal in the versions that we support, so the numbers are part of the text. They are
/// numbers and nothing else, which is why this may be put together at run time.
pub(super) fn limit_trigger(limits: &Limits) -> String {
    let Limits { payload, headers, header_bytes } = limits;
    format!(
        "CREATE TRIGGER outbox_limits BEFORE INSERT ON outbox_messages BEGIN
    SELECT CASE
        WHEN typeof(NEW.type) <> 'text' OR trim(NEW.type) = ''
            THEN RAISE(ABORT, 'outbox: a message must have a type')
        WHEN typeof(NEW.key) NOT IN ('text', 'null')
            THEN RAISE(ABORT, 'outbox: the key must be text')
        WHEN typeof(NEW.payload) NOT IN ('text', 'blob')
            THEN RAISE(ABORT, 'outbox: the payload must be text or a blob')
        WHEN length(CAST(NEW.payload AS BLOB)) > {payload}
            THEN RAISE(ABORT, 'outbox: the payload is larger than {payload} bytes')
        WHEN julianday(NEW.occurred_at) IS NULL
            THEN RAISE(ABORT, 'outbox: occurred_at must be a time such as 2026-01-31T12:00:00.000Z')
        WHEN NEW.headers = '{{}}' THEN NULL
        WHEN NOT json_valid(NEW.headers)
            THEN RAISE(ABORT, 'outbox: the headers must be a JSON object of strings')
        WHEN json_type(NEW.headers) <> 'object'
            THEN RAISE(ABORT, 'outbox: the headers must be a JSON object of strings')
        WHEN EXISTS (SELECT 1 FROM json_each(NEW.headers) WHERE type <> 'text')
            THEN RAISE(ABORT, 'outbox: the headers must be a JSON object of strings')
        WHEN EXISTS (SELECT 1 FROM json_each(NEW.headers) WHERE key = '')
            THEN RAISE(ABORT, 'outbox: a header has no name')
        WHEN (SELECT count(*) FROM json_each(NEW.headers)) > {headers}
            THEN RAISE(ABORT, 'outbox: there are more than {headers} headers')
        WHEN (SELECT sum(length(CAST(key AS BLOB)) + length(CAST(value AS BLOB))) FROM json_each(NEW.headers))
                > {header_bytes}
            THEN RAISE(ABORT, 'outbox: the headers are larger than {header_bytes} bytes')
    END;
END"
    )
}

/// Replaces the trigger with this one, unless it is there already; tells whether it did.
pub(super) async fn put_limit_trigger(conn: &mut SqliteConnection, limits: &Limits) -> sqlx::Result<bool> {
    let wanted = limit_trigger(limits);
    let present: Option<String> =
        sqlx::query_scalar("SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = 'outbox_limits'")
            .fetch_optional(&mut *conn)
            .await?;
    if present.as_deref() == Some(wanted.as_str()) {
        return Ok(false);
    }
    sqlx::query("DROP TRIGGER IF EXISTS outbox_limits").execute(&mut *conn).await?;
    sqlx::raw_sql(AssertSqlSafe(wanted).into_sql_str()).execute(&mut *conn).await?;
    Ok(true)
}

/// Which of these keys has a message set aside on the cursor that later ones wait for.
///
/// The index is named here and wherever a key is looked up: left to itself the planner takes the primary key,
/// and walks over everything that is set aside for each key.
pub(super) async fn held_keys(
    conn: &mut SqliteConnection,
    cursor: &str,
    keys: &[&str],
) -> sqlx::Result<HashSet<String>> {
    let mut held = HashSet::new();
    for chunk in keys.chunks(CHUNK) {
        let mut query = with_keys(chunk);
        query.push(
            "SELECT key FROM asked WHERE EXISTS (SELECT 1 FROM outbox_parked p INDEXED BY outbox_parked_key",
        );
        query.push(" WHERE p.cursor = ").push_bind(cursor);
        query.push(" AND p.key = asked.key AND (p.state <> 'dead' OR p.holds = 1))");
        held.extend(query.build_query_scalar::<String>().fetch_all(&mut *conn).await?);
    }
    Ok(held)
}

/// Keeps the invariant of parked messages for these keys: of those that hold a key the first is never behind.
pub(super) async fn promote(
    conn: &mut SqliteConnection,
    cursor: &str,
    keys: &[&str],
    now: i64,
) -> sqlx::Result<()> {
    for chunk in keys.chunks(CHUNK) {
        let mut query = with_keys(chunk);
        query.push("UPDATE outbox_parked SET state = 'waiting', due = ").push_bind(now);
        query.push(" WHERE state = 'behind' AND cursor = ").push_bind(cursor);
        query.push(" AND seq IN (SELECT (SELECT p.seq FROM outbox_parked p INDEXED BY outbox_parked_key");
        query.push(" WHERE p.cursor = ").push_bind(cursor);
        query.push(" AND p.key = asked.key AND (p.state <> 'dead' OR p.holds = 1) ORDER BY p.seq LIMIT 1) FROM asked)");
        query.build().execute(&mut *conn).await?;
    }
    Ok(())
}

/// Of these keys only the first that holds may be tried; what waited by itself after it, waits for it.
pub(super) async fn demote(conn: &mut SqliteConnection, cursor: &str, keys: &[&str]) -> sqlx::Result<()> {
    for chunk in keys.chunks(CHUNK) {
        let mut query = with_keys(chunk);
        query.push("UPDATE outbox_parked INDEXED BY outbox_parked_key SET state = 'behind'");
        query.push(" WHERE state = 'waiting' AND cursor = ").push_bind(cursor);
        query.push(" AND key IN (SELECT key FROM asked) AND EXISTS (SELECT 1 FROM outbox_parked e");
        query.push(" WHERE e.cursor = outbox_parked.cursor AND e.key = outbox_parked.key");
        query.push(" AND e.seq < outbox_parked.seq AND (e.state <> 'dead' OR e.holds = 1))");
        query.build().execute(&mut *conn).await?;
    }
    Ok(())
}

/// `WITH asked(key) AS (VALUES (?), …)`. Bound one by one and not as a JSON array: SQLite cuts a JSON string at
/// a NUL, and a key that is cut would be taken for another.
fn with_keys(keys: &[&str]) -> QueryBuilder<Sqlite> {
    let mut query = QueryBuilder::new("WITH asked(key) AS (");
    query.push_values(keys, |mut row, key| {
        row.push_bind((*key).to_owned());
    });
    query.push(") ");
    query
}

/// A row of the log as a message.
///
/// Text is read as bytes, because a writer in another language may have put in anything, and one odd row must
/// not stop all that come after it. The trigger keeps out what could not be read at all.
pub(super) fn message(row: &SqliteRow) -> sqlx::Result<Message> {
    let payload = Bytes::from(row.try_get::<Vec<u8>, _>("payload")?);
    let mut message = Message::known(text(row, "id")?, text(row, "type")?, payload, occurred_at(row)?)
        .content_type(text(row, "content_type")?);
    message.key = optional_text(row, "key")?;
    message.headers = headers_from_json(&text(row, "headers")?).unwrap_or_else(|| {
        tracing::warn!(id = %message.id, "the headers are not a JSON object; the message goes without them");
        Headers::new()
    });
    Ok(message)
}

/// The time in the column `occurred_at`; the start of 1970 if it is none.
pub(super) fn occurred_at(row: &SqliteRow) -> sqlx::Result<Timestamp> {
    let written = text(row, "occurred_at")?;
    Ok(time(&written).unwrap_or_else(|| {
        tracing::warn!(written, "occurred_at is not a time that can be read");
        Timestamp::UNIX_EPOCH
    }))
}

/// A text column, whatever bytes are in it.
pub(super) fn text(row: &SqliteRow, column: &str) -> sqlx::Result<String> {
    let bytes: &[u8] = row.try_get(column)?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}

/// A text column that may be NULL.
pub(super) fn optional_text(row: &SqliteRow, column: &str) -> sqlx::Result<Option<String>> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// A time as SQLite or we write it. Without a zone it is UTC, as everywhere in SQLite.
fn time(written: &str) -> Option<Timestamp> {
    written.parse().ok().or_else(|| {
        let civil: DateTime = written.parse().ok()?;
        Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_as_it_is_printed_has_the_default_limits() {
        let log = include_str!("../../migrations/sqlite/001_log.sql");
        assert!(log.contains(&limit_trigger(&Limits::default())));
    }

    #[test]
    fn times_are_read_as_sqlite_writes_them() {
        let expected: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        for written in ["2026-01-31T12:00:00.000Z", "2026-01-31 12:00:00", "2026-01-31T13:00:00+01:00"] {
            assert_eq!(time(written), Some(expected), "{written}");
        }
        assert_eq!(time("yesterday"), None);
    }
}
