//! `errors show`: one error with all that is known of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outbox::errors::ErrorRecord;
use serde_json::{Value, json};

use super::args::ErrorsShowArgs;
use super::desk::desks;
use super::list::to_json;
use crate::cli::output::{Output, printable};
use crate::plan::Plan;
use crate::trouble::{Exit, Trouble};

/// Shows an error; its payload only when asked, since it may hold what not everybody should see.
pub async fn show(args: &ErrorsShowArgs, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    let mut found = Vec::new();
    for desk in desks(plan, args.sink.as_deref()).await? {
        let records = desk.find(&args.id).await;
        let records = records.map_err(|error| desk.trouble("cannot read the error table", &error))?;
        found.extend(records.into_iter().map(|record| (desk.sink, record)));
    }
    if found.is_empty() {
        return Err(no_such(&args.id).into());
    }
    if output.is_json() {
        let errors: Vec<Value> =
            found.iter().map(|(sink, record)| whole_json(sink, record, args.payload)).collect();
        output.json(&json!({ "errors": errors }))?;
        return Ok(Exit::Ok);
    }
    for (sink, record) in &found {
        print(sink, record, args.payload, output)?;
    }
    Ok(Exit::Ok)
}

/// There is no error of this id.
pub fn no_such(id: &str) -> Trouble {
    let help = "check the id: that of the error, or that of its message";
    Trouble::new(Exit::Failed, format!("there is no error '{id}'"), help)
}

fn whole_json(sink: &str, record: &ErrorRecord, with_payload: bool) -> Value {
    let mut shown = to_json(sink, record);
    shown["content_type"] = json!(record.content_type);
    shown["headers"] = json!(record.headers);
    shown["payload_bytes"] = json!(record.payload.len());
    shown["edited"] = json!(record.original_payload.is_some());
    if with_payload {
        put(&mut shown, "payload", &record.payload);
        if let Some(first) = &record.original_payload {
            put(&mut shown, "original_payload", first);
        }
    }
    shown
}

fn put(shown: &mut Value, name: &str, payload: &[u8]) {
    match std::str::from_utf8(payload) {
        Ok(text) => shown[name] = json!(text),
        Err(_) => shown[format!("{name}_base64")] = json!(STANDARD.encode(payload)),
    }
}

fn print(sink: &str, record: &ErrorRecord, with_payload: bool, output: &mut Output) -> std::io::Result<()> {
    let mut field = |name: &str, value: &str| output.line(format_args!("{name:<14}{}", printable(value)));
    field("id", &record.id)?;
    field("message", record.message_id.as_str())?;
    field("type", &record.kind)?;
    field("key", record.key.as_deref().unwrap_or("-"))?;
    field("sink", sink)?;
    field("origin", &record.origin)?;
    field("cause", &record.cause.to_string())?;
    field("attempts", &record.attempts.to_string())?;
    field("first seen", &record.first_seen.to_string())?;
    field("last seen", &record.last_seen.to_string())?;
    field("state", &standing(record))?;
    if let Some(note) = &record.note {
        field("note", note)?;
    }
    field("content type", &record.content_type)?;
    for (name, value) in &record.headers {
        field("header", &format!("{name}: {value}"))?;
    }
    let edited = if record.original_payload.is_some() { ", edited" } else { "" };
    let hint = if with_payload { "below" } else { "shown with --payload" };
    field("payload", &format!("{} bytes{edited}, {hint}", record.payload.len()))?;
    if with_payload {
        output.line("")?;
        output.payload(&record.payload)?;
        output.line("")?;
        if let Some(first) = &record.original_payload {
            output.line("\nbefore it was edited:\n")?;
            output.payload(first)?;
            output.line("")?;
        }
    }
    Ok(())
}

/// How it stands, by whom and since when.
pub fn standing(record: &ErrorRecord) -> String {
    let by = record.resolved_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let at = record.resolved_at.map(|at| format!(", {at:.0}")).unwrap_or_default();
    format!("{}{by}{at}", record.resolution.as_str())
}
