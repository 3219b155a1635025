//! Whether the sink is asked at all: while it is known to be down, only now and then, by one message.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::policy::{Backoff, Breaker, Change, Policy};
use crate::sink::{Cause, Outcome};

/// Who may be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Everybody.
    Open,
    /// One, to find out; the others are kept for this cause.
    Probe(Cause),
    /// Nobody, for this cause.
    Shut(Cause),
}

pub(super) struct Gate {
    state: Mutex<State>,
}

struct State {
    breaker: Breaker,
    /// Why the breaker is not closed.
    cause: Cause,
}

impl Gate {
    pub(super) fn new(probe: Backoff) -> Self {
        let breaker = Breaker::new(&Policy { probe, ..Policy::default() });
        Self { state: Mutex::new(State { breaker, cause: Cause::new("", "") }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who may be sent now.
    pub(super) fn way(&self, now: Instant) -> Way {
        let state = self.state();
        if state.breaker.is_closed() {
            return Way::Open;
        }
        let cause = state.cause.clone();
        if state.breaker.probe_at().is_some_and(|at| at <= now) {
            Way::Probe(cause)
        } else {
            Way::Shut(cause)
        }
    }

    /// Whether the caller is the one to find out: another may have been quicker since it asked for the way.
    pub(super) fn start_probe(&self, now: Instant) -> bool {
        let mut state = self.state();
        let is_due = state.breaker.probe_at().is_some_and(|at| at <= now);
        if is_due {
            state.breaker.start_probe();
        }
        is_due
    }

    /// Takes note of what the sink has answered.
    pub(super) fn observe(&self, outcomes: &[Outcome], now: Instant) {
        let mut state = self.state();
        let tells =
            |outcome: &&Outcome| !matches!(outcome, Outcome::Rejected(rejection) if rejection.permanent);
        for outcome in outcomes.iter().filter(tells) {
            match state.breaker.observe(outcome, 0, now, rand::random()) {
                Some(Change::Opened { cause, wait }) => {
                    tracing::warn!(%cause, ?wait, "what is published is kept: the sink takes nothing");
                    state.cause = cause;
                }
                Some(Change::Closed) => tracing::info!("what is published is sent again"),
                None => {}
            }
        }
        // What is refused for good may not even have reached the other side: it says nothing about it.
        if !outcomes.iter().any(|outcome| tells(&outcome)) {
            state.breaker.abandon_probe(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn gate() -> Gate {
        Gate::new(Backoff { first: Duration::from_secs(1), most: Duration::from_secs(1) })
    }

    fn down() -> Outcome {
        Outcome::Unavailable(Cause::new("UNREACHABLE", "gone"))
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_sink_is_down_one_message_finds_out() {
        let (gate, now) = (gate(), Instant::now());
        assert_eq!(gate.way(now), Way::Open);
        gate.observe(&[Outcome::Delivered, down()], now);
        assert!(matches!(gate.way(now), Way::Shut(cause) if cause.code == "UNREACHABLE"));
        let later = now + Duration::from_secs(2);
        assert!(matches!(gate.way(later), Way::Probe(_)));
        assert!(gate.start_probe(later) && !gate.start_probe(later), "only one");
        assert!(matches!(gate.way(later), Way::Shut(_)), "the others do not wait for it");
        gate.observe(&[down()], later);
        assert!(!gate.start_probe(later));
        let later = later + Duration::from_secs(2);
        assert!(gate.start_probe(later));
        gate.observe(&[Outcome::Delivered], later);
        assert_eq!(gate.way(later), Way::Open);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_is_refused_for_good_says_nothing_of_the_sink() {
        let (gate, now) = (gate(), Instant::now());
        let refused = Outcome::refused(Cause::new("TOO_LARGE", "too large"));
        gate.observe(&vec![refused.clone(); 100], now);
        assert_eq!(gate.way(now), Way::Open, "a client that sends nonsense does not stop the others");
        gate.observe(&[down()], now);
        let later = now + Duration::from_secs(2);
        assert!(gate.start_probe(later));
        gate.observe(&[refused], later);
        assert!(gate.start_probe(later), "the next one finds out");
    }
}
