//! Settles: what the pipe may decide (P1 to P3, P6, P12), and what the source makes of it (S9 to S11).

use outbox::Verdict;
use outbox::policy::Outage;
use tokio::time::Instant;

use super::{ClaimNote, Ledger, Progress, Stand, Truth};

impl Ledger {
    /// A relay asks to settle its oldest claim.
    pub(crate) fn judged(&mut self, relay: usize, verdicts: &[Verdict]) {
        let Some(mut note) = self.relays[relay].open.pop_front() else {
            return self.violated("P6", format!("relay {relay} settles what it has not claimed"));
        };
        let (asked, given) = (note.numbers.len(), verdicts.len());
        self.expect(asked == given, "P6", || format!("{given} verdicts for {asked} messages"));
        if let Some(before) = &note.verdicts {
            let same = before == verdicts;
            self.expect(same, "P6", || format!("relay {relay} has changed its mind: {verdicts:?}"));
        } else {
            for (index, verdict) in verdicts.iter().enumerate().take(asked) {
                self.judge_one(relay, &note, index, verdict);
            }
            note.verdicts = Some(verdicts.to_vec());
        }
        self.relays[relay].open.push_front(note);
    }

    fn judge_one(&mut self, relay: usize, note: &ClaimNote, index: usize, verdict: &Verdict) {
        let number = note.numbers[index];
        self.note(|| format!("relay {relay} settles {number}: {verdict:?}"));
        let spent = note.attempts[index];
        if note.defects[index] {
            let right = matches!(verdict, Verdict::Dead { attempts: 0, holds: false, .. });
            return self.expect(right, "P3", || format!("message {number} is a defect, and {verdict:?}"));
        }
        let told = match &note.progress[index] {
            Progress::Told(truth) => Some(truth),
            Progress::Waiting => None,
            Progress::Out => {
                return self.violated("P6", format!("message {number} is settled while it is out"));
            }
        };
        let wrong = || format!("message {number}, {spent} attempts, {told:?}, is settled as {verdict:?}");
        let charges = match told {
            Some(Truth::Rejected { .. }) => true,
            Some(Truth::Unavailable) => self.script.policy.outage == Outage::Count,
            Some(Truth::Delivered) | None => false,
        };
        match verdict {
            Verdict::Done => self.expect(told == Some(&Truth::Delivered), "P1", wrong),
            Verdict::Retry { attempts, after, .. } => {
                self.expect(charges && *attempts == spent + 1, "P2", wrong);
                self.expect(!self.is_last(told, spent), "P3", wrong);
                self.expect(self.is_delay(told, *attempts, *after), "P12", wrong);
            }
            Verdict::Dead { attempts, holds, .. } => {
                self.expect(charges && *attempts == spent + 1, "P2", wrong);
                self.expect(self.is_last(told, spent), "P3", wrong);
                self.expect(*holds == self.script.dead_holds(), "P3", wrong);
            }
            Verdict::Behind => {
                // Whether what it waits for is still not done, a relay cannot always know: an answer got lost, or somebody
                // took over. Then the source lets it go on.
                let has_order = self.script.is_ordered() && self.entries[number].message.key.is_some();
                self.expect(told.is_none() && has_order, "P4", wrong);
            }
            Verdict::Released => {
                let streak = self.script.is_streaky()
                    && self.relays[relay].rejections >= self.script.policy.streak
                    && matches!(told, Some(Truth::Rejected { defect: false, .. }));
                let nothing_learned = told.is_none() || (told == Some(&Truth::Unavailable) && !charges);
                self.expect(nothing_learned || streak, "P2", wrong);
            }
        }
    }

    /// Whether this attempt is the last.
    fn is_last(&self, told: Option<&Truth>, spent: u32) -> bool {
        let permanent = matches!(told, Some(Truth::Rejected { permanent: true, .. }));
        permanent || spent + 1 >= self.script.policy.most_attempts()
    }

    /// Whether a message waits as long as it should.
    fn is_delay(&self, told: Option<&Truth>, attempts: u32, after: std::time::Duration) -> bool {
        let policy = &self.script.policy;
        if let Some(Truth::Rejected { retry_after: Some(wanted), .. }) = told {
            return after == *wanted;
        }
        match &policy.steps {
            Some(steps) => steps.get(attempts as usize - 1) == Some(&after),
            None => policy.retry.delay(attempts, 1.0) <= after && after <= policy.retry.delay(attempts, 0.0),
        }
    }

    /// The source has written down the oldest claim of a relay.
    pub(crate) fn written(&mut self, relay: usize) {
        let stale = self.relays[relay].open.front().is_some_and(|note| note.stale && !note.written);
        let is_owner = self.is_owner(relay) && !stale;
        self.expect(is_owner, "S10", || format!("relay {relay} settled a claim that it had lost"));
        let Some(note) = self.relays[relay].open.front_mut() else { return };
        if std::mem::replace(&mut note.written, true) {
            return;
        }
        let (numbers, verdicts) = (note.numbers.clone(), note.verdicts.clone().unwrap_or_default());
        self.note(|| format!("the source has written {numbers:?} of relay {relay}"));
        let now = Instant::now();
        for (number, verdict) in numbers.into_iter().zip(verdicts) {
            let entry = &mut self.entries[number];
            entry.holder = None;
            match verdict {
                Verdict::Done => entry.stand = Stand::Done,
                Verdict::Retry { after, attempts, .. } => {
                    (entry.stand, entry.attempts) = (Stand::Waiting { due: now + after }, attempts);
                }
                Verdict::Dead { attempts, holds, .. } => {
                    (entry.stand, entry.attempts) = (Stand::Dead { holds }, attempts);
                }
                Verdict::Behind => entry.stand = Stand::Behind,
                Verdict::Released => {}
            }
        }
    }

    /// A relay was told that its oldest claim is settled.
    pub(crate) fn settled(&mut self, relay: usize) {
        self.relays[relay].open.pop_front();
    }

    /// A relay was told that its claims are lost, because its lease ran out or because somebody took over.
    pub(crate) fn lost(&mut self, relay: usize) {
        self.note(|| format!("relay {relay} is told that it lost its claims"));
        let stale = self.relays[relay].open.front().is_some_and(|note| note.stale);
        let really = stale || self.owner != Some(relay) || self.relays[relay].lost || self.is_expired(relay);
        self.expect(really, "S10", || format!("relay {relay} has not lost what it is told it lost"));
        self.relays[relay].lost = true;
    }

    /// A relay was told something that only a person can mend.
    pub(crate) fn broken(&mut self, relay: usize) {
        self.note(|| format!("the source is broken for relay {relay}"));
        self.relays[relay].broken = true;
    }

    /// A relay closes its source; what it had claimed, it forgets. `in_reach` tells whether the source heard it.
    pub(crate) fn closed(&mut self, relay: usize, in_reach: bool) {
        self.note(|| format!("relay {relay} closes the source, heard: {in_reach}"));
        let (stopping, expired) = (self.relays[relay].stopping, self.is_expired(relay));
        if let Some(since) = stopping {
            let in_time = since.elapsed() < self.script.drain;
            let drained = self.relays[relay].open.is_empty() && self.relays[relay].calls == 0;
            let excused = self.relays[relay].lost || self.relays[relay].broken || expired || !in_time;
            self.expect(drained || excused, "P10", || format!("relay {relay} stops without having drained"));
        }
        self.forget(relay);
        self.relays[relay].lease = None;
        self.relays[relay].lost = false;
        if self.owner == Some(relay) {
            match in_reach {
                true => self.give_back(),
                // The source thinks that somebody has it who is no more: the lease must run out.
                false => self.owner = Some(usize::MAX),
            }
        }
    }

    /// A relay was killed.
    pub(crate) fn crashed(&mut self, relay: usize) {
        self.note(|| format!("relay {relay} is dead"));
        self.forget(relay);
        self.relays[relay].ended = true;
    }

    fn forget(&mut self, relay: usize) {
        for note in std::mem::take(&mut self.relays[relay].open) {
            if !note.written {
                self.losses += 1;
                note.numbers.into_iter().for_each(|number| self.entries[number].lost += 1);
            }
        }
    }
}
