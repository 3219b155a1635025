//! `errors show`: one error with all that is known of it.

use super::args::ErrorsShowArgs;
use crate::cli::output::{Output, printable};
use crate::ops::Office;
use crate::ops::errors::{self, WholeError};
use crate::trouble::Exit;

/// Shows an error; its payload only when asked, since it may hold what not everybody should see.
pub async fn show(args: &ErrorsShowArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let shown = errors::show(office, args.sink.as_deref(), &args.id, args.payload).await?;
    if output.is_json() {
        output.json(&shown)?;
        return Ok(Exit::Ok);
    }
    for whole in &shown.errors {
        print(whole, args.payload, output)?;
    }
    Ok(Exit::Ok)
}

fn print(whole: &WholeError, with_payload: bool, output: &mut Output) -> std::io::Result<()> {
    let error = &whole.entry;
    let mut field = |name: &str, value: &str| output.line(format_args!("{name:<14}{}", printable(value)));
    field("id", &error.id)?;
    field("message", error.message_id.as_str())?;
    field("type", &error.kind)?;
    field("key", error.key.as_deref().unwrap_or("-"))?;
    field("sink", &error.sink)?;
    field("origin", &error.origin)?;
    field("cause", &error.cause.to_string())?;
    field("attempts", &error.attempts.to_string())?;
    field("first seen", &error.first_seen.to_string())?;
    field("last seen", &error.last_seen.to_string())?;
    field("state", &error.standing())?;
    if let Some(note) = &error.note {
        field("note", note)?;
    }
    field("content type", &whole.content_type)?;
    for (name, value) in &whole.headers {
        field("header", &format!("{name}: {value}"))?;
    }
    let edited = if whole.edited { ", edited" } else { "" };
    let hint = if with_payload { "below" } else { "shown with --payload" };
    field("payload", &format!("{} bytes{edited}, {hint}", whole.payload_bytes))?;
    if with_payload {
        output.line("")?;
        output.payload(&whole.payload.bytes())?;
        output.line("")?;
        if whole.edited {
            output.line("\nbefore it was edited:\n")?;
            output.payload(&whole.original.bytes())?;
            output.line("")?;
        }
    }
    Ok(())
}
