//! The second half of the path, whole: from a queue of RabbitMQ to a handler in PostgreSQL.

mod burst;
mod poison;
mod restarts;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use outbox::policy::{Backoff, OnDead, Policy};
use outbox::rabbitmq::{Binding, Exchange, ExchangeConfig, ExchangeKind, WorkQueue, WorkQueueConfig};
use outbox::{Failure, Message, Outcome, Pipe, Sink, Stats, postgres};
use sqlx::Row;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const EXCHANGE: &str = "consumer.events";
const QUEUE: &str = "work";

/// Longer than anything here takes that is going to happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// A queue and a table of effects.
struct Path {
    broker: String,
    database: postgres::Outbox,
    producer: Exchange,
    config: WorkQueueConfig,
}

impl Path {
    async fn new(broker: &str, database: &str, retry: &[Duration]) -> Self {
        let database = postgres::Outbox::connect(database).await.unwrap();
        database.migrate().await.unwrap();
        let sql = "create table effects (n bigserial primary key, key text, version bigint, id text)";
        sqlx::query(sql).execute(database.pool()).await.unwrap();
        let mut config = WorkQueueConfig::new(QUEUE);
        let keys = vec!["#".to_owned()];
        config.bind = vec![Binding { exchange: EXCHANGE.to_owned(), kind: ExchangeKind::Topic, keys }];
        config.retry = retry.to_vec();
        config.connect_timeout = Duration::from_secs(3);
        WorkQueue::new(broker, config.clone()).unwrap().check().await.unwrap();
        let mut sink = ExchangeConfig::new(EXCHANGE);
        sink.timeout = Duration::from_secs(3);
        sink.connect_timeout = Duration::from_secs(3);
        let producer = Exchange::new(broker, sink).unwrap();
        Self { broker: broker.to_owned(), database, producer, config }
    }

    /// Sends all of them, however often it takes.
    async fn send(&self, messages: &[Message]) {
        let began = Instant::now();
        let mut rest = messages.to_vec();
        while !rest.is_empty() {
            let outcomes = self.producer.deliver(&rest).await;
            rest = rest
                .into_iter()
                .zip(outcomes)
                .filter(|(_, outcome)| *outcome != Outcome::Delivered)
                .map(|(message, _)| message)
                .collect();
            if !rest.is_empty() {
                assert!(began.elapsed() < PATIENCE, "the broker takes nothing");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// A consumer whose handler writes one effect per message, fails those of type `poison`, and those of type `stumble`
    /// the first time.
    fn consume(&self) -> Consumer {
        let tried = Arc::new(AtomicU32::new(0));
        let most = tried.clone();
        let handler = self.database.inbox().handler("effects", move |mut tx, message: Message| {
            most.fetch_max(message.attempts, Ordering::Relaxed);
            async move {
                let (key, version) = (message.key.clone(), version(&message));
                let sql = "insert into effects (key, version, id) values ($1, $2, $3)";
                let insert = sqlx::query(sql).persistent(false).bind(key).bind(version);
                insert.bind(message.id.as_str()).execute(&mut *tx).await?;
                match message.kind.as_str() {
                    "poison" => Err(Failure::retry("it always fails")),
                    "stumble" if message.attempts == 0 => Err(Failure::retry("it fails once")),
                    _ => Ok(()),
                }
            }
        });
        let source = WorkQueue::new(&self.broker, self.config.clone()).unwrap();
        let probe = Backoff { first: Duration::from_millis(50), most: Duration::from_millis(500) };
        let policy = Policy {
            steps: Some(self.config.retry.clone()),
            on_dead: OnDead::Skip,
            probe,
            ..Policy::default()
        };
        let pipe = Pipe::new(source, handler).policy(policy).idle(Duration::from_millis(50));
        let (stats, stop) = (pipe.stats(), CancellationToken::new());
        Consumer { task: tokio::spawn(pipe.run(stop.clone())), stop, stats, tried }
    }

    /// Waits until so many effects are there.
    async fn until(&self, effects: i64) {
        let (mut since, mut seen) = (Instant::now(), 0);
        loop {
            let counted =
                sqlx::query_scalar("select count(*) from effects").fetch_one(self.database.pool()).await;
            let counted: i64 = counted.unwrap_or(seen);
            if counted >= effects {
                return;
            }
            if counted > seen {
                (since, seen) = (Instant::now(), counted);
            }
            assert!(since.elapsed() < PATIENCE, "{counted} of {effects}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Key, version and id of every effect, in order.
    async fn effects(&self) -> Vec<(String, i64, String)> {
        let sql = "select key, version, id from effects order by n";
        let rows = sqlx::query(sql).fetch_all(self.database.pool()).await.unwrap();
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
    }
}

struct Consumer {
    stop: CancellationToken,
    task: JoinHandle<outbox::Result<()>>,
    stats: Arc<Stats>,
    /// The most attempts that a message had behind it.
    tried: Arc<AtomicU32>,
}

impl Consumer {
    async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// Messages of these many keys in turn; the version of each grows.
fn messages(from: usize, count: usize, keys: usize) -> Vec<Message> {
    let message =
        |n: usize| Message::new("order.changed", (n / keys).to_string()).key(format!("k{}", n % keys));
    (from..from + count).map(message).collect()
}

fn version(message: &Message) -> i64 {
    std::str::from_utf8(&message.payload).unwrap().parse().unwrap()
}

/// Whether the effects of every key are in order, each once.
fn assert_in_order(effects: &[(String, i64, String)]) {
    let mut last = std::collections::HashMap::new();
    for (key, version, _) in effects {
        let before = last.insert(key, *version);
        assert!(before.is_none_or(|before| before < *version), "{key}: {version} after {before:?}");
    }
}
