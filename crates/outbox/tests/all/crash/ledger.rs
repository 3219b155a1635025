//! What was committed, noted after the commit; and the check of what arrived against it.

use std::collections::{HashMap, HashSet};

use outbox::Message;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::FAILING;

const KEYS: u32 = 30;

/// The events of a run. Only what is known to be committed is in it.
pub(super) struct Ledger {
    random: StdRng,
    versions: HashMap<u32, u64>,
    /// Key and version of each committed event, by id.
    events: HashMap<String, Option<(u32, u64)>>,
}

/// A transaction that is about to be written.
pub(super) struct Draft {
    pub(super) messages: Vec<Message>,
    pub(super) commits: bool,
    places: Vec<Option<(u32, u64)>>,
}

/// What is wrong with what arrived.
#[derive(Debug, PartialEq, Eq, Default)]
pub(super) struct Report {
    pub(super) lost: Vec<String>,
    pub(super) phantom: Vec<String>,
    pub(super) overtaken: Vec<String>,
    pub(super) duplicates: usize,
}

impl Ledger {
    pub(super) fn new(seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed);
        Self { random, versions: HashMap::new(), events: HashMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Two transactions of different keys, so that both can be open at a time.
    pub(super) fn drafts(&mut self) -> [Draft; 2] {
        [self.draft(0), self.draft(1)]
    }

    fn draft(&mut self, parity: u32) -> Draft {
        let mut versions = self.versions.clone();
        let commits = self.random.random_bool(0.85);
        let (mut messages, mut places) = (Vec::new(), Vec::new());
        for _ in 0..self.random.random_range(1..25) {
            let kind = if self.random.random_bool(0.03) { FAILING } else { "crash.goes" };
            let mut message = Message::new(kind, "");
            let mut place = None;
            if self.random.random_bool(0.8) {
                let key = self.random.random_range(0..KEYS / 2) * 2 + parity;
                let version = versions.entry(key).or_default();
                *version += 1;
                message = message.key(key);
                message.payload = version.to_string().into();
                place = Some((key, *version));
            }
            messages.push(message);
            places.push(place);
        }
        Draft { messages, commits, places }
    }

    /// Notes a draft whose commit has returned.
    pub(super) fn note(&mut self, draft: &Draft) {
        for (message, place) in draft.messages.iter().zip(&draft.places) {
            if let Some((key, version)) = place {
                self.versions.insert(*key, *version);
            }
            self.events.insert(message.id.to_string(), *place);
        }
    }

    /// Compares with the ids that arrived, in the order in which they did.
    pub(super) fn check(&self, arrivals: &[String]) -> Report {
        let mut report = Report::default();
        let (mut seen, mut newest) = (HashSet::new(), HashMap::new());
        for id in arrivals {
            let Some(place) = self.events.get(id) else {
                report.phantom.push(id.clone());
                continue;
            };
            if !seen.insert(id) {
                report.duplicates += 1;
            } else if let Some((key, version)) = place {
                let newest = newest.entry(*key).or_insert(0);
                if *version != *newest + 1 {
                    report.overtaken.push(format!("{id}: version {version} of {key} after {newest}"));
                }
                *newest = *version;
            }
        }
        report.lost = self.events.keys().filter(|id| !seen.contains(id)).cloned().collect();
        report.lost.sort();
        report
    }
}

#[test]
fn a_ledger_sees_what_is_lost_made_up_repeated_or_overtaken() {
    let mut ledger = Ledger::new(1);
    let mut draft = ledger.draft(0);
    draft.messages = ["a", "b", "c"].map(|id| Message::new("t", "").id(id)).to_vec();
    draft.places = vec![Some((0, 1)), Some((0, 2)), None];
    ledger.note(&draft);
    let check = |ids: &[&str]| ledger.check(&ids.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(check(&["a", "c", "b"]), Report::default());
    assert_eq!(check(&["a", "c", "b", "a"]), Report { duplicates: 1, ..Report::default() });
    assert_eq!(check(&["a", "c"]).lost, ["b"]);
    assert_eq!(check(&["a", "b", "c", "d"]).phantom, ["d"]);
    assert_eq!(check(&["b", "a", "c"]).overtaken.len(), 2);
}
