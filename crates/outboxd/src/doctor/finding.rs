//! What was found, in words: a table and the fixes for people, JSON for scripts, an exit code.

use std::io;

use outbox::{Finding, Level};
use serde::Serialize;
use serde_json::json;

use crate::cli::output::{Output, printable};
use crate::trouble::Exit;

/// Which end of a pipe, or what is written about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A source.
    Source,
    /// A sink.
    Sink,
    /// The configuration.
    Config,
}

impl Place {
    fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Sink => "sink",
            Self::Config => "config",
        }
    }
}

/// A finding, and where it was found.
#[derive(Debug, Serialize)]
pub struct Line {
    /// Which end.
    pub place: Place,
    /// Its name in the configuration.
    pub name: String,
    /// What was found.
    #[serde(flatten)]
    pub finding: Finding,
}

/// Writes it down.
pub fn write(lines: &[Line], output: &mut Output) -> io::Result<()> {
    if output.is_json() {
        let worst = worst(lines).as_str();
        return output.json(&json!({ "worst": worst, "findings": lines }));
    }
    let rows: Vec<_> = lines.iter().map(cells).collect();
    output.table(&["level", "where", "what", "found"], &rows)?;
    for line in lines.iter().filter(|line| line.finding.level != Level::Ok) {
        if let Some(fix) = &line.finding.fix {
            let (place, name, what) = (line.place.as_str(), &line.name, &line.finding.what);
            output.line("")?;
            output.line(format_args!("{place} '{name}', {what}:"))?;
            output.line(format_args!("    {}", printable(fix)))?;
        }
    }
    Ok(())
}

fn cells(line: &Line) -> Vec<String> {
    let finding = &line.finding;
    let place = format!("{} {}", line.place.as_str(), line.name);
    vec![finding.level.as_str().to_owned(), place, finding.what.clone(), finding.evidence.clone()]
}

/// One line about all of them.
pub fn sum(lines: &[Line]) -> String {
    let count = |level| lines.iter().filter(|line| line.finding.level == level).count();
    let (ok, warnings, failures) = (count(Level::Ok), count(Level::Warning), count(Level::Failure));
    let ending = |count| if count == 1 { "" } else { "s" };
    format!("{ok} ok, {warnings} warning{}, {failures} failure{}", ending(warnings), ending(failures))
}

fn worst(lines: &[Line]) -> Level {
    lines.iter().map(|line| line.finding.level).max().unwrap_or(Level::Ok)
}

/// How the program ends: a failure counts more than a warning, a source more than a sink.
pub fn exit(lines: &[Line], deny_warnings: bool) -> Exit {
    let failed = |place| lines.iter().any(|line| line.place == place && line.finding.level == Level::Failure);
    if failed(Place::Source) {
        return Exit::Source;
    }
    if failed(Place::Sink) {
        return Exit::Sink;
    }
    if deny_warnings && worst(lines) == Level::Warning { Exit::Warnings } else { Exit::Ok }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(place: Place, level: Level) -> Line {
        Line { place, name: "x".to_owned(), finding: Finding { level, ..Finding::ok("what", "found") } }
    }

    #[test]
    fn the_worst_finding_decides_how_it_ends() {
        let warned = [line(Place::Source, Level::Ok), line(Place::Sink, Level::Warning)];
        assert_eq!(exit(&warned, false), Exit::Ok);
        assert_eq!(exit(&warned, true), Exit::Warnings);
        let sink = [line(Place::Source, Level::Warning), line(Place::Sink, Level::Failure)];
        assert_eq!(exit(&sink, true), Exit::Sink);
        let both = [line(Place::Sink, Level::Failure), line(Place::Source, Level::Failure)];
        assert_eq!(exit(&both, false), Exit::Source);
        assert_eq!(exit(&[], true), Exit::Ok);
        assert_eq!(sum(&warned), "1 ok, 1 warning, 0 failures");
    }
}
