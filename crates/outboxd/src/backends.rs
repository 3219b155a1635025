//! The one table from kinds to backends: the only file that knows which databases and brokers there are.

use std::io::{self, Write};
use std::sync::Arc;

use outbox::admin::Admin;
use outbox::kafka::{TopicConfig, check_topic_name};
use outbox::lines::Lines;
use outbox::policy::{OnDead, Order};
use outbox::rabbitmq::{self, Exchange, ExchangeConfig, QueueConfig};
use outbox::table::{Mapping, Reading};
use outbox::template::Template;
use outbox::{
    Error, ErrorKind, Message, MessageId, Migration, Result, Sink, Source, Store, mysql, postgres, sqlite,
};
use tokio_util::sync::CancellationToken;

use crate::cli::args::Database;
use crate::connection::{Connection, Kind};
use crate::options::{
    ExchangeKind, ExchangeOptions, PipeOptions, QueueKind, Start, TemplateOptions, TopicOptions, Topology,
};
use crate::plan::{Layout, PipePlan, SinkPlan, SourcePlan, Target};

/// What to do about a template.
pub const TEMPLATE_HELP: &str = "write text with {type}, {type.dotted}, {key}, {id}, {time.unix}, {correlation_id}, {header.NAME} or {payload.PATH} in it";

/// Whether RabbitMQ can have it so.
pub fn check_exchange(options: &ExchangeOptions) -> Result<(), String> {
    exchange_config(options).and_then(|config| config.check()).map_err(|error| error.chain())
}

/// Whether the template of a topic, when it names the same one for every message, names one that there can be.
pub fn check_topic(template: &str) -> Result<(), &'static str> {
    match Template::parse(template) {
        Ok(template) => template.as_text().map_or(Ok(()), check_topic_name),
        Err(_) => Ok(()),
    }
}

/// Whether a template can be used.
pub fn check_template(template: &str) -> Result<(), String> {
    Template::parse(template).map(drop).map_err(|error| error.chain())
}

/// The steps of a kind of database.
pub fn migrations(database: Database) -> &'static [Migration] {
    match database {
        Database::Postgres => postgres::migrations(),
        Database::Sqlite => sqlite::migrations(),
    }
}

/// The steps of a kind of database as one script, after which `migrate` finds nothing to do.
pub fn script(database: Database) -> String {
    match database {
        Database::Postgres => postgres::script(),
        Database::Sqlite => sqlite::script(),
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

/// The sink of a plan. `unread` is told when nobody reads standard output any more.
pub fn sink(plan: &SinkPlan, unread: &CancellationToken) -> Result<Arc<dyn Sink>> {
    Ok(match &plan.target {
        Target::Stdout => Arc::new(Lines::writer("standard output", Stdout { unread: unread.clone() })),
        Target::File(path) => Arc::new(Lines::file(path)),
        Target::Exchange(connection, options) => {
            Arc::new(Exchange::new(connection.url.reveal(), exchange_config(options)?)?)
        }
        Target::Topic(connection, options) => topic(connection, options)?,
        Target::Http(_) | Target::Sql(..) | Target::Mail(..) | Target::Metrics(_) | Target::ErrorLog(..) => {
            return Err(Error::new(ErrorKind::Config, "this outboxd cannot run such a sink yet"));
        }
    })
}

/// What the options of an exchange mean to its sink.
pub fn exchange_config(options: &ExchangeOptions) -> Result<ExchangeConfig> {
    let mut config = ExchangeConfig::new(&options.exchange);
    config.kind = match options.kind {
        ExchangeKind::Topic => rabbitmq::ExchangeKind::Topic,
        ExchangeKind::Direct => rabbitmq::ExchangeKind::Direct,
        ExchangeKind::Fanout => rabbitmq::ExchangeKind::Fanout,
        ExchangeKind::Headers => rabbitmq::ExchangeKind::Headers,
    };
    config.topology = match options.topology {
        Topology::Declare => rabbitmq::Topology::Declare,
        Topology::Check => rabbitmq::Topology::Check,
    };
    let queues = options.queues.iter().map(|queue| {
        let made = QueueConfig::new(&queue.name, queue.keys.iter().cloned());
        if queue.kind == QueueKind::Quorum { made.quorum() } else { made }
    });
    config.queues = queues.collect();
    config.routing_key = Template::parse(&options.routing_key)?;
    config.headers = headers(&options.headers)?;
    config.timeout = options.timeout;
    config.max_message = options.max_message;
    Ok(config)
}

fn headers(options: &[TemplateOptions]) -> Result<Vec<(String, Template)>> {
    options.iter().map(|header| Ok((header.name.clone(), Template::parse(&header.template)?))).collect()
}

#[cfg(feature = "kafka")]
fn topic(connection: &Connection, options: &TopicOptions) -> Result<Arc<dyn Sink>> {
    let config = topic_config(options)?;
    Ok(Arc::new(outbox::kafka::Topic::new(connection.url.reveal(), config)?))
}

#[cfg(not(feature = "kafka"))]
fn topic(_: &Connection, options: &TopicOptions) -> Result<Arc<dyn Sink>> {
    topic_config(options)?.check()?;
    Err(Error::new(ErrorKind::Config, "this outboxd was built without Kafka"))
}

/// What to do about a program that lacks what a sink needs.
pub const REBUILD: Option<&str> =
    if cfg!(feature = "kafka") { None } else { Some("build it with --features kafka") };

/// What the options of a topic mean to its sink.
pub fn topic_config(options: &TopicOptions) -> Result<TopicConfig> {
    let mut config = TopicConfig::new(Template::parse(&options.topic)?);
    config.headers = headers(&options.headers)?;
    config.compression = options.compression;
    config.timeout = options.timeout;
    config.max_message = options.max_message;
    config.ca_file.clone_from(&options.ca_file);
    Ok(config)
}

/// Standard output, which tells when its reader has gone (`| head`).
struct Stdout {
    unread: CancellationToken,
}

impl Stdout {
    fn check<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() == io::ErrorKind::BrokenPipe
            && !self.unread.is_cancelled()
        {
            tracing::info!("nobody reads standard output any more");
            self.unread.cancel();
        }
        result
    }
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check(io::stdout().lock().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.check(io::stdout().lock().flush())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_defaults_are_those_of_the_library() {
        let ours = exchange_config(&ExchangeOptions { exchange: "e".to_owned(), ..Default::default() });
        assert_eq!(ours.expect("the default template parses"), ExchangeConfig::new("e"));
        let header = TemplateOptions { name: "Type".to_owned(), template: "{type}".to_owned() };
        let ours = ExchangeOptions { headers: vec![header], ..Default::default() };
        let expected = Template::parse("{type}").expect("it parses");
        assert_eq!(exchange_config(&ours).expect("it parses").headers, [("Type".to_owned(), expected)]);
        let ours = topic_config(&TopicOptions { topic: "t".to_owned(), ..Default::default() });
        let theirs = TopicConfig::new(Template::parse("t").expect("it parses"));
        assert_eq!(ours.expect("it parses"), theirs);
    }
}
