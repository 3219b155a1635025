//! What a relay remembers of the rows that failed: when to try again, and which keys wait for them.
//!
//! The table itself may have no place for a delay, and other rows of the key must not overtake. Pure but for the
//! clock that comes in.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use super::sql::Except;

/// So many rows are remembered at most; beyond that nothing new is claimed until some are through.
pub(crate) const MOST: usize = 10_000;

#[derive(Debug, Clone)]
struct Waiting {
    key: Option<String>,
    due: Instant,
    attempts: u32,
    /// A claim has it now.
    out: bool,
}

/// The rows that failed and are not done, and the keys that a person must free.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    rows: HashMap<String, Waiting>,
    by_due: BTreeSet<(Instant, String)>,
    /// How many rows of a key wait.
    keys: HashMap<String, usize>,
    /// Keys that a person must free; the time is when that was written, none if it is not yet.
    held: HashMap<String, Option<Instant>>,
    /// Keys of which another relay had a row, and until when nobody may touch it.
    left: HashMap<String, Instant>,
}

impl Aside {
    /// A row is to be tried again after a while.
    pub(crate) fn put(&mut self, id: &str, key: Option<&str>, due: Instant, attempts: u32) {
        self.remove(id);
        self.by_due.insert((due, id.to_owned()));
        if let Some(key) = key {
            *self.keys.entry(key.to_owned()).or_default() += 1;
        }
        self.rows.insert(id.to_owned(), Waiting { key: key.map(str::to_owned), due, attempts, out: false });
    }

    /// The row is done, dead or gone.
    pub(crate) fn remove(&mut self, id: &str) {
        if let Some(waiting) = self.rows.remove(id) {
            self.by_due.remove(&(waiting.due, id.to_owned()));
            if let Some(key) = waiting.key
                && let Some(count) = self.keys.get_mut(&key)
            {
                *count -= 1;
                if *count == 0 {
                    self.keys.remove(&key);
                }
            }
        }
    }

    /// A claim that had the row is over, and the row is as it was.
    pub(crate) fn back(&mut self, id: &str) {
        if let Some(waiting) = self.rows.get_mut(id)
            && waiting.out
        {
            waiting.out = false;
            self.by_due.insert((waiting.due, id.to_owned()));
        }
    }

    /// A claim has the row.
    pub(crate) fn out(&mut self, id: &str) {
        if let Some(waiting) = self.rows.get_mut(id) {
            waiting.out = true;
            self.by_due.remove(&(waiting.due, id.to_owned()));
        }
    }

    /// Only these rows are with a claim.
    pub(crate) fn only_out(&mut self, ids: &HashSet<String>) {
        for (id, waiting) in &mut self.rows {
            if waiting.out && !ids.contains(id) {
                waiting.out = false;
                self.by_due.insert((waiting.due, id.clone()));
            }
        }
    }

    /// The row is due at another time.
    pub(crate) fn wait_until(&mut self, id: &str, due: Instant) {
        if let Some(waiting) = self.rows.get_mut(id) {
            self.by_due.remove(&(waiting.due, id.to_owned()));
            waiting.due = due;
            if !waiting.out {
                self.by_due.insert((due, id.to_owned()));
            }
        }
    }

    /// Whether the row waits, or its key waits for another.
    pub(crate) fn keeps_back(&self, id: &str, key: Option<&str>, ordered: bool) -> bool {
        self.rows.contains_key(id) || (ordered && key.is_some_and(|key| self.holds(key)))
    }

    fn holds(&self, key: &str) -> bool {
        self.held.contains_key(key) || self.keys.contains_key(key) || self.left.contains_key(key)
    }

    /// These keys wait, all their rows: those that nobody had may be earlier than those that another relay had.
    pub(crate) fn leave_only(&mut self, rows: impl IntoIterator<Item = (String, Instant)>) {
        self.left.clear();
        for (key, until) in rows {
            let latest = self.left.entry(key).or_insert(until);
            *latest = until.max(*latest);
        }
    }

    /// Whether the time of a key that was left has come. The table must say that it has: its clock is not ours.
    pub(crate) fn is_left_over(&self, now: Instant) -> bool {
        self.left.values().any(|until| *until <= now)
    }

    /// Rows whose time has come.
    pub(crate) fn due(&self, now: Instant, limit: usize) -> Vec<String> {
        self.by_due.iter().take_while(|(due, _)| *due <= now).take(limit).map(|(_, id)| id.clone()).collect()
    }

    /// Some of the rows that wait, no claim having them.
    pub(crate) fn waiting(&self, most: usize) -> Vec<String> {
        self.by_due.iter().take(most).map(|(_, id)| id.clone()).collect()
    }

    /// A person wants it tried again, with all its attempts.
    pub(crate) fn revive(&mut self, id: &str, now: Instant) {
        if let Some(waiting) = self.rows.get_mut(id) {
            waiting.attempts = 0;
        }
        self.wait_until(id, now);
    }

    /// How long until the next row is due.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Duration> {
        let row = self.by_due.first().map(|(due, _)| due);
        row.into_iter().chain(self.left.values()).min().map(|due| due.saturating_duration_since(now))
    }

    /// The attempts that were spent, as far as is remembered.
    pub(crate) fn attempts(&self, id: &str) -> u32 {
        self.rows.get(id).map_or(0, |waiting| waiting.attempts)
    }

    /// A person must free this key; that is about to be written.
    pub(crate) fn hold(&mut self, key: &str) {
        self.held.insert(key.to_owned(), None);
    }

    /// It is written.
    pub(crate) fn held_for_good(&mut self, key: &str, now: Instant) {
        self.held.insert(key.to_owned(), Some(now));
    }

    /// What was about to be written never was.
    pub(crate) fn forget_unwritten(&mut self) {
        self.held.retain(|_, written| written.is_some());
    }

    /// The table said, asked at `asked`, that these keys are for a person to free. It cannot have known of what was
    /// written since, nor of what is yet to be written.
    pub(crate) fn hold_only(&mut self, keys: HashSet<String>, asked: Instant) {
        self.held.retain(|_, written| written.is_none_or(|written| written >= asked));
        for key in keys {
            self.held.entry(key).or_insert(Some(asked));
        }
    }

    /// What a claim leaves alone.
    pub(crate) fn except(&self, ordered: bool) -> Except {
        let mut keys: Vec<String> = Vec::new();
        if ordered {
            keys.extend(self.held.keys().cloned());
            keys.extend(self.keys.keys().filter(|key| !self.held.contains_key(*key)).cloned());
            let new = |key: &&String| !self.held.contains_key(*key) && !self.keys.contains_key(*key);
            keys.extend(self.left.keys().filter(new).cloned());
        }
        let by_key = |waiting: &Waiting| ordered && waiting.key.is_some();
        let ids = self.rows.iter().filter(|(_, waiting)| !by_key(waiting)).map(|(id, _)| id.clone());
        Except { ids: ids.collect(), keys }
    }

    /// Whether a row waits here.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.rows.contains_key(id)
    }

    /// Nothing more can be remembered.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_waits_for_its_time_and_its_key_waits_for_it() {
        let (mut aside, now) = (Aside::default(), Instant::now());
        let later = now + Duration::from_secs(1);
        aside.put("1", Some("k"), later, 2);
        aside.put("2", None, now, 1);
        assert_eq!(aside.due(now, 10), ["2"]);
        assert_eq!(aside.due(later, 10), ["2", "1"]);
        assert_eq!(aside.attempts("1"), 2);
        assert!(aside.keeps_back("9", Some("k"), true) && !aside.keeps_back("9", Some("k"), false));
        let except = aside.except(true);
        assert_eq!((except.ids, except.keys), (vec!["2".to_owned()], vec!["k".to_owned()]));
        assert_eq!(aside.except(false).ids.len(), 2);
        aside.out("1");
        assert_eq!(aside.due(later, 10), ["2"], "a claim has it");
        assert!(aside.keeps_back("9", Some("k"), true), "and the key still waits");
        aside.back("1");
        assert_eq!(aside.due(later, 1).len() + aside.due(later, 10).len(), 3);
        aside.remove("1");
        assert!(!aside.keeps_back("9", Some("k"), true));
    }

    #[test]
    fn a_key_that_was_left_waits_for_the_last_of_its_rows() {
        let (mut aside, start) = (Aside::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let key = || "k".to_owned();
        aside.leave_only([(key(), at(2)), (key(), at(5)), (key(), at(3))]);
        assert!(aside.keeps_back("1", Some("k"), true) && !aside.keeps_back("1", Some("k"), false));
        assert_eq!(
            (aside.next_due(start), aside.except(true).keys),
            (Some(Duration::from_secs(5)), vec![key()])
        );
        assert!(!aside.is_left_over(at(4)) && aside.is_left_over(at(5)));
        assert!(aside.keeps_back("1", Some("k"), true), "until the table says so");
        aside.leave_only([]);
        assert!(!aside.keeps_back("1", Some("k"), true));
    }

    #[test]
    fn a_held_key_stays_until_the_table_could_know_better() {
        let (mut aside, start) = (Aside::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let none = HashSet::new;
        aside.hold("k");
        aside.hold_only(none(), at(1));
        assert!(aside.keeps_back("1", Some("k"), true), "it is yet to be written");
        aside.held_for_good("k", at(2));
        aside.hold_only(none(), at(2));
        assert!(aside.keeps_back("1", Some("k"), true), "asked before it was written");
        aside.hold_only(none(), at(3));
        assert!(!aside.keeps_back("1", Some("k"), true), "a person has freed it");
        aside.hold("k");
        aside.forget_unwritten();
        assert!(!aside.keeps_back("1", Some("k"), true), "it never was");
    }
}
