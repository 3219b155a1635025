//! The effective plan, for people and for scripts: every default filled in, every secret masked.
//!
//! Without secrets in it, what is shown as TOML is itself a configuration with the same plan.

use serde_json::{Map, Value, json};

use crate::connection::Connection;
use crate::options::{
    ExchangeKind, ExchangeOptions, LEVELS, LogFormat, ON_DEAD_WORDS, ORDER_WORDS, OUTAGE_WORDS, QueueKind,
    Start, TemplateOptions, TopicOptions, Topology, word,
};
use crate::plan::{PipePlan, Plan, SinkPlan, SourcePlan, Target};
use crate::quantity::{show_duration, show_size};

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
        "pipes": plan.pipes.values().map(|pipe| (pipe.name.clone(), show_pipe(pipe))).collect::<Map<_, _>>(),
        "log": { "format": word(&LogFormat::WORDS, plan.log.format), "level": word(&LEVELS, plan.log.level) },
    });
    if let Some(relay) = &plan.relay {
        shown["relay"] = json!({ "name": relay });
    }
    shown
}

fn show_source(source: &SourcePlan) -> Value {
    let options = &source.options;
    json!({
        "on": source.connection.name,
        "layout": "log",
        "retention": options.retention.map_or("never".to_owned(), show_duration),
        "max_payload": show_size(options.limits.payload),
        "max_headers": options.limits.headers,
        "max_header_bytes": show_size(options.limits.header_bytes),
        "notify": options.notify,
    })
}

fn show_sink(sink: &SinkPlan) -> Value {
    match &sink.target {
        Target::Stdout => json!({ "stdout": true }),
        Target::File(path) => json!({ "file": path }),
        Target::Exchange(connection, options) => show_exchange(connection, options),
        Target::Topic(connection, options) => show_topic(connection, options),
    }
}

fn show_topic(connection: &Connection, options: &TopicOptions) -> Value {
    let mut shown = json!({
        "on": connection.name,
        "topic": options.topic,
        "compression": options.compression.as_str(),
        "timeout": show_duration(options.timeout),
        "max_message": show_size(options.max_message),
        "headers": show_headers(&options.headers),
    });
    if let Some(file) = &options.ca_file {
        shown["ca_file"] = json!(file);
    }
    shown
}

fn show_headers(headers: &[TemplateOptions]) -> Map<String, Value> {
    headers.iter().map(|header| (header.name.clone(), json!(header.template))).collect()
}

fn show_exchange(connection: &Connection, options: &ExchangeOptions) -> Value {
    let queues = options.queues.iter().map(
        |queue| json!({ "name": queue.name, "keys": queue.keys, "type": word(&QueueKind::WORDS, queue.kind) }),
    );
    json!({
        "on": connection.name,
        "exchange": options.exchange,
        "kind": word(&ExchangeKind::WORDS, options.kind),
        "routing_key": options.routing_key,
        "topology": word(&Topology::WORDS, options.topology),
        "timeout": show_duration(options.timeout),
        "max_message": show_size(options.max_message),
        "queues": queues.collect::<Vec<_>>(),
        "headers": show_headers(&options.headers),
    })
}

fn show_pipe(pipe: &PipePlan) -> Value {
    let (options, policy) = (&pipe.options, &pipe.options.policy);
    json!({
        "from": pipe.from,
        "to": pipe.to,
        "order": word(&ORDER_WORDS, policy.order),
        "on_dead": word(&ON_DEAD_WORDS, policy.on_dead),
        "outage": word(&OUTAGE_WORDS, policy.outage),
        "attempts": policy.attempts,
        "retry_first": show_duration(policy.retry.first),
        "retry_most": show_duration(policy.retry.most),
        "probe_first": show_duration(policy.probe.first),
        "probe_most": show_duration(policy.probe.most),
        "streak": policy.streak,
        "batch": options.batch,
        "depth": options.depth,
        "concurrency": options.concurrency,
        "lanes": options.lanes,
        "lease": show_duration(options.lease),
        "poll": show_duration(options.poll),
        "drain": show_duration(options.drain),
        "start": word(&Start::WORDS, options.start),
    })
}
