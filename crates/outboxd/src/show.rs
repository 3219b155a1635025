//! The effective plan, for people and for scripts: every default filled in, every secret masked.
//!
//! Without secrets in it, what is shown as TOML is itself a configuration with the same plan.

mod handler;
mod sink;
mod source;

use std::time::Duration;

use outbox::table::Mapping;
use serde_json::{Map, Value, json};

use crate::ops::told::without_nulls;
use crate::options::{
    ANONYMOUS_WORDS, GROUP_WORDS, LEVELS, LogFormat, ON_DEAD_WORDS, ORDER_WORDS, OUTAGE_WORDS, PAYLOAD_WORDS,
    PersonOptions, Start, TemplateOptions, word,
};
use crate::plan::{AlertsPlan, HttpPlan, Layout, PipePlan, Plan, PublisherPlan, TracesPlan};
use crate::quantity::show_duration;
use crate::secret::MASK;
use sink::show_sink;
use source::show_source;

/// The plan as one value, in the shape of the configuration.
pub fn effective(plan: &Plan) -> Value {
    let connections = plan.connections.values().map(|connection| {
        let mut shown = json!({ "url": connection.url.to_string() });
        if connection.plaintext {
            shown["plaintext"] = json!(true);
        }
        (connection.name.clone(), shown)
    });
    let mut shown = json!({
        "connections": connections.collect::<Map<_, _>>(),
        "sources": plan.sources.values().map(|source| (source.name.clone(), show_source(source))).collect::<Map<_, _>>(),
        "sinks": plan.sinks.values().map(|sink| (sink.name.clone(), show_sink(sink))).collect::<Map<_, _>>(),
        "pipes": plan.pipes.values().map(|pipe| (pipe.name.clone(), show_pipe(pipe, plan))).collect::<Map<_, _>>(),
        "log": { "format": word(&LogFormat::WORDS, plan.log.format), "level": word(&LEVELS, plan.log.level) },
    });
    if let Some(http) = &plan.http {
        shown["http"] = show_http(http);
    }
    if !plan.publishers.is_empty() {
        let publishers = plan.publishers.values();
        shown["publishers"] =
            publishers.map(|one| (one.name.clone(), show_publisher(one))).collect::<Map<_, _>>().into();
    }
    if let Some(audit) = plan.audit.as_ref().filter(|audit| audit.chosen) {
        shown["audit"] = json!({ "on": audit.connection.name });
    }
    if let Some(alerts) = &plan.alerts {
        shown["alerts"] = show_alerts(alerts);
    }
    if let Some(traces) = &plan.traces {
        shown["traces"] = show_traces(traces);
    }
    if let Some(relay) = &plan.relay {
        shown["relay"] = json!({ "name": relay });
    }
    // TOML has no null: what is not set is not there.
    without_nulls(shown)
}

/// What is shown, as a configuration. There `${` would be a variable, so it is written as it must be written there.
pub fn to_toml(shown: &Value) -> Result<String, toml::ser::Error> {
    fn escaped(value: &Value) -> Value {
        match value {
            Value::String(text) => text.replace("${", "$${").into(),
            Value::Array(items) => items.iter().map(escaped).collect(),
            Value::Object(members) => {
                members.iter().map(|(name, member)| (name.clone(), escaped(member))).collect()
            }
            other => other.clone(),
        }
    }
    toml::to_string(&escaped(shown))
}

fn some_list(list: Vec<String>) -> Option<Vec<String>> {
    (!list.is_empty()).then_some(list)
}

fn show_delays(delays: &[Duration]) -> Vec<String> {
    delays.iter().copied().map(show_duration).collect()
}

fn show_templates(templates: &[TemplateOptions]) -> Map<String, Value> {
    templates.iter().map(|one| (one.name.clone(), json!(one.shown()))).collect()
}

fn show_http(http: &HttpPlan) -> Value {
    let access = &http.access;
    let people = access.people.iter().map(|(name, person)| (name.clone(), show_person(person)));
    json!({
        "listen": http.listen.to_string(),
        "token": http.token.as_ref().map(|_| MASK),
        "dashboard": access.dashboard,
        "hosts": access.hosts,
        "anonymous": word(&ANONYMOUS_WORDS, access.anonymous),
        "session_key": access.session_key.as_ref().map(|_| MASK),
        "session_lasts": show_duration(access.session_lasts),
        "payloads": word(&PAYLOAD_WORDS, access.payloads),
        "people": (!access.people.is_empty()).then(|| people.collect::<Map<_, _>>()),
    })
}

fn show_person(person: &PersonOptions) -> Value {
    json!({
        "role": person.role.as_str(),
        "password_hash": person.password_hash.as_ref().map(|_| MASK),
        "token": person.token.as_ref().map(|_| MASK),
    })
}

/// Of the endpoint only what cannot be secret: keys of collectors stand in paths too.
fn show_traces(traces: &TracesPlan) -> Value {
    let headers = traces.headers.iter().map(|(name, _)| (name.clone(), json!(MASK)));
    let headers: Map<_, _> = headers.collect();
    json!({
        "endpoint": traces.place,
        "headers": (!headers.is_empty()).then_some(headers),
        "sample": traces.sample,
        "service": traces.service,
        "plaintext": traces.plaintext.then_some(true),
        "ca_file": traces.ca_file,
    })
}

fn show_publisher(publisher: &PublisherPlan) -> Value {
    json!({
        "to": publisher.to,
        "keep": publisher.keep,
        "timeout": show_duration(publisher.timeout),
    })
}

fn show_alerts(alerts: &AlertsPlan) -> Value {
    let limits = &alerts.limits;
    json!({
        "to": some_list(alerts.to.clone()),
        "into": alerts.into,
        "every": show_duration(alerts.every),
        "limits": {
            "dead_letters": limits.dead_letters,
            "errors": limits.errors,
            "pending": limits.pending,
            "oldest": show_duration(limits.oldest),
            "dispatch": show_duration(limits.dispatch),
            "processing": show_duration(limits.processing),
            "error_percent": limits.error_percent,
        },
    })
}

fn show_retention(retention: Option<Duration>) -> String {
    retention.map_or("never".to_owned(), show_duration)
}

fn show_pipe(pipe: &PipePlan, plan: &Plan) -> Value {
    let (options, policy) = (&pipe.options, &pipe.options.policy);
    let source = plan.sources.get(&pipe.from);
    let table = match source.map(|source| &source.layout) {
        Some(Layout::Table(options)) => Some(&options.mapping),
        _ => None,
    };
    // A broker keeps what waits and what is dead by itself: the source says how.
    let ours = !source.is_some_and(|source| source.is_on_broker());
    let steps = policy.steps.as_deref().filter(|_| ours);
    let doubles = ours && steps.is_none();
    json!({
        "from": pipe.from,
        "to": pipe.to,
        "order": word(&ORDER_WORDS, policy.order),
        "on_dead": ours.then(|| word(&ON_DEAD_WORDS, policy.on_dead)),
        "outage": word(&OUTAGE_WORDS, policy.outage),
        // Where nothing is ever dead there is no number that could be set.
        "attempts": (doubles && table.is_none_or(Mapping::can_be_dead)).then_some(policy.attempts),
        "retry": steps.map(show_delays),
        "retry_first": doubles.then(|| show_duration(policy.retry.first)),
        "retry_most": doubles.then(|| show_duration(policy.retry.most)),
        "probe_first": show_duration(policy.probe.first),
        "probe_most": show_duration(policy.probe.most),
        "streak": policy.streak,
        "batch": options.batch,
        "depth": options.depth,
        "concurrency": options.concurrency,
        "group": word(&GROUP_WORDS, options.group),
        "lanes": ours.then_some(options.lanes),
        "lease": ours.then(|| show_duration(options.lease)),
        "poll": show_duration(options.poll),
        "drain": show_duration(options.drain),
        "start": (ours && table.is_none()).then(|| word(&Start::WORDS, options.start)),
        "objective": options.objective.map(show_duration),
        "unready_after": show_duration(options.unready_after),
    })
}
