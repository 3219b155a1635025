//! `validate`: every mistake, and nothing else; no server is asked.

use std::path::Path;

use serde_json::json;

use super::check;
use super::output::Output;
use crate::mistake::Invalid;
use crate::plan::Checked;
use crate::trouble::Exit;

/// Checks the configuration.
pub fn validate(file: &Path, output: &mut Output) -> anyhow::Result<Exit> {
    let Checked { plan, warnings } = match check(file) {
        Ok(checked) => checked,
        Err(error) => {
            if let (true, Some(invalid)) = (output.is_json(), error.downcast_ref::<Invalid>()) {
                output.json(&json!({ "valid": false, "mistakes": invalid.mistakes }))?;
            }
            return Err(error);
        }
    };
    for warning in &warnings {
        output.warning(warning, &warning.help);
    }
    if output.is_json() {
        output.json(&json!({ "valid": true, "mistakes": [], "warnings": warnings }))?;
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
