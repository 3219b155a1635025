//! What is read: outboxes in databases, queues and topics on brokers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use outbox::admin::Admin;
use outbox::policy::{OnDead, Order};
use outbox::rabbitmq::WorkQueue;
use outbox::table::{Mapping, Reading};
use outbox::{Error, ErrorKind, Finding, Message, MessageId, Result, Source, Store, mysql, postgres, sqlite};

use super::config::work_queue_config;
use super::database::Database;
use crate::connection::Kind;
use crate::options::{PipeOptions, Start};
use crate::plan::{Layout, PipePlan, SourcePlan};

/// A source that pipes can read from.
#[derive(Clone)]
pub enum Opened {
    /// An outbox, which can be asked how it stands.
    Log(Log),
    /// A queue, which connects when it is first asked for a message.
    Queue(Arc<WorkQueue>),
    /// Topics, the same.
    #[cfg(feature = "kafka")]
    Topic(Arc<outbox::kafka::Group>),
}

impl Opened {
    /// Opens a source that must be there. A broker that cannot be reached is no error here.
    pub async fn open(source: &SourcePlan) -> Result<Self> {
        match &source.layout {
            Layout::Log(_) | Layout::Table(_) => Log::open(source).await.map(Self::Log),
            Layout::Queue(options) => {
                let url = source.connection.url.reveal();
                Ok(Self::Queue(Arc::new(WorkQueue::new(url, work_queue_config(options))?)))
            }
            #[cfg(feature = "kafka")]
            Layout::Topic(options) => {
                let (url, config) = (source.connection.url.reveal(), super::config::group_config(options));
                Ok(Self::Topic(Arc::new(outbox::kafka::Group::new(url, config)?)))
            }
            #[cfg(not(feature = "kafka"))]
            Layout::Topic(_) => Err(Error::new(ErrorKind::Config, super::WITHOUT_KAFKA)),
        }
    }

    /// What a pipe reads, one for each lane.
    pub fn sources(&self, pipe: &PipePlan, owner: &str) -> Vec<Arc<dyn Source>> {
        match self {
            Self::Log(log) => log.cursors(pipe, owner),
            Self::Queue(queue) => vec![queue.clone()],
            #[cfg(feature = "kafka")]
            Self::Topic(group) => vec![group.clone()],
        }
    }

    /// The outbox, if it is one.
    pub fn log(&self) -> Option<&Log> {
        match self {
            Self::Log(log) => Some(log),
            _ => None,
        }
    }

    /// Whether it can be reached and is as configured.
    pub async fn check(&self) -> Result<()> {
        match self {
            Self::Log(log) => log.admin().status().await.map(drop),
            Self::Queue(queue) => queue.check().await,
            #[cfg(feature = "kafka")]
            Self::Topic(group) => group.check().await,
        }
    }

    /// How long each topic that is read keeps its records, none without end; nothing of other sources.
    pub async fn retentions(&self) -> Result<BTreeMap<String, Option<Duration>>> {
        match self {
            Self::Log(_) | Self::Queue(_) => Ok(BTreeMap::new()),
            #[cfg(feature = "kafka")]
            Self::Topic(group) => group.retentions().await,
        }
    }

    /// A closer look at what is there on a broker, which makes nothing; nothing of other sources.
    pub async fn examine(&self) -> Vec<Finding> {
        match self {
            Self::Log(_) => Vec::new(),
            Self::Queue(queue) => queue.examine().await,
            #[cfg(feature = "kafka")]
            Self::Topic(group) => group.examine_topics().await,
        }
    }

    /// A broker cannot be asked what is left for us: after so long without a message there is nothing, most likely.
    /// None if the source can be asked.
    pub fn quiet(&self) -> Option<Duration> {
        match self {
            Self::Log(_) => None,
            Self::Queue(_) => Some(Duration::from_secs(3)),
            // A new member gets its partitions only after a while.
            #[cfg(feature = "kafka")]
            Self::Topic(_) => Some(Duration::from_secs(10)),
        }
    }
}

/// An open outbox.
#[derive(Clone)]
pub enum Log {
    /// In PostgreSQL.
    Postgres(postgres::Outbox),
    /// In SQLite.
    Sqlite(sqlite::Outbox),
    /// A mapped table, in PostgreSQL.
    PostgresTable(Box<postgres::Table>),
    /// A mapped table, in MariaDB or MySQL.
    MySqlTable(Box<mysql::Table>),
}

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
    pub async fn connect(source: &SourcePlan) -> Result<Self> {
        let url = source.connection.url.reveal();
        let options = match &source.layout {
            Layout::Log(options) => options,
            Layout::Table(options) => return Self::table(source, url, &options.mapping).await,
            Layout::Queue(_) | Layout::Topic(_) => {
                return Err(Error::new(ErrorKind::Config, "a broker has no outbox"));
            }
        };
        match source.connection.kind {
            Kind::Postgres => {
                let outbox = postgres::Outbox::connect(url).await?;
                Ok(Self::Postgres(outbox.limits(options.limits).notify(options.notify)))
            }
            Kind::Sqlite => Ok(Self::Sqlite(sqlite::Outbox::connect(url).await?.limits(options.limits))),
            Kind::MySql => Err(Error::new(ErrorKind::Config, "there is no log in MySQL yet")),
            Kind::Amqp | Kind::Kafka | Kind::Smtp => {
                Err(Error::new(ErrorKind::Config, "only a database has an outbox"))
            }
        }
    }

    async fn table(source: &SourcePlan, url: &str, mapping: &Mapping) -> Result<Self> {
        let reader = source.reader.as_deref().unwrap_or(&source.name);
        match source.connection.kind {
            Kind::Postgres => {
                let table = postgres::Table::connect(url, mapping.clone()).await?;
                Ok(Self::PostgresTable(Box::new(table.pipe(reader))))
            }
            Kind::MySql => {
                let table = mysql::Table::connect(url, mapping.clone()).await?;
                Ok(Self::MySqlTable(Box::new(table.pipe(reader))))
            }
            _ => Err(Error::new(ErrorKind::Config, "a mapped table needs PostgreSQL, MariaDB or MySQL")),
        }
    }

    /// The database of a log; a mapped table keeps its connections to itself.
    pub fn database(&self) -> Option<Database> {
        match self {
            Self::Postgres(outbox) => Some(Database::Postgres(outbox.pool().clone())),
            Self::Sqlite(outbox) => Some(Database::Sqlite(outbox.pool().clone())),
            Self::PostgresTable(_) | Self::MySqlTable(_) => None,
        }
    }

    /// To see and repair it.
    pub fn admin(&self) -> &dyn Admin {
        match self {
            Self::Postgres(outbox) => outbox,
            Self::Sqlite(outbox) => outbox,
            Self::PostgresTable(table) => &**table,
            Self::MySqlTable(table) => &**table,
        }
    }

    /// Brings its tables to this version; tells which steps were taken.
    pub async fn migrate(&self) -> Result<Vec<String>> {
        match self {
            Self::Postgres(outbox) => outbox.migrate().await,
            Self::Sqlite(outbox) => outbox.migrate().await,
            // It is its application's.
            Self::PostgresTable(_) | Self::MySqlTable(_) => Ok(Vec::new()),
        }
    }

    /// Writes one message in a transaction of its own.
    pub async fn enqueue(&self, message: Message) -> Result<MessageId> {
        let lost = |error: sqlx::Error| {
            Error::new(ErrorKind::Unreachable, "the connection to the database is lost").caused_by(error)
        };
        match self {
            Self::Postgres(outbox) => {
                let mut tx = outbox.pool().begin().await.map_err(lost)?;
                let id = outbox.enqueue(&mut tx, message).await?;
                tx.commit().await.map_err(lost)?;
                Ok(id)
            }
            Self::Sqlite(outbox) => {
                let mut tx = outbox.pool().begin().await.map_err(lost)?;
                let id = outbox.enqueue(&mut tx, message).await?;
                tx.commit().await.map_err(lost)?;
                Ok(id)
            }
            Self::PostgresTable(_) | Self::MySqlTable(_) => {
                Err(Error::new(ErrorKind::Invalid, "a mapped table is written by its application"))
            }
        }
    }

    /// Where a publisher keeps what it cannot send; `pipe` is the one that delivers it.
    pub fn store(&self, pipe: &PipePlan) -> Result<Arc<dyn Store>> {
        let holds = reading(&pipe.options, "").holds;
        Ok(match self {
            Self::Postgres(outbox) => Arc::new(outbox.store(&pipe.name)),
            Self::Sqlite(outbox) => Arc::new(outbox.store(&pipe.name)),
            Self::PostgresTable(table) => table.store(holds)?,
            Self::MySqlTable(table) => table.store(holds)?,
        })
    }

    /// The cursors of a pipe, one per lane.
    pub fn cursors(&self, pipe: &PipePlan, owner: &str) -> Vec<Arc<dyn Source>> {
        let options = &pipe.options;
        match self {
            Self::Postgres(outbox) => {
                let start = match options.start {
                    Start::Beginning => postgres::Start::Beginning,
                    Start::Now => postgres::Start::Now,
                };
                let cursor = outbox.cursor(&pipe.name).owner(owner).lease(options.lease).start(start);
                shared(cursor.lanes(options.lanes))
            }
            Self::Sqlite(outbox) => {
                let start = match options.start {
                    Start::Beginning => sqlite::Start::Beginning,
                    Start::Now => sqlite::Start::Now,
                };
                let cursor = outbox.cursor(&pipe.name).owner(owner).lease(options.lease).start(start);
                shared(cursor.lanes(options.lanes))
            }
            Self::PostgresTable(table) => table.sources(&reading(options, owner)),
            Self::MySqlTable(table) => table.sources(&reading(options, owner)),
        }
    }
}

/// How a pipe reads a mapped table.
pub fn reading(options: &PipeOptions, owner: &str) -> Reading {
    let ordered = options.policy.order == Order::Key;
    Reading {
        owner: owner.to_owned(),
        lanes: options.lanes,
        lease: options.lease,
        ordered,
        holds: ordered && options.policy.on_dead == OnDead::Hold,
        depth: options.depth,
    }
}

fn shared<S: Source + 'static>(cursors: Vec<S>) -> Vec<Arc<dyn Source>> {
    cursors.into_iter().map(|cursor| Arc::new(cursor) as Arc<dyn Source>).collect()
}
