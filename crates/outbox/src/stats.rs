//! What a running pipe has done so far, readable from outside while it runs.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

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
    /// When a message was last tried and settled, and when anything in flight last moved; milliseconds, 0 is never.
    last_message: AtomicI64,
    last_move: AtomicI64,
    open: Mutex<Option<(Timestamp, Cause)>>,
    source_away: Mutex<Option<(Timestamp, String)>>,
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

    /// When a message was last settled as done, to be tried again or dead. What was given back untried does not count.
    pub fn last_message_at(&self) -> Option<Timestamp> {
        time_in(&self.last_message)
    }

    /// Since when messages are in flight and none of them was settled, while that is so.
    pub fn unmoved_since(&self) -> Option<Timestamp> {
        time_in(&self.last_move).filter(|_| self.in_flight() > 0)
    }

    /// Why the pipe has stopped sending, while it has.
    pub fn open_cause(&self) -> Option<Cause> {
        lock(&self.open).as_ref().map(|(_, cause)| cause.clone())
    }

    /// Since when the pipe has stopped sending, while it has.
    pub fn open_since(&self) -> Option<Timestamp> {
        lock(&self.open).as_ref().map(|(since, _)| *since)
    }

    /// Since when the source does not answer and what it said, while that is so.
    pub fn source_away(&self) -> Option<(Timestamp, String)> {
        lock(&self.source_away).clone()
    }

    pub(crate) fn add_claimed(&self, count: usize) {
        if self.in_flight.fetch_add(count as u64, Ordering::Relaxed) == 0 {
            set_now(&self.last_move);
        }
        self.claimed.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn add_skipped(&self, count: usize) {
        self.skipped.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// What was claimed is lost or given back, and nobody will settle it.
    pub(crate) fn forget_in_flight(&self) {
        self.in_flight.store(0, Ordering::Relaxed);
    }

    /// The newest cause stands; the outage began with the first.
    pub(crate) fn set_open_cause(&self, cause: Option<Cause>) {
        let mut open = lock(&self.open);
        let since = open.as_ref().map(|(since, _)| *since);
        *open = cause.map(|cause| (since.unwrap_or_else(Timestamp::now), cause));
    }

    /// The same for the source.
    pub(crate) fn set_source_away(&self, why: Option<String>) {
        let mut away = lock(&self.source_away);
        let since = away.as_ref().map(|(since, _)| *since);
        *away = why.map(|why| (since.unwrap_or_else(Timestamp::now), why));
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
        set_now(&self.last_move);
        if verdicts.iter().any(|verdict| !matches!(verdict, Verdict::Behind | Verdict::Released)) {
            set_now(&self.last_message);
        }
        let settled = verdicts.len() as u64;
        let lower = |in_flight: u64| Some(in_flight.saturating_sub(settled));
        // It always has a new value, so there is no failure to look at.
        let _ = self.in_flight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn set_now(time: &AtomicI64) {
    time.store(Timestamp::now().as_millisecond(), Ordering::Relaxed);
}

fn time_in(time: &AtomicI64) -> Option<Timestamp> {
    let millis = Some(time.load(Ordering::Relaxed)).filter(|millis| *millis != 0);
    millis.and_then(|millis| Timestamp::from_millisecond(millis).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d8_only_what_was_tried_is_a_message_that_passed() {
        let stats = Stats::default();
        assert_eq!((stats.last_message_at(), stats.unmoved_since()), (None, None));
        stats.add_claimed(4);
        assert!(stats.unmoved_since().is_some() && stats.last_message_at().is_none());
        stats.count(&[Verdict::Released, Verdict::Behind]);
        assert_eq!(stats.last_message_at(), None, "they were given back");
        stats.count(&[Verdict::Done]);
        assert!(stats.last_message_at().is_some() && stats.unmoved_since().is_some(), "one is still out");
        stats.count(&[Verdict::Done]);
        assert_eq!(stats.unmoved_since(), None, "nothing is out, so nothing stands still");
    }

    #[test]
    fn d8_an_outage_begins_with_its_first_cause() {
        let stats = Stats::default();
        stats.set_open_cause(Some(Cause::new("A", "first")));
        stats.set_source_away(Some("first".to_owned()));
        let (open, away) = (stats.open_since(), stats.source_away());
        std::thread::sleep(std::time::Duration::from_millis(2)); // Time itself is the subject.
        stats.set_open_cause(Some(Cause::new("B", "second")));
        stats.set_source_away(Some("second".to_owned()));
        assert!(open.is_some() && stats.open_since() == open);
        assert_eq!(stats.open_cause().map(|cause| cause.code.to_string()).as_deref(), Some("B"));
        assert_eq!(stats.source_away(), away.map(|(since, _)| (since, "second".to_owned())));
        stats.set_open_cause(None);
        stats.set_source_away(None);
        assert_eq!((stats.open_since(), stats.open_cause(), stats.source_away()), (None, None, None));
    }

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
