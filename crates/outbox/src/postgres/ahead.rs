//! What was read of the log and is not claimed yet, so that not every claim has to ask the database.

use std::collections::VecDeque;
use std::fmt;

use super::cursor::{Page, Place};
use super::window::Position;
use crate::message::Message;

/// A message as it was read.
pub(super) struct Entry {
    pub(super) message: Message,
    pub(super) place: Place,
    /// An earlier one of its key is set aside.
    pub(super) held: bool,
}

impl fmt::Debug for Entry {
    /// Without what the application has written.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({})", self.place.seq)
    }
}

/// Messages of one window that come next, in their order.
#[derive(Debug)]
pub(super) struct Ahead {
    begin: Position,
    end: Position,
    entries: VecDeque<Entry>,
}

impl Ahead {
    /// `end` is where the cursor stands once all of them are claimed.
    pub(super) fn new(begin: Position, end: Position, entries: VecDeque<Entry>) -> Self {
        Self { begin, end, entries }
    }

    /// Whether they are what comes next for a cursor that stands there: one that was moved must read again.
    pub(super) fn begins_at(&self, position: &Position) -> bool {
        self.begin == *position
    }

    pub(super) fn end(&self) -> &Position {
        &self.end
    }

    /// Whether there may be more of the window behind them.
    pub(super) fn is_followed(&self) -> bool {
        self.end.s2.is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The first of them, up to `limit`, and the page of the log that they are.
    pub(super) fn take(&mut self, limit: usize) -> (Vec<Entry>, Page) {
        let taken: Vec<Entry> = self.entries.drain(..limit.min(self.entries.len())).collect();
        let after = match taken.last() {
            _ if self.entries.is_empty() => self.end.clone(),
            Some(last) => self.begin.at(last.place.seq),
            None => self.begin.clone(),
        };
        let before = std::mem::replace(&mut self.begin, after.clone());
        (taken, Page { before, after })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::window::Snapshot;

    fn ahead(seqs: &[i64]) -> Ahead {
        let window: Snapshot = "10:20:".parse().unwrap();
        let begin = Position {
            s1: Snapshot::nothing(),
            s2: Some(window.clone()),
            pos: 3,
            floor: 0,
            next_floor: 0,
            base: 0,
        };
        let end = Position { s1: window, s2: None, pos: 0, ..begin.clone() };
        let entry = |seq: &i64| {
            let place = Place { seq: *seq, key: None, attempts: 0 };
            Entry { message: Message::new("t", "secret"), place, held: false }
        };
        Ahead::new(begin, end, seqs.iter().map(entry).collect())
    }

    #[test]
    fn pages_follow_each_other_and_the_last_one_ends_at_the_end() {
        let mut ahead = ahead(&[5, 7, 8]);
        let begin = ahead.begin.clone();
        let (taken, first) = ahead.take(2);
        assert_eq!(taken.iter().map(|entry| entry.place.seq).collect::<Vec<_>>(), [5, 7]);
        assert_eq!((first.before, first.after.pos), (begin, 7));
        assert!(ahead.begins_at(&first.after) && !ahead.is_followed());
        let (taken, second) = ahead.take(2);
        assert_eq!((taken.len(), second.before, &second.after), (1, first.after, ahead.end()));
        assert_eq!(ahead.len(), 0);
    }

    #[test]
    fn who_takes_nothing_passes_nothing_over() {
        let mut ahead = ahead(&[5]);
        let begin = ahead.begin.clone();
        let (taken, page) = ahead.take(0);
        assert!(taken.is_empty());
        assert_eq!((page.after, ahead.len()), (begin, 1));
    }

    #[test]
    fn what_the_application_wrote_is_not_printed() {
        let printed = format!("{:?}", ahead(&[5]));
        assert!(printed.contains("Entry(5)") && !printed.contains("secret"), "{printed}");
    }
}
