//! What is delivered to: brokers, files, handlers.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::{BoxFuture, FutureExt as _};
use outbox::errors::ErrorSink;
use outbox::http::Endpoint;
use outbox::lines::Lines;
use outbox::meter::Meters;
use outbox::rabbitmq::Exchange;
use outbox::smtp::Mailer;
use outbox::sql::Statements;
use outbox::{Cause, ErrorKind, Message, Outcome, Result, Sink, code};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::config::{endpoint_config, exchange_config, mail_config, meter_config, statements, topic_config};
use super::database::{Databases, Inbox};
use crate::connection::Connection;
use crate::health::Check;
use crate::options::TopicOptions;
use crate::plan::{SinkPlan, Target};

/// The sinks of a run. What several pipes lead to is one and the same, save for the inbox before it: there each pipe
/// is a consumer of its own.
pub struct Sinks {
    ready: BTreeMap<String, Ready>,
    checks: BTreeMap<String, Check>,
    databases: Arc<Databases>,
}

/// A sink as far as it is the same for all pipes.
#[derive(Clone)]
enum Ready {
    /// All of it.
    Sink(Arc<dyn Sink>),
    /// Statements, which need the transaction of the inbox.
    Sql(Statements),
    /// One of the program's own, with whatever inbox it needs.
    Own(Arc<dyn Sink>),
}

impl Sinks {
    /// None yet; databases are those that handlers and inboxes share.
    pub fn new(databases: Arc<Databases>) -> Self {
        Self { ready: BTreeMap::new(), checks: BTreeMap::new(), databases }
    }

    /// Makes a sink ready, as far as that needs no database. `unread` is told when nobody reads standard output any
    /// more. Servers that are not there are no error here.
    pub fn prepare(&mut self, plan: &SinkPlan, unread: &CancellationToken) -> Result<()> {
        let sink: Arc<dyn Sink> = match &plan.target {
            Target::Stdout => Arc::new(Lines::writer("standard output", Stdout { unread: unread.clone() })),
            Target::File(path) => Arc::new(Lines::file(path)),
            Target::Exchange(connection, options) => {
                let exchange = Arc::new(Exchange::new(connection.url.reveal(), exchange_config(options)?)?);
                let checked = exchange.clone();
                let check = move || {
                    let exchange = checked.clone();
                    async move { exchange.check().await }.boxed()
                };
                self.checks.insert(plan.name.clone(), Box::new(check));
                exchange
            }
            Target::Topic(connection, options) => {
                let (topic, check) = topic(connection, options)?;
                self.checks.insert(plan.name.clone(), check);
                topic
            }
            Target::Http(options) => Arc::new(Endpoint::new(endpoint_config(options)?)?),
            Target::Mail(connection, options) => {
                let config = mail_config(options, connection.plaintext)?;
                Arc::new(Mailer::new(connection.url.reveal(), config)?)
            }
            Target::Metrics(meters) => Arc::new(Meters::new(meter_config(meters)?)?),
            Target::Sql(connection, options) => {
                let statements = Ready::Sql(statements(connection.kind, options)?);
                self.ready.insert(plan.name.clone(), statements);
                return Ok(());
            }
            Target::ErrorLog(connection, options) => {
                let (databases, connection) = (self.databases.clone(), connection.clone());
                let options = options.clone();
                let later = Later::new(move || {
                    let (databases, connection) = (databases.clone(), connection.clone());
                    let options = options.clone();
                    async move {
                        let log = databases.error_log(&connection, &options).await?;
                        Ok(Arc::new(ErrorSink::new(log)) as Arc<dyn Sink>)
                    }
                    .boxed()
                });
                Arc::new(later.taking_defects())
            }
        };
        self.ready.insert(plan.name.clone(), Ready::Sink(sink));
        Ok(())
    }

    /// Lets a sink of the program's own stand in for the one of this name.
    pub fn put(&mut self, name: &str, sink: Arc<dyn Sink>) {
        self.ready.insert(name.to_owned(), Ready::Own(sink));
    }

    /// Ways to ask whether a sink on a broker can be reached, by name of the sink, over the connection that it uses itself.
    pub fn take_checks(&mut self) -> BTreeMap<String, Check> {
        std::mem::take(&mut self.checks)
    }

    /// The sink as a pipe has it; none if it could not be made ready.
    pub fn of_pipe(&self, plan: &SinkPlan, pipe: &str) -> Option<Arc<dyn Sink>> {
        let ready = self.ready.get(&plan.name)?.clone();
        let inbox = match (&ready, &plan.inbox) {
            (Ready::Own(sink), _) | (Ready::Sink(sink), None) => return Some(sink.clone()),
            (_, inbox) => inbox.clone()?,
        };
        let (databases, pipe) = (self.databases.clone(), pipe.to_owned());
        Some(Arc::new(Later::new(move || {
            let (databases, inbox, pipe, ready) =
                (databases.clone(), inbox.clone(), pipe.clone(), ready.clone());
            async move { ready.behind(&databases.inbox(&inbox).await?, &pipe) }.boxed()
        })))
    }
}

impl Ready {
    /// Behind an inbox, as this consumer.
    fn behind(self, inbox: &Inbox, consumer: &str) -> Result<Arc<dyn Sink>> {
        match self {
            Self::Sink(sink) | Self::Own(sink) => Ok(inbox.once(consumer, sink)),
            Self::Sql(statements) => inbox.sql(consumer, statements),
        }
    }
}

/// A sink with a database that may not be there yet. Until it is, nothing is delivered and nothing charged, as with
/// every other outage, and the other pipes go on.
struct Later {
    open: Box<dyn Fn() -> Opening + Send + Sync>,
    sink: OnceCell<Arc<dyn Sink>>,
    takes_defects: bool,
}

type Opening = BoxFuture<'static, Result<Arc<dyn Sink>>>;

impl Later {
    fn new(open: impl Fn() -> Opening + Send + Sync + 'static) -> Self {
        Self { open: Box::new(open), sink: OnceCell::new(), takes_defects: false }
    }

    /// What takes them must say so before it is open: until then they would die of it.
    fn taking_defects(mut self) -> Self {
        self.takes_defects = true;
        self
    }
}

#[async_trait]
impl Sink for Later {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let error = match self.sink.get_or_try_init(&self.open).await {
            Ok(sink) => return sink.deliver(messages).await,
            Err(error) => error,
        };
        let code = match error.kind() {
            ErrorKind::Denied => code::FORBIDDEN,
            ErrorKind::Timeout => code::TIMEOUT,
            _ => code::UNREACHABLE,
        };
        let why = format!("its database cannot be used: {}; {}", error.chain(), error.advice());
        vec![Outcome::Unavailable(Cause::new(code, why)); messages.len()]
    }

    fn takes_defects(&self) -> bool {
        self.takes_defects
    }
}

#[cfg(feature = "kafka")]
fn topic(connection: &Connection, options: &TopicOptions) -> Result<(Arc<dyn Sink>, Check)> {
    let config = topic_config(options)?;
    let topic = Arc::new(outbox::kafka::Topic::new(connection.url.reveal(), config)?);
    let checked = topic.clone();
    let check = move || {
        let topic = checked.clone();
        async move { topic.check().await }.boxed()
    };
    Ok((topic, Box::new(check)))
}

#[cfg(not(feature = "kafka"))]
fn topic(_: &Connection, options: &TopicOptions) -> Result<(Arc<dyn Sink>, Check)> {
    topic_config(options)?.check()?;
    Err(outbox::Error::new(ErrorKind::Config, super::WITHOUT_KAFKA))
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
