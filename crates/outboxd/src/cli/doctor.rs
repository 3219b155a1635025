//! `doctor`: what was found, in words: a table and the fixes for people, JSON for scripts, an exit code.

use std::io;

use outbox::Level;

use super::args::DoctorArgs;
use super::output::{Output, printable};
use crate::ops::Office;
use crate::ops::doctor::{self as look, DoctorRequest, Line, Place, Report};
use crate::trouble::Exit;

/// Looks at what is meant, and tells what was found.
pub async fn doctor(args: &DoctorArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let request = DoctorRequest {
        source: args.source.clone(),
        sink: args.sink.clone(),
        probe: args.probe,
        kinds: args.kind.clone(),
    };
    let report = look::doctor(office, &request).await?;
    write(&report, output)?;
    // What was found comes before what is said about it, on a terminal too.
    output.flush()?;
    output.note(sum(&report.findings));
    Ok(exit(&report, args.deny_warnings))
}

/// Writes it down.
fn write(report: &Report, output: &mut Output) -> io::Result<()> {
    if output.is_json() {
        return output.json(report);
    }
    let lines = &report.findings;
    let rows: Vec<_> = lines.iter().map(cells).collect();
    output.table(&["level", "where", "what", "found"], &rows)?;
    for line in lines.iter().filter(|line| line.level != Level::Ok) {
        if let Some(fix) = &line.fix {
            let (place, name, what) = (line.place.as_str(), &line.name, &line.what);
            output.line("")?;
            output.line(format_args!("{place} '{name}', {what}:"))?;
            output.line(format_args!("    {}", printable(fix)))?;
        }
    }
    Ok(())
}

fn cells(line: &Line) -> Vec<String> {
    let place = format!("{} {}", line.place.as_str(), line.name);
    vec![line.level.as_str().to_owned(), place, line.what.clone(), line.evidence.clone()]
}

/// One line about all of them.
fn sum(lines: &[Line]) -> String {
    let count = |level| lines.iter().filter(|line| line.level == level).count();
    let (ok, warnings, failures) = (count(Level::Ok), count(Level::Warning), count(Level::Failure));
    let ending = |count| if count == 1 { "" } else { "s" };
    format!("{ok} ok, {warnings} warning{}, {failures} failure{}", ending(warnings), ending(failures))
}

/// How the program ends: a failure counts more than a warning, a source more than a sink.
fn exit(report: &Report, deny_warnings: bool) -> Exit {
    let lines = &report.findings;
    let failed = |place| lines.iter().any(|line| line.place == place && line.level == Level::Failure);
    if failed(Place::Source) {
        return Exit::Source;
    }
    if failed(Place::Sink) {
        return Exit::Sink;
    }
    if report.worst == Level::Failure {
        return Exit::Failed;
    }
    if deny_warnings && report.worst == Level::Warning { Exit::Warnings } else { Exit::Ok }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(found: &[(Place, Level)]) -> Report {
        let line = |(place, level): &(Place, Level)| Line {
            place: *place,
            name: "x".to_owned(),
            level: *level,
            what: "what".to_owned(),
            evidence: "found".to_owned(),
            fix: None,
        };
        let worst = found.iter().map(|(_, level)| *level).max().unwrap_or(Level::Ok);
        Report { worst, findings: found.iter().map(line).collect() }
    }

    #[test]
    fn the_worst_finding_decides_how_it_ends() {
        let warned = report(&[(Place::Source, Level::Ok), (Place::Sink, Level::Warning)]);
        assert_eq!(exit(&warned, false), Exit::Ok);
        assert_eq!(exit(&warned, true), Exit::Warnings);
        let sink = report(&[(Place::Source, Level::Warning), (Place::Sink, Level::Failure)]);
        assert_eq!(exit(&sink, true), Exit::Sink);
        let both = report(&[(Place::Sink, Level::Failure), (Place::Source, Level::Failure)]);
        assert_eq!(exit(&both, false), Exit::Source);
        assert_eq!(exit(&report(&[(Place::Relay, Level::Failure)]), false), Exit::Failed);
        assert_eq!(exit(&report(&[]), true), Exit::Ok);
        assert_eq!(sum(&warned.findings), "1 ok, 1 warning, 0 failures");
    }
}
