//! Lanes: which lane a message belongs to, and which relay may hold how many.
//!
//! Every relay beats in `outbox_relays` and sees who else does. The fair share follows from the sorted names,
//! so all relays agree on it without a leader: n lanes over r relays, the first n mod r get one more. A lane
//! has one owner at a time whatever the shares say, because that is decided by the lease in its row.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use sqlx::SqlitePool;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The lane of a message: by its key, so that a key has one lane; without key by its number, so that they spread.
pub(super) fn of(key: Option<&str>, seq: i64, lanes: u32) -> u32 {
    if lanes <= 1 {
        return 0;
    }
    let hash = match key {
        Some(key) => fnv1a(key.as_bytes()),
        None => fnv1a(&seq.to_le_bytes()),
    };
    u32::try_from(hash % u64::from(lanes)).unwrap_or(0)
}

/// FNV-1a, 64 bits. The lanes of parked messages are stored, so this must never change.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// What the lanes of one relay know of the other relays. Shared by the cursors that `Cursor::lanes` makes.
#[derive(Debug)]
pub(super) struct Crew {
    pool: SqlitePool,
    cursor: String,
    owner: String,
    lanes: u32,
    lease: Duration,
    /// How many lanes this relay holds.
    held: AtomicU32,
    share: AtomicU32,
    last_beat: Mutex<Option<Instant>>,
}

impl Crew {
    pub(super) fn new(pool: SqlitePool, cursor: String, owner: String, lanes: u32, lease: Duration) -> Self {
        let (held, share) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { pool, cursor, owner, lanes, lease, held, share, last_beat: Mutex::new(None) }
    }

    /// Tells the others that we are here, and learns how many lanes are ours; now and then, not every time.
    pub(super) async fn beat(&self) -> sqlx::Result<()> {
        let mut last_beat = self.last_beat.lock().await;
        if last_beat.is_some_and(|at| at.elapsed() < self.lease / 3) {
            return Ok(());
        }
        let now = Instant::now();
        let lease = i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX);
        sqlx::query(
            "INSERT INTO outbox_relays (cursor, owner, seen)
             VALUES (?, ?, CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER))
             ON CONFLICT (cursor, owner) DO UPDATE SET seen = excluded.seen",
        )
        .bind(&self.cursor)
        .bind(&self.owner)
        .execute(&self.pool)
        .await?;
        let relays: Vec<String> = sqlx::query_scalar(
            "SELECT owner FROM outbox_relays
             WHERE cursor = ? AND seen > CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER) - ? ORDER BY owner",
        )
        .bind(&self.cursor)
        .bind(lease)
        .fetch_all(&self.pool)
        .await?;
        // A relay that was killed comes back under another name, so its old one must not stay for ever.
        sqlx::query(
            "DELETE FROM outbox_relays
             WHERE cursor = ? AND seen <= CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER) - 10 * ?",
        )
        .bind(&self.cursor)
        .bind(lease)
        .execute(&self.pool)
        .await?;
        self.share.store(share(self.lanes, &relays, &self.owner), Ordering::Relaxed);
        *last_beat = Some(now);
        Ok(())
    }

    /// Leaves, if no lane is held any more, so that the others do not wait for us to be missed.
    pub(super) async fn leave(&self) -> sqlx::Result<()> {
        let mut last_beat = self.last_beat.lock().await;
        if self.held.load(Ordering::Relaxed) > 0 {
            return Ok(());
        }
        *last_beat = None;
        sqlx::query("DELETE FROM outbox_relays WHERE cursor = ? AND owner = ?")
            .bind(&self.cursor)
            .bind(&self.owner)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Whether one more lane is within our share; if so it is counted as held until the seat is dropped.
    pub(super) fn seat(self: &Arc<Self>) -> Option<Seat> {
        let share = self.share.load(Ordering::Relaxed);
        let counted = self
            .held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| (held < share).then_some(held + 1));
        counted.is_ok().then(|| Seat(self.clone()))
    }

    /// Whether we hold more than our share, so that a lane should be given back.
    pub(super) fn is_over(&self) -> bool {
        self.held.load(Ordering::Relaxed) > self.share.load(Ordering::Relaxed)
    }
}

/// One lane of our share; dropped when the lane is given back or lost.
#[derive(Debug)]
pub(super) struct Seat(Arc<Crew>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many of `lanes` are for `owner` among the `relays`, sorted by name.
fn share(lanes: u32, relays: &[String], owner: &str) -> u32 {
    let count = u32::try_from(relays.len()).unwrap_or(u32::MAX).max(1);
    let rank =
        relays.iter().position(|relay| relay == owner).and_then(|rank| u32::try_from(rank).ok()).unwrap_or(0);
    lanes / count + u32::from(rank < lanes % count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_lanes_and_differ_by_one_at_most() {
        for lanes in 1..20 {
            for count in 1..10 {
                let relays: Vec<String> = (0..count).map(|relay| format!("relay{relay}")).collect();
                let shares: Vec<u32> = relays.iter().map(|relay| share(lanes, &relays, relay)).collect();
                assert_eq!(shares.iter().sum::<u32>(), lanes);
                assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
            }
        }
    }

    #[test]
    fn a_key_keeps_its_lane() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(of(Some("k"), 1, 8), of(Some("k"), 2, 8));
        let spread: std::collections::HashSet<u32> = (0..100).map(|seq| of(None, seq, 4)).collect();
        assert_eq!(spread.len(), 4);
    }
}
