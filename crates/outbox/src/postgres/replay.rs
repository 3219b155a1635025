//! Replay: a cursor moves back, so that history comes again. Nothing that was pending is lost by it.

use sqlx::{PgConnection, Row};
use uuid::Uuid;

use super::Outbox;
use super::admin::PATIENCE;
use super::connect::BEGIN;
use super::error::classify;
use super::row::At;
use super::window::Snapshot;
use crate::admin::ReplayFrom;
use crate::error::{Error, ErrorKind, Result};

const FIRST_BY_ID: &str = "select seq from outbox.messages where id = $1";
const FIRST_BY_TIME: &str = "select min(seq) as seq from outbox.messages where occurred_at >= $1";
const FIRST: &str = "select min(seq) as seq from outbox.messages";

const LANES: &str =
    "select lane, lanes, s1::text, floor, base from outbox.cursors where name = $1 order by lane";

const LOCK: &str =
    "select lane, lanes, s1::text, floor, base from outbox.cursors where name = $1 order by lane for update";

const FOREIGN: &str = "
    select name from outbox.cursors where system_id <> (select system_identifier from pg_control_system()) limit 1";

/// Rows that came with a restore have ids of another server; 3 is a transaction that every snapshot of a server shows.
///
/// Rows that were written since have ids of this server, and stand below the `base` of whoever began afresh later. By its id
/// somebody else may know that it has not read one: that row stays as it is. (Also if what they have done does not show 3
/// either: the window that they read does, and what it shows is done when it ends.)
const MAKE_NATIVE: &str = "
    update outbox.messages m set xid = '3'
    where seq between $1 and $2 and xid <> '3' and not exists (
        select from outbox.cursors c where m.seq > c.base and not pg_visible_in_snapshot(m.xid, c.s1))";

const OLDEST: &str = "select min(xid::text::bigint)::text as xid from outbox.messages where seq >= $1";
const LOWEST: &str = "select min(seq) as seq from outbox.messages where xid >= $1::text::xid8 and seq > $2";

/// The rows that will come: of the replay, and those that were pending anyway.
const COUNT: &str = "
    select count(*) from outbox.messages m
    where seq > $2 and not pg_visible_in_snapshot(xid, $1::text::pg_snapshot)
      and ($3::int = 1 or outbox.lane_of(key, seq, $3::int) = $4)";

/// The rows that will come if the replay reaches back past a restore: all of them.
const COUNT_ALL: &str = "
    select count(*) from outbox.messages
    where seq >= $1 and ($2::int = 1 or outbox.lane_of(key, seq, $2::int) = $3)";

const UNPARK: &str = "
    delete from outbox.parked p using outbox.messages m
    where p.cursor = $1 and p.lane = $4 and m.seq = p.seq and m.seq > $3
      and not pg_visible_in_snapshot(m.xid, $2::text::pg_snapshot)";

const MOVE: &str = "
    update outbox.cursors
    set s1 = $3::text::pg_snapshot, s2 = null, pos = 0, floor = $4, next_floor = 0, base = $5, epoch = epoch + 1
    where name = $1 and lane = $2";

impl Outbox {
    pub(super) async fn replay_from(&self, cursor: &str, from: &ReplayFrom, dry_run: bool) -> Result<u64> {
        let failed = |error| classify(error, format_args!("replaying on cursor '{cursor}'"));
        let mut tx = self.pool.begin_with(BEGIN).await.map_err(failed)?;
        // Who only looks keeps no relay waiting.
        let lanes = if dry_run {
            sqlx::raw_sql(PATIENCE).execute(&mut *tx).await.map_err(failed)?;
            LANES
        } else {
            LOCK
        };
        let lanes =
            sqlx::query(lanes).bind(cursor).persistent(false).fetch_all(&mut *tx).await.map_err(failed)?;
        if lanes.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, format!("there is no cursor '{cursor}'")));
        }
        let Some(first) = first(&mut tx, from).await? else { return Ok(0) };
        let mut count = 0;
        for lane in &lanes {
            let (base, lanes, number): (i64, i32, i32) =
                (lane.get("base"), lane.get("lanes"), lane.get("lane"));
            if first <= base {
                refuse_foreign(&mut tx).await?;
            }
            if first <= base && dry_run {
                // Who only looks does not write either: on a large log that takes long.
                let counted = sqlx::query(COUNT_ALL).bind(first).bind(lanes).bind(number).persistent(false);
                let counted = counted.fetch_one(&mut *tx).await.map_err(failed)?;
                count += u64::try_from(counted.get::<i64, _>(0)).unwrap_or(0);
                continue;
            }
            if first <= base {
                let native = sqlx::query(MAKE_NATIVE).bind(first).bind(base).persistent(false);
                native.execute(&mut *tx).await.map_err(failed)?;
            }
            let oldest: Option<String> = sqlx::query(OLDEST)
                .bind(first)
                .persistent(false)
                .fetch_one(&mut *tx)
                .await
                .map_err(failed)?
                .get("xid");
            let Some(oldest) = oldest.and_then(|xid| xid.parse::<u64>().ok()) else { continue };
            let s1: Snapshot = lane
                .get::<String, _>("s1")
                .parse()
                .map_err(|error: String| failed(sqlx::Error::Decode(error.into())))?;
            let target =
                Target::new(&mut tx, &s1, oldest, first, lane.get("floor"), base).await.map_err(failed)?;
            let (snapshot, floor) = (target.s1.to_string(), target.floor.max(target.base));
            let counted = sqlx::query(COUNT).bind(&snapshot).bind(floor).bind(lanes).bind(number);
            let counted = counted.persistent(false).fetch_one(&mut *tx).await.map_err(failed)?;
            count += u64::try_from(counted.get::<i64, _>(0)).unwrap_or(0);
            if dry_run {
                continue;
            }
            let unpark =
                sqlx::query(UNPARK).bind(cursor).bind(&snapshot).bind(floor).bind(number).persistent(false);
            unpark.execute(&mut *tx).await.map_err(failed)?;
            let moved = sqlx::query(MOVE)
                .bind(cursor)
                .bind(number)
                .bind(&snapshot)
                .bind(target.floor)
                .bind(target.base);
            moved.persistent(false).execute(&mut *tx).await.map_err(failed)?;
        }
        if dry_run {
            tx.rollback().await.map_err(failed)?;
        } else {
            tx.commit().await.map_err(failed)?;
        }
        Ok(count)
    }
}

/// Where a cursor is moved to.
struct Target {
    s1: Snapshot,
    floor: i64,
    base: i64,
}

impl Target {
    /// A place before `first` that keeps everything pending which `s1` did not show.
    async fn new(
        tx: &mut PgConnection,
        s1: &Snapshot,
        oldest: u64,
        first: i64,
        floor: i64,
        old_base: i64,
    ) -> sqlx::Result<Self> {
        // Up to the old base everything is committed, so nothing pending can lie there.
        let safe = old_base.min(first - 1);
        let target = s1.below(oldest.min(s1.xmax), &[]);
        // Transactions that s1 saw in progress may yet bring rows with small numbers; then nothing is cut off.
        if s1.in_progress.iter().any(|xid| *xid >= target.xmax) {
            return Ok(Self { s1: target, floor: safe, base: safe });
        }
        // Rows below `first` that are not shown by s1 lie above the floor; below it all of them are done.
        let base = if target.in_progress.is_empty() && first - 1 <= floor { first - 1 } else { safe };
        let lowest = sqlx::query(LOWEST).bind(target.xmax.to_string()).bind(base).persistent(false);
        let lowest: Option<i64> = lowest.fetch_one(tx).await?.get("seq");
        Ok(Self { s1: target, floor: lowest.map_or(floor, |lowest| floor.min(lowest - 1)).max(base), base })
    }
}

async fn first(tx: &mut PgConnection, from: &ReplayFrom) -> Result<Option<i64>> {
    let failed = |error| classify(error, "looking for the start of the replay");
    let row = match from {
        ReplayFrom::Start => sqlx::query(FIRST).persistent(false).fetch_optional(tx).await.map_err(failed)?,
        ReplayFrom::Time(time) => sqlx::query(FIRST_BY_TIME)
            .bind(At(*time))
            .persistent(false)
            .fetch_optional(tx)
            .await
            .map_err(failed)?,
        ReplayFrom::Message(id) => {
            let gone = || Error::new(ErrorKind::NotFound, format!("there is no message '{id}' (any more)"));
            let uuid = Uuid::parse_str(id.as_str()).map_err(|_| gone())?;
            let row = sqlx::query(FIRST_BY_ID)
                .bind(uuid)
                .persistent(false)
                .fetch_optional(tx)
                .await
                .map_err(failed)?;
            return Ok(Some(row.ok_or_else(gone)?.get("seq")));
        }
    };
    Ok(row.and_then(|row| row.get("seq")))
}

/// Rows of before a restore get another id, so every cursor must know by now which of them it has read.
async fn refuse_foreign(tx: &mut PgConnection) -> Result<()> {
    let failed = |error| classify(error, "looking for cursors of before a restore");
    if let Some(row) = sqlx::query(FOREIGN).persistent(false).fetch_optional(tx).await.map_err(failed)? {
        let name: String = row.get("name");
        let what = format!(
            "cursor '{name}' has not run since the database was restored; run its pipe once, then replay"
        );
        return Err(Error::new(ErrorKind::Config, what));
    }
    Ok(())
}
