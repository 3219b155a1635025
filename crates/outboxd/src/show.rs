//! The effective plan, for people and for scripts: every default filled in, every secret masked.
//!
//! Without secrets in it, what is shown as TOML is itself a configuration with the same plan.

use std::time::Duration;

use outbox::table::{Draft, Mapping};
use serde_json::{Map, Value, json};

use crate::connection::Connection;
use crate::options::{
    ExchangeKind, ExchangeOptions, GROUP_WORDS, LAYOUT_WORDS, LEVELS, LayoutWord, LogFormat, ON_DEAD_WORDS,
    ORDER_WORDS, OUTAGE_WORDS, QueueKind, Start, TableOptions, TemplateOptions, TopicOptions, Topology, word,
};
use crate::plan::{Layout, PipePlan, Plan, SinkPlan, SourcePlan, Target};
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
        "pipes": plan.pipes.values().map(|pipe| (pipe.name.clone(), show_pipe(pipe, plan))).collect::<Map<_, _>>(),
        "log": { "format": word(&LogFormat::WORDS, plan.log.format), "level": word(&LEVELS, plan.log.level) },
    });
    if let Some(relay) = &plan.relay {
        shown["relay"] = json!({ "name": relay });
    }
    shown
}

fn show_source(source: &SourcePlan) -> Value {
    let options = match &source.layout {
        Layout::Log(options) => options,
        Layout::Table(options) => return show_table(source, options),
    };
    json!({
        "on": source.connection.name,
        "layout": word(&LAYOUT_WORDS, LayoutWord::Log),
        "retention": show_retention(options.retention),
        "max_payload": show_size(options.limits.payload),
        "max_headers": options.limits.headers,
        "max_header_bytes": show_size(options.limits.header_bytes),
        "notify": options.notify,
    })
}

/// What the preset says is written out, so that the mapping can be copied and changed.
fn show_table(source: &SourcePlan, options: &TableOptions) -> Value {
    let draft = Draft::from(&options.mapping);
    let shown = json!({
        "on": source.connection.name,
        "layout": word(&LAYOUT_WORDS, LayoutWord::Table),
        "schema": draft.schema,
        "table": draft.table,
        "tables": some_list(draft.tables),
        "id": draft.id,
        "type": draft.kind,
        "key": draft.key,
        "payload": draft.payload,
        "content_type": draft.content_type,
        "headers": draft.headers,
        "occurred_at": draft.occurred_at,
        "order_by": some_list(draft.order_by),
        "pending": draft.pending,
        "done": draft.done,
        "failed": draft.failed,
        "dead": draft.dead,
        "attempts": draft.attempts,
        "error": draft.error,
        "due": draft.due,
        "stamp": draft.stamp,
        "stamp_timeout": draft.stamp_timeout.map(show_duration),
        "lock": draft.lock,
        "retention": options.mapping.done_at().map(|_| show_retention(options.retention)),
        "header_columns": (!draft.header_columns.is_empty()).then_some(draft.header_columns),
        "processed": draft.processed_table.map(|table| {
            without_nulls(json!({ "table": table, "id": draft.processed_id, "at": draft.processed_at }))
        }),
    });
    without_nulls(shown)
}

fn some_list(list: Vec<String>) -> Option<Vec<String>> {
    (!list.is_empty()).then_some(list)
}

/// TOML has no null: what is not set is not there.
fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(members) = &mut value {
        members.retain(|_, member| !member.is_null());
    }
    value
}

fn show_retention(retention: Option<Duration>) -> String {
    retention.map_or("never".to_owned(), show_duration)
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

fn show_pipe(pipe: &PipePlan, plan: &Plan) -> Value {
    let (options, policy) = (&pipe.options, &pipe.options.policy);
    let table = match plan.sources.get(&pipe.from).map(|source| &source.layout) {
        Some(Layout::Table(options)) => Some(&options.mapping),
        _ => None,
    };
    without_nulls(json!({
        "from": pipe.from,
        "to": pipe.to,
        "order": word(&ORDER_WORDS, policy.order),
        "on_dead": word(&ON_DEAD_WORDS, policy.on_dead),
        "outage": word(&OUTAGE_WORDS, policy.outage),
        // Where nothing is ever dead there is no number that could be set.
        "attempts": table.is_none_or(Mapping::can_be_dead).then_some(policy.attempts),
        "retry_first": show_duration(policy.retry.first),
        "retry_most": show_duration(policy.retry.most),
        "probe_first": show_duration(policy.probe.first),
        "probe_most": show_duration(policy.probe.most),
        "streak": policy.streak,
        "batch": options.batch,
        "depth": options.depth,
        "concurrency": options.concurrency,
        "group": word(&GROUP_WORDS, options.group),
        "lanes": options.lanes,
        "lease": show_duration(options.lease),
        "poll": show_duration(options.poll),
        "drain": show_duration(options.drain),
        "start": table.is_none().then(|| word(&Start::WORDS, options.start)),
    }))
}
