//! Lanes: a cursor split by hash of the key, shared by relays that each take their part.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{PgConnection, Row};
use tokio::time::Instant;

use super::cursor::Identity;
use super::error::classify;
use super::window::Snapshot;
use crate::error::{Error, ErrorKind, Result};

const SEEN: &str = "
    insert into outbox.relays (cursor, owner) values ($1, $2)
    on conflict (cursor, owner) do update set seen_at = clock_timestamp()";

const FORGET: &str = "
    delete from outbox.relays
    where cursor = $1 and seen_at < clock_timestamp() - $2::bigint * interval '1 millisecond'";

const COUNT: &str = "select count(*) from outbox.relays where cursor = $1";

const LEAVE: &str = "delete from outbox.relays where cursor = $1 and owner = $2";

/// How many lanes are ours, and how many should be.
#[derive(Debug)]
pub(super) struct Share {
    lanes: u32,
    held: AtomicU32,
    fair: AtomicU32,
    refreshed: Mutex<Option<Instant>>,
}

impl Share {
    pub(super) fn new(lanes: u32) -> Self {
        Self { lanes, held: AtomicU32::new(0), fair: AtomicU32::new(lanes), refreshed: Mutex::new(None) }
    }

    pub(super) fn may_take(&self) -> bool {
        self.held.load(Ordering::Relaxed) < self.fair.load(Ordering::Relaxed)
    }

    pub(super) fn is_surplus(&self) -> bool {
        self.held.load(Ordering::Relaxed) > self.fair.load(Ordering::Relaxed)
    }

    pub(super) fn taken(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn given_back(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    /// Says that we are here, and counts who else is; not more often than a few times per lease.
    pub(super) async fn refresh(&self, identity: &Identity) -> Result<()> {
        {
            let mut refreshed = self.refreshed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if refreshed.is_some_and(|at| at.elapsed() < identity.lease / 6) {
                return Ok(());
            }
            *refreshed = Some(Instant::now());
        }
        let failed = |error| classify(error, format_args!("sharing the lanes of cursor '{}'", identity.name));
        let mut tx = identity.pool.begin().await.map_err(failed)?;
        let seen = sqlx::query(SEEN).bind(&identity.name).bind(&identity.owner).persistent(false);
        seen.execute(&mut *tx).await.map_err(failed)?;
        let forget = sqlx::query(FORGET).bind(&identity.name).bind(identity.lease_ms()).persistent(false);
        forget.execute(&mut *tx).await.map_err(failed)?;
        let count = sqlx::query(COUNT).bind(&identity.name).persistent(false);
        let relays: i64 = count.fetch_one(&mut *tx).await.map_err(failed)?.get(0);
        tx.commit().await.map_err(failed)?;
        let relays = u32::try_from(relays.max(1)).unwrap_or(u32::MAX);
        self.fair.store(self.lanes.div_ceil(relays), Ordering::Relaxed);
        Ok(())
    }

    /// Says that we are gone, so that the others take our part without waiting.
    pub(super) async fn leave(&self, identity: &Identity) -> Result<()> {
        let failed = |error| classify(error, format_args!("leaving the lanes of cursor '{}'", identity.name));
        let mut tx = identity.pool.begin().await.map_err(failed)?;
        let leave = sqlx::query(LEAVE).bind(&identity.name).bind(&identity.owner).persistent(false);
        leave.execute(&mut *tx).await.map_err(failed)?;
        tx.commit().await.map_err(failed)
    }
}

const LOCK_ALL: &str = "
    select lane, s1::text, floor, base, top, system_id, delivered,
        (owner is not null and lease_until >= clock_timestamp()) is true as alive,
        (select system_identifier from pg_control_system()) as here
    from outbox.cursors where name = $1 order by lane for update";

const DELETE_ALL: &str = "delete from outbox.cursors where name = $1";

const CREATE: &str = "
    insert into outbox.cursors (name, lane, lanes, s1, floor, base, top, system_id, delivered)
    select $1, lane, $2, $3::text::pg_snapshot, $4, $5, $6, $7, case when lane = 0 then $8 else 0 end
    from generate_series(0, $2 - 1) as lane";

const MOVE_PARKED: &str = "update outbox.parked set lane = outbox.lane_of(key, seq, $2) where cursor = $1";

/// Changes the number of lanes, once nobody reads with the old one; tells whether it did.
///
/// The new lanes begin at what all the old ones have done. What only the faster ones had done comes again:
/// that is the price of a change, at most what the slowest lane was behind.
pub(super) async fn change(tx: &mut PgConnection, identity: &Identity) -> Result<bool> {
    let failed = |error| classify(error, format_args!("changing the lanes of cursor '{}'", identity.name));
    let rows = sqlx::query(LOCK_ALL).bind(&identity.name).persistent(false);
    let rows = rows.fetch_all(&mut *tx).await.map_err(failed)?;
    if rows.iter().any(|row| row.get("alive")) {
        tracing::debug!(
            cursor = identity.name,
            lanes = identity.lanes,
            "standing by: relays still run with other lanes"
        );
        return Ok(false);
    }
    if rows.iter().any(|row| row.get::<i64, _>("system_id") != row.get::<i64, _>("here")) {
        let what = format!(
            "cursor '{}' was restored from a dump and has not run since with its old lanes",
            identity.name
        );
        return Err(Error::new(ErrorKind::Config, what));
    }
    let mut s1: Option<Snapshot> = None;
    for row in &rows {
        let other: Snapshot = row
            .get::<String, _>("s1")
            .parse()
            .map_err(|error: String| failed(sqlx::Error::Decode(error.into())))?;
        s1 = Some(s1.map_or_else(|| other.clone(), |s1| s1.intersect(&other)));
    }
    let least = |column: &str| rows.iter().map(|row| row.get::<i64, _>(column)).min().unwrap_or(0);
    let top = rows.iter().map(|row| row.get::<i64, _>("top")).max().unwrap_or(0);
    let delivered: i64 = rows.iter().map(|row| row.get::<i64, _>("delivered")).sum();
    sqlx::query(DELETE_ALL).bind(&identity.name).persistent(false).execute(&mut *tx).await.map_err(failed)?;
    sqlx::query(CREATE)
        .bind(&identity.name)
        .bind(identity.lanes())
        .bind(s1.unwrap_or_else(Snapshot::nothing).to_string())
        .bind(least("floor"))
        .bind(least("base"))
        .bind(top)
        .bind(least("system_id"))
        .bind(delivered)
        .persistent(false)
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
    let moved = sqlx::query(MOVE_PARKED).bind(&identity.name).bind(identity.lanes()).persistent(false);
    moved.execute(&mut *tx).await.map_err(failed)?;
    tracing::info!(cursor = identity.name, lanes = identity.lanes, "the number of lanes has changed");
    Ok(true)
}
