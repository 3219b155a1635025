//! `errors list`: what is in the error tables.

use jiff::Timestamp;

use super::args::ErrorsListArgs;
use crate::cli::list::shorten;
use crate::cli::output::Output;
use crate::ops::Office;
use crate::ops::errors::{self, ErrorEntry};
use crate::quantity::show_age;
use crate::trouble::Exit;

/// Lists errors in the order in which they first failed.
pub async fn list(args: &ErrorsListArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let found = errors::list(office, args.chosen.ids.clone(), args.chosen.request()).await?;
    if output.is_json() {
        output.json(&found)?;
    } else if found.errors.is_empty() {
        output.note("no error matches");
    } else {
        let now = Timestamp::now();
        let header = ["id", "message", "type", "key", "attempts", "age", "origin", "state", "cause"];
        let rows: Vec<Vec<String>> = found.errors.iter().map(|error| cells(error, now)).collect();
        output.table(&header, &rows)?;
    }
    for sink in &found.more {
        output.note(format_args!("the table of sink '{sink}' has more that matches: raise --most"));
    }
    Ok(Exit::Ok)
}

fn cells(error: &ErrorEntry, now: Timestamp) -> Vec<String> {
    vec![
        error.id.clone(),
        error.message_id.to_string(),
        error.kind.clone(),
        error.key.clone().unwrap_or_else(|| "-".to_owned()),
        error.attempts.to_string(),
        show_age(now.duration_since(error.last_seen).as_secs_f64()),
        error.origin.clone(),
        error.state.as_str().to_owned(),
        shorten(&error.cause.to_string()),
    ]
}
