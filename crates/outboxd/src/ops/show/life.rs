//! The life of a message: what is known of it anywhere, and the one word for where it is. Pure.

use jiff::Timestamp;
use outbox::admin::{Entry, Stand};
use outbox::errors::{ErrorRecord, Resolution};
use outbox::letters::Waiting;
use outbox::{Handled, Message};

use crate::cli::dlq::Dead;
use crate::plan::{PipePlan, Plan, Target};

/// All that is known of a message.
#[derive(Debug, Default)]
pub struct Life {
    /// The message itself, from the first place that has it.
    pub message: Option<Message>,
    /// In which outboxes it was written, and how it stands on their pipes.
    pub written: Vec<Written>,
    /// What consumers did with it, in order of time.
    pub handled: Vec<Handled>,
    /// Where it waits for a retry.
    pub retries: Vec<Waiting>,
    /// The dead letters at brokers that it is, each with its place.
    pub letters: Vec<(String, Dead)>,
    /// The errors that it is in error tables, each with the name of its sink.
    pub errors: Vec<(String, ErrorRecord)>,
    /// Where it could not be looked, and why.
    pub unseen: Vec<String>,
}

/// A message in an outbox.
#[derive(Debug)]
pub struct Written {
    /// The name of the source.
    pub source: String,
    /// How it stands on each pipe.
    pub entries: Vec<Entry>,
}

/// Where a message is, in a word or a few.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Written, and on no pipe gone yet.
    Pending,
    /// At the broker, and nobody here reads from it.
    Sent,
    /// At the broker or with a consumer.
    InProcess,
    /// It has failed, and is tried again by itself.
    Retrying,
    /// It was given up: a person must decide.
    InErrorQueue,
    /// An error table has it; nobody has sent it back.
    ProcessedAsError,
    /// Somebody has handled it.
    Processed,
    /// Nothing is known of it.
    Unknown,
}

impl State {
    /// The words for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sent => "sent",
            Self::InProcess => "in process",
            Self::Retrying => "retrying",
            Self::InErrorQueue => "in the error queue",
            Self::ProcessedAsError => "processed as error",
            Self::Processed => "processed",
            Self::Unknown => "unknown",
        }
    }
}

impl Life {
    /// Whether anybody knows it.
    pub fn is_known(&self) -> bool {
        self.message.is_some() || !self.handled.is_empty() || !self.errors.is_empty()
    }

    /// The word for where it is. What needs a person most counts, if it is in several places.
    pub fn state(&self, plan: &Plan) -> State {
        let entries = || self.written.iter().flat_map(|written| &written.entries);
        let is_tried = |entry: &Entry| entry.stand == Stand::Waiting && entry.attempts > 0;
        let is_left = |letter: &Dead| !self.is_noted(letter);
        if self.letters.iter().any(|(_, letter)| is_left(letter))
            || entries().any(|entry| entry.stand == Stand::Dead)
        {
            return State::InErrorQueue;
        }
        if !self.retries.is_empty() || entries().any(is_tried) {
            return State::Retrying;
        }
        let is_handled = self.handled.iter().any(|one| one.failed.is_none());
        let is_error = |record: &ErrorRecord| match record.resolution {
            Resolution::Open => true,
            // A table that has but a flag calls what was sent back resolved, too; then its handling tells.
            Resolution::Resolved => !is_handled,
            Resolution::Returned => false,
        };
        if self.errors.iter().any(|(_, record)| is_error(record)) {
            return State::ProcessedAsError;
        }
        let is_done = |entry: &Entry| entry.stand == Stand::Done;
        let done: Vec<&Entry> = entries().filter(|entry| is_done(entry)).collect();
        if !self.errors.is_empty() {
            // It was sent back, or handled after all.
            return if is_handled { State::Processed } else { State::InProcess };
        }
        if entries().any(|entry| !is_done(entry)) {
            return if done.is_empty() && !is_handled { State::Pending } else { State::InProcess };
        }
        // A pipe without a broker ends with its handler.
        let pipes = || done.iter().filter_map(|entry| plan.pipes.get(entry.cursor.as_deref()?));
        if is_handled || pipes().any(|pipe| leads_to_handler(plan, pipe)) {
            return State::Processed;
        }
        if pipes().any(|pipe| is_read_here(plan, pipe)) || !self.handled.is_empty() {
            return State::InProcess;
        }
        match (done.is_empty(), self.written.is_empty()) {
            (false, _) => State::Sent,
            (true, false) => State::Pending,
            (true, true) => State::Unknown,
        }
    }

    /// Whether an error table has this very death. A queue loses a letter by that, and a topic keeps it.
    fn is_noted(&self, letter: &Dead) -> bool {
        self.errors.iter().any(|(_, record)| {
            let is_of_place = record.origin == letter.origin || record.origin == "unknown";
            // A table keeps milliseconds.
            let seen = record.last_seen.as_millisecond();
            is_of_place && letter.failed_at.is_none_or(|at| at.as_millisecond() <= seen)
        })
    }

    /// When it was written, on the clock of whoever wrote it.
    pub fn occurred_at(&self) -> Option<Timestamp> {
        self.message.as_ref().map(|message| message.occurred_at)
    }
}

fn leads_to_handler(plan: &Plan, pipe: &PipePlan) -> bool {
    let target = plan.sinks.get(&pipe.to).map(|sink| &sink.target);
    !matches!(target, None | Some(Target::Exchange(..) | Target::Topic(..)))
}

/// Whether a pipe of this configuration reads from the broker that this one leads to.
fn is_read_here(plan: &Plan, pipe: &PipePlan) -> bool {
    let connection = plan.sinks.get(&pipe.to).and_then(|sink| sink.target.connection());
    let reads = |other: &PipePlan| {
        let source = plan.sources.get(&other.from);
        source.is_some_and(|source| {
            source.is_on_broker() && Some(&source.connection.name) == connection.map(|one| &one.name)
        })
    };
    plan.pipes.values().any(reads)
}

#[cfg(test)]
#[path = "life_tests.rs"]
mod tests;
