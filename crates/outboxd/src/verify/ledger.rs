//! What was written, noted by the producers after the fact; what arrived, noted by the recorder; and the judgement.
//!
//! A message takes six bytes here, since a long run has millions of them.

use std::collections::HashMap;

use serde::Serialize;

use super::tag::{Run, Tag};

/// So many messages are named when something is wrong.
const SHOWN: usize = 1000;

/// How a transaction ended, as far as its producer knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The answer to COMMIT was lost, or it is still open: its messages may arrive or not.
    Unknown,
    /// COMMIT returned: its messages must arrive.
    Committed,
    /// Rolled back: its messages must not arrive.
    RolledBack,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    key: u16,
    end: End,
    arrived: bool,
    /// How many effects there are, or many.
    effects: u8,
}

/// The book of a run.
#[derive(Debug)]
pub(super) struct Ledger {
    run: Run,
    /// By producer and number.
    shelves: Vec<Vec<Entry>>,
    /// The highest number that arrived, by producer and key.
    newest: HashMap<(u8, u16), u32>,
    /// Committed, and not there yet.
    missing: u64,
    committed: u64,
    arrived: u64,
    duplicates: u64,
    /// The first of those that arrived out of order, and how many there were.
    overtaken: Vec<Tag>,
    out_of_order: u64,
    /// Arrivals of what nobody wrote.
    strangers: u64,
    /// Effects of what nobody wrote.
    strange_effects: u64,
}

/// What the run came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(super) struct Findings {
    /// Messages whose commit returned.
    pub(super) events: u64,
    /// Messages that were rolled back.
    pub(super) rolled_back: u64,
    /// Messages of whose commit nobody knows.
    pub(super) unknown: u64,
    /// Committed, and never arrived.
    pub(super) lost: u64,
    /// Arrived or took effect, and were rolled back or never written.
    pub(super) phantom: u64,
    /// Arrivals beyond the first of a message.
    pub(super) duplicates: u64,
    /// Arrivals, each the first of its message, after a later one of the same key.
    pub(super) out_of_order: u64,
    /// Committed, and without effect.
    pub(super) effects_missing: u64,
    /// Effects beyond the first of a message.
    pub(super) effects_twice: u64,
}

impl Ledger {
    pub(super) fn new(run: Run) -> Self {
        Self {
            run,
            shelves: (0..=u8::MAX).map(|_| Vec::new()).collect(),
            newest: HashMap::new(),
            missing: 0,
            committed: 0,
            arrived: 0,
            duplicates: 0,
            overtaken: Vec::new(),
            out_of_order: 0,
            strangers: 0,
            strange_effects: 0,
        }
    }

    /// The next message of a producer; nothing is known of it yet.
    pub(super) fn begin(&mut self, producer: u8, key: u16) -> Tag {
        let shelf = &mut self.shelves[usize::from(producer)];
        let number = u32::try_from(shelf.len()).unwrap_or(u32::MAX);
        shelf.push(Entry { key, end: End::Unknown, arrived: false, effects: 0 });
        Tag { producer, key, number }
    }

    /// Notes how the transaction of these messages ended. They may have arrived already.
    pub(super) fn end(&mut self, tags: &[Tag], end: End) {
        for tag in tags {
            let Some(entry) = self.shelves[usize::from(tag.producer)].get_mut(tag.number as usize) else {
                continue;
            };
            entry.end = end;
            self.missing += u64::from(end == End::Committed && !entry.arrived);
            self.committed += u64::from(end == End::Committed);
        }
    }

    /// The message of an id, if a producer has begun it.
    fn known(&self, id: &str) -> Option<Tag> {
        let tag = self.run.tag(id)?;
        ((tag.number as usize) < self.shelves[usize::from(tag.producer)].len()).then_some(tag)
    }

    fn entry(&mut self, tag: Tag) -> &mut Entry {
        &mut self.shelves[usize::from(tag.producer)][tag.number as usize]
    }

    /// Notes an arrival: the id that it bears, and what it says.
    pub(super) fn arrival(&mut self, id: &str, payload: &[u8]) {
        let run = self.run;
        let Some(tag) = self.known(id).filter(|tag| run.payload(*tag).as_bytes() == payload) else {
            self.strangers += 1;
            return;
        };
        let entry = self.entry(tag);
        if entry.arrived {
            self.duplicates += 1;
            return;
        }
        entry.arrived = true;
        let was_missing = entry.end == End::Committed;
        self.missing -= u64::from(was_missing);
        self.arrived += 1;
        if tag.key == 0 {
            return;
        }
        // A repetition is no disorder: what comes for the first time is in order.
        let newest = self.newest.entry((tag.producer, tag.key)).or_default();
        if tag.number < *newest {
            self.out_of_order += 1;
            if self.overtaken.len() < SHOWN {
                self.overtaken.push(tag);
            }
        }
        *newest = tag.number.max(*newest);
    }

    /// Whether this message has arrived.
    pub(super) fn has_arrived(&self, id: &str) -> bool {
        let arrived = |tag: Tag| self.shelves[usize::from(tag.producer)][tag.number as usize].arrived;
        self.known(id).is_some_and(arrived)
    }

    /// Forgets the effects, to count them anew.
    pub(super) fn forget_effects(&mut self) {
        self.shelves.iter_mut().flatten().for_each(|entry| entry.effects = 0);
        self.strange_effects = 0;
    }

    /// Notes an effect of the message with this id.
    pub(super) fn effect(&mut self, id: &str) {
        let Some(tag) = self.known(id) else {
            self.strange_effects += 1;
            return;
        };
        let entry = self.entry(tag);
        entry.effects = entry.effects.saturating_add(1);
    }

    /// How many messages are committed and not there yet.
    pub(super) fn missing(&self) -> u64 {
        self.missing
    }

    /// How many messages are committed.
    pub(super) fn committed(&self) -> u64 {
        self.committed
    }

    /// How many different messages have arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// What somebody must look at who wants to know why: what is wrong with which message.
    pub(super) fn suspects(&self) -> Vec<(&'static str, Tag)> {
        let overtaken = self.overtaken.iter().map(|tag| ("out of order", *tag));
        let entries = (0..=u8::MAX).zip(&self.shelves).flat_map(|(producer, shelf)| {
            (0..=u32::MAX).zip(shelf).map(move |(number, entry)| (producer, number, entry))
        });
        let wrong = entries.filter_map(|(producer, number, entry)| {
            let what = match entry {
                Entry { end: End::Committed, arrived: false, .. } => "lost",
                Entry { end: End::RolledBack, arrived: true, .. } => "phantom",
                Entry { end: End::Committed, effects: 0, .. } => "without effect",
                Entry { effects: 2.., .. } => "with effects twice",
                _ => return None,
            };
            Some((what, Tag { producer, key: entry.key, number }))
        });
        overtaken.chain(wrong).take(SHOWN).collect()
    }

    /// The judgement.
    pub(super) fn findings(&self) -> Findings {
        let mut found = Findings {
            phantom: self.strangers + self.strange_effects,
            duplicates: self.duplicates,
            out_of_order: self.out_of_order,
            ..Findings::default()
        };
        for entry in self.shelves.iter().flatten() {
            let has_effect = entry.effects > 0;
            found.effects_twice += u64::from(entry.effects.saturating_sub(1));
            match entry.end {
                End::Unknown => found.unknown += 1,
                End::Committed => {
                    found.events += 1;
                    found.lost += u64::from(!entry.arrived);
                    found.effects_missing += u64::from(!has_effect);
                }
                End::RolledBack => {
                    found.rolled_back += 1;
                    found.phantom += u64::from(entry.arrived || has_effect);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: u64 = 77;

    /// Four committed messages of one key, one without a key, one rolled back, one unknown; the committed ones have
    /// had their effect.
    fn book() -> (Ledger, Vec<Tag>) {
        let run = Run::new(RUN);
        let mut ledger = Ledger::new(run);
        let tags: Vec<Tag> = [5, 5, 5, 5, 0, 5, 5].map(|key| ledger.begin(1, key)).to_vec();
        ledger.end(&tags[..5], End::Committed);
        ledger.end(&tags[5..6], End::RolledBack);
        ledger.end(&tags[6..], End::Unknown);
        tags[..5].iter().for_each(|tag| ledger.effect(&run.id(*tag).to_string()));
        (ledger, tags)
    }

    fn judge(order: &[usize]) -> Findings {
        let (mut ledger, tags) = book();
        let run = Run::new(RUN);
        for index in order {
            ledger.arrival(&run.id(tags[*index]).to_string(), run.payload(tags[*index]).as_bytes());
        }
        ledger.findings()
    }

    const RIGHT: Findings = Findings {
        events: 5,
        rolled_back: 1,
        unknown: 1,
        lost: 0,
        phantom: 0,
        duplicates: 0,
        out_of_order: 0,
        effects_missing: 0,
        effects_twice: 0,
    };

    #[test]
    fn all_that_is_committed_in_order_per_key_is_right_with_or_without_what_nobody_knows() {
        assert_eq!(judge(&[0, 1, 2, 3, 4]), RIGHT);
        assert_eq!(judge(&[4, 0, 1, 2, 3, 6]), RIGHT);
    }

    #[test]
    fn a_commit_may_be_noted_after_the_arrival() {
        let run = Run::new(RUN);
        let mut ledger = Ledger::new(run);
        let tag = ledger.begin(0, 1);
        ledger.arrival(&run.id(tag).to_string(), run.payload(tag).as_bytes());
        ledger.end(&[tag], End::Committed);
        assert_eq!((ledger.missing(), ledger.findings().lost, ledger.findings().phantom), (0, 0, 0));
        let late = ledger.begin(0, 1);
        ledger.end(&[late], End::Committed);
        assert_eq!((ledger.missing(), ledger.findings().lost), (1, 1));
    }

    #[test]
    fn what_does_not_arrive_is_lost() {
        assert_eq!(judge(&[0, 1, 3]), Findings { lost: 2, ..RIGHT });
    }

    #[test]
    fn what_was_rolled_back_or_never_written_is_a_phantom() {
        assert_eq!(judge(&[0, 1, 2, 3, 4, 5]), Findings { phantom: 1, ..RIGHT });
        let (mut ledger, tags) = book();
        let run = Run::new(RUN);
        // Of another run, of a number that nobody wrote, and with words that are not its own.
        ledger.arrival(&Run::new(1).id(tags[0]).to_string(), b"{}");
        let unwritten = Tag { number: 100, ..tags[0] };
        ledger.arrival(&run.id(unwritten).to_string(), run.payload(unwritten).as_bytes());
        ledger.arrival(&run.id(tags[0]).to_string(), b"{}");
        ledger.effect("nobody");
        ledger.effect(&run.id(tags[5]).to_string());
        let found = ledger.findings();
        assert_eq!((found.phantom, found.lost), (5, 5));
    }

    #[test]
    fn repetitions_are_counted_and_a_rewind_is_no_disorder() {
        assert_eq!(judge(&[0, 1, 2, 0, 1, 2, 3, 4, 4]), Findings { duplicates: 4, ..RIGHT });
    }

    #[test]
    fn what_comes_first_after_a_later_one_of_its_key_is_out_of_order() {
        assert_eq!(judge(&[0, 2, 1, 3, 4]), Findings { out_of_order: 1, ..RIGHT });
        assert_eq!(judge(&[3, 2, 1, 0, 4]), Findings { out_of_order: 3, ..RIGHT });
    }

    #[test]
    fn what_is_wrong_is_named() {
        let (mut ledger, tags) = book();
        let run = Run::new(RUN);
        for index in [0, 2, 1, 5] {
            ledger.arrival(&run.id(tags[index]).to_string(), run.payload(tags[index]).as_bytes());
        }
        ledger.effect(&run.id(tags[0]).to_string());
        let expected =
            [("out of order", 1), ("with effects twice", 0), ("lost", 3), ("lost", 4), ("phantom", 5)];
        assert_eq!(ledger.suspects(), expected.map(|(what, index)| (what, tags[index])));
    }

    #[test]
    fn effects_are_held_against_messages() {
        let (mut ledger, tags) = book();
        let run = Run::new(RUN);
        tags[..5].iter().for_each(|tag| {
            ledger.arrival(&run.id(*tag).to_string(), run.payload(*tag).as_bytes());
        });
        ledger.effect(&run.id(tags[1]).to_string());
        ledger.effect(&run.id(tags[1]).to_string());
        assert_eq!(ledger.findings(), Findings { effects_twice: 2, ..RIGHT });
        ledger.forget_effects();
        assert_eq!(ledger.findings(), Findings { effects_missing: 5, ..RIGHT });
    }
}
