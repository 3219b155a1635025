//! Seeing and repairing: the [`Admin`].
//!
//! Safe while a relay runs: whatever changes takes the write lock, keeps the invariant of the messages set aside,
//! and raises the epoch when it moves a position, so that the relay's open claims are lost and read again.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, QueryBuilder, Row, Sqlite, SqliteConnection, SqlitePool};

use super::{Outbox, error, find, lane, sql};
use crate::admin::{
    Admin, COUNTED_AT_MOST, CursorStatus, Entry, Filter, PREVIEWED_AT_MOST, Page, Repair, ReplayFrom, Story,
};
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageId;

#[async_trait]
impl Admin for Outbox {
    async fn status(&self) -> Result<Vec<CursorStatus>> {
        let mut tx = self.pool.begin().await.map_err(error::from(&self.pool))?;
        status(&mut tx).await.map_err(error::from(&self.pool))
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Entry>> {
        let mut tx = self.pool.begin().await.map_err(error::from(&self.pool))?;
        find::list(&mut tx, filter).await.map_err(error::from(&self.pool))
    }

    async fn page(&self, filter: &Filter, look: Option<u32>) -> Result<Page> {
        let mut tx = self.pool.begin().await.map_err(error::from(&self.pool))?;
        find::page(&mut tx, filter, look).await.map_err(error::from(&self.pool))
    }

    async fn show(&self, id: &MessageId) -> Result<Option<Story>> {
        let mut tx = self.pool.begin().await.map_err(error::from(&self.pool))?;
        find::show(&mut tx, id).await.map_err(error::from(&self.pool))
    }

    async fn repair(&self, filter: &Filter, repair: Repair, dry_run: bool) -> Result<u64> {
        let from = error::from(&self.pool);
        if dry_run {
            return mendable(&self.pool, filter, repair).await.map_err(&from);
        }
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(&from)?;
        let repaired = mend(&mut tx, filter, repair).await.map_err(&from)?;
        tx.commit().await.map_err(&from)?;
        Ok(repaired)
    }

    async fn replay(&self, cursor: &str, from: &ReplayFrom, dry_run: bool) -> Result<u64> {
        let Some(start) = self.replay_start(cursor, from).await? else { return Ok(0) };
        let classify = error::from(&self.pool);
        if dry_run {
            let mut conn = self.pool.acquire().await.map_err(&classify)?;
            return repeated(&mut conn, start).await.map_err(&classify);
        }
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(&classify)?;
        let count = rewind(&mut tx, cursor, start).await.map_err(&classify)?;
        tx.commit().await.map_err(&classify)?;
        tracing::info!(cursor, from = start, count, "the cursor was moved back");
        Ok(count)
    }

    async fn purge(&self, age: Duration, step: u32, dry_run: bool) -> Result<u64> {
        let from = error::from(&self.pool);
        // The search may walk over much that is still young, so it goes without the write lock.
        let found = purgeable(&self.pool, age, step).await.map_err(&from)?;
        if dry_run {
            return Ok(u64::try_from(found.len()).unwrap_or(u64::MAX));
        }
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(&from)?;
        let mut purged = 0;
        for chunk in found.chunks(sql::CHUNK) {
            purged += purge(&mut tx, chunk).await.map_err(&from)?;
        }
        tx.commit().await.map_err(&from)?;
        Ok(purged)
    }
}

/// What is not read yet, on one lane.
#[derive(Debug, Default, Clone, Copy)]
struct Pending {
    count: u64,
    oldest: Option<Timestamp>,
}

async fn status(conn: &mut SqliteConnection) -> sqlx::Result<Vec<CursorStatus>> {
    let now: i64 = sqlx::query_scalar("SELECT CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)")
        .fetch_one(&mut *conn)
        .await?;
    let mut pending = HashMap::new();
    for (cursor, positions) in find::positions(conn, None).await? {
        for (lane, of_lane) in pending_by_lane(conn, &positions).await?.into_iter().enumerate() {
            pending.insert((cursor.clone(), i64::try_from(lane).unwrap_or(0)), of_lane);
        }
    }
    let rows = sqlx::query(AssertSqlSafe(status_sql())).fetch_all(&mut *conn).await?;
    rows.iter()
        .map(|row| {
            let place = (sql::text(row, "name")?, row.try_get("lane")?);
            cursor_status(row, pending.get(&place).copied().unwrap_or_default(), now)
        })
        .collect()
}

/// Each state is counted by itself, by its index and only so far: many of one neither hide the others nor cost more.
fn status_sql() -> String {
    let of_state = |what: &str, state: &str| {
        format!(
            "SELECT {what} FROM outbox_parked p WHERE p.cursor = c.name AND p.lane = c.lane AND p.state = '{state}'"
        )
    };
    let count = |state| format!("(SELECT count(*) FROM ({} LIMIT {COUNTED_AT_MOST}))", of_state("1", state));
    let first = |state| format!("({})", of_state("min(p.seq)", state));
    format!(
        "SELECT c.name, c.lane, c.lanes, c.owner, c.lease_until, c.delivered,
             {waiting} AS waiting, {behind} AS behind, {dead} AS dead,
             coalesce(m.occurred_at, '') AS occurred_at, m.seq IS NOT NULL AS any_open
         FROM outbox_cursors c
         LEFT JOIN outbox_messages m
             ON m.seq = min(ifnull({first_waiting}, {none}), ifnull({first_behind}, {none}))
         ORDER BY c.name, c.lane",
        waiting = count("waiting"),
        behind = count("behind"),
        dead = count("dead"),
        first_waiting = first("waiting"),
        first_behind = first("behind"),
        none = i64::MAX,
    )
}

fn cursor_status(row: &SqliteRow, pending: Pending, now: i64) -> sqlx::Result<CursorStatus> {
    let count = |column| row.try_get::<i64, _>(column).map(|count| u64::try_from(count).unwrap_or(0));
    let set_aside = if row.try_get("any_open")? { Some(sql::occurred_at(row)?) } else { None };
    // What is set aside was written before what is pending.
    let oldest = set_aside.or(pending.oldest);
    #[expect(clippy::cast_precision_loss, reason = "an age in seconds needs no more than a double has")]
    let age = |since: Timestamp| (now - since.as_millisecond()).max(0) as f64 / 1000.0;
    let lease_until: i64 = row.try_get("lease_until")?;
    Ok(CursorStatus {
        cursor: sql::text(row, "name")?,
        lane: row.try_get("lane")?,
        lanes: row.try_get("lanes")?,
        owner: sql::optional_text(row, "owner")?,
        lease_until: (lease_until > 0).then(|| Timestamp::from_millisecond(lease_until).ok()).flatten(),
        pending: pending.count,
        lag_seconds: oldest.map(age),
        waiting: count("waiting")?,
        behind: count("behind")?,
        dead: count("dead")?,
        delivered: Some(count("delivered")?),
    })
}

/// Counts what each lane of a cursor has not read yet, and no further than it must.
async fn pending_by_lane(conn: &mut SqliteConnection, positions: &[i64]) -> sqlx::Result<Vec<Pending>> {
    let mut pending = vec![Pending::default(); positions.len()];
    let lanes = u32::try_from(positions.len()).unwrap_or(u32::MAX);
    let most = i64::try_from(COUNTED_AT_MOST).unwrap_or(i64::MAX).saturating_mul(i64::from(lanes));
    let mut rows =
        sqlx::query("SELECT seq, key, occurred_at FROM outbox_messages WHERE seq > ? ORDER BY seq LIMIT ?")
            .bind(positions.iter().min().copied().unwrap_or(0))
            .bind(most)
            .fetch(conn);
    while let Some(row) = rows.try_next().await? {
        let seq: i64 = row.try_get("seq")?;
        let lane = lane::of(sql::optional_text(&row, "key")?.as_deref(), seq, lanes);
        let Ok(lane) = usize::try_from(lane) else { continue };
        if seq > positions[lane] && pending[lane].count < COUNTED_AT_MOST {
            pending[lane].count += 1;
            if pending[lane].oldest.is_none() {
                pending[lane].oldest = Some(sql::occurred_at(&row)?);
            }
        }
    }
    Ok(pending)
}

/// Retries or skips what matches, in one statement; then of each key the first goes on, and only that.
async fn mend(tx: &mut SqliteConnection, filter: &Filter, repair: Repair) -> sqlx::Result<u64> {
    let mut query = QueryBuilder::new(match repair {
        Repair::Retry => {
            "UPDATE outbox_parked SET state = 'waiting', holds = 1, attempts = 0,
                 due = CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)"
        }
        Repair::Skip => "DELETE FROM outbox_parked",
    });
    query.push(" WHERE (cursor, seq) IN (SELECT p.cursor, p.seq ");
    push_mendable(&mut query, filter, repair);
    query.push(") RETURNING cursor, key, CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER) AS now");
    let rows = query.build().fetch_all(&mut *tx).await?;
    let mut touched: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut now = 0;
    for row in &rows {
        now = row.try_get("now")?;
        if let Some(key) = sql::optional_text(row, "key")? {
            touched.entry(sql::text(row, "cursor")?).or_default().push(key);
        }
    }
    for (cursor, keys) in &touched {
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        if repair == Repair::Retry {
            // What waited by itself after one that is dead and held nothing, now has one before it that goes first.
            sql::demote(tx, cursor, &keys).await?;
        }
        sql::promote(tx, cursor, &keys, now).await?;
    }
    Ok(u64::try_from(rows.len()).unwrap_or(u64::MAX))
}

/// What a repair changes.
fn push_mendable(query: &mut QueryBuilder<Sqlite>, filter: &Filter, repair: Repair) {
    find::push_parked(query, filter);
    if repair == Repair::Retry {
        // One that is behind has nothing to retry: it goes when the one before it has gone.
        query.push(" AND p.state <> 'behind'");
    }
}

/// How many that are. Who only looks keeps nobody from writing.
async fn mendable(pool: &SqlitePool, filter: &Filter, repair: Repair) -> sqlx::Result<u64> {
    let mut query = QueryBuilder::new("SELECT count(*) FROM (SELECT 1 ");
    push_mendable(&mut query, filter, repair);
    query.push(format_args!(" LIMIT {PREVIEWED_AT_MOST})"));
    let (count,): (i64,) = query.build_query_as().fetch_one(pool).await?;
    Ok(u64::try_from(count).unwrap_or(0))
}

impl Outbox {
    /// The number of the message with which a replay begins; none when there is nothing to repeat.
    ///
    /// Rows of the log never change, so this may be found before the write lock is taken.
    async fn replay_start(&self, cursor: &str, from: &ReplayFrom) -> Result<Option<i64>> {
        let classify = error::from(&self.pool);
        let known: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM outbox_cursors WHERE name = ?)")
            .bind(cursor)
            .fetch_one(&self.pool)
            .await
            .map_err(&classify)?;
        if !known {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no cursor '{cursor}'")));
        }
        match from {
            ReplayFrom::Start => Ok(Some(1)),
            ReplayFrom::Time(time) => first_since(&self.pool, *time).await.map_err(classify),
            ReplayFrom::Message(id) => {
                let seq = sqlx::query_scalar("SELECT seq FROM outbox_messages WHERE id = ?")
                    .bind(id.as_str())
                    .fetch_optional(&self.pool)
                    .await
                    .map_err(classify)?;
                seq.map(Some)
                    .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no message {id}")))
            }
        }
    }
}

/// The first message in the log that occurred at `time` or later. Times are compared as times and not as text,
/// for they are written in more than one form.
async fn first_since(pool: &SqlitePool, time: Timestamp) -> sqlx::Result<Option<i64>> {
    let mut rows = sqlx::query("SELECT seq, occurred_at FROM outbox_messages ORDER BY seq").fetch(pool);
    while let Some(row) = rows.try_next().await? {
        if sql::occurred_at(&row)? >= time {
            return row.try_get("seq").map(Some);
        }
    }
    Ok(None)
}

/// Moves the lanes that are past `start` back to it; tells how many messages will come from there on.
async fn rewind(tx: &mut SqliteConnection, cursor: &str, start: i64) -> sqlx::Result<u64> {
    sqlx::query("UPDATE outbox_cursors SET pos = min(pos, ?), epoch = epoch + 1, turn = 0 WHERE name = ?")
        .bind(start - 1)
        .bind(cursor)
        .execute(&mut *tx)
        .await?;
    // They are read again from the log; left here they would come twice.
    sqlx::query("DELETE FROM outbox_parked WHERE cursor = ? AND seq >= ?")
        .bind(cursor)
        .bind(start)
        .execute(&mut *tx)
        .await?;
    repeated(tx, start).await
}

/// How many messages come from there on.
async fn repeated(conn: &mut SqliteConnection, start: i64) -> sqlx::Result<u64> {
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM outbox_messages WHERE seq >= ?")
        .bind(start)
        .fetch_one(conn)
        .await?;
    Ok(u64::try_from(count).unwrap_or(0))
}

async fn purgeable(pool: &SqlitePool, age: Duration, step: u32) -> sqlx::Result<Vec<i64>> {
    sqlx::query_scalar(
        "SELECT m.seq FROM outbox_messages m
         WHERE m.seq <= (SELECT min(pos) FROM outbox_cursors)
         AND coalesce(julianday(m.occurred_at), 0) <= julianday('now') - ?
         AND NOT EXISTS (SELECT 1 FROM outbox_parked p WHERE p.seq = m.seq)
         ORDER BY m.seq LIMIT ?",
    )
    .bind(age.as_secs_f64() / 86_400.0)
    .bind(step)
    .fetch_all(pool)
    .await
}

/// Removes these, except what somebody needs again since they were found (a replay, a new cursor).
async fn purge(tx: &mut SqliteConnection, found: &[i64]) -> sqlx::Result<u64> {
    let mut query = QueryBuilder::<Sqlite>::new(
        "DELETE FROM outbox_messages WHERE seq <= (SELECT min(pos) FROM outbox_cursors)
         AND NOT EXISTS (SELECT 1 FROM outbox_parked p WHERE p.seq = outbox_messages.seq) AND seq IN (",
    );
    let mut numbers = query.separated(", ");
    for seq in found {
        numbers.push_bind(*seq);
    }
    query.push(")");
    Ok(query.build().execute(tx).await?.rows_affected())
}
