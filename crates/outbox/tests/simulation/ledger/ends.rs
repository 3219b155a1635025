//! How lives end: P5, P10 and P11 of the pipe, K2 of the sink.

use tokio::time::Instant;

use super::{Ledger, Stand};

impl Ledger {
    /// A relay is told to stop. While it is frozen it cannot hear it.
    pub(crate) fn stopping(&mut self, relay: usize, heard: Instant) {
        self.note(|| format!("relay {relay} is told to stop"));
        self.relays[relay].stopping = Some(heard);
    }

    /// A relay has ended by itself, by a stop or an error of its source.
    pub(crate) fn ended(&mut self, relay: usize) {
        self.note(|| format!("relay {relay} has ended"));
        let (stopping, broken) = (self.relays[relay].stopping.is_some(), self.relays[relay].broken);
        self.expect(stopping || broken, "P11", || format!("relay {relay} has ended, and nobody told it to"));
        self.relays[relay].ended = true;
    }

    /// Messages that are neither done, nor dead, nor behind a dead one.
    pub(crate) fn unresolved(&self) -> Vec<usize> {
        let resolved = |number: usize| {
            matches!(self.entries[number].stand, Stand::Done | Stand::Dead { .. })
                || self
                    .earlier(number)
                    .any(|earlier| self.entries[earlier].stand == Stand::Dead { holds: true })
        };
        (0..self.entries.len()).filter(|number| !resolved(*number)).collect()
    }

    /// All relays have ended: what must hold of the whole life.
    pub(crate) fn close(&mut self) {
        let unresolved = self.unresolved();
        self.expect(unresolved.is_empty(), "P11", || {
            format!("{unresolved:?} are neither done nor dead, and nothing goes on")
        });
        let lost = self.entries.iter().position(|entry| entry.stand == Stand::Done && entry.taken == 0);
        self.expect(lost.is_none(), "K2", || format!("{lost:?} is done, and the sink never had it: lost"));
        let often = self.entries.iter().position(|entry| entry.taken > 1 + entry.unknown + entry.lost);
        self.expect(often.is_none(), "P5", || {
            format!("{often:?} came again without a lost claim or an unknown outcome")
        });
        let repeated: u32 = self.entries.iter().map(|entry| entry.taken.saturating_sub(1)).sum();
        let unknown: u32 = self.entries.iter().map(|entry| entry.unknown).sum();
        let bound = self.losses * self.script.batch + unknown as usize;
        self.expect(repeated as usize <= bound, "P5", || format!("{repeated} repetitions, {bound} at most"));
        let open = self.relays.iter().position(|relay| !relay.ended || relay.calls > 0);
        self.expect(open.is_none(), "P10", || format!("relay {open:?} has left something behind"));
    }
}
