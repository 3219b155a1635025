//! Processes that are killed between any two steps, and started again.
//!
//! A parent writes events, some of which it rolls back, and notes what is committed. A relay in a process of its
//! own carries them and kills itself with SIGKILL at a step of `failpoint::STEPS`; another takes its place, again
//! and again. In the end everything that was committed has arrived, nothing else has, the first arrivals of each
//! key are in order, and what arrived twice was in flight at a crash.
//!
//! `OUTBOX_KILLS` sets how many relays are killed in all (200), `OUTBOX_SEED` repeats the choices of a run.

mod child;
mod consumer;
mod ledger;
mod log;
mod relay;
mod scene;
mod sharing;
mod steps;

const CURSOR: &str = "crash";
const EXCHANGE: &str = "crash.events";
const QUEUE: &str = "crash";

/// The type of messages that a handler fails at first.
const FAILING: &str = "crash.fails";

/// How many relays a test kills, which asks for so many of a thousand.
fn kills(of_thousand: usize) -> usize {
    let all: usize = variable("OUTBOX_KILLS").unwrap_or(200);
    (all * of_thousand).div_ceil(1000)
}

fn seed() -> u64 {
    variable("OUTBOX_SEED").unwrap_or_else(rand::random)
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}
