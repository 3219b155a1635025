//! Whose the cursor is: taking, renewing and giving back the lease, all on the database's clock.

use std::sync::{Arc, Weak};
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row, Transaction};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::connect::BEGIN;
use super::cursor::{Held, Identity};
use super::error::classify;
use super::lanes::{self, Share};
use super::rebase;
use super::window::{Marks, Position, Snapshot};
use crate::error::{Error, ErrorKind, Result};
use crate::failpoint;
use crate::source::{Lease, Start};
use crate::tell;

/// The mark is read before the update gives this transaction its id: see [`Marks`]. A look at the table in `returning`
/// sees it as it was before.
const TAKE: &str = "
    with mark as materialized (select last_value - (not is_called)::int as highest from outbox.messages_seq)
    update outbox.cursors
    set epoch = epoch + 1, turn = 0, owner = $3,
        lease_until = clock_timestamp() + $4::bigint * interval '1 millisecond'
    from mark
    where name = $1 and lane = $2 and lanes = $5
      and (owner is null or owner = $3 or lease_until < clock_timestamp())
    returning epoch, s1::text, s2::text, pos, floor, next_floor, base, top, system_id,
        mark.highest, pg_current_xact_id()::text as xid,
        (select system_identifier from pg_control_system()) as here,
        substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) as timeline,
        exists (select from outbox.parked where cursor = $1 and lane = $2) as has_parked,
        (select before.owner from outbox.cursors before where before.name = $1 and before.lane = $2
            and before.owner <> $3) as owner_before";

/// Every lane at once, so that no other sees some of them only: a purge, or a change of lanes.
///
/// Rows that came with a restore may have ids that this server has not reached: then the cursor is made as one of
/// another server, and rebased when it is taken.
const CREATE: &str = "
    insert into outbox.cursors (name, lane, lanes, s1, system_id, base, top)
    select $1, lane, $2, case when $3 then pg_current_snapshot() else '1:1:' end,
        case when $4 then 0 else system_identifier end,
        case when $3 and $4 then h.highest else 0 end, case when $3 then h.highest else 0 end
    from pg_control_system(), generate_series(0, $2 - 1) as lane,
        (select coalesce(max(seq), 0) as highest from outbox.messages) as h
    on conflict do nothing";

const ANY_FOREIGN: &str = "
    select exists (select from outbox.messages where xid >= pg_snapshot_xmax(pg_current_snapshot()))";

const LOOK: &str = "
    select lanes, owner, (lease_until >= clock_timestamp()) is true as alive, lane = $2 as is_this
    from outbox.cursors where name = $1 order by is_this desc";

/// The mark is read before the update gives this transaction its id: see [`Marks`].
const RENEW: &str = "
    with mark as materialized (select last_value - (not is_called)::int as highest from outbox.messages_seq)
    update outbox.cursors
    set lease_until = clock_timestamp() + $4::bigint * interval '1 millisecond',
        s1 = coalesce($6::text::pg_snapshot, s1),
        s2 = case when $6 is null then s2 else $7::text::pg_snapshot end,
        pos = coalesce($8, pos), floor = coalesce($9, floor), next_floor = coalesce($10, next_floor)
    from mark
    where name = $1 and lane = $2 and epoch = $3
      and substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) = $5
    returning mark.highest, pg_current_xact_id()::text as xid";

const RELEASE: &str = "
    update outbox.cursors set owner = null, lease_until = null where name = $1 and lane = $2 and owner = $3";

/// Progress that no settle has written yet: reading past rows that were not for us.
const NOTE: &str = "
    update outbox.cursors
    set s1 = $4::text::pg_snapshot, s2 = $5::text::pg_snapshot, pos = $6, floor = $7, next_floor = $10
    where name = $1 and lane = $2 and epoch = $3 and turn = $8
      and substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) = $9";

/// Opens a transaction in which rows of the cursor are locked.
///
/// If we fall silent within it, the server ends it when our lease is over. Otherwise the lock would outlive the
/// lease: a process that is halted keeps its connection, and nobody could take the cursor over.
pub(super) async fn begin(identity: &Identity) -> sqlx::Result<Transaction<'static, Postgres>> {
    let limit = identity.lease_ms().clamp(1, i64::from(i32::MAX));
    let statements = format!("{BEGIN}; set local idle_in_transaction_session_timeout = {limit}");
    identity.pool.begin_with(AssertSqlSafe(statements)).await
}

/// Takes the cursor if it is free, creating it if need be; `None` when it is somebody else's.
pub(super) async fn acquire(identity: &Identity) -> Result<Option<Held>> {
    let doing = || format!("taking cursor '{}'", identity.name);
    let asked = Instant::now();
    let mut tx = begin(identity).await.map_err(|error| classify(error, doing()))?;
    let mut taken = take(&mut tx, identity).await.map_err(|error| classify(error, doing()))?;
    if taken.is_none() && prepare(&mut tx, identity).await? {
        // In a transaction of its own: this one has an id by now, and the mark of a take must be read before that.
        tx.commit().await.map_err(|error| classify(error, doing()))?;
        tx = begin(identity).await.map_err(|error| classify(error, doing()))?;
        taken = take(&mut tx, identity).await.map_err(|error| classify(error, doing()))?;
    }
    let Some(row) = taken else {
        tx.commit().await.map_err(|error| classify(error, doing()))?;
        return Ok(None);
    };
    let mut held = held(&row, identity, asked).map_err(|error| classify(error, doing()))?;
    add_mark(&mut held.marks, &row)?;
    let (then, here): (i64, i64) = (row.get("system_id"), row.get("here"));
    if then != here {
        held.read = rebase::rebase(&mut tx, identity, &held.read, row.get("top"), here).await?;
        held.has_parked = true;
    }
    failpoint::pass("take_before_commit");
    tx.commit().await.map_err(|error| classify(error, doing()))?;
    failpoint::pass("take_after_commit");
    if let Some(before) = row.get::<Option<String>, _>("owner_before") {
        tell::takeover(&identity.name, &before);
    }
    tracing::info!(cursor = identity.name, lane = identity.lane, epoch = held.epoch, "the cursor is ours");
    Ok(Some(held))
}

async fn take(tx: &mut PgConnection, identity: &Identity) -> sqlx::Result<Option<PgRow>> {
    sqlx::query(TAKE)
        .bind(&identity.name)
        .bind(identity.lane())
        .bind(&identity.owner)
        .bind(identity.lease_ms())
        .bind(identity.lanes())
        .persistent(false)
        .fetch_optional(tx)
        .await
}

/// Makes what is missing for taking the cursor; tells whether trying again makes sense.
async fn prepare(tx: &mut PgConnection, identity: &Identity) -> Result<bool> {
    let doing = || format!("preparing cursor '{}'", identity.name);
    let rows = sqlx::query(LOOK)
        .bind(&identity.name)
        .bind(identity.lane())
        .persistent(false)
        .fetch_all(&mut *tx)
        .await
        .map_err(|error| classify(error, doing()))?;
    if rows.iter().any(|row| row.get::<i32, _>("lanes") != identity.lanes()) {
        return lanes::change(tx, identity).await;
    }
    if let Some(row) = rows.first().filter(|row| row.get::<bool, _>("is_this")) {
        let owner: Option<String> = row.get("owner");
        tracing::debug!(
            cursor = identity.name,
            lane = identity.lane,
            ?owner,
            "standing by: the cursor is held"
        );
        return Ok(false);
    }
    create(tx, identity).await.map_err(|error| classify(error, doing()))?;
    Ok(true)
}

async fn create(tx: &mut PgConnection, identity: &Identity) -> sqlx::Result<()> {
    let from_now = identity.start == Start::Now;
    let foreign: bool = sqlx::query(ANY_FOREIGN).persistent(false).fetch_one(&mut *tx).await?.get(0);
    if foreign && from_now {
        // "Now" is a number here, so nobody may be half-way through writing smaller ones.
        sqlx::query(rebase::LOCK).persistent(false).execute(&mut *tx).await?;
    }
    let create = sqlx::query(CREATE).bind(&identity.name).bind(identity.lanes()).bind(from_now).bind(foreign);
    create.persistent(false).execute(tx).await?;
    Ok(())
}

fn held(row: &PgRow, identity: &Identity, asked: Instant) -> sqlx::Result<Held> {
    let snapshot = |text: String| text.parse::<Snapshot>().map_err(|error| sqlx::Error::Decode(error.into()));
    let read = Position {
        s1: snapshot(row.try_get("s1")?)?,
        s2: row.try_get::<Option<String>, _>("s2")?.map(snapshot).transpose()?,
        pos: row.try_get("pos")?,
        floor: row.try_get("floor")?,
        next_floor: row.try_get("next_floor")?,
        base: row.try_get("base")?,
    };
    Ok(Held {
        epoch: row.try_get("epoch")?,
        lease: Lease::until(asked + identity.lease),
        seat: None,
        timeline: row.try_get("timeline")?,
        read,
        ahead: None,
        next_page: None,
        marks: Marks::default(),
        claims: 0,
        settled: 0,
        in_doubt: false,
        parked_out: Default::default(),
        has_parked: row.try_get("has_parked")?,
        looked_at_parked: None,
        parked_last: false,
        // Nobody knows yet what messages weigh.
        page_rows: super::page::ROWS_AHEAD,
    })
}

/// Renews until the cursor is lost or dropped. Where nothing is in flight it also writes the progress down.
pub(super) async fn renew(identity: Identity, state: Weak<Mutex<Option<Held>>>, share: Option<Arc<Share>>) {
    let pause = (identity.lease / 3).max(Duration::from_millis(10));
    loop {
        tokio::time::sleep(pause).await;
        let Some(state) = state.upgrade() else { return };
        let mut state = state.lock().await;
        let Some(held) = state.as_mut() else { return };
        if let Some(share) = &share {
            // Only a hint for fairness; the lease itself is what matters.
            let _ = share.refresh(&identity).await;
        }
        let renewed = tokio::time::timeout(identity.lease, renew_once(&identity, held)).await;
        let silent = || Err(Error::new(ErrorKind::Timeout, "no answer within the lease"));
        match renewed.unwrap_or_else(|_| silent()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Lost => {
                tracing::warn!(
                    cursor = identity.name,
                    lane = identity.lane,
                    "the cursor is no longer ours: another relay took over, or another server"
                );
                *state = None;
                return;
            }
            Err(error) => {
                tracing::debug!(cursor = identity.name, error = error.chain(), "could not renew the lease")
            }
        }
    }
}

async fn renew_once(identity: &Identity, held: &mut Held) -> Result<()> {
    let failed = |error| classify(error, format_args!("renewing the lease on cursor '{}'", identity.name));
    let asked = Instant::now();
    let idle = (!held.has_open_claims()).then_some(&held.read);
    let mut tx = begin(identity).await.map_err(failed)?;
    let row = sqlx::query(RENEW)
        .bind(&identity.name)
        .bind(identity.lane())
        .bind(held.epoch)
        .bind(identity.lease_ms())
        .bind(&held.timeline)
        .bind(idle.map(|position| position.s1.to_string()))
        .bind(idle.and_then(|position| position.s2.as_ref()).map(Snapshot::to_string))
        .bind(idle.map(|position| position.pos))
        .bind(idle.map(|position| position.floor))
        .bind(idle.map(|position| position.next_floor))
        .persistent(false)
        .fetch_optional(&mut *tx)
        .await
        .map_err(failed)?;
    failpoint::pass("renewing");
    tx.commit().await.map_err(failed)?;
    failpoint::pass("renewed");
    let row = row.ok_or_else(|| super::cursor::lost(identity))?;
    add_mark(&mut held.marks, &row)?;
    held.lease.extend(asked + identity.lease);
    Ok(())
}

/// Takes the mark from a row with `highest` and `xid`.
pub(super) fn add_mark(marks: &mut Marks, row: &PgRow) -> Result<()> {
    let xid: String = row.get("xid");
    let xid = xid
        .parse()
        .map_err(|_| Error::new(ErrorKind::Unexpected, format!("'{xid}' is no transaction id")))?;
    marks.add(xid, row.get("highest"));
    Ok(())
}

/// Gives the cursor back at once, and notes how far it has read if nothing is in flight. Also when we do not know
/// that we have it: an answer may have been lost.
pub(super) async fn release(identity: &Identity, held: Option<&Held>) -> Result<()> {
    let failed = |error| classify(error, format_args!("giving back cursor '{}'", identity.name));
    let mut tx = begin(identity).await.map_err(failed)?;
    if let Some(held) = held.filter(|held| !held.has_open_claims()) {
        sqlx::query(NOTE)
            .bind(&identity.name)
            .bind(identity.lane())
            .bind(held.epoch)
            .bind(held.read.s1.to_string())
            .bind(held.read.s2.as_ref().map(Snapshot::to_string))
            .bind(held.read.pos)
            .bind(held.read.floor)
            .bind(held.settled)
            .bind(&held.timeline)
            .bind(held.read.next_floor)
            .persistent(false)
            .execute(&mut *tx)
            .await
            .map_err(failed)?;
    }
    sqlx::query(RELEASE)
        .bind(&identity.name)
        .bind(identity.lane())
        .bind(&identity.owner)
        .persistent(false)
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
    tx.commit().await.map_err(failed)
}
