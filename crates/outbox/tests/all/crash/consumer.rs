//! A consumer that is killed: from a queue or topic to a handler in PostgreSQL. Effects equal messages, exactly.

use std::time::{Duration, Instant};

use outbox::kafka::{GroupConfig, Topic, TopicConfig};
use outbox::rabbitmq::{Binding, Exchange, ExchangeConfig, ExchangeKind, WorkQueue, WorkQueueConfig};
use outbox::{Outcome, Sink, Template, postgres};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use super::child::{From, Into, Orders};
use super::ledger::Ledger;
use super::log::Log;
use super::relay::{PATIENCE, Relay};
use super::{EXCHANGE, QUEUE, kills};

/// Steps that a consumer passes; `moved` when a message fails.
const STEPS: [&str; 12] = [
    "claiming",
    "claimed",
    "delivering",
    "handler_before_commit",
    "handler_after_commit",
    "delivered",
    "settling",
    "moved",
    "acknowledging",
    "settled",
    "closing",
    "closed",
];

/// The delays of the retry queues.
pub(super) const RETRY: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(200)];

/// The queue, bound to everything of the exchange.
pub(super) fn queue() -> WorkQueueConfig {
    let mut config = WorkQueueConfig::new(QUEUE);
    let keys = vec!["#".to_owned()];
    config.bind = vec![Binding { exchange: EXCHANGE.to_owned(), kind: ExchangeKind::Topic, keys }];
    config.retry = RETRY.to_vec();
    config
}

/// A group on a topic. One that was killed is missed after a second.
pub(super) fn group(topic: &str) -> GroupConfig {
    let mut config = GroupConfig::new(topic, "crash");
    config.retry = RETRY.to_vec();
    config.session_timeout = Duration::from_secs(1);
    config
}

struct Scene {
    random: StdRng,
    ledger: Ledger,
    log: Log,
    orders: Orders,
    producer: Box<dyn Sink>,
    folder: TempDir,
}

impl Scene {
    async fn new(from: From, producer: Box<dyn Sink>) -> Option<Self> {
        let database = testbed::postgres().await?.database().await.unwrap();
        let outbox = postgres::Outbox::connect(database.url()).await.unwrap();
        outbox.migrate().await.unwrap();
        let log = Log::Postgres(outbox);
        log.prepare_effects().await;
        let seed = super::seed();
        eprintln!("OUTBOX_SEED={seed}");
        let orders = Orders {
            from,
            log: database.url().to_owned(),
            into: Into::Effects,
            owner: "consumer".to_owned(),
            lanes: 1,
            lease_ms: 1_000,
            slowness_ms: 0,
        };
        let folder = tempfile::tempdir().unwrap();
        Some(Self {
            random: StdRng::seed_from_u64(seed),
            ledger: Ledger::new(seed),
            log,
            orders,
            producer,
            folder,
        })
    }

    /// Sends some messages, all of which arrive.
    async fn send(&mut self) {
        for draft in self.ledger.drafts() {
            let outcomes = self.producer.deliver(&draft.messages).await;
            assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Delivered), "{outcomes:?}");
            self.ledger.note(&draft);
        }
    }

    /// One life: messages come while a consumer handles them, until it dies at a step or at any moment.
    async fn live(&mut self) {
        let step = *STEPS.choose(&mut self.random).unwrap();
        let at_any_moment = self.random.random_bool(0.3);
        let passes = if step.starts_with("clos") { 0 } else { self.random.random_range(0..6) };
        let failpoints = match (at_any_moment, passes) {
            (true, _) => String::new(),
            (false, 0) => format!("{step}=return"),
            (false, passes) => format!("{step}={passes}*off->return"),
        };
        let dies_at = Instant::now() + Duration::from_millis(self.random.random_range(50..600));
        let mut consumer = Relay::start(&self.orders, &failpoints, self.folder.path());
        let (before, began) = (self.ledger.len(), Instant::now());
        while !consumer.is_killed() {
            if self.ledger.len() < before + 60 {
                self.send().await;
            } else {
                if step.starts_with("clos") && !at_any_moment {
                    consumer.tell_to_stop();
                }
                // So that there is always something, and the backlog does not grow without end.
                if self.random.random_bool(0.2) {
                    self.send().await;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            if at_any_moment && Instant::now() > dies_at {
                consumer.kill();
            }
            assert!(began.elapsed() < PATIENCE, "'{failpoints}' was never passed\n{}", consumer.output());
        }
    }

    /// Kills so many consumers, one after the other, and then counts.
    async fn kill(mut self, kills: usize) {
        for life in 1..=kills {
            self.live().await;
            // A key that fails now and then takes long over a large backlog.
            if life % 20 == 0 {
                self.drain().await;
            }
        }
        self.drain().await;
        let report = self.ledger.check(&self.log.effects().await);
        let events = self.ledger.len();
        eprintln!("{kills} kills, {events} messages, {} effects twice", report.duplicates);
        assert!(report.lost.is_empty() && report.phantom.is_empty(), "{report:?}");
        assert_eq!(report.duplicates, 0, "effects equal messages: {report:?}");
    }

    /// Lets a consumer handle what is left.
    async fn drain(&self) {
        let last = Relay::start(&self.orders, "", self.folder.path());
        let events = self.ledger.len();
        let (mut since, mut seen) = (Instant::now(), 0);
        loop {
            let effects = self.log.effects().await.len();
            if effects >= events {
                break;
            }
            if effects > seen {
                (since, seen) = (Instant::now(), effects);
            }
            assert!(since.elapsed() < PATIENCE, "{effects} of {events} handled\n{}", last.output());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        last.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d3_from_rabbitmq_to_a_handler_effects_equal_messages_wherever_it_is_killed() {
    let Some(broker) = testbed::rabbitmq().await else { return };
    let vhost = broker.vhost().await.unwrap();
    WorkQueue::new(vhost.url(), queue()).unwrap().check().await.unwrap();
    let producer = Exchange::new(vhost.url(), ExchangeConfig::new(EXCHANGE)).unwrap();
    let from = From::Queue(vhost.url().to_owned());
    let Some(scene) = Scene::new(from, Box::new(producer)).await else { return };
    scene.kill(kills(200)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d3_from_kafka_to_a_handler_effects_equal_messages_wherever_it_is_killed() {
    let Some(kafka) = testbed::kafka().await.filter(|kafka| !kafka.is_mock()) else { return };
    let topic = kafka.topic(3).await.unwrap();
    let config = TopicConfig::new(Template::parse(&topic).unwrap());
    let producer = Topic::new(&kafka.url(), config).unwrap();
    let from = From::Topic(kafka.url(), topic);
    let Some(scene) = Scene::new(from, Box::new(producer)).await else { return };
    scene.kill(kills(80)).await;
}
