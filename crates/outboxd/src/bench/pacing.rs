//! When the next message of a steady load is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Shared by those who write in turns: each message is due at its own moment, however late the one before it was.
#[derive(Debug, Clone)]
pub(super) struct Pacing {
    start: Instant,
    rate: u64,
    turn: Arc<AtomicU64>,
}

impl Pacing {
    pub(super) fn new(start: Instant, rate: u64) -> Self {
        Self { start, rate, turn: Arc::default() }
    }

    /// When it began.
    pub(super) fn start(&self) -> Instant {
        self.start
    }

    /// The number of the next message, once it is due; none after so many.
    pub(super) async fn next(&self, count: u64) -> Option<u64> {
        let number = self.turn.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return None;
        }
        let due = self.start + Duration::from_secs_f64(number as f64 / self.rate as f64);
        tokio::time::sleep_until(due.into()).await;
        Some(number)
    }
}
