//! The life of a message as a line of steps. Pure.

use jiff::Timestamp;
use outbox::admin::{Entry, Stand};
use outbox::errors::{ErrorRecord, Resolution};
use outbox::letters::Waiting;
use outbox::{Cause, Handled};

use crate::ops::audit::AuditEntry;
use crate::ops::dead::Dead;
use crate::ops::show::{Life, Written};

/// Something that happened to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// `good`, `warn`, `bad`, or nothing.
    pub class: &'static str,
    /// When, if that was written down.
    pub at: Option<Timestamp>,
    /// What.
    pub what: String,
    /// Why, or what comes next.
    pub more: String,
    /// When it is tried again.
    pub due: Option<Timestamp>,
}

impl Step {
    fn new(class: &'static str, at: Option<Timestamp>, what: impl Into<String>) -> Self {
        Self { class, at, what: what.into(), more: String::new(), due: None }
    }

    fn more(mut self, more: impl Into<String>) -> Self {
        self.more = more.into();
        self
    }
}

/// What happened, in the order in which a message goes its way; then what people did to it, by what is written down.
pub fn steps(life: &Life, book: &[AuditEntry]) -> Vec<Step> {
    let written = life.written.iter().flat_map(|written| in_outbox(life, written));
    let handled = life.handled.iter().map(handled);
    let retries = life.retries.iter().map(waiting);
    let letters = life.letters.iter().map(|(place, dead)| letter(place, dead));
    let errors = life.errors.iter().map(|(sink, record)| error(sink, record));
    let let_go = book.iter().rev().filter_map(let_go);
    written.chain(handled).chain(retries).chain(letters).chain(errors).chain(let_go).collect()
}

fn in_outbox(life: &Life, written: &Written) -> Vec<Step> {
    let begin = Step::new("", life.occurred_at(), format!("Written to outbox '{}'", written.source));
    [begin].into_iter().chain(written.entries.iter().map(on_pipe)).collect()
}

fn on_pipe(entry: &Entry) -> Step {
    let pipe = entry.cursor.as_deref().unwrap_or("-");
    let why = entry.cause.as_ref().map(Cause::to_string).unwrap_or_default();
    let step = match entry.stand {
        Stand::Pending => Step::new("", None, format!("Pipe '{pipe}' has not read it yet")),
        Stand::Waiting => Step::new(
            "warn",
            None,
            format!("Pipe '{pipe}' has tried it {} and tries again", times(entry.attempts)),
        ),
        Stand::Behind => {
            let more = "it waits behind an earlier message of its key";
            return Step::new("warn", None, format!("Pipe '{pipe}' holds it back")).more(more);
        }
        Stand::Dead => Step::new(
            "bad",
            None,
            format!("Pipe '{pipe}' has given it up after {}", attempts(entry.attempts)),
        ),
        // Delivered as a rule; but what somebody skipped, and what came before the pipe's start, is done as well.
        Stand::Done => Step::new("good", None, format!("Pipe '{pipe}' is through with it")),
    };
    Step { due: entry.due.filter(|_| entry.stand == Stand::Waiting), ..step.more(why) }
}

fn handled(one: &Handled) -> Step {
    let Some(failed) = &one.failed else {
        return Step::new("good", one.at, format!("'{}' has handled it", one.consumer));
    };
    let class = if failed.dead { "bad" } else { "warn" };
    let what = format!("Attempt {} of '{}' failed", failed.attempt, one.consumer);
    Step::new(class, one.at, what).more(failed.cause.to_string())
}

fn waiting(one: &Waiting) -> Step {
    let why = one.cause.as_ref().map(Cause::to_string).unwrap_or_default();
    if one.attempts == 0 {
        let more = "an earlier message of its key is not done";
        return Step::new("warn", None, format!("It waits in '{}'", one.place)).more(more);
    }
    let what = format!("It waits in '{}' for its next attempt", one.place);
    Step { due: one.due, ..Step::new("warn", one.failed_at, what).more(why) }
}

fn letter(place: &str, dead: &Dead) -> Step {
    let why = dead.cause.as_ref().map(Cause::to_string).unwrap_or_default();
    let what = format!("Given up after {}: it lies in {place}", attempts(dead.attempts));
    Step::new("bad", dead.failed_at, what).more(why)
}

fn error(sink: &str, record: &ErrorRecord) -> Step {
    let by = record.resolved_by.as_deref().unwrap_or("somebody");
    match record.resolution {
        Resolution::Open => {
            Step::new("bad", Some(record.last_seen), format!("An open error in the table of '{sink}'"))
                .more(record.cause.to_string())
        }
        Resolution::Returned => {
            Step::new("warn", record.resolved_at, format!("{by} has sent it back to '{}'", record.origin))
        }
        Resolution::Resolved => {
            Step::new("good", record.resolved_at, format!("{by} has resolved the error in '{sink}'"))
                .more(record.note.clone().unwrap_or_default())
        }
    }
}

/// Who let it go. A deed is written down before it is done, so it may have failed: then the steps of the pipes tell.
fn let_go(entry: &AuditEntry) -> Option<Step> {
    let did = match entry.action.as_str() {
        "skip" => "skipped",
        "dlq.discard" => "discarded",
        _ => return None,
    };
    let what = format!("{} {did} it", entry.by);
    Some(Step::new("warn", Some(entry.at), what).more(format!("in {}", entry.target)))
}

fn attempts(count: u32) -> String {
    if count == 1 { "1 attempt".to_owned() } else { format!("{count} attempts") }
}

fn times(count: u32) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

#[cfg(test)]
mod tests {
    use outbox::Message;

    use super::*;

    fn entry(stand: Stand, attempts: u32) -> Entry {
        Entry {
            position: 1,
            id: "m".into(),
            kind: "order".to_owned(),
            key: None,
            occurred_at: Timestamp::UNIX_EPOCH,
            cursor: Some("relay".to_owned()),
            stand,
            attempts,
            due: Some(Timestamp::UNIX_EPOCH),
            cause: Some(Cause::new("IO", "no folder")),
        }
    }

    #[test]
    fn a_message_is_written_and_then_goes_its_way_on_every_pipe() {
        let entries = vec![entry(Stand::Done, 1), entry(Stand::Dead, 1), entry(Stand::Waiting, 2)];
        let written = vec![Written { source: "orders".to_owned(), entries }];
        let message = Some(Message::new("order", "x").occurred_at(Timestamp::UNIX_EPOCH));
        let steps = steps(&Life { message, written, ..Life::default() }, &[]);
        let told: Vec<_> = steps.iter().map(|step| (step.class, step.what.as_str())).collect();
        assert_eq!(
            told,
            [
                ("", "Written to outbox 'orders'"),
                ("good", "Pipe 'relay' is through with it"),
                ("bad", "Pipe 'relay' has given it up after 1 attempt"),
                ("warn", "Pipe 'relay' has tried it 2 times and tries again"),
            ]
        );
        assert_eq!(steps[0].at, Some(Timestamp::UNIX_EPOCH));
        assert_eq!((steps[2].more.as_str(), steps[2].due), ("IO: no folder", None));
        assert!(steps[3].due.is_some(), "what is tried again says when");
    }

    #[test]
    fn e5_who_let_a_message_go_is_told_and_nobody_says_that_it_was_delivered() {
        let deed = |number, action: &str| AuditEntry {
            number,
            at: Timestamp::UNIX_EPOCH,
            by: "anna".to_owned(),
            action: action.to_owned(),
            target: "orders".to_owned(),
            id: Some("m".to_owned()),
            detail: serde_json::Value::Null,
        };
        let written = vec![Written { source: "orders".to_owned(), entries: vec![entry(Stand::Done, 1)] }];
        let book = [deed(3, "dlq.discard"), deed(2, "skip"), deed(1, "retry")];
        let steps = steps(&Life { written, ..Life::default() }, &book);
        let told: Vec<_> = steps.iter().map(|step| step.what.as_str()).collect();
        assert_eq!(
            told[1..],
            ["Pipe 'relay' is through with it", "anna skipped it", "anna discarded it"],
            "the oldest first"
        );
        assert_eq!((steps[2].more.as_str(), steps[2].at), ("in orders", Some(Timestamp::UNIX_EPOCH)));
    }
}
