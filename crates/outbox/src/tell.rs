//! What the log says of a running pipe: what a person may have to act on, once, and never a payload.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::field::display;

use crate::message::{Message, MessageId};
use crate::policy::{Change, Verdict};
use crate::sink::Cause;
use crate::stats::Stats;

/// While work goes on without a break, this is a cycle.
const LONG_CYCLE: Duration = Duration::from_secs(5);

/// Messages that trickle in make no more lines than this.
const BETWEEN_CYCLES: Duration = Duration::from_secs(1);

/// What was decided about a message, unless it went well or has to do with another one.
pub(crate) fn verdict(pipe: &str, message: &Message, verdict: &Verdict) {
    let Message { id, kind, .. } = message;
    match verdict {
        Verdict::Done | Verdict::Behind | Verdict::Released => {}
        Verdict::Retry { after, attempts, cause } => {
            tracing::debug!(pipe, %id, r#type = kind, attempts, ?after, %cause, "rejected; will be tried again");
        }
        Verdict::Dead { attempts, cause, .. } => {
            tracing::warn!(pipe, %id, r#type = kind, attempts, %cause, "dead: set aside until a person decides");
        }
    }
}

/// An inbox knew a message already: it has no effect again.
pub(crate) fn duplicate(consumer: &str, id: &MessageId) {
    tracing::debug!(%id, consumer, "known already, not handled again");
    #[cfg(feature = "metrics")]
    crate::figures::duplicate(consumer);
}

/// A cursor was taken from somebody whose lease was over, and who has not given it back.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn takeover(cursor: &str, before: &str) {
    tracing::info!(cursor, before, "took the cursor over: the lease of its owner was over");
    #[cfg(feature = "metrics")]
    crate::figures::takeover(cursor);
}

/// What the breaker did. Once per outage: the probes that follow say nothing new.
pub(crate) fn breaker(pipe: &str, change: &Change, was_open: bool) {
    match change {
        Change::Opened { cause, wait } if !was_open => {
            tracing::warn!(pipe, %cause, ?wait, "the sink is unavailable; nothing is charged");
        }
        Change::Opened { .. } => {}
        Change::Closed => tracing::info!(pipe, "the sink is back"),
    }
}

/// One line per cycle: how many were delivered, failed, were skipped, and for which cause most of them failed. A line per
/// attempt would bury the rest when everything fails.
///
/// A cycle ends when something was worked off and nothing is in flight any more. An idle pipe says nothing. What
/// is left to tell when the pipe ends, however it does, is told then.
#[derive(Debug)]
pub(crate) struct Cycle {
    pipe: String,
    stats: Arc<Stats>,
    told: Work,
    told_at: Option<Instant>,
    /// Since when there is something to tell.
    since: Option<Instant>,
    /// Why messages failed since the last line, by code: how many, and the newest of them.
    causes: BTreeMap<String, (u64, Cause)>,
}

/// What was worked off since the pipe was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Work {
    delivered: u64,
    failed: u64,
    skipped: u64,
}

impl Cycle {
    pub(crate) fn new(pipe: &str, stats: Arc<Stats>) -> Self {
        let told = Work::of(&stats);
        Self { pipe: pipe.to_owned(), stats, told, told_at: None, since: None, causes: BTreeMap::new() }
    }

    /// Takes down why messages failed, when they are counted.
    pub(crate) fn note(&mut self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            if let Verdict::Retry { cause, .. } | Verdict::Dead { cause, .. } = verdict {
                let (count, newest) =
                    self.causes.entry(cause.code.to_string()).or_insert_with(|| (0, cause.clone()));
                *count += 1;
                newest.clone_from(cause);
            }
        }
    }

    /// Tells of the cycle if it is over, or else when to look again.
    pub(crate) fn look(&mut self) -> Option<Instant> {
        if Work::of(&self.stats) == self.told {
            return None;
        }
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        let end = if self.stats.in_flight() > 0 {
            since + LONG_CYCLE
        } else {
            self.told_at.map_or(since, |told_at| since.max(told_at + BETWEEN_CYCLES))
        };
        if now < end {
            return Some(end);
        }
        self.tell();
        self.told_at = Some(now);
        None
    }

    fn tell(&mut self) {
        let work = Work::of(&self.stats);
        let Work { delivered, failed, skipped } = work.since(self.told);
        let causes = std::mem::take(&mut self.causes);
        let most = causes.values().max_by_key(|(count, _)| *count);
        let cause = most.map(|(_, cause)| display(cause));
        // That it is not the only one must be seen, or who mends it thinks that all is mended.
        let others = most.map(|(count, _)| failed.saturating_sub(*count)).filter(|others| *others > 0);
        tracing::info!(pipe = self.pipe, delivered, failed, skipped, cause, other_causes = others, "cycle");
        (self.told, self.since) = (work, None);
    }
}

impl Drop for Cycle {
    fn drop(&mut self) {
        if Work::of(&self.stats) != self.told {
            self.tell();
        }
    }
}

impl Work {
    fn of(stats: &Stats) -> Self {
        let failed = stats.retried() + stats.dead();
        Self { delivered: stats.delivered(), failed, skipped: stats.skipped() }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            delivered: self.delivered - earlier.delivered,
            failed: self.failed - earlier.failed,
            skipped: self.skipped - earlier.skipped,
        }
    }
}
