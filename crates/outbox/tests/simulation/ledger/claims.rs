//! Claims: S1 to S8 and S13 of the source, P7 to P10 of the pipe; whose the cursor is.

use outbox::{Claim, Lease};
use tokio::time::Instant;

use super::{ClaimNote, Ledger, Nature, Progress, Stand, number};

impl Ledger {
    /// A relay asks for messages.
    pub(crate) fn asked(&mut self, relay: usize, limit: usize) {
        self.note(|| format!("relay {relay} asks for {limit} messages"));
        let (open, stopping) = (self.relays[relay].open.len(), self.relays[relay].stopping);
        let (depth, batch) = (self.script.depth, self.script.batch);
        self.expect(open < depth, "P7", || format!("relay {relay} claims while {open} claims are open"));
        self.expect(limit <= batch, "P7", || format!("relay {relay} asks for {limit} messages"));
        self.expect(stopping.is_none(), "P10", || format!("relay {relay} claims although it is stopping"));
        self.probes_only(relay, limit, "claims");
    }

    /// During an outage there is one probe at a time, when it is due.
    pub(super) fn probes_only(&mut self, relay: usize, count: usize, does: &str) {
        // What was decided in the same instant may be on its way already.
        let Some(shut) = self.relays[relay].shut.filter(|shut| *shut < Instant::now()) else { return };
        let (calls, due) = (self.relays[relay].calls, shut + self.script.policy.probe.delay(1, 1.0));
        let is_probe = count == 1 && calls == 0 && Instant::now() >= due;
        self.expect(is_probe, "P9", || {
            format!("relay {relay} {does} {count} messages during an outage, with {calls} calls out")
        });
    }

    /// Whether the relay's own view is that its claims may be somebody else's.
    pub(crate) fn is_expired(&self, relay: usize) -> bool {
        self.relays[relay].lease.as_ref().is_some_and(Lease::is_expired)
    }

    pub(crate) fn lease(&self, relay: usize) -> Option<Lease> {
        self.relays[relay].lease.clone()
    }

    /// Whether the relay may have the cursor; then it has it, until the lease ends.
    pub(crate) fn take(&mut self, relay: usize, asked: Instant) -> bool {
        let now = Instant::now();
        if self.owner.is_some_and(|owner| owner != relay) && now < self.owned_until {
            return false;
        }
        if self.owner != Some(relay) {
            self.note(|| format!("relay {relay} takes the cursor"));
            self.give_back();
        }
        self.owner = Some(relay);
        self.owned_until = now + self.script.lease;
        let (end, relay) = (asked + self.script.lease, &mut self.relays[relay]);
        match &relay.lease {
            Some(lease) => lease.extend(end),
            None => relay.lease = Some(Lease::until(end)),
        }
        true
    }

    /// Renews the lease of a relay that has the cursor.
    pub(crate) fn renew(&mut self, relay: usize, asked: Instant) {
        let (is_owner, is_expired) = (self.owner == Some(relay), self.is_expired(relay));
        if is_owner {
            self.owned_until = Instant::now() + self.script.lease;
        }
        // A lease that was seen expired must not come back to life.
        if let Some(lease) = self.relays[relay].lease.as_ref().filter(|_| !is_expired) {
            lease.extend(if is_owner { asked + self.script.lease } else { Instant::now() });
        }
    }

    pub(crate) fn cut_lease(&mut self, now: Instant) {
        self.owned_until = self.owned_until.min(now);
    }

    pub(crate) fn is_owner(&self, relay: usize) -> bool {
        self.owner == Some(relay)
    }

    /// Nobody has the cursor: whatever was claimed and not settled may come again.
    pub(super) fn give_back(&mut self) {
        self.owner = None;
        self.entries.iter_mut().for_each(|entry| entry.holder = None);
        self.relays.iter_mut().flat_map(|relay| &mut relay.open).for_each(|note| note.stale = true);
    }

    /// Which messages of a claim the source knows to be broken.
    pub(crate) fn defects(&self, claim: &Claim) -> Vec<usize> {
        let is_defect = |index: &usize| {
            let entry = self.entries.get(number(&claim.messages[*index]));
            entry.is_some_and(|entry| entry.nature == Nature::Defect)
        };
        (0..claim.messages.len()).filter(is_defect).collect()
    }

    /// What the source gave to a relay.
    pub(crate) fn claimed(&mut self, relay: usize, claim: &Claim, limit: usize) {
        let numbers: Vec<usize> = claim.messages.iter().map(number).collect();
        self.note(|| format!("relay {relay} claims {numbers:?}, set aside: {}", claim.is_set_aside()));
        self.expect(numbers.len() <= limit, "S2", || format!("{} messages, {limit} asked", numbers.len()));
        if numbers.is_empty() {
            return self.claimed_nothing(relay);
        }
        self.relays[relay].blind = 0;
        for (index, number) in numbers.iter().enumerate() {
            self.claimed_one(relay, claim, index, *number, &numbers[..index]);
        }
        let serial = self.relays[relay].serial + 1;
        for number in &numbers {
            if let Some(entry) = self.entries.get_mut(*number) {
                entry.holder = Some((relay, serial));
            }
        }
        let mut defects = vec![false; numbers.len()];
        claim.defects().iter().for_each(|(index, _)| defects[*index] = true);
        let note = ClaimNote {
            serial,
            attempts: claim.messages.iter().map(|message| message.attempts).collect(),
            held: (0..numbers.len()).map(|index| claim.is_held(index)).collect(),
            defects,
            progress: vec![Progress::Waiting; numbers.len()],
            numbers,
            verdicts: None,
            written: false,
            stale: false,
        };
        self.relays[relay].serial = serial;
        self.relays[relay].open.push_back(note);
    }

    fn claimed_nothing(&mut self, relay: usize) {
        let now = Instant::now();
        let is_due = |number: &usize| {
            let entry = &self.entries[*number];
            let due = matches!(entry.stand, Stand::Fresh)
                || matches!(entry.stand, Stand::Waiting { due } if due <= now);
            let first = || self.earlier(*number).all(|earlier| self.entries[earlier].is_passed());
            due && entry.holder.is_none() && first()
        };
        let missed = (0..self.entries.len()).find(is_due).filter(|_| self.owner == Some(relay));
        let Some(missed) = missed else {
            self.relays[relay].blind = 0;
            return;
        };
        self.relays[relay].blind += 1;
        // A source may look at what is new and at what was set aside in turns.
        let blind = self.relays[relay].blind;
        self.expect(blind < 3, "S1", || format!("message {missed} is due and does not come"));
    }

    fn claimed_one(&mut self, relay: usize, claim: &Claim, index: usize, number: usize, before: &[usize]) {
        let Some(entry) = self.entries.get(number) else {
            return self.violated("S1", format!("message {number} was never written"));
        };
        let mut given = claim.messages[index].clone();
        let attempts = std::mem::take(&mut given.attempts);
        let (spent, stand, holder) = (entry.attempts, entry.stand, entry.holder);
        let is_same = given == entry.message;
        self.expect(is_same, "S13", || format!("message {number} is not as it was written"));
        self.expect(attempts == spent, "S4", || {
            format!("message {number} comes with {attempts} attempts, {spent} were spent")
        });
        self.expect(holder.is_none(), "S2", || {
            format!("message {number} comes to relay {relay} while {holder:?} has it")
        });
        match stand {
            Stand::Done => self.violated("S3", format!("message {number} is done and comes again")),
            Stand::Dead { .. } => self.violated("S5", format!("message {number} is dead and comes again")),
            Stand::Waiting { due } => {
                let in_time = due <= Instant::now() && claim.is_set_aside();
                self.expect(in_time, "S4", || {
                    format!("message {number} comes too early, or not as set aside")
                });
            }
            Stand::Fresh | Stand::Behind => {}
        }
        let later = before.iter().any(|other| {
            *other > number && self.entries[*other].message.key == self.entries[number].message.key
        });
        let keyed = self.entries[number].message.key.is_some();
        self.expect(!(keyed && later), "S8", || {
            format!("message {number} comes after a later one of its key")
        });
        self.check_held(claim, index, number, before);
    }

    /// A message of whose key something earlier is set aside is flagged, or comes together with it.
    fn check_held(&mut self, claim: &Claim, index: usize, number: usize, before: &[usize]) {
        let held = claim.is_held(index);
        let undone = self.earlier(number).find(|earlier| self.entries[*earlier].is_set_aside());
        let unpassed = self.earlier(number).any(|earlier| !self.entries[earlier].is_passed());
        let together = claim.is_set_aside() && undone.is_some_and(|earlier| before.contains(&earlier));
        match undone {
            Some(earlier) => self.expect(held || together, "S6", || {
                format!("message {number} comes as if {earlier} of its key were not set aside")
            }),
            None => self.expect(!held || unpassed || !self.script.is_ordered(), "S5", || {
                format!("message {number} is flagged as held, and nothing of its key is before it")
            }),
        }
    }
}
