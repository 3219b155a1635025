//! Private servers for the tests: PostgreSQL, MariaDB, RabbitMQ, Kafka, pgbouncer, a mail server, Prometheus, a browser,
//! and a network that fails on command.
//!
//! Every server runs in a temporary folder on a free port of 127.0.0.1; one that runs already is never
//! touched. It ends with the process that started it, however that ends. A test asks for the shared
//! server of the run and gets a database or a virtual host of its own; a test that stops, kills or blocks
//! a server starts a private one.
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! let Some(postgres) = testbed::postgres().await else { return Ok(()) };
//! let database = postgres.database().await?;
//! println!("{}", database.url());
//! # Ok(())
//! # }
//! ```
//!
//! Nothing here belongs to the runtime of the test that asked first: the work is done on plain threads.

mod browser;
mod certificates;
mod kafka;
mod leash;
mod mariadb;
mod missing;
mod pgbouncer;
mod port;
mod postgres;
mod prometheus;
mod rabbitmq;
mod run;
mod server;
mod smtp;

pub use browser::{Browser, Page};
pub use certificates::Certificates;
pub use faults::Proxy;
#[cfg(feature = "kafka")]
pub use kafka::Record;
pub use kafka::{Kafka, PASSWORD, STRANGER, USER};
pub use mariadb::MariaDb;
pub use missing::{Missing, SKIPS, available, in_ci, skip};
pub use pgbouncer::PgBouncer;
pub use postgres::{Database, Postgres};
pub use prometheus::{Alert, Prometheus, Rule, Sample, promtool};
pub use rabbitmq::{RabbitMq, Vhost};
pub use run::with;
pub use smtp::{Mail, Smtp};

/// The shared PostgreSQL, or `None` when the test is to be skipped: see [`available`].
pub async fn postgres() -> Option<&'static Postgres> {
    available(Postgres::shared().await)
}

/// The shared MariaDB, or `None` when the test is to be skipped: see [`available`].
pub async fn mariadb() -> Option<&'static MariaDb> {
    available(MariaDb::shared().await)
}

/// The shared RabbitMQ, or `None` when the test is to be skipped: see [`available`].
pub async fn rabbitmq() -> Option<&'static RabbitMq> {
    available(RabbitMq::shared().await)
}

/// The shared Kafka: Apache Kafka, or librdkafka's mock cluster where that cannot be had, which is said loudly.
/// `None` only without the feature `kafka`, when the test is to be skipped.
pub async fn kafka() -> Option<&'static Kafka> {
    available(Kafka::shared().await)
}

/// The mail server that the tests of this process share, or `None` when the test is to be skipped: see [`available`].
pub async fn smtp() -> Option<&'static Smtp> {
    available(Smtp::shared().await)
}

/// Runs what blocks on a thread of its own, so that the tasks of the test go on meanwhile.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await?
}
