//! The databases, as far as something is measured in them.

mod postgres;
mod sqlite;

use outbox::Message;

use super::load::{Load, TYPE};
use super::measure::Book;
use super::processes::Server;
use super::relay::{DATABASE, Job};

pub(super) use postgres::Postgres;
pub(super) use sqlite::Sqlite;

/// Messages in one transaction of a handler: the default of a pipe to `sql`.
pub(super) const BATCH: u64 = 100;

/// Where outboxes are made.
pub(super) enum Database {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// One outbox, made anew.
pub(super) enum Log {
    Sqlite(sqlite::Log),
    Postgres(postgres::Log),
}

/// What one transaction of an application writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// A row of its own.
    Order,
    /// A row of its own, and one with what an event has in it, by a plain INSERT into a table without readers.
    OrderAndRow,
    /// A row of its own, and an event.
    OrderAndEvent,
    /// An event.
    Event,
}

impl Act {
    fn has_order(self) -> bool {
        self != Self::Event
    }
}

/// A session of an application.
pub(super) enum Writer {
    Sqlite(sqlite::Writer),
    Postgres(postgres::Writer),
}

impl Database {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }

    /// What it is, with its version.
    pub(super) async fn version(&self) -> anyhow::Result<String> {
        match self {
            Self::Sqlite(sqlite) => sqlite.version().await,
            Self::Postgres(postgres) => postgres.version().await,
        }
    }

    /// An empty outbox; what was there before is gone.
    pub(super) async fn fresh(&self) -> anyhow::Result<Log> {
        Ok(match self {
            Self::Sqlite(sqlite) => Log::Sqlite(sqlite.fresh().await?),
            Self::Postgres(postgres) => Log::Postgres(postgres.fresh().await?),
        })
    }

    /// Its processes, if they are on this machine.
    pub(super) fn server(&self) -> Option<Server> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(postgres) => postgres.server,
        }
    }

    /// What it has counted so far.
    pub(super) async fn book(&self) -> Option<Book> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(postgres) => postgres.book().await,
        }
    }

    /// Leaves it as it was.
    pub(super) async fn clean(&self) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(_) => Ok(()),
            Self::Postgres(postgres) => postgres.clean().await,
        }
    }
}

impl Log {
    /// Writes messages with numbers from `from` on, as fast as it goes.
    pub(super) async fn fill(&self, load: Load, from: u64) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(log) => log.fill(load, from).await,
            Self::Postgres(log) => log.fill(load, from).await,
        }
    }

    /// The session pool of PostgreSQL, for loops that are written for it.
    pub(super) fn pool(&self) -> Option<&sqlx::PgPool> {
        match self {
            Self::Sqlite(_) => None,
            Self::Postgres(log) => Some(log.pool()),
        }
    }

    /// How many messages are settled.
    pub(super) async fn delivered(&self) -> anyhow::Result<u64> {
        match self {
            Self::Sqlite(log) => log.delivered().await,
            Self::Postgres(log) => log.delivered().await,
        }
    }

    /// How many effects there are, counted one by one.
    pub(super) async fn all_effects(&self) -> anyhow::Result<u64> {
        match self {
            Self::Sqlite(log) => log.all_effects().await,
            Self::Postgres(log) => log.all_effects().await,
        }
    }

    /// How many effects the handler has had.
    pub(super) async fn effects(&self) -> anyhow::Result<u64> {
        match self {
            Self::Sqlite(log) => log.effects().await,
            Self::Postgres(log) => log.effects().await,
        }
    }

    /// A job that reads this log.
    pub(super) fn job(&self) -> Job {
        Job { source: "on = \"database\"".to_owned(), environment: vec![self.variable()], ..Job::default() }
    }

    /// The variable with the URL.
    pub(super) fn variable(&self) -> (&'static str, String) {
        match self {
            Self::Sqlite(log) => (DATABASE, log.url.clone()),
            Self::Postgres(log) => (DATABASE, log.url.reveal().to_owned()),
        }
    }

    /// The sink of a handler that writes its effects here, under an inbox.
    pub(super) fn handler(&self) -> String {
        let table = match self {
            Self::Sqlite(_) => "bench_effects (id, n)",
            Self::Postgres(_) => "outboxd_bench.effects (id, n)",
        };
        format!("on = \"database\"\nsql = \"INSERT INTO {table} VALUES (:id, :payload.n)\"")
    }

    /// The two statements of a handler with an inbox, bare: so many messages, `BATCH` in a transaction.
    pub(super) async fn two_statements(&self, messages: &[Message]) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(log) => log.two_statements(messages).await,
            Self::Postgres(log) => log.two_statements(messages).await,
        }
    }

    /// The same by a function in Rust, from this log, with the library alone; ends when it has handled so many.
    pub(super) async fn function(&self, count: u64) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(log) => log.function(count).await,
            Self::Postgres(log) => log.function(count).await,
        }
    }

    /// A session of an application.
    pub(super) async fn writer(&self) -> anyhow::Result<Writer> {
        Ok(match self {
            Self::Sqlite(log) => Writer::Sqlite(log.writer().await?),
            Self::Postgres(log) => Writer::Postgres(log.writer().await?),
        })
    }

    /// Removes what is done.
    pub(super) async fn purge(&self) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(log) => log.purge().await,
            Self::Postgres(log) => log.purge().await,
        }
    }
}

impl Writer {
    /// One transaction.
    pub(super) async fn write(&mut self, act: Act, load: Load, number: u64) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(writer) => writer.write(act, load, number).await,
            Self::Postgres(writer) => writer.write(act, load, number).await,
        }
    }

    /// A transaction with so many events, each by a statement of its own.
    pub(super) async fn write_many(
        &mut self,
        load: Load,
        numbers: std::ops::Range<u64>,
    ) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(writer) => writer.write_many(load, numbers).await,
            Self::Postgres(writer) => writer.write_many(load, numbers).await,
        }
    }
}

/// The message of a number.
pub(super) fn message(load: Load, number: u64) -> Message {
    Message::new(TYPE, load.payload(number)).key(load.key(number)).content_type("application/json")
}
