//! Reads topics through, from where one likes to their end, without a group and without leaving a trace.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{Offset, TopicPartitionList};

/// How long a poll waits when nothing comes.
const POLL: Duration = Duration::from_millis(100);

/// Whether to read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Go {
    On,
    /// Enough of this partition.
    Enough,
}

/// How many partitions a topic has; none if there is no such topic.
pub(super) fn partitions(
    settings: &ClientConfig,
    topic: &str,
    limit: Duration,
) -> Result<Option<i32>, KafkaError> {
    let consumer: BaseConsumer = settings.create()?;
    let metadata = consumer.fetch_metadata(Some(topic), limit)?;
    let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else { return Ok(None) };
    match found.error().map(RDKafkaErrorCode::from) {
        None => Ok(Some(i32::try_from(found.partitions().len()).unwrap_or(i32::MAX))),
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => Ok(None),
        Some(error) => Err(KafkaError::MetadataFetch(error)),
    }
}

/// The first and the last offset of each partition of a topic.
pub(super) type Ends = Vec<(i64, i64)>;

/// The first and the last offset of each partition of a topic; none if there is no such topic.
pub(super) fn ends(
    settings: &ClientConfig,
    topic: &str,
    limit: Duration,
) -> Result<Option<Ends>, KafkaError> {
    let Some(count) = partitions(settings, topic, limit)? else { return Ok(None) };
    let consumer: BaseConsumer = settings.create()?;
    (0..count)
        .map(|partition| consumer.fetch_watermarks(topic, partition, limit))
        .collect::<Result<_, _>>()
        .map(Some)
}

/// Where a group has got to in each partition of a topic; nothing of one that it has not begun.
pub(super) fn committed(
    settings: &ClientConfig,
    topic: &str,
    partitions: i32,
    limit: Duration,
) -> Result<BTreeMap<i32, i64>, KafkaError> {
    let consumer: BaseConsumer = settings.create()?;
    let mut list = TopicPartitionList::new();
    list.add_partition_range(topic, 0, partitions - 1);
    let mut committed = BTreeMap::new();
    for part in consumer.committed_offsets(list, limit)?.elements() {
        part.error()?;
        if let Offset::Offset(offset) = part.offset() {
            committed.insert(part.partition(), offset);
        }
    }
    Ok(committed)
}

/// Shows every record of a topic that is there now, partition by partition in order, from these offsets on; partitions
/// without one from their beginning. Ends with an error if nothing comes for as long as `limit`.
pub(super) fn through(
    settings: &ClientConfig,
    topic: &str,
    partitions: i32,
    from: &BTreeMap<i32, i64>,
    limit: Duration,
    mut see: impl FnMut(&BorrowedMessage<'_>) -> Go,
) -> Result<(), KafkaError> {
    let consumer: BaseConsumer = settings.create()?;
    let mut list = TopicPartitionList::new();
    let mut ends: BTreeMap<i32, i64> = BTreeMap::new();
    for partition in 0..partitions {
        let (low, high) = consumer.fetch_watermarks(topic, partition, limit)?;
        let begin = from.get(&partition).copied().unwrap_or(low).max(low);
        if begin < high {
            list.add_partition_offset(topic, partition, Offset::Offset(begin))?;
            ends.insert(partition, high);
        }
    }
    if ends.is_empty() {
        return Ok(());
    }
    consumer.assign(&list)?;
    let mut heard = Instant::now();
    while !ends.is_empty() {
        let Some(next) = consumer.poll(POLL) else {
            if heard.elapsed() > limit {
                return Err(KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut));
            }
            continue;
        };
        heard = Instant::now();
        match next {
            Err(KafkaError::PartitionEOF(partition)) => drop(ends.remove(&partition)),
            Err(error) => return Err(error),
            Ok(message) => {
                let partition = message.partition();
                let Some(end) = ends.get(&partition).copied() else { continue };
                let enough = message.offset() >= end || see(&message) == Go::Enough;
                if enough || message.offset() + 1 >= end {
                    ends.remove(&partition);
                }
            }
        }
    }
    Ok(())
}
