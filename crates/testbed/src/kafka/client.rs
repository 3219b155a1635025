//! What a test does with a broker besides disturbing it: topics to write to, and a look at what arrived.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use uuid::Uuid;

use super::{Broker, Kafka};
use crate::blocking;

/// Longer than anything here should take; only ever reached by a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// A record as a consumer sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// Its partition.
    pub partition: i32,
    /// Its place in the partition.
    pub offset: i64,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its value; empty for a tombstone.
    pub payload: Vec<u8>,
    /// Whether it has no value.
    pub is_tombstone: bool,
    /// Its headers, in their order.
    pub headers: Vec<(String, Vec<u8>)>,
}

impl Record {
    /// A header as text, if it is there.
    pub fn header(&self, name: &str) -> Option<String> {
        let found = self.headers.iter().find(|(header, _)| header == name)?;
        Some(String::from_utf8_lossy(&found.1).into_owned())
    }
}

impl Kafka {
    /// A new, empty topic that no other test has.
    pub async fn topic(&self, partitions: i32) -> Result<String> {
        let name = Self::topic_name();
        self.create_topic(&name, partitions, &[]).await?;
        Ok(name)
    }

    /// The name of a topic that does not exist.
    pub fn topic_name() -> String {
        format!("t{}", Uuid::new_v4().simple())
    }

    /// Makes a topic, with settings of its own such as `max.message.bytes`; a mock cluster knows no settings.
    pub async fn create_topic(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) -> Result<()> {
        if let Broker::Mock(_) = &*self.broker {
            let (broker, name) = (self.broker.clone(), name.to_owned());
            return blocking(move || match &*broker {
                Broker::Mock(mock) => mock.create(name, partitions),
                Broker::Apache(_) => Ok(()),
            })
            .await;
        }
        let admin = self.admin()?;
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let topic = settings.iter().fold(topic, |topic, (name, value)| topic.set(name, value));
        let start = Instant::now();
        loop {
            let answer = admin.create_topics([&topic], &AdminOptions::new()).await?.pop();
            match answer {
                Some(Ok(_)) => return self.until_known(admin, name.to_owned(), partitions).await,
                // A broker that has just started is not yet one that may hold a replica.
                Some(Err((_, RDKafkaErrorCode::InvalidReplicationFactor))) if start.elapsed() < PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                other => bail!("no topic {name}: {other:?}"),
            }
        }
    }

    /// A broker that is busy knows a topic only a while after it was made.
    async fn until_known(
        &self,
        admin: AdminClient<DefaultClientContext>,
        name: String,
        partitions: i32,
    ) -> Result<()> {
        blocking(move || {
            let start = Instant::now();
            loop {
                let metadata = admin.inner().fetch_metadata(Some(&name), PATIENCE)?;
                let led = metadata.topics().iter().flat_map(|topic| topic.partitions());
                let led = led.filter(|partition| partition.error().is_none() && partition.leader() >= 0);
                if led.count() >= usize::try_from(partitions)? {
                    return Ok(());
                }
                ensure!(start.elapsed() < PATIENCE, "the topic {name} was made, and nobody knows it");
                std::thread::sleep(Duration::from_millis(10));
            }
        })
        .await
    }

    /// Removes a topic.
    pub async fn delete_topic(&self, name: &str) -> Result<()> {
        let answers = self.admin()?.delete_topics(&[name], &AdminOptions::new()).await?;
        ensure!(answers.iter().all(Result::is_ok), "{answers:?}");
        Ok(())
    }

    /// Writes records as they are, to the partition that each names; waits until they are written.
    pub async fn write(&self, topic: &str, records: Vec<Record>) -> Result<()> {
        let mut client = self.client();
        client.set("acks", "all").set("linger.ms", "5").set("message.max.bytes", "100000000");
        let topic = topic.to_owned();
        blocking(move || {
            let producer: BaseProducer = client.create()?;
            send(&producer, &topic, &records)?;
            Ok(producer.flush(PATIENCE)?)
        })
        .await
    }

    /// Writes records in a transaction, and aborts it once they are written.
    pub async fn write_and_abort(&self, topic: &str, records: Vec<Record>) -> Result<()> {
        let mut client = self.client();
        client.set("transactional.id", Self::topic_name());
        let topic = topic.to_owned();
        blocking(move || {
            let producer: BaseProducer = client.create()?;
            producer.init_transactions(PATIENCE)?;
            producer.begin_transaction()?;
            send(&producer, &topic, &records)?;
            producer.flush(PATIENCE)?;
            Ok(producer.abort_transaction(PATIENCE)?)
        })
        .await
    }

    /// What a group has committed of the partitions of a topic, in their order.
    pub async fn committed(&self, group: &str, topic: &str) -> Result<Vec<Option<i64>>> {
        let mut client = self.client();
        client.set("group.id", group);
        let topic = topic.to_owned();
        blocking(move || {
            let consumer: BaseConsumer = client.create()?;
            let metadata = consumer.fetch_metadata(Some(&topic), PATIENCE)?;
            let partitions =
                metadata.topics().first().map(|topic| topic.partitions().len()).unwrap_or_default();
            let mut list = TopicPartitionList::new();
            list.add_partition_range(&topic, 0, i32::try_from(partitions)? - 1);
            let committed = consumer.committed_offsets(list, PATIENCE)?;
            let offset = |offset| match offset {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            };
            Ok(committed.elements().iter().map(|part| offset(part.offset())).collect())
        })
        .await
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>> {
        Ok(self.client().create()?)
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.brokers());
        config
    }

    /// Everything that a topic holds from its beginning, partition by partition in order; waits until that is
    /// `count` or more.
    pub async fn records(&self, topic: &str, count: usize) -> Result<Vec<Record>> {
        let mut client = self.client();
        client.set("group.id", "testbed").set("enable.auto.commit", "false");
        let topic = topic.to_owned();
        blocking(move || {
            let consumer: BaseConsumer = client.create()?;
            let metadata = consumer.fetch_metadata(Some(&topic), PATIENCE)?;
            let partitions =
                metadata.topics().first().map(|topic| topic.partitions().len()).unwrap_or_default();
            ensure!(partitions > 0, "there is no topic {topic}");
            let mut from = TopicPartitionList::new();
            for partition in 0..i32::try_from(partitions)? {
                from.add_partition_offset(&topic, partition, Offset::Beginning)?;
            }
            consumer.assign(&from)?;
            read(&consumer, &topic, partitions, count)
        })
        .await
    }
}

fn read(consumer: &BaseConsumer, topic: &str, partitions: usize, count: usize) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    let start = Instant::now();
    loop {
        // What was there when we looked; more may come while we read.
        let mut ends = Vec::new();
        for partition in 0..i32::try_from(partitions)? {
            ends.push(consumer.fetch_watermarks(topic, partition, PATIENCE)?.1);
        }
        let mut next = vec![0; partitions];
        let is_behind = |next: &[i64]| next.iter().zip(&ends).any(|(next, end)| next < end);
        for record in &records {
            let Record { partition, offset, .. } = record;
            next[usize::try_from(*partition)?] = offset + 1;
        }
        while is_behind(&next) || records.len() < count {
            ensure!(start.elapsed() < PATIENCE, "only {} of {count} records in {topic}", records.len());
            match consumer.poll(Duration::from_millis(100)) {
                Some(message) => {
                    let record = record(&message?);
                    next[usize::try_from(record.partition)?] = record.offset + 1;
                    records.push(record);
                }
                None if !is_behind(&next) => break,
                None => {}
            }
        }
        if records.len() >= count {
            records.sort_by_key(|record: &Record| (record.partition, record.offset));
            return Ok(records);
        }
    }
}

fn send(producer: &BaseProducer, topic: &str, records: &[Record]) -> Result<()> {
    for record in records {
        let mut headers = OwnedHeaders::new();
        for (key, value) in &record.headers {
            headers = headers.insert(Header { key, value: Some(value) });
        }
        let mut next = BaseRecord::to(topic).partition(record.partition).headers(headers);
        next.key = record.key.as_deref();
        next.payload = (!record.is_tombstone).then_some(&*record.payload);
        producer.send(next).map_err(|(error, _)| error)?;
    }
    Ok(())
}

fn record(message: &BorrowedMessage<'_>) -> Record {
    let headers = message.headers().map(|headers| {
        let pairs =
            headers.iter().map(|header| (header.key.to_owned(), header.value.unwrap_or_default().to_vec()));
        pairs.collect()
    });
    Record {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        payload: message.payload().unwrap_or_default().to_vec(),
        is_tombstone: message.payload().is_none(),
        headers: headers.unwrap_or_default(),
    }
}
