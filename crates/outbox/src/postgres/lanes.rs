//! Lanes: a cursor split by hash of the key, shared by relays that each take their part.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use tokio::time::Instant;

use super::cursor::Identity;
use super::error::classify;
use super::lease::begin;
use super::window::Snapshot;
use crate::error::{Error, ErrorKind, Result};

const SEEN: &str = "
    insert into outbox.relays (cursor, owner) values ($1, $2)
    on conflict (cursor, owner) do update set seen_at = clock_timestamp()";

/// One that is late and says so right now is not forgotten; two that waited for each other's rows would be a deadlock.
const FORGET: &str = "
    delete from outbox.relays
    where cursor = $1 and owner in (
        select owner from outbox.relays
        where cursor = $1 and seen_at < clock_timestamp() - $2::bigint * interval '1 millisecond'
        for update skip locked)";

const COUNT: &str = "
    select count(*) as relays, count(*) filter (where owner < $2) as before from outbox.relays where cursor = $1";

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

    /// A seat for one lane more, if our part has room for it.
    pub(super) fn seat(self: &Arc<Self>) -> Option<Seat> {
        let fair = self.fair.load(Ordering::Relaxed);
        let more = |held| (held < fair).then_some(held + 1);
        let taken = self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| Seat(Some(self.clone())))
    }

    pub(super) fn is_surplus(&self) -> bool {
        self.held.load(Ordering::Relaxed) > self.fair.load(Ordering::Relaxed)
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
        let mut tx = begin(identity).await.map_err(failed)?;
        let seen = sqlx::query(SEEN).bind(&identity.name).bind(&identity.owner).persistent(false);
        seen.execute(&mut *tx).await.map_err(failed)?;
        let forget = sqlx::query(FORGET).bind(&identity.name).bind(identity.lease_ms()).persistent(false);
        forget.execute(&mut *tx).await.map_err(failed)?;
        let count = sqlx::query(COUNT).bind(&identity.name).bind(&identity.owner).persistent(false);
        let count = count.fetch_one(&mut *tx).await.map_err(failed)?;
        tx.commit().await.map_err(failed)?;
        let number = |column: &str| u32::try_from(count.get::<i64, _>(column)).unwrap_or(0);
        self.fair.store(fair(self.lanes, number("relays").max(1), number("before")), Ordering::Relaxed);
        Ok(())
    }

    /// Says that we are gone, so that the others take our part without waiting.
    pub(super) async fn leave(&self, identity: &Identity) -> Result<()> {
        if self.held.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        let failed = |error| classify(error, format_args!("leaving the lanes of cursor '{}'", identity.name));
        let mut tx = begin(identity).await.map_err(failed)?;
        let leave = sqlx::query(LEAVE).bind(&identity.name).bind(&identity.owner).persistent(false);
        leave.execute(&mut *tx).await.map_err(failed)?;
        tx.commit().await.map_err(failed)
    }
}

/// A lane that is ours, or is about to be: it counts as long as this lives.
#[derive(Debug)]
pub(super) struct Seat(Option<Arc<Share>>);

impl Seat {
    /// Leaves if we have more than our part, in one step: no two lanes go for the same surplus.
    pub(super) fn unless_surplus(mut self) -> Option<Self> {
        let share = self.0.take()?;
        let fair = share.fair.load(Ordering::Relaxed);
        let less = |held| (held > fair).then(|| held - 1);
        let left = share.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        left.is_err().then(|| Self(Some(share)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(share) = &self.0 {
            share.held.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The lanes of the relay that has `before` others before it: together exactly all of them.
fn fair(lanes: u32, relays: u32, before: u32) -> u32 {
    lanes / relays + u32::from(before < lanes % relays)
}

const LOCK_ALL: &str = "
    select lane, lanes, epoch, s1::text, s2::text, pos, floor, next_floor, base, top, system_id, delivered,
        (owner is not null and lease_until >= clock_timestamp()) is true as alive,
        (select system_identifier from pg_control_system()) as here
    from outbox.cursors where name = $1 order by lane for update";

const DELETE_ALL: &str = "delete from outbox.cursors where name = $1";

const CREATE: &str = "
    insert into outbox.cursors (name, lane, lanes, s1, floor, base, top, system_id, delivered, s2, pos, next_floor, epoch)
    select $1, lane, $2, $3::text::pg_snapshot, $4, $5, $6, $7, case when lane = 0 then $8 else 0 end,
        $9::text::pg_snapshot, $10, $11, $12
    from generate_series(0, $2 - 1) as lane";

const MOVE_PARKED: &str = "update outbox.parked set lane = outbox.lane_of(key, seq, $2) where cursor = $1";

/// Changes the number of lanes, once nobody reads with the old one; tells whether it did.
///
/// The new lanes begin at what all the old ones have done. What only the faster ones had done comes again:
/// that is the price of a change, as much as the slowest lane was behind the fastest.
pub(super) async fn change(tx: &mut PgConnection, identity: &Identity) -> Result<bool> {
    let failed = |error| classify(error, format_args!("changing the lanes of cursor '{}'", identity.name));
    let rows = sqlx::query(LOCK_ALL).bind(&identity.name).persistent(false);
    let rows = rows.fetch_all(&mut *tx).await.map_err(failed)?;
    if rows.iter().all(|row| row.get::<i32, _>("lanes") == identity.lanes()) {
        // Another lane of ours, or another relay, was faster: the rows that we waited for are gone.
        return Ok(true);
    }
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
            "cursor '{}' was restored from a dump: run it once with lanes = {}, as before, then change them",
            identity.name,
            rows.len()
        );
        return Err(Error::new(ErrorKind::Config, what));
    }
    let merged = merge(&rows).map_err(failed)?;
    let least = |column: &str| rows.iter().map(|row| row.get::<i64, _>(column)).min().unwrap_or(0);
    let top = rows.iter().map(|row| row.get::<i64, _>("top")).max().unwrap_or(0);
    let delivered: i64 = rows.iter().map(|row| row.get::<i64, _>("delivered")).sum();
    sqlx::query(DELETE_ALL).bind(&identity.name).persistent(false).execute(&mut *tx).await.map_err(failed)?;
    sqlx::query(CREATE)
        .bind(&identity.name)
        .bind(identity.lanes())
        .bind(merged.s1.to_string())
        .bind(least("floor"))
        .bind(least("base"))
        .bind(top)
        .bind(least("system_id"))
        .bind(delivered)
        .bind(merged.s2.map(|s2| s2.to_string()))
        .bind(merged.pos)
        .bind(least("next_floor"))
        // Epochs only grow, or a relay that was halted before the change could settle on the new rows.
        .bind(rows.iter().map(|row| row.get::<i64, _>("epoch")).max().unwrap_or(0) + 1)
        .persistent(false)
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
    let moved = sqlx::query(MOVE_PARKED).bind(&identity.name).bind(identity.lanes()).persistent(false);
    moved.execute(&mut *tx).await.map_err(failed)?;
    tracing::info!(cursor = identity.name, lanes = identity.lanes, "the number of lanes has changed");
    Ok(true)
}

/// What all lanes have done, as one place in the log.
struct Merged {
    s1: Snapshot,
    s2: Option<Snapshot>,
    pos: i64,
}

/// A row is done in every lane if all their s1 show it, or if all their s2 show it and it is not above any pos.
/// A lane without an open window has done all that its s1 shows, up to any number.
fn merge(rows: &[PgRow]) -> sqlx::Result<Merged> {
    let decode = |text: String| text.parse::<Snapshot>().map_err(|error| sqlx::Error::Decode(error.into()));
    let mut merged: Option<Merged> = None;
    let mut any_open = false;
    for row in rows {
        let s1 = decode(row.try_get("s1")?)?;
        let open = row.try_get::<Option<String>, _>("s2")?.map(decode).transpose()?;
        any_open |= open.is_some();
        let pos = if open.is_some() { row.try_get("pos")? } else { i64::MAX };
        let s2 = open.unwrap_or_else(|| s1.clone());
        merged = Some(match merged {
            None => Merged { s1, s2: Some(s2), pos },
            Some(before) => Merged {
                s1: before.s1.intersect(&s1),
                s2: before.s2.map(|before| before.intersect(&s2)),
                pos: before.pos.min(pos),
            },
        });
    }
    let merged = merged.unwrap_or_else(|| Merged { s1: Snapshot::nothing(), s2: None, pos: 0 });
    Ok(if any_open { merged } else { Merged { s2: None, pos: 0, ..merged } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_seats_are_taken_or_left_than_the_share_allows() {
        let share = Arc::new(Share::new(4));
        let seats: Vec<Seat> = std::iter::from_fn(|| share.seat()).collect();
        assert_eq!(seats.len(), 4);
        share.fair.store(2, Ordering::Relaxed);
        assert!(share.is_surplus() && share.seat().is_none());
        let mut kept: Vec<Seat> = seats.into_iter().filter_map(Seat::unless_surplus).collect();
        assert_eq!(kept.len(), 2);
        assert!(!share.is_surplus() && share.seat().is_none());
        kept.pop();
        assert!(share.seat().is_some(), "one that is dropped is free");
    }

    #[test]
    fn the_shares_of_all_relays_are_all_lanes() {
        for (lanes, relays) in [(4, 1), (4, 3), (64, 10), (3, 5)] {
            let shares: Vec<u32> = (0..relays).map(|before| fair(lanes, relays, before)).collect();
            assert_eq!(shares.iter().sum::<u32>(), lanes, "{shares:?}");
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
        }
    }
}
