//! The one table from kinds to backends: the only folder that knows which databases, brokers and handlers there are.
//!
//! `source.rs` opens what is read, `sink.rs` what is delivered to, `database.rs` the databases of handlers and inboxes;
//! `config.rs` says what the options of the configuration mean to the library.

mod config;
mod database;
mod letters;
mod sink;
mod source;
mod way_back;

use outbox::template::Template;
use outbox::{Migration, mysql, postgres, sqlite};

use crate::cli::args::Database as Kind;
use crate::connection;
use crate::options::{
    EndpointOptions, ErrorTableOptions, ExchangeOptions, GroupOptions, InboxTableOptions, MailOptions,
    MeterOptions, StatementOptions, WorkQueueOptions,
};

pub use config::{
    endpoint_config, exchange_config, group_config, mail_config, statements, topic_config, work_queue_config,
};
pub use database::{Database, Databases, Inbox};
pub use letters::letters;
pub use sink::Sinks;
pub use source::{Log, Opened, reading};
pub use way_back::way_back;

/// What a program without Kafka says of what needs it.
#[cfg(not(feature = "kafka"))]
pub const WITHOUT_KAFKA: &str = "this outboxd was built without Kafka";

/// What to do about a program that lacks what a source or a sink needs.
pub const REBUILD: Option<&str> =
    if cfg!(feature = "kafka") { None } else { Some("build it with --features kafka") };

/// What to do about a template.
pub const TEMPLATE_HELP: &str = "write text with {type}, {type.dotted}, {key}, {id}, {time.unix}, {correlation_id}, {header.NAME} or {payload.PATH} in it";

/// Whether RabbitMQ can have it so.
pub fn check_exchange(options: &ExchangeOptions) -> Result<(), String> {
    exchange_config(options).and_then(|config| config.check()).map_err(|error| error.chain())
}

/// Whether the template of a topic, when it names the same one for every message, names one that there can be.
pub fn check_topic(template: &str) -> Result<(), &'static str> {
    match Template::parse(template) {
        Ok(template) => template.as_text().map_or(Ok(()), outbox::kafka::check_topic_name),
        Err(_) => Ok(()),
    }
}

/// Whether a template can be used.
pub fn check_template(template: &str) -> Result<(), String> {
    Template::parse(template).map(drop).map_err(|error| error.chain())
}

/// Whether an endpoint can be called so.
pub fn check_endpoint(options: &EndpointOptions) -> Result<(), String> {
    config::endpoint_config(options).and_then(|config| config.check()).map_err(|error| error.chain())
}

/// Whether a secret can sign; the error does not repeat it.
pub fn check_secret(text: &str) -> Result<(), String> {
    outbox::http::Secret::parse(text).map(drop).map_err(|error| error.chain())
}

/// Whether RabbitMQ can have it so.
pub fn check_work_queue(options: &WorkQueueOptions) -> Result<(), String> {
    work_queue_config(options).check().map_err(|error| error.chain())
}

/// Whether Kafka can have it so.
pub fn check_group(options: &GroupOptions) -> Result<(), String> {
    group_config(options).check().map_err(|error| error.chain())
}

/// Whether these are statements of such a database.
pub fn check_statements(kind: connection::Kind, options: &StatementOptions) -> Result<(), String> {
    config::statements(kind, options).map(drop).map_err(|error| error.chain())
}

/// Whether a letter can be made so.
pub fn check_mail(options: &MailOptions) -> Result<(), String> {
    config::mail_config(options, false).and_then(|config| config.check()).map_err(|error| error.chain())
}

/// Whether a figure can be kept so.
pub fn check_meter(options: &MeterOptions) -> Result<(), String> {
    let config = config::meter_config(std::slice::from_ref(options));
    config.and_then(|config| config.check()).map_err(|error| error.chain())
}

/// Whether a table can take errors, as far as its names tell.
pub fn check_error_table(options: &ErrorTableOptions) -> Result<(), String> {
    config::error_table(options).map(drop).map_err(|error| error.chain())
}

/// Whether a table can be an inbox, as far as its names tell.
pub fn check_inbox_table(options: &InboxTableOptions, prune: bool) -> Result<(), String> {
    config::inbox_table(options, prune).map(drop).map_err(|error| error.chain())
}

/// The steps of a kind of database.
pub fn migrations(database: Kind) -> &'static [Migration] {
    match database {
        Kind::Postgres => postgres::migrations(),
        Kind::Sqlite => sqlite::migrations(),
        Kind::Mysql => mysql::migrations(),
    }
}

/// The steps of a kind of database as one script, after which `migrate` finds nothing to do.
pub fn script(database: Kind) -> String {
    match database {
        Kind::Postgres => postgres::script(),
        Kind::Sqlite => sqlite::script(),
        Kind::Mysql => mysql::script(),
    }
}
