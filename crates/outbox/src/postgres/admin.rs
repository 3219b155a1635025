//! What a person can see and do.

use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Row};
use uuid::Uuid;

use super::connect::BEGIN;
use super::error::classify;
use super::row::{self, At};
use super::undone::{BY_INDEX, UNDONE};
use super::{Outbox, find, settle};
use crate::admin::{
    Admin, COUNTED_AT_MOST, CursorStatus, Entry, Filter, Page, Repair, ReplayFrom, Stand, Story,
};
use crate::error::Result;
use crate::message::MessageId;

/// A repair takes so many messages at a time.
const STEP: u32 = 1_000;

/// A person waits for the answer, and the database has other things to do.
pub(super) const PATIENCE: &str = "set local statement_timeout = '15s'";

/// Counts stop at $1, so the cost does not grow with the backlog.
fn status_sql() -> String {
    format!(
        "select c.name, c.lane, c.lanes, c.owner, c.lease_until, c.delivered, pending.count as pending,
            extract(epoch from clock_timestamp() - least(pending.oldest, set_aside.oldest))::float8 as lag,
            set_aside.waiting, set_aside.behind, set_aside.dead
        from outbox.cursors c
        cross join lateral (
            select count(*) as count, min(occurred_at) as oldest from {UNDONE} as found) as pending
        cross join lateral (
            select {waiting} as waiting, {behind} as behind, {dead} as dead,
                (select m.occurred_at from outbox.messages m where m.seq = least({first_waiting}, {first_behind})) as oldest
        ) as set_aside
        order by c.name, c.lane",
        waiting = count_of("waiting"),
        behind = count_of("behind"),
        dead = count_of("dead"),
        first_waiting = first_of("waiting"),
        first_behind = first_of("behind"),
    )
}

/// Each state by itself, by its index: many of one must not hide the others.
fn count_of(state: &str) -> String {
    format!("(select count(*) from (select {} limit $1) as counted)", of_state(state))
}

fn first_of(state: &str) -> String {
    format!("(select p.seq {} order by p.seq limit 1)", of_state(state))
}

fn of_state(state: &str) -> String {
    format!("from outbox.parked p where p.cursor = c.name and p.lane = c.lane and p.state = '{state}'")
}

const SHOW: &str = "
    select id, type, key, payload, content_type, headers::text as headers, occurred_at, 0 as attempts
    from outbox.messages where id = $1";

/// A settle takes the same lock first, so neither sees the other half-way.
const LOCK_CURSORS: &str =
    "select from outbox.cursors where $1::text is null or name = $1 order by name, lane for update";

const RETRY: &str = "
    update outbox.parked p set state = 'waiting', holds = true, attempts = 0, due = clock_timestamp()
    from unnest($1::text[], $2::bigint[]) as chosen (cursor, seq)
    where p.cursor = chosen.cursor and p.seq = chosen.seq and p.state <> 'behind'";

/// Of a key only the first may be tried; what waited by itself after it, waits for it.
const DEMOTE: &str = "
    update outbox.parked p set state = 'behind'
    where cursor = $1 and key = any ($2) and state = 'waiting' and exists (
        select from outbox.parked e
        where e.cursor = p.cursor and e.key = p.key and e.seq < p.seq and (e.state <> 'dead' or e.holds))";

const SKIP: &str = "
    delete from outbox.parked p using unnest($1::text[], $2::bigint[]) as chosen (cursor, seq)
    where p.cursor = chosen.cursor and p.seq = chosen.seq";

/// What every cursor has done and none has set aside. A cursor that was not rebased after a restore protects all.
/// Only the low end of the log is looked at, past what is set aside there: a look costs the same however long the
/// log is.
const PURGE_CHOICE: &str = "
    select m.seq
    from (select * from outbox.messages order by seq limit 4 * $2 + (select count(*) from outbox.parked)) as m
    where m.occurred_at < clock_timestamp() - $1::bigint * interval '1 millisecond'
      and exists (select from outbox.cursors)
      and not exists (select from outbox.cursors c
                      where c.system_id <> (select system_identifier from pg_control_system())
                         or ((c.lanes = 1 or outbox.lane_of(m.key, m.seq, c.lanes) = c.lane)
                             and m.seq > c.base and not pg_visible_in_snapshot(m.xid, c.s1)
                             and not (c.s2 is not null and m.seq <= c.pos and pg_visible_in_snapshot(m.xid, c.s2))))
      and not exists (select from outbox.parked p where p.seq = m.seq)
    order by m.seq limit $2";

const PURGE: &str = "delete from outbox.messages where seq = any ($1)";

#[async_trait]
impl Admin for Outbox {
    async fn status(&self) -> Result<Vec<CursorStatus>> {
        let failed = |error| classify(error, "reading the status");
        let mut tx = self.pool.begin_with(BEGIN).await.map_err(failed)?;
        for set in [PATIENCE, BY_INDEX] {
            sqlx::raw_sql(set).execute(&mut *tx).await.map_err(failed)?;
        }
        let most = i64::try_from(COUNTED_AT_MOST).unwrap_or(i64::MAX);
        let status_of_all = sqlx::query(AssertSqlSafe(status_sql())).bind(most).persistent(false);
        let rows = status_of_all.fetch_all(&mut *tx).await.map_err(failed)?;
        tx.commit().await.map_err(failed)?;
        rows.iter().map(|row| status(row).map_err(failed)).collect()
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Entry>> {
        let mut tx =
            self.pool.begin_with(BEGIN).await.map_err(|error| classify(error, "listing messages"))?;
        find::list(&mut tx, filter).await
    }

    async fn page(&self, filter: &Filter, look: Option<u32>) -> Result<Page> {
        let mut tx =
            self.pool.begin_with(BEGIN).await.map_err(|error| classify(error, "listing messages"))?;
        find::page(&mut tx, filter, look).await
    }

    async fn show(&self, id: &MessageId) -> Result<Option<Story>> {
        let failed = |error| classify(error, format_args!("looking for message '{id}'"));
        let Ok(uuid) = Uuid::parse_str(id.as_str()) else { return Ok(None) };
        let mut tx = self.pool.begin_with(BEGIN).await.map_err(failed)?;
        let row =
            sqlx::query(SHOW).bind(uuid).persistent(false).fetch_optional(&mut *tx).await.map_err(failed)?;
        let Some(row) = row else { return Ok(None) };
        let mut message = row::message(&row).map_err(failed)?;
        let entries = find::list(&mut tx, &Filter { id: Some(id.clone()), ..Filter::default() }).await?;
        message.attempts = entries.iter().map(|entry| entry.attempts).max().unwrap_or(0);
        Ok(Some(Story { message, entries }))
    }

    async fn repair(&self, filter: &Filter, repair: Repair, dry_run: bool) -> Result<u64> {
        if dry_run {
            // Who only looks keeps no relay waiting.
            let mut tx =
                self.pool.begin_with(BEGIN).await.map_err(|error| classify(error, "repairing messages"))?;
            return find::count_set_aside(&mut tx, filter, repair).await;
        }
        let (mut filter, mut done) = (Filter { newest_first: false, limit: STEP, ..filter.clone() }, 0);
        loop {
            let (repaired, next) = self.repair_step(&filter, repair).await?;
            done += repaired;
            if next.is_none() {
                return Ok(done);
            }
            filter.after = next;
        }
    }

    async fn replay(&self, cursor: &str, from: &ReplayFrom, dry_run: bool) -> Result<u64> {
        self.replay_from(cursor, from, dry_run).await
    }

    async fn purge(&self, age: Duration, step: u32, dry_run: bool) -> Result<u64> {
        let failed = |error| classify(error, "purging the log");
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let mut tx = self.pool.begin_with(BEGIN).await.map_err(failed)?;
        // A replay that comes in between would be promised rows that are about to go. Who only looks takes none, and keeps
        // no relay waiting.
        let still = "select from outbox.cursors order by name, lane for share";
        let first = if dry_run { PATIENCE } else { still };
        sqlx::raw_sql(first).execute(&mut *tx).await.map_err(failed)?;
        let choice = sqlx::query(PURGE_CHOICE).bind(age).bind(i64::from(step)).persistent(false);
        let choice = choice.fetch_all(&mut *tx).await.map_err(failed)?;
        let seqs: Vec<i64> = choice.iter().map(|row| row.get("seq")).collect();
        if dry_run || seqs.is_empty() {
            return Ok(seqs.len() as u64);
        }
        let gone = sqlx::query(PURGE).bind(seqs).persistent(false).execute(&mut *tx).await.map_err(failed)?;
        tx.commit().await.map_err(failed)?;
        Ok(gone.rows_affected())
    }
}

impl Outbox {
    /// Repairs the first [`STEP`] that match; tells how many, and after which position the rest begins. Relays cannot settle
    /// meanwhile, so a step is small.
    async fn repair_step(&self, filter: &Filter, repair: Repair) -> Result<(u64, Option<u64>)> {
        let failed = |error| classify(error, "repairing messages");
        let mut tx = self.pool.begin_with(BEGIN).await.map_err(failed)?;
        let lock = sqlx::query(LOCK_CURSORS).bind(&filter.cursor).persistent(false);
        lock.execute(&mut *tx).await.map_err(failed)?;
        let Page { entries: mut chosen, next, .. } = find::set_aside(&mut tx, filter).await?;
        if repair == Repair::Retry {
            // What is behind comes by itself, after the one that it waits for.
            chosen.retain(|entry| entry.stand != Stand::Behind);
        }
        if chosen.is_empty() {
            return Ok((0, next));
        }
        let cursors: Vec<String> = chosen.iter().filter_map(|entry| entry.cursor.clone()).collect();
        let seqs: Vec<i64> = chosen.iter().filter_map(|entry| i64::try_from(entry.position).ok()).collect();
        let statement = if repair == Repair::Retry { RETRY } else { SKIP };
        let done = sqlx::query(statement).bind(&cursors).bind(seqs).persistent(false);
        let done = done.execute(&mut *tx).await.map_err(failed)?.rows_affected();
        let mut names = cursors;
        names.sort_unstable();
        names.dedup();
        for name in names {
            let of_cursor = chosen.iter().filter(|entry| entry.cursor.as_deref() == Some(&name));
            let keys: Vec<String> = of_cursor.filter_map(|entry| entry.key.clone()).collect();
            if repair == Repair::Retry {
                let demote = sqlx::query(DEMOTE).bind(&name).bind(&keys).persistent(false);
                demote.execute(&mut *tx).await.map_err(failed)?;
            }
            settle::promote(&mut tx, &name, &keys).await.map_err(failed)?;
        }
        tx.commit().await.map_err(failed)?;
        Ok((done, next))
    }
}

pub(super) fn count(row: &PgRow, column: &str) -> sqlx::Result<u64> {
    Ok(u64::try_from(row.try_get::<i64, _>(column)?).unwrap_or(0))
}

fn status(row: &PgRow) -> sqlx::Result<CursorStatus> {
    let number =
        |column: &str| row.try_get::<i32, _>(column).map(|number| u32::try_from(number).unwrap_or(0));
    Ok(CursorStatus {
        cursor: row.try_get("name")?,
        lane: number("lane")?,
        lanes: number("lanes")?,
        owner: row.try_get("owner")?,
        lease_until: row.try_get::<Option<At>, _>("lease_until")?.map(|at| at.0),
        pending: count(row, "pending")?.min(COUNTED_AT_MOST),
        lag_seconds: row.try_get::<Option<f64>, _>("lag")?.map(|lag| lag.max(0.0)),
        waiting: count(row, "waiting")?,
        behind: count(row, "behind")?,
        dead: count(row, "dead")?,
        delivered: Some(count(row, "delivered")?),
    })
}
