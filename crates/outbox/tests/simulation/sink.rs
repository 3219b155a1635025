//! The sink of a life: it takes, rejects, is away and does not answer, by the dice, and tells the ledger the truth.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outbox::{Cause, Message, Outcome, Rejection, Sink, code};
use tokio::time::sleep;

use crate::ledger::{Call, Nature, Truth, number};
use crate::lie::Lie;
use crate::world::{Mood, State, World};

/// The sink as one relay reaches it.
pub(crate) struct Moody {
    relay: usize,
    world: Arc<World>,
}

/// What will become of a call.
struct Fate {
    truths: Vec<Truth>,
    taken: Vec<bool>,
    /// How long until it is taken, and from then until the answer.
    until_taken: Duration,
    until_answer: Duration,
}

/// A call that is out; also one that nobody waits for any more has an end.
struct Out {
    world: Arc<World>,
    call: Call,
}

impl Drop for Out {
    fn drop(&mut self) {
        self.world.lock().ledger.end(&self.call);
    }
}

impl Moody {
    pub(crate) fn new(relay: usize, world: Arc<World>) -> Self {
        Self { relay, world }
    }

    fn fate(&self, messages: &[Message]) -> Fate {
        let mut state = self.world.lock();
        let faults = self.world.script.faults;
        let patience = self.world.script.patience;
        let (calm, mood) = (state.calm, state.mood);
        let slow = !calm && state.dice.happens(faults.slow);
        let unknown = slow || (!calm && state.dice.happens(faults.unknown));
        let mut fate = Fate {
            truths: Vec::new(),
            taken: Vec::new(),
            until_taken: state.dice.millis(0, 20),
            until_answer: if slow { patience } else { state.dice.millis(0, 10) },
        };
        if state.dice.happens(500) {
            // Each pause is work for the clock.
            (fate.until_taken, fate.until_answer) = (fate.until_taken + fate.until_answer, Duration::ZERO);
        }
        for message in messages {
            let truth = if mood == Mood::Away || unknown {
                Truth::Unavailable
            } else {
                truth(&mut state, number(message), faults.rejected)
            };
            let taken = match truth {
                Truth::Delivered => true,
                Truth::Rejected { .. } => false,
                Truth::Unavailable => unknown && state.dice.happens(500),
            };
            fate.truths.push(truth);
            fate.taken.push(taken);
        }
        fate
    }
}

fn rejected(permanent: bool, defect: bool, retry_after: Option<Duration>) -> Truth {
    Truth::Rejected { permanent, retry_after, defect }
}

fn truth(state: &mut State, number: usize, chance: u64) -> Truth {
    let (nature, before) = (state.ledger.entry(number).nature, state.ledger.entry(number).rejected);
    match nature {
        Nature::Poison => rejected(true, false, None),
        Nature::Unfit => rejected(true, true, None),
        Nature::Sick(times) if before < times => {
            let retry_after = state.dice.happens(200).then(|| state.dice.millis(0, 300));
            rejected(false, false, retry_after)
        }
        _ if state.mood == Mood::Refusing => rejected(false, false, None),
        _ if !state.calm && state.dice.happens(chance) => rejected(false, false, None),
        _ => Truth::Delivered,
    }
}

fn outcome(truth: &Truth) -> Outcome {
    match truth {
        Truth::Delivered => Outcome::Delivered,
        Truth::Unavailable => Outcome::Unavailable(Cause::new(code::TIMEOUT, "away")),
        Truth::Rejected { permanent, retry_after, defect } => Outcome::Rejected(Rejection {
            cause: Cause::new(code::HANDLER, "told to fail"),
            permanent: *permanent,
            retry_after: *retry_after,
            defect: *defect,
        }),
    }
}

#[async_trait]
impl Sink for Moody {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let call = self.world.lock().ledger.begin(self.relay, messages);
        let out = Out { world: self.world.clone(), call };
        let Fate { truths, taken, until_taken, until_answer } = self.fate(messages);
        if self.world.lie == Lie::Silence && messages.len() > 1 {
            return std::future::pending().await;
        }
        pause(until_taken).await;
        {
            let mut state = self.world.lock();
            for (message, _) in messages.iter().zip(&taken).filter(|(_, taken)| **taken) {
                state.ledger.taken(&out.call, number(message));
            }
        }
        pause(until_answer).await;
        self.world.lock().ledger.answered(&out.call, &truths, &taken);
        lie_about(self.world.lie, truths.iter().map(outcome).collect())
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

/// The answers as a sink gives them that breaks its contract.
fn lie_about(lie: Lie, mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
    let rejection = outcomes.iter().find(|outcome| matches!(outcome, Outcome::Rejected(_))).cloned();
    for outcome in &mut outcomes {
        match (lie, &*outcome) {
            (Lie::DeliveredUnknown, Outcome::Unavailable(_)) => *outcome = Outcome::Delivered,
            (Lie::ChargedOutage, Outcome::Unavailable(cause)) => *outcome = Outcome::rejected(cause.clone()),
            (Lie::RejectedTogether, _) => *outcome = rejection.clone().unwrap_or(Outcome::Delivered),
            _ => {}
        }
    }
    if lie == Lie::ShuffledOutcomes {
        outcomes.reverse();
    }
    outcomes
}
