//! How far a partition may be committed: up to the first record that is not done. Pure.

use std::collections::BTreeSet;

/// The records of one partition that were read and are not done.
///
/// Offsets have gaps where records were compacted or belong to transactions, so what was read is remembered and not
/// counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Offsets {
    undone: BTreeSet<i64>,
    /// The offset after the last one that was read; none if nothing was.
    end: Option<i64>,
}

impl Offsets {
    /// A record was read; it is not behind.
    pub(super) fn read(&mut self, offset: i64) {
        self.undone.insert(offset);
        self.end = Some(offset + 1);
    }

    /// Whether so much was read already that this offset cannot come, unless the log is another than it was.
    pub(super) fn is_behind(&self, offset: i64) -> bool {
        self.end.is_some_and(|end| offset < end)
    }

    /// Records are done, or safe elsewhere.
    pub(super) fn done(&mut self, offsets: impl IntoIterator<Item = i64>) {
        for offset in offsets {
            self.undone.remove(&offset);
        }
    }

    /// What may be committed once these are done as well: the offset of the first record that is not, or the end of what
    /// was read. None if nothing was read.
    pub(super) fn after(&self, done: &BTreeSet<i64>) -> Option<i64> {
        self.undone.iter().copied().find(|offset| !done.contains(offset)).or(self.end)
    }

    /// Where reading goes on; none if nothing was read.
    pub(super) fn end(&self) -> Option<i64> {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn none() -> BTreeSet<i64> {
        BTreeSet::new()
    }

    #[test]
    fn nothing_is_committed_past_a_record_that_is_not_done() {
        let mut offsets = Offsets::default();
        assert_eq!((offsets.after(&none()), offsets.end()), (None, None));
        for offset in [5, 6, 9, 10] {
            offsets.read(offset);
        }
        assert_eq!(offsets.after(&none()), Some(5));
        assert_eq!(offsets.after(&BTreeSet::from([6, 9])), Some(5), "the first holds up the rest");
        offsets.done([6, 9]);
        assert_eq!(offsets.after(&BTreeSet::from([5])), Some(10));
        offsets.done([5, 10]);
        assert_eq!(offsets.after(&none()), Some(11));
        assert!(offsets.is_behind(10) && !offsets.is_behind(11));
    }

    proptest! {
        /// Whatever is done in whatever order: the offset never passes one that is not, and passes all that it can.
        #[test]
        fn the_offset_is_that_of_the_first_undone(
            gaps in prop::collection::vec(1_i64..4, 1..60),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..80),
        ) {
            let mut offsets = Offsets::default();
            let mut undone = BTreeSet::new();
            let (mut next, mut committed) = (100, 0);
            let mut gaps = gaps.into_iter();
            for step in order {
                // Some are read between the others.
                if let Some(gap) = gaps.next() {
                    next += gap;
                    prop_assert!(!offsets.is_behind(next));
                    offsets.read(next);
                    undone.insert(next);
                }
                let Some(offset) = undone.iter().copied().nth(step.index(undone.len().max(1))) else { continue };
                let without = undone.iter().copied().find(|other| *other != offset).unwrap_or(next + 1);
                prop_assert_eq!(offsets.after(&BTreeSet::from([offset])), Some(without));
                offsets.done([offset]);
                undone.remove(&offset);
                let now = offsets.after(&none()).unwrap();
                prop_assert_eq!(now, undone.first().copied().unwrap_or(next + 1));
                prop_assert!(now >= committed, "it never goes back");
                committed = now;
            }
        }
    }
}
