//! The process that is killed: this same test binary, started again by a parent with its orders in a variable.

use std::io::Read;
use std::time::Duration;

use async_trait::async_trait;
use outbox::kafka::Group;
use outbox::lines::Lines;
use outbox::policy::{Backoff, OnDead, Policy};
use outbox::rabbitmq::{Exchange, WorkQueue};
use outbox::{Failure, Message, Outcome, Pipe, Sink, postgres, sqlite};
use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{CURSOR, EXCHANGE};

/// The variable that makes a run of the test binary a child.
pub(super) const ORDERS: &str = "OUTBOX_CRASH_CHILD";

/// The test that the parent runs in the child.
pub(super) const TEST: &str = "crash::child::runs_a_relay_when_told_to";

/// Messages per claim, and claims in flight: what a crash may repeat.
pub(super) const BATCH: usize = 10;
pub(super) const DEPTH: usize = 3;

/// What a child does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) from: From,
    /// The database, and the log in it: `sqlite:…` or `postgres:…`.
    pub(super) log: String,
    pub(super) into: Into,
    pub(super) owner: String,
    pub(super) lanes: u32,
    pub(super) lease_ms: u64,
    /// How long every delivery takes at least.
    pub(super) slowness_ms: u64,
}

/// Where the messages come from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum From {
    /// The log.
    Log,
    /// A queue of this broker.
    Queue(String),
    /// A topic at these brokers.
    Topic(String, String),
}

/// Where the messages go.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Into {
    /// A file of lines.
    Lines(String),
    /// A handler that writes into the table `effects`, in the database of the log.
    Effects,
    /// An exchange of this broker.
    Broker(String),
}

/// Not a test by itself: it ends at once unless a parent has left its orders.
///
/// It runs until its input is closed, which also happens when the parent is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_a_relay_when_told_to() {
    let Ok(orders) = std::env::var(ORDERS) else { return };
    let orders: Orders = serde_json::from_str(&orders).unwrap();
    let stop = CancellationToken::new();
    std::thread::spawn({
        let stop = stop.clone();
        move || {
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            stop.cancel();
        }
    });
    let lease = Duration::from_millis(orders.lease_ms);
    let mut pipes = JoinSet::new();
    if let From::Queue(url) = &orders.from {
        let source = WorkQueue::new(url, super::consumer::queue()).unwrap();
        pipes.spawn(consumer(source, &orders).await.run(stop.clone()));
    } else if let From::Topic(brokers, topic) = &orders.from {
        let source = Group::new(brokers, super::consumer::group(topic)).unwrap();
        pipes.spawn(consumer(source, &orders).await.run(stop.clone()));
    } else if orders.log.starts_with("sqlite") {
        let log = sqlite::Outbox::connect(&orders.log).await.unwrap();
        for lane in log.cursor(CURSOR).owner(&orders.owner).lease(lease).lanes(orders.lanes) {
            let sink: Box<dyn Sink> = match &orders.into {
                Into::Effects => {
                    Box::new(log.inbox().handler("crash", |mut tx, message: Message| async move {
                        let insert = sqlx::query("insert into effects (id) values (?)");
                        insert.bind(message.id.as_str()).execute(&mut *tx).await?;
                        fail_at_first(&message)
                    }))
                }
                other => elsewhere(other),
            };
            pipes.spawn(pipe(lane, sink, &orders).run(stop.clone()));
        }
    } else {
        let log = postgres::Outbox::connect(&orders.log).await.unwrap();
        for lane in log.cursor(CURSOR).owner(&orders.owner).lease(lease).lanes(orders.lanes) {
            let sink: Box<dyn Sink> = match &orders.into {
                Into::Effects => {
                    Box::new(log.inbox().handler("crash", |mut tx, message: Message| async move {
                        let insert = sqlx::query("insert into effects (id) values ($1)").persistent(false);
                        insert.bind(message.id.as_str()).execute(&mut *tx).await?;
                        fail_at_first(&message)
                    }))
                }
                other => elsewhere(other),
            };
            pipes.spawn(pipe(lane, sink, &orders).run(stop.clone()));
        }
    }
    while let Some(ended) = pipes.join_next().await {
        ended.unwrap().unwrap();
    }
}

/// From a broker to a handler in PostgreSQL.
async fn consumer(source: impl outbox::Source + 'static, orders: &Orders) -> Pipe {
    let database = postgres::Outbox::connect(&orders.log).await.unwrap();
    let handler = database.inbox().handler("crash", |mut tx, message: Message| async move {
        let insert = sqlx::query("insert into effects (id) values ($1)").persistent(false);
        insert.bind(message.id.as_str()).execute(&mut *tx).await?;
        fail_at_first(&message)
    });
    let policy = Policy {
        steps: Some(super::consumer::RETRY.to_vec()),
        on_dead: OnDead::Skip,
        streak: 1000,
        ..Policy::default()
    };
    Pipe::new(source, handler).policy(policy).batch(BATCH).depth(DEPTH).idle(Duration::from_millis(20))
}

fn elsewhere(into: &Into) -> Box<dyn Sink> {
    match into {
        Into::Lines(path) => Box::new(Lines::file(path)),
        Into::Broker(url) => {
            Box::new(Exchange::new(url, outbox::rabbitmq::ExchangeConfig::new(EXCHANGE)).unwrap())
        }
        Into::Effects => unreachable!("it belongs to a log"),
    }
}

fn pipe(source: impl outbox::Source + 'static, sink: Box<dyn Sink>, orders: &Orders) -> Pipe {
    let retry = Backoff { first: Duration::from_millis(5), most: Duration::from_millis(20) };
    // Kills are many and failures are part of the test: neither may look like an outage that is waited out.
    let policy = Policy { retry, probe: retry, attempts: 1000, streak: 1000, ..Policy::default() };
    let slow = Slow { sink, least: Duration::from_millis(orders.slowness_ms) };
    Pipe::new(source, slow).policy(policy).batch(BATCH).depth(DEPTH).idle(Duration::from_millis(20))
}

/// Some messages fail twice, after their effect is written and before it is committed.
fn fail_at_first(message: &Message) -> Result<(), Failure> {
    match message.kind == super::FAILING && message.attempts < 2 {
        true => Err(Failure::retry("not yet")),
        false => Ok(()),
    }
}

/// A sink in no hurry.
struct Slow {
    sink: Box<dyn Sink>,
    least: Duration,
}

#[async_trait]
impl Sink for Slow {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        if !self.least.is_zero() {
            tokio::time::sleep(self.least).await;
        }
        self.sink.deliver(messages).await
    }
}
