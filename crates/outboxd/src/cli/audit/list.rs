//! `audit list`: who did what, the newest first.

use serde_json::Value;

use super::args::AuditListArgs;
use crate::cli::list::shorten;
use crate::cli::output::Output;
use crate::ops::Office;
use crate::ops::audit::{self, AuditEntry, AuditRequest};
use crate::quantity::show_duration;
use crate::trouble::Exit;

/// Lists entries of the book.
pub async fn list(args: &AuditListArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let request = AuditRequest {
        by: args.by.clone(),
        action: args.action.clone(),
        id: args.id.clone(),
        older_than: args.older_than.map(show_duration),
        newer_than: args.newer_than.map(show_duration),
        limit: Some(args.limit),
        before: args.before,
    };
    let listed = audit::audit(office, &request).await?;
    if output.is_json() {
        output.json(&listed)?;
        return Ok(Exit::Ok);
    }
    if listed.entries.is_empty() {
        output.note("no entry matches");
        return Ok(Exit::Ok);
    }
    let header = ["number", "at", "by", "action", "target", "message", "detail"];
    output.table(&header, &listed.entries.iter().map(cells).collect::<Vec<_>>())?;
    if let Some(next) = listed.next {
        output.note(format_args!("there may be more: --before {next}"));
    }
    Ok(Exit::Ok)
}

fn cells(entry: &AuditEntry) -> Vec<String> {
    let detail = match &entry.detail {
        Value::Null => "-".to_owned(),
        Value::String(text) => shorten(text),
        other => shorten(&other.to_string()),
    };
    vec![
        entry.number.to_string(),
        format!("{:.0}", entry.at),
        entry.by.clone(),
        entry.action.clone(),
        entry.target.clone(),
        entry.id.clone().unwrap_or_else(|| "-".to_owned()),
        detail,
    ]
}
