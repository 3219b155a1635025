//! What a running pipe has done so far, readable from outside while it runs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::policy::Verdict;
use crate::sink::Cause;

/// Counters of one pipe since it was started in this process.
#[derive(Debug, Default)]
pub struct Stats {
    claimed: AtomicU64,
    delivered: AtomicU64,
    retried: AtomicU64,
    dead: AtomicU64,
    behind: AtomicU64,
    released: AtomicU64,
    skipped: AtomicU64,
    in_flight: AtomicU64,
    open_cause: Mutex<Option<Cause>>,
}

impl Stats {
    /// Messages taken from the source, each time that they were.
    pub fn claimed(&self) -> u64 {
        self.claimed.load(Ordering::Relaxed)
    }

    /// Messages settled as done.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// Attempts that failed and will be repeated.
    pub fn retried(&self) -> u64 {
        self.retried.load(Ordering::Relaxed)
    }

    /// Messages set aside for a person.
    pub fn dead(&self) -> u64 {
        self.dead.load(Ordering::Relaxed)
    }

    /// Messages set aside because an earlier one of their key was not done.
    pub fn behind(&self) -> u64 {
        self.behind.load(Ordering::Relaxed)
    }

    /// Messages given back without an attempt spent.
    pub fn released(&self) -> u64 {
        self.released.load(Ordering::Relaxed)
    }

    /// Messages that the source passed over, because they were handled before.
    pub fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    /// Messages that are claimed and not settled yet.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Why the pipe has stopped sending, while it has.
    pub fn open_cause(&self) -> Option<Cause> {
        self.open_cause.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    pub(crate) fn add_claimed(&self, count: usize) {
        self.in_flight.fetch_add(count as u64, Ordering::Relaxed);
        self.claimed.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_skipped(&self, count: usize) {
        self.skipped.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// What was claimed is lost or given back, and nobody will settle it.
    pub(crate) fn forget_in_flight(&self) {
        self.in_flight.store(0, Ordering::Relaxed);
    }

    pub(crate) fn set_open_cause(&self, cause: Option<Cause>) {
        *self.open_cause.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = cause;
    }

    pub(crate) fn count(&self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            let counter = match verdict {
                Verdict::Done => &self.delivered,
                Verdict::Retry { .. } => &self.retried,
                Verdict::Dead { .. } => &self.dead,
                Verdict::Behind => &self.behind,
                Verdict::Released => &self.released,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        let settled = verdicts.len() as u64;
        let lower = |in_flight: u64| Some(in_flight.saturating_sub(settled));
        // It always has a new value, so there is no failure to look at.
        let _ = self.in_flight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_no_longer_in_flight() {
        let stats = Stats::default();
        stats.add_claimed(3);
        stats.count(&[Verdict::Done, Verdict::Released]);
        assert_eq!((stats.claimed(), stats.in_flight()), (3, 1));
        stats.forget_in_flight();
        assert_eq!((stats.claimed(), stats.in_flight()), (3, 0));
        stats.count(&[Verdict::Done]);
        assert_eq!(stats.in_flight(), 0);
    }
}
