//! `validate`: every mistake, and nothing else; no server is asked.

use std::path::Path;

use serde_json::json;

use super::load;
use super::output::Output;
use crate::mistake::Invalid;
use crate::trouble::Exit;

/// Checks the configuration.
pub fn validate(file: &Path, output: &mut Output) -> anyhow::Result<Exit> {
    let plan = match load(file) {
        Ok(plan) => plan,
        Err(error) => {
            if let (true, Some(invalid)) = (output.is_json(), error.downcast_ref::<Invalid>()) {
                output.json(&json!({ "valid": false, "mistakes": invalid.mistakes }))?;
            }
            return Err(error);
        }
    };
    if output.is_json() {
        output.json(&json!({ "valid": true, "mistakes": [] }))?;
        return Ok(Exit::Ok);
    }
    let counts = [
        (plan.connections.len(), "connection"),
        (plan.sources.len(), "source"),
        (plan.sinks.len(), "sink"),
        (plan.pipes.len(), "pipe"),
    ];
    let counts = counts.map(|(count, noun)| format!("{count} {noun}{}", if count == 1 { "" } else { "s" }));
    output.line(format_args!("{} is valid: {}", file.display(), counts.join(", ")))?;
    Ok(Exit::Ok)
}
