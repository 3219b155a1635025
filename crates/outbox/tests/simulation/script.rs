//! What kind of life it is: the settings of its pipes, and how often what goes wrong.

use std::time::Duration;

use outbox::policy::{Backoff, OnDead, Order, Outage};
use outbox::{Group, Pipe, Policy};

use crate::dice::Dice;

/// How often what goes wrong, in a thousand times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults {
    /// The source cannot be asked.
    pub(crate) source_away: u64,
    /// A settle is written, and its answer gets lost.
    pub(crate) answer_lost: u64,
    /// The source fails in a way that waiting does not help.
    pub(crate) source_broken: u64,
    /// The source cannot be closed, and its lease has to run out.
    pub(crate) not_closed: u64,
    /// A message is rejected this time.
    pub(crate) rejected: u64,
    /// A delivery is answered with a time-out; half of them have arrived.
    pub(crate) unknown: u64,
    /// A delivery takes as long as the sink has patience.
    pub(crate) slow: u64,
}

/// The settings of a life.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) policy: Policy,
    pub(crate) batch: usize,
    pub(crate) depth: usize,
    pub(crate) concurrency: usize,
    pub(crate) group: Group,
    pub(crate) idle: Duration,
    pub(crate) drain: Duration,
    pub(crate) lease: Duration,
    /// The sink's own time limit (K6).
    pub(crate) patience: Duration,
    pub(crate) keys: usize,
    pub(crate) relays: usize,
    pub(crate) turns: usize,
    pub(crate) faults: Faults,
}

/// Longer than any streak of a life.
const NO_STREAK: u32 = 1_000_000;

impl Script {
    pub(crate) fn roll(dice: &mut Dice) -> Self {
        let faults = if dice.happens(150) { Faults::none() } else { Faults::roll(dice) };
        Self {
            policy: policy(dice),
            batch: dice.between(1, 6),
            depth: dice.between(1, 4),
            concurrency: dice.between(1, 3),
            group: dice.pick(&[Group::None, Group::None, Group::Type]),
            idle: dice.millis(200, 1_000),
            drain: dice.pick(&[Duration::from_millis(200), Duration::from_secs(5), Duration::from_secs(30)]),
            lease: dice.millis(500, 4_000),
            patience: dice.millis(100, 3_000),
            keys: dice.between(1, 4),
            relays: dice.between(1, 2),
            turns: dice.between(4, 14),
            faults,
        }
    }

    /// Whether a streak of rejections can open the breaker in this life.
    pub(crate) fn is_streaky(&self) -> bool {
        self.policy.streak < NO_STREAK
    }

    /// Whether messages of a key wait for each other.
    pub(crate) fn is_ordered(&self) -> bool {
        self.policy.order == Order::Key
    }

    /// Whether a dead message keeps the later ones of its key.
    pub(crate) fn dead_holds(&self) -> bool {
        self.is_ordered() && self.policy.on_dead == OnDead::Hold
    }

    /// Gives a pipe the settings.
    pub(crate) fn apply(&self, pipe: Pipe) -> Pipe {
        let pipe = pipe.policy(self.policy.clone()).batch(self.batch).depth(self.depth);
        pipe.concurrency(self.concurrency).group(self.group).idle(self.idle).drain(self.drain)
    }
}

impl Faults {
    fn none() -> Self {
        let never = 0;
        Self {
            source_away: never,
            answer_lost: never,
            source_broken: never,
            not_closed: never,
            rejected: never,
            unknown: never,
            slow: never,
        }
    }

    fn roll(dice: &mut Dice) -> Self {
        Self {
            source_away: dice.pick(&[0, 20, 100]),
            answer_lost: dice.pick(&[0, 50, 200]),
            source_broken: dice.pick(&[0, 0, 10]),
            not_closed: dice.pick(&[0, 100, 500]),
            rejected: dice.pick(&[0, 50, 150, 400]),
            unknown: dice.pick(&[0, 30, 100]),
            slow: dice.pick(&[0, 20, 100]),
        }
    }
}

fn policy(dice: &mut Dice) -> Policy {
    let mut backoff = |most| {
        let first = dice.millis(10, 100);
        Backoff { first, most: first * dice.between(1, most) as u32 }
    };
    let (retry, probe) = (backoff(16), backoff(8));
    let steps = dice.happens(200).then(|| (0..dice.between(1, 4)).map(|_| dice.millis(10, 500)).collect());
    Policy {
        order: dice.pick(&[Order::Key, Order::Key, Order::Key, Order::None]),
        on_dead: dice.pick(&[OnDead::Hold, OnDead::Skip]),
        outage: dice.pick(&[Outage::Wait, Outage::Wait, Outage::Wait, Outage::Count]),
        attempts: dice.between(1, 6) as u32,
        retry,
        steps,
        probe,
        streak: if dice.happens(250) { dice.between(3, 6) as u32 } else { NO_STREAK },
    }
}
