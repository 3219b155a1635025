//! The decisions of the loop, pure: what an outcome means for a message, how long to wait, when to stop
//! sending. No I/O, no clock, no randomness: time and jitter come in as arguments.

use std::borrow::Cow;
use std::time::Duration;

use tokio::time::Instant;

use crate::sink::{Cause, Outcome, Rejection};

/// What became of a message, as the source writes it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Delivered for good.
    Done,
    /// To be tried again after a while.
    Retry {
        /// How long from the moment of settling, on the clock of the source.
        after: Duration,
        /// Attempts spent so far, this one included.
        attempts: u32,
        /// Why.
        cause: Cause,
    },
    /// Set aside until a person decides.
    Dead {
        /// Attempts spent so far, this one included.
        attempts: u32,
        /// Why.
        cause: Cause,
        /// Whether later messages of its key wait for that decision.
        holds: bool,
    },
    /// Not tried, because an earlier message of its key is not done.
    Behind,
    /// Not tried, or tried with nothing learned about it: as if it had never been claimed.
    Released,
}

impl Verdict {
    /// Nobody can handle it: dead without an attempt, and its key goes on.
    pub(crate) fn defect(cause: Cause) -> Self {
        Self::Dead { attempts: 0, cause, holds: false }
    }
}

/// How many messages of a claim, from the front, a log writes down; the rest it puts back as if never read.
///
/// Released messages at the end need no trace, unless a later claim is open: then the reading has gone on
/// past them, and they must be set aside like a retry that is due at once.
pub fn written(verdicts: &[Verdict], later_claim_open: bool) -> usize {
    if later_claim_open {
        return verdicts.len();
    }
    verdicts.iter().rposition(|verdict| *verdict != Verdict::Released).map_or(0, |last| last + 1)
}

/// The longest that a message waits for its next try, whatever the other side asks for: a time beyond what the
/// database can hold would end the pipe.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Whether messages of a key wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Nothing later of a key is in flight until the earlier is done.
    #[default]
    Key,
    /// No order; nothing waits for anything.
    None,
}

/// What a dead message means for its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDead {
    /// Later messages of the key wait until a person retries or skips the dead one.
    #[default]
    Hold,
    /// Later messages of the key go on without it.
    Skip,
}

/// What an outage of the sink means for the messages that met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Outage {
    /// Nothing is charged: the pipe stops, probes, and goes on by itself.
    #[default]
    Wait,
    /// An outage spends an attempt of each message that met it, like a rejection.
    Count,
}

/// Delays that double up to a limit, with jitter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay.
    pub first: Duration,
    /// The longest.
    pub most: Duration,
}

impl Backoff {
    /// The delay before try number `tries + 1`, when `tries` (at least 1) have failed.
    ///
    /// `jitter` in 0..1 takes away up to half of it, so that what failed together does not return together.
    pub fn delay(&self, tries: u32, jitter: f64) -> Duration {
        let doublings = tries.saturating_sub(1).min(30);
        let full = self.first.saturating_mul(1u32 << doublings).min(self.most);
        full.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0)
    }
}

/// The rules of one pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Whether messages of a key wait for each other.
    pub order: Order,
    /// What a dead message means for its key.
    pub on_dead: OnDead,
    /// What an outage means for the messages that met it.
    pub outage: Outage,
    /// After so many attempts a message is dead.
    pub attempts: u32,
    /// Delays between the attempts of a message.
    pub retry: Backoff,
    /// Fixed delays instead, one per failed attempt; after the last the message is dead. None: `retry` and `attempts`.
    pub steps: Option<Vec<Duration>>,
    /// Delays between the probes of a sink that is unavailable.
    pub probe: Backoff,
    /// After so many rejections in a row for one cause the sink is at fault, not the messages. Only first attempts
    /// count: messages that were rejected before come back together, and say nothing new. Defects do not count: of
    /// those the sink was not asked.
    pub streak: u32,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            order: Order::Key,
            on_dead: OnDead::Hold,
            outage: Outage::Wait,
            attempts: 10,
            retry: Backoff { first: Duration::from_secs(1), most: Duration::from_secs(300) },
            steps: None,
            probe: Backoff { first: Duration::from_secs(1), most: Duration::from_secs(30) },
            streak: 20,
        }
    }
}

impl Policy {
    /// The verdict on one message: its outcome, with the attempts that were spent before.
    pub fn judge(&self, outcome: &Outcome, attempts_before: u32, jitter: f64) -> Verdict {
        match outcome {
            Outcome::Delivered => Verdict::Done,
            Outcome::Rejected(rejection) => self.spend(rejection, attempts_before, jitter),
            Outcome::Unavailable(_) if self.outage == Outage::Wait => Verdict::Released,
            Outcome::Unavailable(cause) => {
                let rejection =
                    Rejection { cause: cause.clone(), permanent: false, retry_after: None, defect: false };
                self.spend(&rejection, attempts_before, jitter)
            }
        }
    }

    fn spend(&self, rejection: &Rejection, attempts_before: u32, jitter: f64) -> Verdict {
        let attempts = attempts_before.saturating_add(1);
        let cause = rejection.cause.clone();
        if rejection.permanent || attempts >= self.most_attempts() {
            let holds = self.order == Order::Key && self.on_dead == OnDead::Hold;
            return Verdict::Dead { attempts, cause, holds };
        }
        let after = rejection.retry_after.unwrap_or_else(|| self.delay(attempts, jitter));
        Verdict::Retry { after: after.min(LONGEST_WAIT), attempts, cause }
    }
}

impl Policy {
    /// After so many attempts a message is dead.
    pub fn most_attempts(&self) -> u32 {
        let steps = |steps: &Vec<Duration>| u32::try_from(steps.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.steps.as_ref().map_or(self.attempts, steps)
    }

    /// The delay after `attempts` (at least 1) have failed.
    fn delay(&self, attempts: u32, jitter: f64) -> Duration {
        let step = |steps: &Vec<Duration>| steps.get(attempts.saturating_sub(1) as usize).copied();
        self.steps.as_ref().and_then(step).unwrap_or_else(|| self.retry.delay(attempts, jitter))
    }
}

/// What the breaker has just done, for the log and the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The sink is out of reach or at fault; nothing is claimed until the probe.
    Opened {
        /// Why.
        cause: Cause,
        /// Until when it waits before it probes.
        wait: Duration,
    },
    /// The sink takes messages again.
    Closed,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Closed,
    /// Waiting for the time of the next probe.
    Open {
        until: Instant,
    },
    /// One message is on its way to find out.
    Probing,
}

/// Stops a pipe while its sink cannot take anything, and finds out when it can.
///
/// It opens at the first outage, or at a streak of rejections for one cause; probes with one message; and
/// closes at the first that is delivered (after an outage also at one that is rejected: something answers). A message
/// with a defect, which is judged without the sink, counts neither for nor against it.
#[derive(Debug)]
pub struct Breaker {
    state: State,
    probe: Backoff,
    longest_streak: u32,
    streak: u32,
    streak_code: Cow<'static, str>,
    /// Whether it was opened by a streak: then a rejection does not close it.
    by_streak: bool,
    failures: u32,
}

impl Breaker {
    /// A closed breaker with the policy's delays.
    pub fn new(policy: &Policy) -> Self {
        Self {
            state: State::Closed,
            probe: policy.probe,
            longest_streak: policy.streak,
            streak: 0,
            streak_code: Cow::Borrowed(""),
            by_streak: false,
            failures: 0,
        }
    }

    /// Whether messages may be claimed at full rate.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether one message is on its way to find out.
    pub fn is_probing(&self) -> bool {
        self.state == State::Probing
    }

    /// When the next probe is due, if the breaker waits for it.
    pub fn probe_at(&self) -> Option<Instant> {
        match self.state {
            State::Open { until } => Some(until),
            State::Closed | State::Probing => None,
        }
    }

    /// The time has come: the next message is a probe.
    pub fn start_probe(&mut self) {
        self.state = State::Probing;
    }

    /// The probe has told nothing: the next message is one.
    pub fn abandon_probe(&mut self, now: Instant) {
        if self.is_probing() {
            self.state = State::Open { until: now };
        }
    }

    /// Whether this outcome belongs to the fault for which the breaker is open, and so says nothing about
    /// its message.
    pub fn covers(&self, outcome: &Outcome) -> bool {
        match (outcome, &self.state) {
            (Outcome::Rejected(rejection), State::Open { .. }) => {
                self.by_streak && !rejection.defect && rejection.cause.code == self.streak_code
            }
            _ => false,
        }
    }

    /// Takes note of one outcome of a message on which `spent` attempts were spent before.
    pub fn observe(&mut self, outcome: &Outcome, spent: u32, now: Instant, jitter: f64) -> Option<Change> {
        match outcome {
            Outcome::Delivered => {
                self.streak = 0;
                self.close()
            }
            // The sink was not even asked, so it is neither down nor back; whether it is, the next one finds out.
            Outcome::Rejected(rejection) if rejection.defect => {
                self.abandon_probe(now);
                None
            }
            // What a tenth of the messages meets is their own fault; tried again, that tenth is a streak by itself.
            Outcome::Rejected(_) if spent > 0 && self.is_closed() => None,
            Outcome::Rejected(rejection) => {
                if rejection.cause.code == self.streak_code {
                    self.streak = self.streak.saturating_add(1);
                } else {
                    self.streak = 1;
                    self.streak_code = rejection.cause.code.clone();
                }
                match self.state {
                    State::Closed if self.streak >= self.longest_streak => {
                        self.by_streak = true;
                        self.open(&rejection.cause, now, jitter)
                    }
                    State::Probing if self.by_streak => self.open(&rejection.cause, now, jitter),
                    State::Probing => self.close(),
                    State::Closed | State::Open { .. } => None,
                }
            }
            Outcome::Unavailable(cause) => match self.state {
                State::Open { .. } => None,
                State::Closed | State::Probing => {
                    self.by_streak = false;
                    self.open(cause, now, jitter)
                }
            },
        }
    }

    fn open(&mut self, cause: &Cause, now: Instant, jitter: f64) -> Option<Change> {
        self.failures = self.failures.saturating_add(1);
        let wait = self.probe.delay(self.failures, jitter);
        self.state = State::Open { until: now + wait };
        Some(Change::Opened { cause: cause.clone(), wait })
    }

    fn close(&mut self) -> Option<Change> {
        // A late success of a batch that was sent before the outage proves nothing about now.
        if self.state != State::Probing {
            return None;
        }
        self.state = State::Closed;
        self.failures = 0;
        self.streak = 0;
        Some(Change::Closed)
    }
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
