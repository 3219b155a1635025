//! The sinks of the effective plan.

use serde_json::{Value, json};

use super::{handler, show_retention, show_templates};
use crate::connection::Connection;
use crate::options::{ExchangeKind, ExchangeOptions, QueueKind, TopicOptions, Topology, word};
use crate::plan::{SinkPlan, Target};
use crate::quantity::{show_duration, show_size};

pub(super) fn show_sink(sink: &SinkPlan) -> Value {
    let mut shown = match &sink.target {
        Target::Stdout => json!({ "stdout": true }),
        Target::File(path) => json!({ "file": path }),
        Target::Exchange(connection, options) => show_exchange(connection, options),
        Target::Topic(connection, options) => show_topic(connection, options),
        Target::Http(options) => handler::show_endpoint(options),
        Target::Sql(connection, options) => handler::show_sql(connection, options),
        Target::Mail(connection, options) => handler::show_mail(connection, options),
        Target::Metrics(meters) => handler::show_metrics(meters),
        Target::ErrorLog(connection, options) => handler::show_error_log(connection, options),
    };
    if let Some(inbox) = &sink.inbox {
        shown["inbox"] = handler::show_inbox(inbox, &sink.target);
        shown["inbox_window"] = match (inbox.window, &inbox.table) {
            (None, Some(_)) => Value::Null,
            (window, _) => json!(show_retention(window)),
        };
    }
    shown
}

fn show_topic(connection: &Connection, options: &TopicOptions) -> Value {
    let mut shown = json!({
        "on": connection.name,
        "topic": options.topic,
        "compression": options.compression.as_str(),
        "timeout": show_duration(options.timeout),
        "max_message": show_size(options.max_message),
        "headers": show_templates(&options.headers),
    });
    if let Some(file) = &options.ca_file {
        shown["ca_file"] = json!(file);
    }
    shown
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
        "headers": show_templates(&options.headers),
    })
}
