//! The handlers of the effective plan, and their inboxes.

use serde_json::{Map, Value, json};

use super::show_templates;
use crate::connection::Connection;
use crate::options::{EndpointOptions, ErrorLogOptions, MailOptions, MeterOptions, StatementOptions};
use crate::plan::{InboxPlan, Target};
use crate::quantity::show_duration;
use crate::secret::MASK;

pub(super) fn show_endpoint(options: &EndpointOptions) -> Value {
    let secrets: Vec<String> = options.secrets.iter().map(ToString::to_string).collect();
    // What is told to an endpoint besides the message is as a rule what opens it, whatever the header is called.
    let headers = options.headers.iter().map(|one| {
        let shown = if one.has_text() { MASK } else { &one.template };
        (one.name.clone(), json!(shown))
    });
    json!({
        "http": options.url.place(),
        "secret": (!secrets.is_empty()).then_some(secrets),
        "timeout": show_duration(options.timeout),
        "private": options.private,
        "plaintext": options.plaintext,
        "ca_file": options.ca_file,
        "headers": headers.collect::<Map<_, _>>(),
    })
}

pub(super) fn show_sql(connection: &Connection, options: &StatementOptions) -> Value {
    json!({
        "on": connection.name,
        "sql": options.statements,
        "timeout": show_duration(options.timeout),
    })
}

pub(super) fn show_mail(connection: &Connection, options: &MailOptions) -> Value {
    json!({
        "on": connection.name,
        "from": options.from,
        "to": options.to,
        "cc": (!options.cc.is_empty()).then_some(&options.cc),
        "reply_to": options.reply_to,
        "subject": options.subject,
        "text": options.text,
        "html": options.html,
        "timeout": show_duration(options.timeout),
        "ca_file": options.ca_file,
    })
}

pub(super) fn show_metrics(meters: &[MeterOptions]) -> Value {
    let meters = meters.iter().map(|meter| {
        json!({
            (meter.kind.as_str()): meter.name,
            "help": meter.help,
            "value": meter.value,
            "buckets": (!meter.buckets.is_empty()).then_some(&meter.buckets),
            "labels": show_templates(&meter.labels),
            "types": (!meter.types.is_empty()).then_some(&meter.types),
        })
    });
    json!({ "metrics": meters.collect::<Vec<_>>() })
}

pub(super) fn show_error_log(connection: &Connection, options: &ErrorLogOptions) -> Value {
    let shown = match options {
        ErrorLogOptions::Ours => json!(true),
        ErrorLogOptions::Mapped(mapped) => {
            let columns = mapped.columns.iter().map(|(key, column)| ((*key).to_owned(), json!(column)));
            let mut shown = columns.collect::<Map<_, _>>();
            shown.insert("table".to_owned(), json!(mapped.table));
            shown.extend(mapped.schema.as_ref().map(|schema| ("schema".to_owned(), json!(schema))));
            shown.into()
        }
    };
    json!({ "on": connection.name, "error_log": shown })
}

/// The inbox of a sink with a database of its own is there, and the connection is not said again.
pub(super) fn show_inbox(inbox: &InboxPlan, target: &Target) -> Value {
    let on = (!matches!(target, Target::Sql(..))).then_some(&inbox.connection.name);
    match &inbox.table {
        None => json!(inbox.connection.name),
        Some(table) => json!({
            "on": on,
            "schema": table.schema,
            "table": table.table,
            "id": table.id,
            "at": table.at,
            "consumer": table.consumer,
        }),
    }
}
