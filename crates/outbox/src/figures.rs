//! The figures of a pipe, by type of message, for the facade `metrics`.
//!
//! Names are of the form of Prometheus: base units, `_total` for what only grows. Labels are bounded: a pipe, a type up
//! to [`TYPES`] of them, an outcome, a code. A message is never named.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use metrics::{Counter, Histogram, Unit, counter, describe_counter, describe_histogram, histogram};

use crate::message::Message;
use crate::policy::Verdict;
use crate::sink::Outcome;
use crate::watch::{Judged, Watch};

/// Messages taken from the source for the first time, or again after they were given back untried.
pub const CLAIMED: &str = "outbox_claimed_total";
/// Messages that the sink has taken.
pub const DELIVERED: &str = "outbox_delivered_total";
/// Attempts that failed, by attempt and by what follows: `retry`, `dead`.
pub const FAILED: &str = "outbox_failed_total";
/// The same by code of the cause.
pub const CAUSES: &str = "outbox_causes_total";
/// Messages given back untried, because the sink was not available.
pub const RETURNED: &str = "outbox_returned_total";
/// How long the sink took.
pub const DELIVERY_SECONDS: &str = "outbox_delivery_seconds";
/// From the writing of a message to the confirmation of the sink.
pub const LAG_SECONDS: &str = "outbox_lag_seconds";
/// Messages that an inbox knew already, by consumer.
pub const DUPLICATES: &str = "outbox_duplicates_total";
/// How often a cursor was taken from another relay whose lease was over.
pub const TAKEOVERS: &str = "outbox_lease_takeovers_total";

/// A pipe tells so many types apart. Whoever writes messages chooses them, so there must be a bound.
pub const TYPES: usize = 100;

/// What stands for the types beyond the bound.
const OTHER: &str = "other";

/// From this attempt on they are told together.
const MANY: u32 = 5;

/// Counts and measures what a pipe does; see [`Pipe::watch`](crate::Pipe::watch).
#[derive(Debug)]
pub struct Figures {
    pipe: String,
    kinds: Mutex<HashMap<String, Kind>>,
}

/// The figures of one type, looked up once.
#[derive(Debug, Clone)]
struct Kind {
    label: String,
    claimed: Counter,
    delivered: Counter,
    returned: Counter,
    delivery: Histogram,
    lag: Histogram,
}

impl Figures {
    /// The figures of the pipe of this name.
    pub fn new(pipe: impl Into<String>) -> Self {
        Self { pipe: pipe.into(), kinds: Mutex::default() }
    }

    fn kind(&self, name: &str) -> Kind {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let label = if kinds.contains_key(name) || kinds.len() < TYPES { name } else { OTHER };
        if let Some(known) = kinds.get(label) {
            return known.clone();
        }
        let (pipe, kind) = (&self.pipe, label.to_owned());
        let made = Kind {
            claimed: counter!(CLAIMED, "pipe" => pipe.clone(), "type" => kind.clone()),
            delivered: counter!(DELIVERED, "pipe" => pipe.clone(), "type" => kind.clone()),
            returned: counter!(RETURNED, "pipe" => pipe.clone(), "type" => kind.clone()),
            delivery: histogram!(DELIVERY_SECONDS, "pipe" => pipe.clone(), "type" => kind.clone()),
            lag: histogram!(LAG_SECONDS, "pipe" => pipe.clone(), "type" => kind.clone()),
            label: kind,
        };
        kinds.insert(label.to_owned(), made.clone());
        made
    }

    fn failed(&self, kind: &Kind, attempt: u32, code: &str, then: &'static str) {
        let attempt = if attempt < MANY { attempt.to_string() } else { format!("{MANY} or more") };
        let (pipe, label) = (self.pipe.clone(), kind.label.clone());
        counter!(FAILED, "pipe" => pipe.clone(), "type" => label, "attempt" => attempt, "then" => then)
            .increment(1);
        counter!(CAUSES, "pipe" => pipe, "code" => code.to_owned()).increment(1);
    }
}

impl Watch for Figures {
    fn claimed(&self, messages: &[Message]) {
        for message in messages.iter().filter(|message| message.attempts == 0) {
            self.kind(&message.kind).claimed.increment(1);
        }
    }

    fn judged(&self, judged: &Judged<'_>) {
        let Judged { message, outcome, verdict, took } = judged;
        let kind = self.kind(&message.kind);
        if !matches!(outcome, Outcome::Unavailable(_)) {
            kind.delivery.record(*took);
        }
        match verdict {
            Verdict::Done => {
                kind.delivered.increment(1);
                let lag = Timestamp::now().duration_since(message.occurred_at).as_secs_f64();
                kind.lag.record(lag.max(0.0));
            }
            Verdict::Retry { attempts, cause, .. } => self.failed(&kind, *attempts, &cause.code, "retry"),
            Verdict::Dead { attempts, cause, .. } => self.failed(&kind, *attempts, &cause.code, "dead"),
            Verdict::Released => kind.returned.increment(1),
            Verdict::Behind => {}
        }
    }
}

/// An inbox knew a message already.
pub(crate) fn duplicate(consumer: &str) {
    counter!(DUPLICATES, "consumer" => consumer.to_owned()).increment(1);
}

/// A cursor, which has the name of its pipe, was taken over.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) fn takeover(cursor: &str) {
    counter!(TAKEOVERS, "pipe" => cursor.to_owned()).increment(1);
}

/// Tells the recorder what the figures are.
pub fn describe() {
    describe_counter!(CLAIMED, "Messages taken from the source, without those for a further attempt");
    describe_counter!(DELIVERED, "Messages that the sink has taken");
    describe_counter!(FAILED, "Attempts that failed, by attempt and by what follows");
    describe_counter!(CAUSES, "Attempts that failed, by code of the cause");
    describe_counter!(RETURNED, "Messages given back untried, because the sink was not available");
    describe_counter!(DUPLICATES, "Messages that an inbox knew already");
    describe_counter!(TAKEOVERS, "How often a cursor was taken from another relay whose lease was over");
    describe_histogram!(DELIVERY_SECONDS, Unit::Seconds, "How long the sink took");
    describe_histogram!(LAG_SECONDS, Unit::Seconds, "From the writing of a message to its confirmation");
}
