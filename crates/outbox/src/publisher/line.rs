//! Who may go next. Pure: of a key one entry is out at a time, the others wait in the order in which they came.

use std::collections::{HashMap, VecDeque};

/// Something that stands in line.
pub(super) trait Keyed {
    fn key(&self) -> Option<&str>;
}

/// Entries that wait, in order for their keys. A key is known only as long as something of it is here or out, so the
/// line is never longer than what was put in.
#[derive(Debug)]
pub(super) struct Line<E> {
    ready: VecDeque<E>,
    /// Keys of which one entry is ready or out, with those that wait for it.
    waiting: HashMap<String, VecDeque<E>>,
    /// Batches that are out.
    pub(super) out: usize,
}

impl<E: Keyed> Line<E> {
    pub(super) fn new() -> Self {
        Self { ready: VecDeque::new(), waiting: HashMap::new(), out: 0 }
    }

    /// Lines up at the end.
    pub(super) fn push(&mut self, entry: E) {
        let Some(key) = entry.key() else { return self.ready.push_back(entry) };
        match self.waiting.get_mut(key) {
            Some(others) => others.push_back(entry),
            None => {
                self.waiting.insert(key.to_owned(), VecDeque::new());
                self.ready.push_back(entry);
            }
        }
    }

    /// Up to `most` entries of different keys go out together, if fewer than `batches` are out.
    pub(super) fn take(&mut self, most: usize, batches: usize) -> Option<Vec<E>> {
        if self.out >= batches || self.ready.is_empty() {
            return None;
        }
        self.out += 1;
        let count = most.min(self.ready.len());
        Some(self.ready.drain(..count).collect())
    }

    /// The entries of these keys have come back: the next of each may go.
    pub(super) fn done<'k>(&mut self, keys: impl IntoIterator<Item = &'k String>) {
        self.out -= 1;
        for key in keys {
            let Some(others) = self.waiting.get_mut(key) else { continue };
            match others.pop_front() {
                Some(next) => self.ready.push_back(next),
                None => {
                    self.waiting.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Keyed for (&'static str, u32) {
        fn key(&self) -> Option<&str> {
            Some(self.0).filter(|key| !key.is_empty())
        }
    }

    fn line(entries: &[(&'static str, u32)]) -> Line<(&'static str, u32)> {
        let mut line = Line::new();
        entries.iter().for_each(|entry| line.push(*entry));
        line
    }

    #[test]
    fn of_a_key_one_goes_at_a_time_and_in_order() {
        let mut line = line(&[("a", 1), ("b", 2), ("a", 3), ("", 4), ("", 5), ("a", 6)]);
        assert_eq!(line.take(10, 2).unwrap(), [("a", 1), ("b", 2), ("", 4), ("", 5)]);
        assert_eq!(line.take(10, 2), None, "what is left waits for its key");
        line.push(("b", 7));
        line.push(("c", 8));
        assert_eq!(line.take(10, 2).unwrap(), [("c", 8)]);
        line.done(&["a".to_owned(), "b".to_owned()]);
        assert_eq!(line.take(10, 2).unwrap(), [("a", 3), ("b", 7)]);
        line.done(&["c".to_owned()]);
        line.done(&["a".to_owned(), "b".to_owned()]);
        assert_eq!(line.take(10, 2).unwrap(), [("a", 6)]);
        line.done(&["a".to_owned()]);
        assert!(line.waiting.is_empty() && line.out == 0, "nothing is remembered: {line:?}");
    }

    #[test]
    fn a_batch_is_bounded_and_so_is_their_number() {
        let mut line = line(&[("a", 1), ("b", 2), ("c", 3)]);
        assert_eq!(line.take(2, 1).unwrap().len(), 2);
        assert_eq!(line.take(2, 1), None, "as many are out as may be");
        line.done(&["a".to_owned(), "b".to_owned()]);
        assert_eq!(line.take(2, 1).unwrap(), [("c", 3)]);
    }
}
