//! A topic of Kafka.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use faults::Proxy;
use outbox::kafka::Brokers;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::{ClientContext, DefaultClientContext};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{Header, Message as _, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use tokio::sync::{Notify, mpsc};
use uuid::Uuid;

use super::super::load::{Load, number_in, own_name};
use super::super::measure::Pace;
use super::super::pacing::Pacing;
use super::super::processes::Server;
use super::super::relay::BROKER;
use super::{Arrivals, STOCK, headers};
use crate::connection::Connection;
use crate::raw_kafka;

const PARTITIONS: i32 = 6;

/// Longer than a broker takes to answer anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long a thread that listens does not look whether it should end.
const POLL: Duration = Duration::from_millis(200);

/// A topic.
pub(crate) struct Kafka {
    url: String,
    brokers: Brokers,
    base: String,
    /// How many topics were made. Each has a name of its own: one that is removed is gone only a while later.
    made: AtomicU32,
    /// Before the broker, if there can be one.
    proxy: Option<Arc<Proxy>>,
    pub(super) server: Option<Server>,
}

impl Kafka {
    pub(crate) fn new(
        connection: &Connection,
        server: Option<Server>,
        proxy: Option<Proxy>,
    ) -> anyhow::Result<Self> {
        let (url, proxy) = (connection.url.reveal().to_owned(), proxy.map(Arc::new));
        let brokers = Brokers::parse(&url)?;
        Ok(Self { brokers, url, base: own_name(), made: AtomicU32::new(0), proxy, server })
    }

    /// What stands before the broker.
    pub(crate) fn proxy(&self) -> Option<Arc<Proxy>> {
        self.proxy.clone()
    }

    /// The topic of now.
    fn name(&self) -> String {
        format!("{}-{}", self.base, self.made.load(Ordering::Relaxed))
    }

    pub(super) fn variable(&self) -> (&'static str, String) {
        (BROKER, self.url.clone())
    }

    pub(super) fn sink(&self) -> String {
        format!("on = \"broker\"\ntopic = \"{}\"", self.name())
    }

    pub(super) fn source(&self) -> String {
        let name = self.name();
        format!("on = \"broker\"\ntopic = \"{name}\"\ngroup = \"{name}\"")
    }

    fn client(&self) -> ClientConfig {
        raw_kafka::client(&self.brokers)
    }

    /// A client that writes with the guarantees of outboxd.
    fn producer(&self) -> ClientConfig {
        let mut client = self.client();
        for (name, value) in [
            ("acks", "all"),
            ("enable.idempotence", "true"),
            ("partitioner", "murmur2_random"),
            ("batch.size", "1000000"),
            ("linger.ms", "5"),
        ] {
            client.set(name, value);
        }
        client
    }

    fn admin(&self) -> anyhow::Result<AdminClient<DefaultClientContext>> {
        Ok(self.client().create()?)
    }

    pub(super) async fn fresh(&self) -> anyhow::Result<()> {
        self.clean().await?;
        self.made.fetch_add(1, Ordering::Relaxed);
        let (admin, name) = (self.admin()?, self.name());
        let topic = NewTopic::new(&name, PARTITIONS, TopicReplication::Fixed(-1));
        let begun = Instant::now();
        match admin.create_topics([&topic], &AdminOptions::new()).await?.pop() {
            Some(Ok(_)) => {}
            other => bail!("cannot make the topic {name}: {other:?}"),
        }
        let counter = self.counter()?;
        while counter.ends().await.is_err() {
            ensure!(begun.elapsed() < PATIENCE, "the topic {name} was made, and nobody leads it");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    pub(super) fn counter(&self) -> anyhow::Result<Counter> {
        let consumer: BaseConsumer = self.client().create()?;
        Ok(Counter { consumer: Arc::new(consumer), topic: self.name() })
    }

    pub(super) async fn raw(&self, load: Load, with_headers: bool) -> anyhow::Result<Pace> {
        let (client, name) = (self.producer(), self.name());
        tokio::task::spawn_blocking(move || send(&client, &name, load, with_headers)).await?
    }

    /// Sends one by one, each when its turn comes, and tells how long the report of each took.
    pub(super) async fn paced(&self, load: Load, pace: &Pacing) -> anyhow::Result<Vec<Duration>> {
        let (context, mut reports) = Took::new();
        let mut client = self.producer();
        let producer: ThreadedProducer<Took> = client.set("linger.ms", "0").create_with_context(context)?;
        let topic = self.name();
        while let Some(number) = pace.next(load.messages).await {
            let (key, payload) = (load.key(number), load.payload(number));
            let begun = Box::new(Instant::now());
            let record = BaseRecord::with_opaque_to(&topic, begun).key(&key).payload(&payload);
            let record = record.headers(record_headers(&key));
            producer.send(record).map_err(|(error, _)| error)?;
        }
        let mut took = Vec::new();
        while (took.len() as u64) < load.messages {
            let report = tokio::time::timeout(PATIENCE, reports.recv()).await.ok().flatten();
            took.push(report.context("the broker did not confirm everything")??);
        }
        Ok(took)
    }

    /// A client that sends one by one, and does not wait for company.
    pub(crate) fn one_by_one(&self) -> anyhow::Result<OneByOne> {
        let reports = Reports::default();
        let mut client = self.producer();
        let producer = client.set("linger.ms", "0").create_with_context(reports.clone())?;
        Ok(OneByOne { producer, reports, topic: self.name(), sent: 0 })
    }

    pub(super) async fn listen(&self) -> anyhow::Result<Arrivals> {
        let ends = self.counter()?.ends().await?;
        let mut list = TopicPartitionList::new();
        for (at, (_, next)) in ends.iter().enumerate() {
            list.add_partition_offset(&self.name(), i32::try_from(at)?, Offset::Offset(*next))?;
        }
        let mut client = self.client();
        client.set("group.id", format!("{}-listens", self.name())).set("enable.auto.commit", "false");
        let consumer: BaseConsumer = client.create()?;
        consumer.assign(&list)?;
        let (sender, arrivals) = mpsc::unbounded_channel();
        // The client has no async of its own here; a thread that nobody listens to any more ends.
        tokio::task::spawn_blocking(move || {
            while !sender.is_closed() {
                let Some(Ok(record)) = consumer.poll(POLL) else { continue };
                let now = Instant::now();
                if let Some(number) = record.payload().and_then(number_in) {
                    let _ = sender.send((number, now));
                }
            }
        });
        Ok(arrivals)
    }

    pub(super) async fn clean(&self) -> anyhow::Result<()> {
        let name = self.name();
        let dead = format!("{name}.{name}.dlq");
        let answers = self.admin()?.delete_topics(&[&name, &dead], &AdminOptions::new()).await?;
        for answer in answers {
            match answer {
                Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) => {}
                Err((topic, code)) => bail!("cannot remove the topic {topic}: {code}"),
            }
        }
        // One that was killed a moment ago is a member until its session is over: then the broker forgets the group.
        let _ = self.admin()?.delete_groups(&[&name], &AdminOptions::new()).await;
        Ok(())
    }
}

/// Asks where the partitions end.
pub(crate) struct Counter {
    consumer: Arc<BaseConsumer>,
    topic: String,
}

impl Counter {
    /// The first and the next offset of every partition.
    async fn ends(&self) -> anyhow::Result<Vec<(i64, i64)>> {
        let (consumer, topic) = (self.consumer.clone(), self.topic.clone());
        let ask = move || -> anyhow::Result<Vec<(i64, i64)>> {
            let each = (0..PARTITIONS).map(|at| Ok(consumer.fetch_watermarks(&topic, at, PATIENCE)?));
            each.collect()
        };
        tokio::task::spawn_blocking(ask).await?
    }

    pub(super) async fn count(&self) -> anyhow::Result<u64> {
        let ends = self.ends().await?;
        Ok(ends.iter().map(|(first, next)| (next - first).unsigned_abs()).sum())
    }
}

/// Counts what the broker has confirmed.
#[derive(Clone, Default)]
struct Reports {
    confirmed: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
    told: Arc<Notify>,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, report: &DeliveryResult<'_>, _: ()) {
        match report {
            Ok(_) => self.confirmed.fetch_add(1, Ordering::Relaxed),
            Err(_) => u64::from(self.failed.swap(true, Ordering::Relaxed)),
        };
        self.told.notify_one();
    }
}

/// Tells how long the broker took to confirm each.
struct Took(mpsc::UnboundedSender<KafkaResult<Duration>>);

impl Took {
    fn new() -> (Self, mpsc::UnboundedReceiver<KafkaResult<Duration>>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }
}

impl ClientContext for Took {}

impl ProducerContext for Took {
    type DeliveryOpaque = Box<Instant>;

    fn delivery(&self, report: &DeliveryResult<'_>, begun: Box<Instant>) {
        let took = report.as_ref().map(|_| begun.elapsed()).map_err(|(error, _)| error.clone());
        // Nobody listens after a first failure.
        let _ = self.0.send(took);
    }
}

/// A client as people use it: one record, and the answer to it.
pub(crate) struct OneByOne {
    producer: ThreadedProducer<Reports>,
    reports: Reports,
    topic: String,
    sent: u64,
}

impl OneByOne {
    pub(crate) async fn send(&mut self, key: &str, payload: &[u8]) -> anyhow::Result<()> {
        let record = BaseRecord::to(&self.topic).key(key).payload(payload);
        self.producer.send(record).map_err(|(error, _)| error)?;
        self.sent += 1;
        while self.reports.confirmed.load(Ordering::Relaxed) < self.sent {
            ensure!(!self.reports.failed.load(Ordering::Relaxed), "the broker did not take a message");
            self.reports.told.notified().await;
        }
        Ok(())
    }
}

fn record_headers(key: &str) -> OwnedHeaders {
    let mut all = headers("ce_", &Uuid::now_v7().to_string(), key);
    all.push(("content-type".to_owned(), "application/json".to_owned()));
    let insert = |headers: OwnedHeaders, (name, value): (String, String)| {
        headers.insert(Header { key: &name, value: Some(&value) })
    };
    all.into_iter().fold(OwnedHeaders::new_with_capacity(9), insert)
}

fn send(client: &ClientConfig, topic: &str, load: Load, with_headers: bool) -> anyhow::Result<Pace> {
    let stock: Vec<(String, Vec<u8>, OwnedHeaders)> = (0..STOCK.min(load.messages))
        .map(|number| (load.key(number), load.payload(number), record_headers(&load.key(number))))
        .collect();
    let reports = Reports::default();
    let producer: ThreadedProducer<Reports> = client.create_with_context(reports.clone())?;
    let mut first = Instant::now();
    let records = stock.iter().cycle().take(usize::try_from(load.messages)?);
    for (at, (key, payload, headers)) in records.enumerate() {
        let mut record = BaseRecord::to(topic).key(key).payload(payload);
        if with_headers {
            record = record.headers(headers.clone());
        }
        while let Err((error, back)) = producer.send(record) {
            ensure!(error == KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), "{error}");
            std::thread::sleep(Duration::from_micros(500));
            record = back;
        }
        if at == 0 {
            producer.flush(PATIENCE)?;
            first = Instant::now();
        }
    }
    producer.flush(PATIENCE * 10).context("the broker did not confirm everything")?;
    let pace = Pace::since_first(load.messages, first);
    let confirmed = reports.confirmed.load(Ordering::Relaxed);
    ensure!(!reports.failed.load(Ordering::Relaxed), "the broker did not take a message");
    ensure!(confirmed == load.messages, "{confirmed} of {} were confirmed", load.messages);
    Ok(pace)
}
