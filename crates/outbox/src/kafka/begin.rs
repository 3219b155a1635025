//! Where a group begins that is to begin now.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{Offset, TopicPartitionList};

use super::catalog::Catalog;
use super::error::code_of;
use super::thread::on_thread;
use super::topics::Counts;

/// Commits the ends of all partitions if the group has no offset of its topics yet.
///
/// If the members only began to read at the end, whatever came before the first commit would be passed over by the next
/// start, and so would the first messages of a partition that is made later. Without membership the brokers take a commit
/// only while the group is empty, so nobody has begun to read.
pub(super) async fn now(
    settings: &ClientConfig,
    catalog: &Arc<Catalog>,
    counts: &Counts,
    limit: Duration,
) -> Result<(), RDKafkaErrorCode> {
    let mut list = TopicPartitionList::new();
    for work in &catalog.works {
        list.add_partition_range(&work.name, 0, counts.get(&work.name).copied().unwrap_or(1) - 1);
    }
    let settings = settings.clone();
    let begun = on_thread(move || commit_ends(&settings, list, limit)).await;
    match begun.unwrap_or(Err(KafkaError::Canceled)).map_err(|error| code_of(&error)) {
        // It has members, so it has begun.
        Err(RDKafkaErrorCode::UnknownMemberId | RDKafkaErrorCode::IllegalGeneration) => Ok(()),
        other => other,
    }
}

fn commit_ends(settings: &ClientConfig, list: TopicPartitionList, limit: Duration) -> Result<(), KafkaError> {
    let consumer: BaseConsumer = settings.create()?;
    let committed = consumer.committed_offsets(list, limit)?;
    if committed.elements().iter().any(|part| matches!(part.offset(), Offset::Offset(_))) {
        return Ok(());
    }
    let mut ends = TopicPartitionList::new();
    for part in committed.elements() {
        part.error()?;
        let (_, end) = consumer.fetch_watermarks(part.topic(), part.partition(), limit)?;
        ends.add_partition_offset(part.topic(), part.partition(), Offset::Offset(end))?;
    }
    consumer.commit(&ends, CommitMode::Sync)
}
