//! What a run came to, for people and for scripts.

use std::collections::BTreeMap;

use serde::Serialize;

use super::choice::LeftOut;
use super::ledger::Findings;
use crate::cli::output::Output;

/// A fault that could not be carried out, and why the last time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Failed {
    pub(super) times: u64,
    pub(super) reason: String,
}

/// The result of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) seed: u64,
    /// Where it ran: `sqlite`, `postgres`.
    pub(super) database: &'static str,
    /// `amqp`, `kafka`, or none.
    pub(super) broker: Option<&'static str>,
    pub(super) seconds: u64,
    /// Relays that were ended by SIGKILL.
    pub(super) kills: u64,
    /// How often each fault happened.
    pub(super) faults: BTreeMap<String, u64>,
    pub(super) left_out: Vec<LeftOut>,
    /// Faults that could not be carried out.
    pub(super) failed: BTreeMap<String, Failed>,
    #[serde(flatten)]
    pub(super) findings: Findings,
    /// How often a relay lost its lease, by its own account: by a fault, or because the machine is busy.
    pub(super) lapses: u64,
    /// How many duplicates the faults and the lapses explain.
    pub(super) duplicate_bound: u64,
    /// Relays that ended though nobody ended them, or not as they should.
    pub(super) bad_ends: Vec<String>,
    /// Nothing was to be broken.
    #[serde(skip)]
    pub(super) is_calm: bool,
    /// Whether all promises were kept.
    pub(super) holds: bool,
}

impl Report {
    /// Judges the rest of it.
    pub(super) fn judged(self) -> Self {
        let Findings {
            events, lost, phantom, duplicates, out_of_order, effects_missing, effects_twice, ..
        } = self.findings;
        let wrong = lost + phantom + out_of_order + effects_missing + effects_twice;
        // A run without messages has shown nothing, nor has a fault that never happened.
        let shown = events > 0 && (self.is_calm || !self.faults.is_empty());
        let shown = shown && self.failed.keys().all(|fault| self.faults.contains_key(fault));
        let holds = shown && wrong == 0 && duplicates <= self.duplicate_bound && self.bad_ends.is_empty();
        Self { holds, ..self }
    }

    pub(super) fn print(&self, output: &mut Output) -> std::io::Result<()> {
        if output.is_json() {
            return output.json(self);
        }
        let found = &self.findings;
        let row = |name: &str, count: u64, meaning: &str| {
            vec![name.to_owned(), count.to_string(), meaning.to_owned()]
        };
        let bound =
            format!("arrived more than once; faults and lapses explain {} at most", self.duplicate_bound);
        let rows = [
            row("events", found.events, "committed, and to arrive"),
            row("rolled_back", found.rolled_back, "rolled back, and not to arrive"),
            row("unknown", found.unknown, "whose commit nobody has heard of; may arrive or not"),
            row("kills", self.kills, "relays ended by SIGKILL"),
            row("lost", found.lost, "committed, and never arrived"),
            row("phantom", found.phantom, "arrived, and were never committed"),
            row("duplicates", found.duplicates, &bound),
            row("out_of_order", found.out_of_order, "came first after a later one of their key"),
            row("effects_missing", found.effects_missing, "committed, and without effect"),
            row("effects_twice", found.effects_twice, "effects beyond the first of a message"),
            row("bad_ends", self.bad_ends.len() as u64, "relays that ended otherwise than they should"),
        ];
        output.table(&["what", "count", "meaning"], &rows)?;
        output.line("")?;
        let faults: Vec<Vec<String>> =
            self.faults.iter().map(|(name, count)| vec![name.clone(), count.to_string()]).collect();
        output.table(&["fault", "times"], &faults)?;
        output.line("")?;
        for LeftOut { fault, reason } in &self.left_out {
            output.line(format!("left out: {fault}: {reason}"))?;
        }
        let servers =
            self.broker.map_or(self.database.to_owned(), |broker| format!("{} and {broker}", self.database));
        let verdict = if self.holds { "all promises hold" } else { "it is NOT SHOWN that all promises hold" };
        output.line(format!("{servers}, {} s, seed {}: {verdict}", self.seconds, self.seed))
    }

    /// What must be looked at, besides the counts.
    pub(super) fn warn(&self, output: &Output) {
        for (fault, Failed { times, reason }) in &self.failed {
            output.warning(format!("the fault '{fault}' failed {times} times: {reason}"), "");
        }
        for end in self.bad_ends.iter().take(10) {
            output.warning(end, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(findings: Findings) -> Report {
        Report {
            seed: 1,
            database: "sqlite",
            broker: None,
            seconds: 1,
            kills: 1,
            faults: BTreeMap::from([("kill".to_owned(), 1)]),
            left_out: Vec::new(),
            failed: BTreeMap::new(),
            findings,
            lapses: 0,
            duplicate_bound: 3,
            bad_ends: Vec::new(),
            is_calm: false,
            holds: false,
        }
        .judged()
    }

    const FINE: Findings = Findings {
        events: 10,
        rolled_back: 1,
        unknown: 1,
        lost: 0,
        phantom: 0,
        duplicates: 3,
        out_of_order: 0,
        effects_missing: 0,
        effects_twice: 0,
    };

    #[test]
    fn it_holds_only_if_everything_does() {
        assert!(report(FINE).holds);
        for broken in [
            Findings { events: 0, ..FINE },
            Findings { lost: 1, ..FINE },
            Findings { phantom: 1, ..FINE },
            Findings { duplicates: 4, ..FINE },
            Findings { out_of_order: 1, ..FINE },
            Findings { effects_missing: 1, ..FINE },
            Findings { effects_twice: 1, ..FINE },
        ] {
            assert!(!report(broken).holds, "{broken:?}");
        }
        assert!(!Report { bad_ends: vec!["ended".to_owned()], ..report(FINE) }.judged().holds);
        assert!(!Report { faults: BTreeMap::new(), ..report(FINE) }.judged().holds);
        assert!(Report { faults: BTreeMap::new(), is_calm: true, ..report(FINE) }.judged().holds);
        let failed = |fault: &str| {
            BTreeMap::from([(fault.to_owned(), Failed { times: 1, reason: "it did not work".to_owned() })])
        };
        assert!(Report { failed: failed("kill"), ..report(FINE) }.judged().holds, "it happened another time");
        assert!(!Report { failed: failed("disk"), ..report(FINE) }.judged().holds);
    }
}
