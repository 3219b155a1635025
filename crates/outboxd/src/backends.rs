//! The one table from kinds to backends: the only file that knows which databases and brokers there are.

use std::sync::Arc;

use outbox::admin::Admin;
use outbox::{Error, ErrorKind, Message, MessageId, Migration, Result, Sink, Source};
use tokio_util::sync::CancellationToken;

use crate::cli::args::Database;
use crate::plan::{PipePlan, SinkPlan, SourcePlan};

/// What a template of a routing key may hold.
pub const TEMPLATE_HELP: &str = "write text with {type}, {key} or {header.NAME} in it";

/// Whether a template of a routing key can be used.
pub fn check_template(_template: &str) -> Result<(), String> {
    Ok(())
}

/// The steps of a kind of database.
pub fn migrations(_database: Database) -> &'static [Migration] {
    &[]
}

/// The steps of a kind of database as one script, after which `migrate` finds nothing to do.
pub fn script(database: Database) -> String {
    migrations(database).iter().map(|step| step.sql).collect()
}

/// An open outbox.
#[derive(Clone)]
pub enum Log {}

impl Log {
    /// Opens an outbox that must be there.
    pub async fn open(source: &SourcePlan) -> Result<Self> {
        // Connecting would make the file, and a mistyped path would go unnoticed.
        match source.connection.sqlite_file() {
            Some(file) if !file.exists() => Err(Error::new(ErrorKind::NotMigrated, "there is no such file")),
            _ => Self::connect(source).await,
        }
    }

    /// Opens the outbox of a source; a SQLite file is made if there is none.
    pub async fn connect(_source: &SourcePlan) -> Result<Self> {
        Err(Error::new(ErrorKind::Unexpected, "no database is built in"))
    }

    /// To see and repair it.
    pub fn admin(&self) -> &dyn Admin {
        match *self {}
    }

    /// Brings its tables to this version; tells which steps were taken.
    pub async fn migrate(&self) -> Result<Vec<String>> {
        match *self {}
    }

    /// Writes one message in a transaction of its own.
    pub async fn enqueue(&self, _message: Message) -> Result<MessageId> {
        match *self {}
    }

    /// The cursors of a pipe, one per lane.
    pub fn cursors(&self, _pipe: &PipePlan, _owner: &str) -> Vec<Arc<dyn Source>> {
        match *self {}
    }
}

/// The sink of a plan. `stop` is told when there is nobody left to write to.
pub fn sink(_plan: &SinkPlan, _stop: &CancellationToken) -> Result<Arc<dyn Sink>> {
    Err(Error::new(ErrorKind::Unexpected, "no sink is built in"))
}
