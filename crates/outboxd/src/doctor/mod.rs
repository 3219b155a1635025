//! `doctor`: looks at every source and sink of the configuration, and tells what it found with the fix to copy.
//!
//! It changes nothing, save for the messages of `--probe`. What is looked at in a database or a broker is asked by the
//! library; here it is gathered (`source.rs`, `sink.rs`) and told (`finding.rs`).

mod broker;
mod finding;
mod handler;
mod kafka;
mod sink;
mod source;
mod window;

use std::future::Future;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use outbox::Finding;

use crate::cli::args::DoctorArgs;
use crate::cli::choose;
use crate::cli::output::Output;
use crate::mistake::{Mistake, did_you_mean};
use crate::plan::{Checked, Plan, SinkPlan, SourcePlan};
use crate::trouble::{Exit, Trouble};
use finding::{Line, Place};

/// Whatever hangs must not hang us.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks at what is meant, all at once: what does not answer hides nothing else.
pub async fn doctor(args: &DoctorArgs, checked: &Checked, output: &mut Output) -> anyhow::Result<Exit> {
    let plan = &checked.plan;
    let (sources, sinks) = meant(args, plan)?;
    let mut looks: Vec<BoxFuture<'_, Vec<Line>>> = Vec::new();
    for source in sources {
        looks.push(bounded(Place::Source, &source.name, source::examine(plan, source)).boxed());
    }
    for sink in sinks {
        looks.push(bounded(Place::Sink, &sink.name, sink::examine(args, plan, sink)).boxed());
    }
    let mut lines: Vec<Line> = join_all(looks).await.into_iter().flatten().collect();
    // Who names a source or a sink does not mean the configuration.
    if args.source.is_none() && args.sink.is_none() {
        lines.extend(checked.warnings.iter().map(warned));
    }
    finding::write(&lines, output)?;
    // What was found comes before what is said about it, on a terminal too.
    output.flush()?;
    output.note(finding::sum(&lines));
    Ok(finding::exit(&lines, args.deny_warnings))
}

/// A warning of the configuration, at its place.
fn warned(warning: &Mistake) -> Line {
    let name = format!("{}:{}", warning.line, warning.column);
    let finding = Finding::warning("configuration", &warning.what).fix(&warning.help);
    Line { place: Place::Config, name, finding }
}

/// The named ones, or all; who names a source does not mean the sinks.
fn meant<'p>(args: &DoctorArgs, plan: &'p Plan) -> Result<(Vec<&'p SourcePlan>, Vec<&'p SinkPlan>), Trouble> {
    let sources = match (&args.source, &args.sink) {
        (None, Some(_)) => Vec::new(),
        (None, None) => plan.sources.values().collect(),
        (Some(name), _) => choose(plan, Some(name))?,
    };
    let sinks = match (&args.source, &args.sink) {
        (Some(_), None) => Vec::new(),
        (None, None) => plan.sinks.values().collect(),
        (_, Some(name)) => match plan.sinks.get(name) {
            Some(sink) => vec![sink],
            None => {
                let help = did_you_mean(name, plan.sinks.keys().map(String::as_str));
                let what = format!("there is no sink '{name}' in the configuration");
                return Err(Trouble::usage(what, help));
            }
        },
    };
    Ok((sources, sinks))
}

async fn bounded(place: Place, name: &str, look: impl Future<Output = Vec<Finding>>) -> Vec<Line> {
    let findings = tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| {
        let evidence = format!("was not looked at within {PATIENCE:?}");
        vec![Finding::failure("time", evidence).fix("check the load of the server and the network")]
    });
    let line = |mut finding: Finding| {
        // A pipe tries again by itself, a verb does not.
        finding.fix = finding.fix.map(|fix| {
            let fix = fix.replace("it is tried again by itself", "try again later");
            fix.replace("work resumes by itself", "then try again")
        });
        Line { place, name: name.to_owned(), finding }
    };
    findings.into_iter().map(line).collect()
}
