//! Where messages go: a file, an exchange of RabbitMQ with one queue, a topic of Kafka.

mod file;
#[cfg(feature = "kafka")]
mod kafka;
mod rabbitmq;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;

use super::load::Load;
use super::measure::Pace;
use super::pacing::Pacing;
use super::processes::Server;
use super::relay::{Job, Relay};

#[cfg(feature = "kafka")]
pub(super) use kafka::Kafka;
pub(super) use rabbitmq::{QueueKind, Rabbit};

/// Messages that a raw client has in memory and sends again and again.
const STOCK: u64 = 1_000;

/// Where messages go.
pub(super) enum Way {
    File,
    Rabbit(Rabbit),
    #[cfg(feature = "kafka")]
    Kafka(Kafka),
}

/// What arrived, by its number, and when.
pub(super) type Arrivals = UnboundedReceiver<(u64, Instant)>;

/// Counts messages.
pub(super) enum Counter {
    File(PathBuf),
    Rabbit(Box<rabbitmq::Counter>),
    #[cfg(feature = "kafka")]
    Kafka(kafka::Counter),
}

impl Counter {
    /// How many there are.
    pub(super) async fn count(&self) -> anyhow::Result<u64> {
        match self {
            Self::File(folder) => file::count(folder),
            Self::Rabbit(counter) => counter.count().await,
            #[cfg(feature = "kafka")]
            Self::Kafka(counter) => counter.count().await,
        }
    }
}

impl Way {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Rabbit(rabbit) => rabbit.kind().name(),
            #[cfg(feature = "kafka")]
            Self::Kafka(_) => "kafka",
        }
    }

    /// What stands beside outboxd as its limit.
    pub(super) fn raw_name(&self) -> &'static str {
        match self {
            Self::File => "lines from memory, synced",
            Self::Rabbit(_) => "raw lapin from memory",
            #[cfg(feature = "kafka")]
            Self::Kafka(_) => "raw rdkafka from memory",
        }
    }

    /// Its processes, if they are on this machine.
    pub(super) fn server(&self) -> Option<Server> {
        match self {
            Self::File => None,
            Self::Rabbit(rabbit) => rabbit.server,
            #[cfg(feature = "kafka")]
            Self::Kafka(kafka) => kafka.server,
        }
    }

    /// Makes it anew, with nothing in it.
    pub(super) async fn fresh(&self, folder: &Path) -> anyhow::Result<()> {
        match self {
            Self::File => file::fresh(folder),
            Self::Rabbit(rabbit) => rabbit.fresh().await,
            #[cfg(feature = "kafka")]
            Self::Kafka(kafka) => kafka.fresh().await,
        }
    }

    /// Lets a job lead here; `live` if somebody listens to what arrives.
    pub(super) fn aim(&self, mut job: Job, live: bool) -> Job {
        job.sink = match self {
            Self::File if live => "stdout = true".to_owned(),
            Self::File => format!("file = \"{}\"", file::NAME),
            Self::Rabbit(rabbit) => {
                job.environment.push(rabbit.variable());
                rabbit.sink()
            }
            #[cfg(feature = "kafka")]
            Self::Kafka(kafka) => {
                job.environment.push(kafka.variable());
                kafka.sink()
            }
        };
        job
    }

    /// Lets a job read what is here; nothing of a file.
    pub(super) fn read(&self, mut job: Job) -> Job {
        match self {
            Self::File => {}
            Self::Rabbit(rabbit) => {
                job.environment.push(rabbit.variable());
                job.source = rabbit.source();
            }
            #[cfg(feature = "kafka")]
            Self::Kafka(kafka) => {
                job.environment.push(kafka.variable());
                job.source = kafka.source();
            }
        }
        job
    }

    /// Sends messages from memory with the same guarantees, as fast as its client can; with the headers that outboxd sends,
    /// or with none. The pace is that after the first.
    pub(super) async fn raw(&self, load: Load, folder: &Path, headers: bool) -> anyhow::Result<Pace> {
        match self {
            Self::File => file::raw(load, folder),
            Self::Rabbit(rabbit) => rabbit.raw(load, headers).await,
            #[cfg(feature = "kafka")]
            Self::Kafka(kafka) => kafka.raw(load, headers).await,
        }
    }

    /// Sends messages from memory at a pace, and tells how long each took to be confirmed; nothing of a file.
    pub(super) async fn paced(&self, load: Load, pace: &Pacing) -> anyhow::Result<Option<Vec<Duration>>> {
        match self {
            Self::File => Ok(None),
            Self::Rabbit(rabbit) => rabbit.paced(load, pace).await.map(Some),
            #[cfg(feature = "kafka")]
            Self::Kafka(kafka) => kafka.paced(load, pace).await.map(Some),
        }
    }

    /// Somebody who counts what is here, again and again.
    pub(super) async fn counter(&self, folder: &Path) -> anyhow::Result<Counter> {
        Ok(match self {
            Self::File => Counter::File(folder.to_owned()),
            Self::Rabbit(rabbit) => Counter::Rabbit(Box::new(rabbit.counter().await?)),
            #[cfg(feature = "kafka")]
            Self::Kafka(kafka) => Counter::Kafka(kafka.counter()?),
        })
    }

    /// Tells what arrives from now on.
    pub(super) async fn listen(&self, relay: &mut Relay) -> anyhow::Result<Arrivals> {
        match self {
            Self::File => file::listen(relay.stdout()?),
            Self::Rabbit(rabbit) => rabbit.listen().await,
            #[cfg(feature = "kafka")]
            Self::Kafka(kafka) => kafka.listen().await,
        }
    }

    /// Removes what was made.
    pub(super) async fn clean(&self) -> anyhow::Result<()> {
        match self {
            Self::File => Ok(()),
            Self::Rabbit(rabbit) => rabbit.clean().await,
            #[cfg(feature = "kafka")]
            Self::Kafka(kafka) => kafka.clean().await,
        }
    }
}

/// The attributes of a CloudEvent, as outboxd sends them with every message.
fn headers(prefix: &str, id: &str, key: &str) -> Vec<(String, String)> {
    let time = jiff::Timestamp::now().to_string();
    let attributes = [
        ("specversion", "1.0"),
        ("id", id),
        ("source", "outboxd"),
        ("type", super::load::TYPE),
        ("time", &time),
        ("partitionkey", key),
    ];
    let mut all: Vec<_> =
        attributes.iter().map(|(name, value)| (format!("{prefix}{name}"), (*value).to_owned())).collect();
    all.push(("x-event-id".to_owned(), id.to_owned()));
    all.push(("x-correlation-id".to_owned(), id.to_owned()));
    all
}
