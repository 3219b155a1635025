//! A look at every source and sink of the configuration: what was found, with the fix to copy.
//!
//! It changes nothing, save for the messages of a probe. What is looked at in a database or a broker is asked by the
//! library; what is asked of which is in `doctor/`.

use std::future::Future;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt, join_all};
use outbox::{Finding, Level};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Office, choose};
use crate::doctor;
use crate::mistake::{Mistake, did_you_mean};
use crate::plan::{Plan, SinkPlan, SourcePlan};
use crate::trouble::Trouble;

/// Whatever hangs must not hang us.
const PATIENCE: Duration = Duration::from_secs(60);

/// What to look at.
#[derive(Debug, Clone, Default)]
pub struct DoctorRequest {
    /// Only this source.
    pub source: Option<String>,
    /// Only this sink.
    pub sink: Option<String>,
    /// Sends a message through every exchange, to see whether a queue takes it.
    pub probe: bool,
    /// Types to make routing keys and topics of; by default those that wait in the source.
    pub kinds: Vec<String>,
}

/// What was found.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Findings)]
pub struct Report {
    /// The worst level of all: `ok`, `warning` or `failure`.
    #[schema(value_type = String)]
    pub worst: Level,
    /// One for each thing that was looked at.
    pub findings: Vec<Line>,
}

/// Where something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = FindingPlace)]
pub enum Place {
    /// A source.
    Source,
    /// A sink.
    Sink,
    /// This program, and the others that run the same pipes.
    Relay,
    /// The configuration.
    Config,
}

impl Place {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Sink => "sink",
            Self::Relay => "relay",
            Self::Config => "config",
        }
    }
}

/// A finding, and where it was found.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Finding)]
pub struct Line {
    /// Where.
    pub place: Place,
    /// Its name in the configuration.
    pub name: String,
    /// How it is meant: `ok`, `warning` or `failure`.
    #[schema(value_type = String)]
    pub level: Level,
    /// What was looked at, in a few words that stay the same.
    pub what: String,
    /// What was found.
    pub evidence: String,
    /// What to do about it: a statement, a line of configuration or a command to copy, or a sentence.
    pub fix: Option<String>,
}

impl Line {
    fn new(place: Place, name: &str, finding: Finding) -> Self {
        let Finding { level, what, evidence, fix } = finding;
        // A pipe tries again by itself, a look does not.
        let fix = fix.map(|fix| {
            let fix = fix.replace("it is tried again by itself", "try again later");
            fix.replace("work resumes by itself", "then try again")
        });
        Self { place, name: name.to_owned(), level, what, evidence, fix }
    }
}

/// Looks at what is meant, all at once: what does not answer hides nothing else.
pub async fn doctor(office: &Office, request: &DoctorRequest) -> Result<Report, Trouble> {
    let plan = &*office.plan;
    let (sources, sinks) = meant(request, plan)?;
    let mut looks: Vec<BoxFuture<'_, Vec<Line>>> = Vec::new();
    for source in sources {
        looks.push(bounded(Place::Source, &source.name, doctor::source(plan, source)).boxed());
    }
    for sink in sinks {
        looks.push(bounded(Place::Sink, &sink.name, doctor::sink(request, plan, sink)).boxed());
    }
    // Who names a source or a sink means neither the program nor the configuration.
    let is_about_all = request.source.is_none() && request.sink.is_none();
    if is_about_all {
        looks.push(bounded(Place::Relay, "here", doctor::relay(office)).boxed());
    }
    let mut findings: Vec<Line> = join_all(looks).await.into_iter().flatten().collect();
    if is_about_all {
        findings.extend(office.warnings.iter().map(warned));
    }
    let worst = findings.iter().map(|line| line.level).max().unwrap_or(Level::Ok);
    Ok(Report { worst, findings })
}

/// A warning of the configuration, at its place.
fn warned(warning: &Mistake) -> Line {
    let name = format!("{}:{}", warning.line, warning.column);
    Line::new(Place::Config, &name, Finding::warning("configuration", &warning.what).fix(&warning.help))
}

/// The named ones, or all; who names a source does not mean the sinks.
fn meant<'p>(
    request: &DoctorRequest,
    plan: &'p Plan,
) -> Result<(Vec<&'p SourcePlan>, Vec<&'p SinkPlan>), Trouble> {
    let sources = match (&request.source, &request.sink) {
        (None, Some(_)) => Vec::new(),
        (None, None) => plan.sources.values().collect(),
        (Some(name), _) => choose(plan, Some(name))?,
    };
    let sinks = match (&request.source, &request.sink) {
        (Some(_), None) => Vec::new(),
        (None, None) => plan.sinks.values().collect(),
        (_, Some(name)) => match plan.sinks.get(name) {
            Some(sink) => vec![sink],
            None => {
                let help = did_you_mean(name, plan.sinks.keys().map(String::as_str));
                let what = format!("there is no sink '{name}' in the configuration");
                return Err(Trouble::usage(what, help).unknown());
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
    findings.into_iter().map(|finding| Line::new(place, name, finding)).collect()
}
