//! The life of a message for people.

use jiff::Timestamp;
use outbox::letters::Waiting;
use outbox::{Cause, Handled, Message};

use crate::cli::dlq::Dead;
use crate::cli::errors::standing;
use crate::cli::output::{Output, printable};
use crate::ops::show::{Life, Written};
use crate::plan::Plan;

/// For people.
pub fn print(
    id: &str,
    life: &Life,
    plan: &Plan,
    with_payload: bool,
    output: &mut Output,
) -> anyhow::Result<()> {
    let mut field = |name: &str, value: &str| output.line(format_args!("{name:<14}{}", printable(value)));
    field("state", life.state(plan).as_str())?;
    field("id", id)?;
    if let Some(message) = &life.message {
        about(message, with_payload, &mut field)?;
    }
    for written in &life.written {
        stands(written, life.occurred_at(), &mut field)?;
    }
    for handled in &life.handled {
        field("consumer", &handled_line(handled))?;
    }
    for waiting in &life.retries {
        field("retry", &waiting_line(waiting))?;
    }
    for (place, dead) in &life.letters {
        field("dead letter", &letter_line(place, dead))?;
    }
    for (sink, record) in &life.errors {
        let (id, cause) = (&record.id, &record.cause);
        field("error table", &format!("sink '{sink}', error {id}: {}, {cause}", standing(record)))?;
    }
    for unseen in &life.unseen {
        field("not looked at", unseen)?;
    }
    if let Some(message) = life.message.as_ref().filter(|_| with_payload) {
        output.line("")?;
        output.payload(&message.payload)?;
        output.line("")?;
    }
    Ok(())
}

type Field<'f> = &'f mut dyn FnMut(&str, &str) -> std::io::Result<()>;

fn about(message: &Message, with_payload: bool, field: Field<'_>) -> std::io::Result<()> {
    field("type", &message.kind)?;
    field("key", message.key.as_deref().unwrap_or("-"))?;
    field("occurred", &message.occurred_at.to_string())?;
    field("content type", &message.content_type)?;
    for (name, value) in &message.headers {
        field("header", &format!("{name}: {value}"))?;
    }
    let hint = if with_payload { "below" } else { "shown with --payload" };
    field("payload", &format!("{} bytes, {hint}", message.payload.len()))
}

fn stands(written: &Written, at: Option<Timestamp>, field: Field<'_>) -> std::io::Result<()> {
    let at = at.map(|at| format!(" {at:.0}")).unwrap_or_default();
    // Whether an application wrote it or a publisher kept it, nothing tells.
    field("source", &format!("{}, written{at}", written.source))?;
    for entry in &written.entries {
        let pipe = entry.cursor.as_deref().unwrap_or("-");
        let due = entry.due.map(|due| format!(", due {due:.0}")).unwrap_or_default();
        let line = format!("{pipe}: {}, {}{due}", entry.stand.as_str(), attempts(entry.attempts));
        field("pipe", &format!("{line}{}", why(entry.cause.as_ref())))?;
    }
    Ok(())
}

fn handled_line(handled: &Handled) -> String {
    let at = handled.at.map(|at| format!(" {at:.0}")).unwrap_or_default();
    let consumer = &handled.consumer;
    match &handled.failed {
        None => format!("{consumer}: handled{at}"),
        Some(failed) => {
            let dead = if failed.dead { " for good" } else { "" };
            format!("{consumer}: attempt {} failed{dead}{at}{}", failed.attempt, why(Some(&failed.cause)))
        }
    }
}

fn waiting_line(waiting: &Waiting) -> String {
    let due = waiting.due.map(|due| format!(" until {due:.0}")).unwrap_or_default();
    let (place, tried) = (&waiting.place, attempts(waiting.attempts));
    format!("waits in '{place}'{due}, {tried}{}", why(waiting.cause.as_ref()))
}

fn letter_line(place: &str, dead: &Dead) -> String {
    let at = dead.failed_at.map(|at| format!(" since {at:.0}")).unwrap_or_default();
    let (origin, tried) = (&dead.origin, attempts(dead.attempts));
    format!("in {place}{at}, from '{origin}', {tried}{}", why(dead.cause.as_ref()))
}

fn attempts(count: u32) -> String {
    format!("{count} attempt{}", if count == 1 { "" } else { "s" })
}

fn why(cause: Option<&Cause>) -> String {
    cause.map(|cause| format!(", {cause}")).unwrap_or_default()
}
