//! A look at a sink. A kind of sink is one arm of the match, and a function of its own.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::path::Path;

use outbox::rabbitmq::{Exchange, ExchangeConfig};
use outbox::template::Template;
use outbox::{Finding, Level, Message};

use super::source::types;
use super::{handler, kafka};
use crate::backends;
use crate::connection::Connection;
use crate::ops::doctor::DoctorRequest;
use crate::plan::{Plan, SinkPlan, Target};

/// Probes are messages that a consumer meets: not more of them than this.
const PROBES: usize = 20;

/// Looks at a sink.
pub async fn examine(request: &DoctorRequest, plan: &Plan, sink: &SinkPlan) -> Vec<Finding> {
    let mut findings = examine_target(request, plan, sink).await;
    if let Some(inbox) = &sink.inbox {
        findings.push(handler::inbox(inbox).await);
    }
    for connection in databases(sink) {
        findings.extend(handler::clock(connection).await);
    }
    findings
}

/// The databases of a sink, each once.
fn databases(sink: &SinkPlan) -> Vec<&Connection> {
    let own = match &sink.target {
        Target::Sql(connection, _) | Target::ErrorLog(connection, _) => Some(connection),
        _ => None,
    };
    let inbox = sink.inbox.as_ref().map(|inbox| &inbox.connection);
    let mut all: Vec<_> = own.into_iter().chain(inbox).collect();
    all.dedup_by_key(|connection| &connection.name);
    all
}

async fn examine_target(request: &DoctorRequest, plan: &Plan, sink: &SinkPlan) -> Vec<Finding> {
    match &sink.target {
        Target::Stdout => vec![Finding::ok("output", "standard output")],
        Target::File(path) => vec![file(path)],
        Target::Http(options) => vec![handler::endpoint(options).await],
        Target::Mail(connection, options) => vec![handler::mail(connection, options).await],
        Target::Metrics(meters) => {
            let listens = if plan.http.is_some() { "shown on GET /metrics" } else { "not shown to anybody" };
            vec![Finding::ok("metrics", format!("{} figures, {listens}", meters.len()))]
        }
        Target::Sql(connection, options) => handler::sql(connection, options).await,
        Target::ErrorLog(connection, options) => vec![handler::error_log(connection, options).await],
        Target::Topic(connection, options) => {
            let config = match backends::topic_config(options) {
                Ok(config) => config,
                Err(error) => return vec![Finding::error("topic", &error)],
            };
            let (topics, mut findings) = rendered("topic", &config.topic, request, plan, sink).await;
            findings.splice(0..0, kafka::examine(connection.url.reveal(), &config, &topics).await);
            findings
        }
        Target::Exchange(connection, options) => {
            let config = match backends::exchange_config(options) {
                Ok(config) => config,
                Err(error) => return vec![Finding::error("connection", &error)],
            };
            let url = connection.url.reveal();
            let mut findings = Exchange::examine(url, &config).await;
            // Who does not let us in routes nothing either.
            if let [Finding { level: Level::Failure, .. }] = findings[..] {
                return findings;
            }
            if request.probe {
                findings.extend(probe(request, plan, sink, url, &config).await);
            } else {
                let evidence = format!(
                    "not probed: a broker cannot be asked for its routes; `outboxd doctor --sink {} --probe` sends a message",
                    sink.name
                );
                findings.push(Finding::ok("route", evidence));
            }
            findings
        }
    }
}

/// Whether lines can be written to a file; it is not made, and nothing is left in its folder.
fn file(path: &Path) -> Finding {
    let shown = path.display();
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let tried = if path.exists() {
        OpenOptions::new().append(true).open(path).map(drop)
    } else {
        tempfile::tempfile_in(folder).map(drop)
    };
    match tried {
        Ok(()) => Finding::ok("file", format!("{shown} can be written")),
        Err(error) if !folder.exists() => {
            Finding::failure("file", format!("the folder of {shown} is not there: {error}"))
                .fix(format!("mkdir -p '{}'", folder.display()))
        }
        Err(error) => Finding::failure("file", format!("{shown} cannot be written: {error}"))
            .fix(format!("let this user write to '{}'", folder.display())),
    }
}

/// One probe for every routing key that the types give.
async fn probe(
    request: &DoctorRequest,
    plan: &Plan,
    sink: &SinkPlan,
    url: &str,
    config: &ExchangeConfig,
) -> Vec<Finding> {
    let (keys, mut findings) = rendered("route", &config.routing_key, request, plan, sink).await;
    if keys.len() > PROBES {
        let evidence =
            format!("{} routing keys, of which {PROBES} are probed; name others with --type", keys.len());
        findings.push(Finding::warning("route", evidence));
    }
    for key in keys.into_iter().take(PROBES) {
        findings.push(Exchange::probe(url, config, &key).await);
    }
    findings
}

/// What a template makes of the types that there are: routing keys, or topics.
async fn rendered(
    what: &str,
    template: &Template,
    request: &DoctorRequest,
    plan: &Plan,
    sink: &SinkPlan,
) -> (BTreeSet<String>, Vec<Finding>) {
    // One that is the same for every message needs no type.
    if let Some(text) = template.as_text() {
        return (BTreeSet::from([text.to_owned()]), Vec::new());
    }
    let (mut kinds, mut findings) = (request.kinds.iter().cloned().collect::<BTreeSet<_>>(), Vec::new());
    if kinds.is_empty() {
        for pipe in plan.pipes.values().filter(|pipe| pipe.to == sink.name) {
            let Some(source) = plan.sources.get(&pipe.from) else { continue };
            match types(source).await {
                Ok(found) => kinds.extend(found),
                Err(error) => {
                    let evidence = format!("source '{}' tells no types: {}", source.name, error.chain());
                    findings.push(Finding::warning(what, evidence).fix("name a type with --type"));
                }
            }
        }
    }
    if kinds.is_empty() && findings.is_empty() {
        let evidence = "not looked at: no message of a source says which types there are";
        findings.push(Finding::warning(what, evidence).fix("name a type with --type"));
    }
    let mut keys = BTreeSet::new();
    for kind in kinds {
        match template.render(&Message::new(&kind, "")) {
            Ok(key) => {
                keys.insert(key.into_owned());
            }
            Err(error) => {
                let evidence = format!("not looked at for type '{kind}': {}", error.chain());
                findings.push(Finding::warning(what, evidence));
            }
        }
    }
    (keys, findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_tried_and_not_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lines.jsonl");
        assert_eq!(file(&path).level, Level::Ok);
        assert!(std::fs::read_dir(folder.path()).expect("a folder").next().is_none());
        let missing = file(&folder.path().join("out/lines.jsonl"));
        assert_eq!(missing.level, Level::Failure);
        assert!(missing.fix.expect("a fix").starts_with("mkdir -p '"));
        assert_eq!(file(folder.path()).level, Level::Failure, "a folder is no file");
    }
}
