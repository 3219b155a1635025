//! The log, the inbox and their administration in PostgreSQL.
//!
//! No session state is used (no advisory lock, no named statement, nothing set on a connection), and every
//! statement of ours runs inside a transaction, so all of it works behind a pooler in transaction mode.

mod admin;
mod ahead;
mod connect;
mod cursor;
mod enqueue;
mod error;
mod examine;
mod find;
mod inbox;
mod lanes;
mod lease;
mod migrate;
mod page;
mod rebase;
mod replay;
mod row;
mod settle;
mod sheet;
mod sql;
mod store;
mod table;
mod undone;
mod upkeep;
mod wake;
mod window;

use std::sync::Arc;

use sqlx::postgres::{PgPool, PgPoolOptions};

pub use crate::source::Start;
pub use cursor::Cursor;
pub use examine::examine_clock;
pub use inbox::Inbox;
pub use migrate::{migrations, script};
pub use sheet::{audit, beats, error_log, mapped_error_log, pauses};
pub use sql::examine_statements;
pub use store::LogStore;
pub use table::Table;

use wake::Wake;

use crate::error::Result;
use crate::message::Limits;

/// An outbox in PostgreSQL: write to it, read it, see after it.
#[derive(Debug, Clone)]
pub struct Outbox {
    pool: PgPool,
    limits: Limits,
    wake: Option<Arc<Wake>>,
}

impl Outbox {
    /// Connects with a pool of its own, fit for a pooler in between.
    pub async fn connect(url: &str) -> Result<Self> {
        let options = connect::options(url)?;
        connect::try_once(&options).await?;
        let pool = PgPoolOptions::new()
            .max_connections(8)
            .acquire_timeout(connect::LIMIT)
            .connect_lazy_with(options);
        Ok(Self::new(pool))
    }

    /// An outbox on a pool that exists.
    pub fn new(pool: PgPool) -> Self {
        Self { pool, limits: Limits::default(), wake: None }
    }

    /// Sets what a message may weigh. For writers in other languages `migrate` puts the same into the table.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether writers wake readers by NOTIFY; a hint that saves some latency and costs each commit a little.
    #[must_use]
    pub fn notify(mut self, notify: bool) -> Self {
        self.wake = notify.then(|| Arc::new(Wake::new(&self.pool)));
        self
    }

    /// The pool.
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// A reader of the log with its own pace and failures; it bears the name of its pipe.
    pub fn cursor(&self, name: impl Into<String>) -> Cursor {
        Cursor::new(self.pool.clone(), name.into(), self.wake.clone())
    }

    /// Where a [`Publisher`](crate::Publisher) keeps what it cannot send; the pipe of this name delivers it.
    pub fn store(&self, pipe: impl Into<String>) -> LogStore {
        LogStore::new(self.clone(), pipe.into())
    }

    /// The inbox in the same database.
    pub fn inbox(&self) -> Inbox {
        Inbox::new(self.pool.clone())
    }
}
