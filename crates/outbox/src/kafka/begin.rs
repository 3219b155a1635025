//! Where a group begins that is to begin now.

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::catalog::Catalog;
use super::error::code_of;
use super::thread::on_thread;
use super::topics::Counts;

/// Commits the ends of all partitions of topics of which the group has no offset yet. Tells whether that is done: it is
/// not if the group has members that read other topics.
///
/// If the members only began to read at the end, whatever came before the first commit would be passed over by the next
/// start, and so would the first messages of a partition that is made later. Without membership the brokers take a commit
/// only while the group is empty, so nobody has begun to read.
pub(super) async fn now(
    settings: &ClientConfig,
    catalog: &Catalog,
    counts: &Counts,
    limit: Duration,
) -> Result<bool, RDKafkaErrorCode> {
    let count = |topic: &str| counts.get(topic).copied().unwrap_or(1);
    let topics: Vec<_> = catalog.works.iter().map(|work| (work.name.clone(), count(&work.name))).collect();
    let settings = settings.clone();
    let begun = on_thread(move || begin(&settings, &topics, limit)).await;
    begun.unwrap_or(Err(KafkaError::Canceled)).map_err(|error| code_of(&error))
}

fn begin(settings: &ClientConfig, topics: &[(String, i32)], limit: Duration) -> Result<bool, KafkaError> {
    let consumer: BaseConsumer<Quiet> = settings.create_with_context(Quiet)?;
    let missing = without_offsets(&consumer, topics, limit)?;
    if missing.is_empty() {
        return Ok(true);
    }
    let mut ends = TopicPartitionList::new();
    for (topic, count) in &missing {
        for partition in 0..*count {
            let (_, end) = consumer.fetch_watermarks(topic, partition, limit)?;
            ends.add_partition_offset(topic, partition, Offset::Offset(end))?;
        }
    }
    match consumer.commit(&ends, CommitMode::Sync) {
        // It has members. Mostly one that began at the same time, and has done this before it joined.
        Err(error) if is_taken(&error) => Ok(without_offsets(&consumer, topics, limit)?.is_empty()),
        other => other.map(|()| true),
    }
}

fn is_taken(error: &KafkaError) -> bool {
    matches!(code_of(error), RDKafkaErrorCode::UnknownMemberId | RDKafkaErrorCode::IllegalGeneration)
}

/// The topics of which the group has no offset at all.
fn without_offsets(
    consumer: &BaseConsumer<Quiet>,
    topics: &[(String, i32)],
    limit: Duration,
) -> Result<Vec<(String, i32)>, KafkaError> {
    let mut list = TopicPartitionList::new();
    for (topic, count) in topics {
        list.add_partition_range(topic, 0, count - 1);
    }
    let committed = consumer.committed_offsets(list, limit)?;
    let mut known = BTreeSet::new();
    for part in committed.elements() {
        part.error()?;
        if let Offset::Offset(_) = part.offset() {
            known.insert(part.topic().to_owned());
        }
    }
    Ok(topics.iter().filter(|(topic, _)| !known.contains(topic)).cloned().collect())
}

/// A client of which nothing is heard: it lives for a few questions, whose answers tell what is wrong.
struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, line: &str) {
        tracing::debug!(facility, "{line}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, "{reason}");
    }
}

impl ConsumerContext for Quiet {}
