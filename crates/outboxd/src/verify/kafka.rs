//! What a run makes and removes at Kafka.

use std::time::Duration;

use anyhow::{Context, bail};
use outbox::broker::retry_name;
use outbox::kafka::Brokers;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::topic_partition_list::TopicPartitionList;
use tokio::time::Instant;

use super::place::{Names, RETRIES};
use crate::quantity::parse_duration;
use crate::raw_kafka;
use crate::secret::SecretUrl;

pub(super) const PARTITIONS: i32 = 4;

/// How long the cluster may take to make a topic, and until it is known.
const MADE: Duration = Duration::from_secs(30);

const LOOK: Duration = Duration::from_millis(100);

/// The broker of a run.
#[derive(Clone)]
pub(super) struct Kafka {
    client: ClientConfig,
    names: Names,
}

impl Kafka {
    pub(super) fn new(url: &SecretUrl, names: Names) -> anyhow::Result<Self> {
        let brokers = Brokers::parse(url.reveal())?;
        let client = raw_kafka::client(&brokers);
        Ok(Self { client, names })
    }

    /// How it is reached.
    pub(super) fn client(&self) -> ClientConfig {
        self.client.clone()
    }

    fn admin(&self) -> anyhow::Result<AdminClient<DefaultClientContext>> {
        self.client.create().context("cannot connect to Kafka")
    }

    /// Makes the topic, with as many replicas as the cluster wants, and waits until everybody knows it.
    pub(super) async fn make(&self) -> anyhow::Result<()> {
        let (admin, began) = (self.admin()?, Instant::now());
        let topic = NewTopic::new(&self.names.target, PARTITIONS, TopicReplication::Fixed(-1));
        let options = AdminOptions::new().operation_timeout(Some(MADE));
        loop {
            match admin.create_topics([&topic], &options).await?.pop() {
                Some(Ok(_)) => break,
                // A broker that has just started may not hold a replica yet.
                Some(Err((_, RDKafkaErrorCode::InvalidReplicationFactor))) if began.elapsed() < MADE => {
                    tokio::time::sleep(LOOK).await;
                }
                Some(Err((_, error))) => bail!("cannot make the topic {}: {error}", self.names.target),
                None => bail!("Kafka does not say whether it has made the topic {}", self.names.target),
            }
        }
        let name = self.names.target.clone();
        tokio::task::spawn_blocking(move || {
            loop {
                let metadata = admin.inner().fetch_metadata(Some(&name), MADE)?;
                let led = metadata.topics().iter().flat_map(|topic| topic.partitions());
                if led.filter(|partition| partition.leader() >= 0).count() == PARTITIONS as usize {
                    return Ok(());
                }
                if began.elapsed() > MADE {
                    bail!("the topic {name} was made, and has no leaders");
                }
                std::thread::sleep(LOOK);
            }
        })
        .await?
    }

    /// How many records the consumer has not settled; of each partition as far as it is known.
    pub(super) async fn waiting(&self) -> anyhow::Result<u64> {
        let mut client = self.client();
        let consumer: BaseConsumer = client.set("group.id", &self.names.effects).create()?;
        let topic = self.names.target.clone();
        tokio::task::spawn_blocking(move || {
            let mut list = TopicPartitionList::new();
            list.add_partition_range(&topic, 0, PARTITIONS - 1);
            let settled = consumer.committed_offsets(list, MADE)?;
            let mut waiting = 0;
            for partition in settled.elements() {
                let (first, next) = consumer.fetch_watermarks(&topic, partition.partition(), MADE)?;
                let done = partition.offset().to_raw().filter(|offset| *offset >= 0).unwrap_or(first);
                waiting += (next - done).max(0).unsigned_abs();
            }
            Ok(waiting)
        })
        .await?
    }

    /// Removes everything that the run and its relays have made.
    pub(super) async fn clean_up(&self) -> anyhow::Result<()> {
        let Names { target, effects, .. } = &self.names;
        let own = format!("{target}.{effects}");
        let retries = RETRIES.iter().filter_map(|delay| parse_duration(delay).ok());
        let mut topics: Vec<String> = retries.map(|delay| retry_name(&own, delay)).collect();
        topics.extend([format!("{own}.dlq"), target.clone()]);
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        let (admin, options) = (self.admin()?, AdminOptions::new());
        for answer in admin.delete_topics(&names, &options).await? {
            match answer {
                Ok(_) | Err((_, RDKafkaErrorCode::UnknownTopicOrPartition)) => {}
                Err((topic, error)) => bail!("cannot remove the topic {topic}: {error}"),
            }
        }
        // Without its topics a group is only a name, and one that the broker forgets.
        let _ = admin.delete_groups(&[effects.as_str()], &options).await;
        Ok(())
    }
}
