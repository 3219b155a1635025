//! The sources of the effective plan.

use outbox::broker::Pick;
use outbox::table::Draft;
use serde_json::{Map, Value, json};

use super::{show_delays, show_retention, some_list};
use crate::options::{
    Argument, Envelope, ExchangeKind, FormOptions, GroupOptions, LAYOUT_WORDS, LayoutWord, QueueKind, Start,
    TableOptions, Topology, WorkQueueOptions, word,
};
use crate::plan::{Layout, SourcePlan};
use crate::quantity::{show_duration, show_size};

pub(super) fn show_source(source: &SourcePlan) -> Value {
    let options = match &source.layout {
        Layout::Log(options) => options,
        Layout::Table(options) => return show_table(source, options),
        Layout::Queue(options) => return show_queue(source, options),
        Layout::Topic(options) => return show_topics(source, options),
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
    json!({
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
            json!({ "table": table, "id": draft.processed_id, "at": draft.processed_at })
        }),
    })
}

fn show_queue(source: &SourcePlan, options: &WorkQueueOptions) -> Value {
    let bind = options.bind.iter().map(|bind| {
        json!({ "exchange": bind.exchange, "kind": word(&ExchangeKind::WORDS, bind.kind), "keys": bind.keys })
    });
    let arguments = options.arguments.iter().map(|(name, value)| {
        let value = match value {
            Argument::Integer(number) => json!(number),
            Argument::Text(text) => json!(text),
            Argument::Flag(flag) => json!(flag),
        };
        (name.clone(), value)
    });
    let shown = json!({
        "on": source.connection.name,
        "queue": options.queue,
        "kind": word(&QueueKind::WORDS, options.kind),
        "topology": word(&Topology::WORDS, options.topology),
        "retry": show_delays(&options.retry),
        "dead": options.dead,
        "prefetch": options.prefetch,
        "single_active": options.single_active,
        "bind": bind.collect::<Vec<_>>(),
        "arguments": arguments.collect::<Map<_, _>>(),
    });
    with_form(shown, &options.form)
}

fn show_topics(source: &SourcePlan, options: &GroupOptions) -> Value {
    let shown = json!({
        "on": source.connection.name,
        "topics": options.topics,
        "group": options.group,
        "topology": word(&Topology::WORDS, options.topology),
        "retry": show_delays(&options.retry),
        "dead": options.dead,
        "start": word(&Start::WORDS, options.start),
        "ca_file": options.ca_file,
        "session_timeout": show_duration(options.session_timeout),
    });
    with_form(shown, &options.form)
}

fn with_form(mut shown: Value, form: &FormOptions) -> Value {
    let picks = |picks: &[Pick]| picks.iter().map(ToString::to_string).collect::<Vec<_>>();
    shown["envelope"] = json!(word(&Envelope::WORDS, form.envelope));
    shown["id"] = json!(picks(&form.picks.id));
    shown["type"] = json!(picks(&form.picks.kind));
    shown["key"] = json!(picks(&form.picks.key));
    shown["max_payload"] = json!(show_size(form.max_payload));
    shown
}
