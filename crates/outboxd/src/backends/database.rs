//! The databases of handlers and inboxes. A connection is one pool, whoever uses it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outbox::audit::Audit;
use outbox::beats::Beats;
use outbox::errors::ErrorLog;
use outbox::pauses::Pauses;
use outbox::sql::Statements;
use outbox::{
    Error, ErrorKind, Finding, Handled, Inbox as _, MessageId, Once, Result, Sink, mysql, postgres, sqlite,
};
use sqlx::{MySqlPool, PgPool, SqlitePool};

use super::config::{error_table, inbox_table};
use crate::connection::{Connection, Kind};
use crate::options::ErrorLogOptions;
use crate::plan::InboxPlan;

/// An open database.
#[derive(Clone)]
pub enum Database {
    /// PostgreSQL.
    Postgres(PgPool),
    /// SQLite.
    Sqlite(SqlitePool),
    /// MariaDB or MySQL.
    MySql(MySqlPool),
}

impl Database {
    /// Connects; a SQLite file is made if there is none.
    pub async fn connect(connection: &Connection) -> Result<Self> {
        let url = connection.url.reveal();
        match connection.kind {
            Kind::Postgres => Ok(Self::Postgres(postgres::Outbox::connect(url).await?.pool().clone())),
            Kind::Sqlite => Ok(Self::Sqlite(sqlite::Outbox::connect(url).await?.pool().clone())),
            Kind::MySql => Ok(Self::MySql(mysql::connect(url).await?)),
            Kind::Amqp | Kind::Kafka | Kind::Smtp => {
                Err(Error::new(ErrorKind::Config, "this is no connection to a database"))
            }
        }
    }

    /// Connects to a database that must be there.
    pub async fn open(connection: &Connection) -> Result<Self> {
        // Connecting would make the file, and a mistyped path would go unnoticed.
        match connection.sqlite_file() {
            Some(file) if !file.exists() => Err(Error::new(ErrorKind::NotMigrated, "there is no such file")),
            _ => Self::connect(connection).await,
        }
    }

    /// Brings our tables in it to this version; tells which steps were taken. A log in it keeps its limits, which
    /// another configuration may have set.
    pub async fn migrate(&self) -> Result<Vec<String>> {
        match self {
            Self::Postgres(pool) => postgres::Outbox::new(pool.clone()).migrate_tables().await,
            Self::Sqlite(pool) => sqlite::Outbox::new(pool.clone()).migrate_tables().await,
            Self::MySql(pool) => mysql::migrate(pool).await,
        }
    }

    /// How many connections its pool has, and how many of them nobody uses.
    pub fn connections(&self) -> (u32, u32) {
        let (all, idle) = match self {
            Self::Postgres(pool) => (pool.size(), pool.num_idle()),
            Self::Sqlite(pool) => (pool.size(), pool.num_idle()),
            Self::MySql(pool) => (pool.size(), pool.num_idle()),
        };
        (all, u32::try_from(idle).unwrap_or(all))
    }

    /// Compares its clock with the one here; a file has none of its own.
    pub async fn clock(&self) -> Option<Finding> {
        match self {
            Self::Postgres(pool) => Some(postgres::examine_clock(pool).await),
            Self::Sqlite(_) => None,
            Self::MySql(pool) => Some(mysql::examine_clock(pool).await),
        }
    }

    /// Looks at statements, and runs none.
    pub async fn examine(&self, statements: &Statements) -> Vec<Finding> {
        match self {
            Self::Postgres(pool) => postgres::examine_statements(pool, statements).await,
            Self::Sqlite(pool) => sqlite::examine_statements(pool, statements).await,
            Self::MySql(pool) => mysql::examine_statements(pool, statements).await,
        }
    }
}

/// The databases of a run, each opened once, when somebody first asks for it.
#[derive(Default)]
pub struct Databases(Mutex<BTreeMap<String, Database>>);

impl Databases {
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Database>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are open, by name of the connection.
    pub fn opened(&self) -> Vec<(String, Database)> {
        self.known().iter().map(|(name, database)| (name.clone(), database.clone())).collect()
    }

    /// The database of a connection, which must be there.
    pub async fn open(&self, connection: &Connection) -> Result<Database> {
        if let Some(database) = self.known().get(&connection.name) {
            return Ok(database.clone());
        }
        // Not under the lock: one that does not answer keeps nobody else waiting. Of two pools the first stays.
        let database = Database::open(connection).await?;
        Ok(self.known().entry(connection.name.clone()).or_insert(database).clone())
    }

    /// An inbox; a table of somebody else's is checked.
    pub async fn inbox(&self, plan: &InboxPlan) -> Result<Inbox> {
        let table = plan.table.as_ref().map(|table| inbox_table(table, plan.window.is_some())).transpose()?;
        Ok(match (self.open(&plan.connection).await?, table) {
            (Database::Postgres(pool), None) => Inbox::Postgres(Arc::new(postgres::Inbox::new(pool))),
            (Database::Postgres(pool), Some(table)) => {
                Inbox::Postgres(Arc::new(postgres::Inbox::mapped(pool, table).await?))
            }
            (Database::Sqlite(pool), None) => Inbox::Sqlite(Arc::new(sqlite::Inbox::new(pool))),
            (Database::Sqlite(pool), Some(table)) => {
                Inbox::Sqlite(Arc::new(sqlite::Inbox::mapped(pool, table).await?))
            }
            (Database::MySql(pool), None) => Inbox::MySql(Arc::new(mysql::Inbox::new(pool))),
            (Database::MySql(pool), Some(table)) => {
                Inbox::MySql(Arc::new(mysql::Inbox::mapped(pool, table).await?))
            }
        })
    }
}

impl Databases {
    /// The book of repairs in a database.
    pub async fn audit(&self, connection: &Connection) -> Result<Arc<dyn Audit>> {
        Ok(match self.open(connection).await? {
            Database::Postgres(pool) => postgres::audit(pool),
            Database::Sqlite(pool) => sqlite::audit(pool),
            Database::MySql(pool) => mysql::audit(pool),
        })
    }

    /// The beats of all instances, in a database.
    pub async fn beats(&self, connection: &Connection) -> Result<Arc<dyn Beats>> {
        Ok(match self.open(connection).await? {
            Database::Postgres(pool) => postgres::beats(pool),
            Database::Sqlite(pool) => sqlite::beats(pool),
            Database::MySql(pool) => mysql::beats(pool),
        })
    }

    /// The pipes that are paused, in a database.
    pub async fn pauses(&self, connection: &Connection) -> Result<Arc<dyn Pauses>> {
        Ok(match self.open(connection).await? {
            Database::Postgres(pool) => postgres::pauses(pool),
            Database::Sqlite(pool) => sqlite::pauses(pool),
            Database::MySql(pool) => mysql::pauses(pool),
        })
    }

    /// An error log; a table of somebody else's is checked.
    pub async fn error_log(
        &self,
        connection: &Connection,
        options: &ErrorLogOptions,
    ) -> Result<Arc<dyn ErrorLog>> {
        let table = match options {
            ErrorLogOptions::Ours => None,
            ErrorLogOptions::Mapped(mapped) => Some(error_table(mapped)?),
        };
        match (self.open(connection).await?, table) {
            (Database::Postgres(pool), None) => Ok(postgres::error_log(pool)),
            (Database::Postgres(pool), Some(table)) => postgres::mapped_error_log(pool, table).await,
            (Database::Sqlite(pool), None) => Ok(sqlite::error_log(pool)),
            (Database::Sqlite(pool), Some(table)) => sqlite::mapped_error_log(pool, table).await,
            (Database::MySql(pool), None) => Ok(mysql::error_log(pool)),
            (Database::MySql(pool), Some(table)) => mysql::mapped_error_log(pool, table).await,
        }
    }
}

/// An open inbox.
pub enum Inbox {
    /// In PostgreSQL.
    Postgres(Arc<postgres::Inbox>),
    /// In SQLite.
    Sqlite(Arc<sqlite::Inbox>),
    /// In MariaDB or MySQL.
    MySql(Arc<mysql::Inbox>),
}

impl Inbox {
    /// The sink behind the inbox: what the consumer has had does not reach it again.
    pub fn once(&self, consumer: &str, sink: Arc<dyn Sink>) -> Arc<dyn Sink> {
        match self {
            Self::Postgres(inbox) => Arc::new(Once::new(inbox.clone(), consumer, sink)),
            Self::Sqlite(inbox) => Arc::new(Once::new(inbox.clone(), consumer, sink)),
            Self::MySql(inbox) => Arc::new(Once::new(inbox.clone(), consumer, sink)),
        }
    }

    /// A sink that runs statements, in one transaction with the inbox.
    pub fn sql(&self, consumer: &str, statements: Statements) -> Result<Arc<dyn Sink>> {
        Ok(match self {
            Self::Postgres(inbox) => Arc::new(inbox.sql(consumer, statements)?),
            Self::Sqlite(inbox) => Arc::new(inbox.sql(consumer, statements)?),
            Self::MySql(inbox) => Arc::new(inbox.sql(consumer, statements)?),
        })
    }

    /// Whether it can be asked, which needs its table.
    pub async fn check(&self) -> Result<()> {
        let id = MessageId::from("outboxd-doctor");
        match self {
            Self::Postgres(inbox) => inbox.known("outboxd-doctor", &[&id]).await.map(drop),
            Self::Sqlite(inbox) => inbox.known("outboxd-doctor", &[&id]).await.map(drop),
            Self::MySql(inbox) => inbox.known("outboxd-doctor", &[&id]).await.map(drop),
        }
    }

    /// What became of a message with all consumers, in order of time.
    pub async fn history(&self, id: &MessageId) -> Result<Vec<Handled>> {
        match self {
            Self::Postgres(inbox) => inbox.history(id).await,
            Self::Sqlite(inbox) => inbox.history(id).await,
            Self::MySql(inbox) => inbox.history(id).await,
        }
    }

    /// Forgets one step of a consumer's ids that are older than the window; tells how many.
    pub async fn prune(&self, consumer: &str, window: Duration, step: u32) -> Result<u64> {
        match self {
            Self::Postgres(inbox) => inbox.prune(consumer, window, step).await,
            Self::Sqlite(inbox) => inbox.prune(consumer, window, step).await,
            Self::MySql(inbox) => inbox.prune(consumer, window, step).await,
        }
    }
}
