//! `audit list`: who did what, the newest first.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outbox::audit::{Entry, Filter};
use serde_json::{Value, json};

use super::args::AuditListArgs;
use crate::cli::list::shorten;
use crate::cli::output::Output;
use crate::ops::{Office, no_table};
use crate::trouble::{Exit, Trouble};

/// Lists entries of the book.
pub async fn list(args: &AuditListArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let Some(audit) = &office.plan.audit else {
        let help = "name the database: [audit] with on = \"connection\"";
        return Err(Trouble::new(Exit::Config, "nobody writes down repairs here", help).into());
    };
    let now = Timestamp::now();
    let ago = |time: Duration| now - SignedDuration::try_from(time).unwrap_or(SignedDuration::ZERO);
    let filter = Filter {
        who: args.by.clone(),
        action: args.action.clone(),
        message_id: args.id.as_deref().map(Into::into),
        older_than: args.older_than.map(ago),
        newer_than: args.newer_than.map(ago),
        before: args.before,
        limit: args.limit,
        ..Filter::default()
    };
    let listed = async { office.databases.audit(&audit.connection).await?.list(&filter).await };
    let entries =
        listed.await.map_err(|error| no_table("cannot read who did what", &audit.connection, &error))?;
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let next = entries.last().filter(|_| entries.len() >= limit).map(|last| last.seq);
    if output.is_json() {
        let shown: Vec<Value> = entries.iter().map(to_json).collect();
        output.json(&json!({ "entries": shown, "next": next }))?;
        return Ok(Exit::Ok);
    }
    if entries.is_empty() {
        output.note("no entry matches");
        return Ok(Exit::Ok);
    }
    let header = ["number", "at", "by", "action", "target", "message", "detail"];
    output.table(&header, &entries.iter().map(cells).collect::<Vec<_>>())?;
    if let Some(next) = next {
        output.note(format_args!("there may be more: --before {next}"));
    }
    Ok(Exit::Ok)
}

fn to_json(entry: &Entry) -> Value {
    let detail = entry.detail.as_deref().unwrap_or("null");
    let detail = serde_json::from_str::<Value>(detail).unwrap_or_else(|_| json!(entry.detail));
    json!({
        "number": entry.seq,
        "at": entry.at,
        "by": entry.who,
        "action": entry.action,
        "target": entry.target,
        "id": entry.message_id,
        "detail": detail,
    })
}

fn cells(entry: &Entry) -> Vec<String> {
    vec![
        entry.seq.to_string(),
        format!("{:.0}", entry.at),
        entry.who.clone(),
        entry.action.clone(),
        entry.target.clone(),
        entry.message_id.as_ref().map_or("-".to_owned(), ToString::to_string),
        entry.detail.as_deref().map_or("-".to_owned(), shorten),
    ]
}
