//! Deliveries: P4, P5 and P7 to P10 of the pipe.

use std::time::Duration;

use outbox::policy::Outage;
use outbox::{Group, Message};

use super::{ClaimNote, Ledger, Progress, Stand, number};

/// What the sink has made of a message, whatever it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Truth {
    Delivered,
    Rejected { permanent: bool, retry_after: Option<Duration>, defect: bool },
    Unavailable,
}

/// A delivery that was begun.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) relay: usize,
    numbers: Vec<usize>,
    /// The claim of each: a relay that lost a message unawares may have it a second time.
    claims: Vec<u64>,
    /// It was begun during an outage, to find out.
    probe: bool,
}

impl Ledger {
    /// A relay begins to deliver.
    pub(crate) fn begin(&mut self, relay: usize, messages: &[Message]) -> Call {
        let numbers: Vec<usize> = messages.iter().map(number).collect();
        self.note(|| format!("relay {relay} delivers {numbers:?}"));
        let (calls, stopping) = (self.relays[relay].calls, self.relays[relay].stopping);
        let (most, batch) = (self.script.concurrency, self.script.batch);
        self.expect(calls < most, "P7", || format!("relay {relay} has {calls} calls out and makes another"));
        self.expect(numbers.len() <= batch, "P7", || format!("relay {relay} delivers {numbers:?} at once"));
        self.expect(stopping.is_none(), "P10", || format!("relay {relay} delivers although it is stopping"));
        let mixed = messages.windows(2).any(|pair| pair[0].kind != pair[1].kind);
        self.expect(self.script.group == Group::None || !mixed, "P7", || format!("{numbers:?} go together"));
        let expired = self.is_expired(relay);
        self.expect(!expired, "P8", || format!("relay {relay} delivers {numbers:?} after its lease"));
        self.probes_only(relay, numbers.len(), "delivers");
        let begun = messages.iter().zip(&numbers);
        let claims = begun.map(|(message, number)| self.begin_one(relay, message, *number)).collect();
        self.relays[relay].calls += 1;
        let now = tokio::time::Instant::now();
        Call { relay, numbers, claims, probe: self.relays[relay].shut.is_some_and(|shut| shut < now) }
    }

    /// Tells of which claim it is.
    fn begin_one(&mut self, relay: usize, message: &Message, number: usize) -> u64 {
        let Some((claim, index)) = self.place(relay, number) else {
            self.violated("P5", format!("relay {relay} delivers {number}, which it has not claimed"));
            return 0;
        };
        let note = &self.relays[relay].open[claim];
        let (is_new, held) = (note.progress[index] == Progress::Waiting, note.held[index]);
        let waits = self.earlier(number).find(|earlier| !self.is_passed_for(relay, note, *earlier));
        let held = held && self.script.is_ordered() && message.key.is_some();
        let attempts = note.attempts[index];
        let is_same = {
            let original = &self.entries[number].message;
            message.payload == original.payload
                && message.key == original.key
                && message.kind == original.kind
        };
        self.expect(is_new, "P5", || format!("relay {relay} delivers {number} twice in one claim"));
        self.expect(is_same, "K8", || format!("message {number} was changed on its way"));
        self.expect(message.attempts == attempts, "P2", || format!("message {number} has lost its attempts"));
        self.expect(!held, "P4", || format!("message {number} is held, and relay {relay} delivers it"));
        if let Some(earlier) = waits {
            self.violated(
                "P4",
                format!("relay {relay} delivers {number} before {earlier} of its key is done"),
            );
        }
        let note = &mut self.relays[relay].open[claim];
        note.progress[index] = Progress::Out;
        note.serial
    }

    /// In which open claim of the relay a message is, and where.
    fn place(&self, relay: usize, number: usize) -> Option<(usize, usize)> {
        let place = |note: &ClaimNote| note.numbers.iter().position(|other| *other == number);
        // The newest: an older one may have been lost.
        let claims = self.relays[relay].open.iter().enumerate().rev();
        claims.filter_map(|(claim, note)| Some((claim, place(note)?))).next()
    }

    /// Whether an earlier message does not keep a later one of its key, as far as the relay can know. `note` is a claim
    /// that may have been taken out of the relay's.
    pub(super) fn is_passed_for(&self, relay: usize, note: &ClaimNote, earlier: usize) -> bool {
        if matches!(self.entries[earlier].stand, Stand::Done | Stand::Dead { holds: false }) {
            return true;
        }
        let claims = self.relays[relay].open.iter().chain([note]);
        claims.into_iter().any(|note| {
            let Some(index) = note.numbers.iter().position(|number| *number == earlier) else { return false };
            match &note.progress[index] {
                Progress::Told(Truth::Delivered) => true,
                Progress::Told(told) => self.is_dead_and_passed(told, note.attempts[index]),
                Progress::Waiting | Progress::Out => note.defects[index],
            }
        })
    }

    fn is_dead_and_passed(&self, told: &Truth, spent: u32) -> bool {
        let policy = &self.script.policy;
        let permanent = matches!(told, Truth::Rejected { permanent: true, .. });
        let charged = *told != Truth::Unavailable || policy.outage == Outage::Count;
        charged && !self.script.dead_holds() && (permanent || spent + 1 >= policy.most_attempts())
    }

    /// The sink has a message, for good.
    pub(crate) fn taken(&mut self, call: &Call, number: usize) {
        self.note(|| format!("the sink has {number} of relay {}", call.relay));
        self.entries[number].taken += 1;
    }

    /// The sink answers.
    pub(crate) fn answered(&mut self, call: &Call, truths: &[Truth], taken: &[bool]) {
        let now = tokio::time::Instant::now();
        let (relay, waits) =
            (call.relay, self.script.policy.outage == Outage::Wait && !self.script.is_streaky());
        self.note(|| format!("the sink tells relay {relay} of {:?}: {truths:?}", call.numbers));
        let ignored = self.relays[relay].lost || self.is_expired(relay);
        for (index, number) in call.numbers.iter().enumerate() {
            let truth = &truths[index];
            let mut first = false;
            let claims = &mut self.relays[relay].open;
            if let Some(note) = claims.iter_mut().find(|note| note.serial == call.claims[index])
                && let Some(index) = note.numbers.iter().position(|other| other == number)
            {
                note.progress[index] = Progress::Told(truth.clone());
                first = note.attempts[index] == 0;
            }
            match truth {
                Truth::Delivered => {}
                Truth::Rejected { defect, .. } => {
                    self.entries[*number].rejected += 1;
                    self.relays[relay].rejections += u32::from(first && !defect);
                }
                Truth::Unavailable => self.entries[*number].unknown += u32::from(taken[index]),
            }
            let relay = &mut self.relays[relay];
            match truth {
                Truth::Unavailable if waits && !ignored && (relay.shut.is_none() || call.probe) => {
                    relay.shut = Some(now);
                }
                Truth::Unavailable | Truth::Rejected { defect: true, .. } => {}
                Truth::Delivered | Truth::Rejected { .. } if call.probe => relay.shut = None,
                Truth::Delivered | Truth::Rejected { .. } => {}
            }
        }
    }

    /// The call is over, answered or dropped.
    pub(crate) fn end(&mut self, call: &Call) {
        self.relays[call.relay].calls -= 1;
    }
}
