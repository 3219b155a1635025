//! `errors list`: what is in the error tables.

use jiff::Timestamp;
use outbox::errors::ErrorRecord;
use serde_json::{Value, json};

use super::args::ErrorsListArgs;
use super::desk::desks;
use crate::cli::list::shorten;
use crate::cli::output::Output;
use crate::plan::Plan;
use crate::quantity::show_age;
use crate::trouble::Exit;

/// Lists errors in the order in which they were written.
pub async fn list(args: &ErrorsListArgs, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    let mut found = Vec::new();
    for desk in desks(plan, args.chosen.sink.as_deref()).await? {
        let records = desk.choose(&args.chosen).await?;
        found.extend(records.into_iter().map(|record| (desk.sink, record)));
    }
    if output.is_json() {
        let errors: Vec<Value> = found.iter().map(|(sink, record)| to_json(sink, record)).collect();
        output.json(&json!({ "errors": errors }))?;
    } else if found.is_empty() {
        output.note("no error matches");
    } else {
        let now = Timestamp::now();
        let header = ["id", "message", "type", "key", "attempts", "age", "origin", "state", "cause"];
        let rows: Vec<Vec<String>> = found.iter().map(|(_, record)| cells(record, now)).collect();
        output.table(&header, &rows)?;
    }
    Ok(Exit::Ok)
}

/// For scripts, without headers and payload.
pub fn to_json(sink: &str, record: &ErrorRecord) -> Value {
    json!({
        "sink": sink,
        "id": record.id,
        "message_id": record.message_id,
        "type": record.kind,
        "key": record.key,
        "origin": record.origin,
        "cause": record.cause,
        "attempts": record.attempts,
        "first_seen": record.first_seen,
        "last_seen": record.last_seen,
        "state": record.resolution,
        "resolved_by": record.resolved_by,
        "resolved_at": record.resolved_at,
        "note": record.note,
    })
}

fn cells(record: &ErrorRecord, now: Timestamp) -> Vec<String> {
    vec![
        record.id.clone(),
        record.message_id.to_string(),
        record.kind.clone(),
        record.key.clone().unwrap_or_else(|| "-".to_owned()),
        record.attempts.to_string(),
        show_age(now.duration_since(record.last_seen).as_secs_f64()),
        record.origin.clone(),
        record.resolution.as_str().to_owned(),
        shorten(&record.cause.to_string()),
    ]
}
