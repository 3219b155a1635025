//! `show`: one message, and what became of it on every pipe.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outbox::Message;
use outbox::admin::{Entry, Story};
use serde_json::{Value, json};

use super::args::ShowArgs;
use super::list::to_json;
use super::open_all;
use super::output::{Output, printable};
use crate::plan::Plan;
use crate::trouble::{Exit, Trouble};

/// Shows a message; its payload only when asked, since it may hold what not everybody should see.
pub async fn show(args: &ShowArgs, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    for source in open_all(plan, args.source.as_deref()).await? {
        let story = source.log.admin().show(&args.id.as_str().into()).await;
        let story = story.map_err(|error| source.trouble("cannot show the message", &error))?;
        let Some(story) = story else { continue };
        if output.is_json() {
            output.json(&story_json(&source.source.name, &story, args.payload))?;
        } else {
            print(&source.source.name, &story, args.payload, output)?;
        }
        return Ok(Exit::Ok);
    }
    let help = "check the id; what is old and done may have been removed";
    Err(Trouble::new(Exit::Failed, format!("there is no message '{}'", args.id), help).into())
}

fn story_json(source: &str, story: &Story, with_payload: bool) -> Value {
    let message = &story.message;
    let mut shown = json!({
        "source": source,
        "id": message.id,
        "type": message.kind,
        "key": message.key,
        "occurred_at": message.occurred_at,
        "content_type": message.content_type,
        "headers": message.headers,
        "payload_bytes": message.payload.len(),
    });
    if with_payload {
        match std::str::from_utf8(&message.payload) {
            Ok(text) => shown["payload"] = json!(text),
            Err(_) => shown["payload_base64"] = json!(STANDARD.encode(&message.payload)),
        }
    }
    let pipes = story.entries.iter().filter(|entry| entry.cursor.is_some());
    shown["pipes"] = pipes.map(|entry| pipe_json(source, entry)).collect();
    shown
}

fn pipe_json(source: &str, entry: &Entry) -> Value {
    let Value::Object(mut fields) = to_json(source, entry) else { return Value::Null };
    fields
        .retain(|name, _| ["pipe", "state", "attempts", "due", "cause", "position"].contains(&name.as_str()));
    Value::Object(fields)
}

fn print(source: &str, story: &Story, with_payload: bool, output: &mut Output) -> anyhow::Result<()> {
    let message = &story.message;
    let mut field = |name: &str, value: &str| output.line(format_args!("{name:<14}{}", printable(value)));
    field("id", message.id.as_str())?;
    field("type", &message.kind)?;
    field("key", message.key.as_deref().unwrap_or("-"))?;
    field("source", source)?;
    field("occurred", &message.occurred_at.to_string())?;
    field("content type", &message.content_type)?;
    for (name, value) in &message.headers {
        field("header", &format!("{name}: {value}"))?;
    }
    field("payload", &payload_line(message, with_payload))?;
    for entry in &story.entries {
        let Some(pipe) = &entry.cursor else { continue };
        let due = entry.due.map(|due| format!(", due {due:.0}")).unwrap_or_default();
        field("pipe", &format!("{pipe}: {}, {} attempts{due}", entry.stand.as_str(), entry.attempts))?;
        if let Some(cause) = &entry.cause {
            field("", &cause.to_string())?;
        }
    }
    if with_payload {
        output.line("")?;
        output.payload(&message.payload)?;
        output.line("")?;
    }
    Ok(())
}

fn payload_line(message: &Message, with_payload: bool) -> String {
    let hint = if with_payload { "below" } else { "shown with --payload" };
    format!("{} bytes, {hint}", message.payload.len())
}
