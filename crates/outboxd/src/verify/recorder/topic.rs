//! A topic of Kafka, from its beginning, by offsets of our own: nothing is read twice.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message};
use rdkafka::{Offset, TopicPartitionList};
use tokio_util::sync::CancellationToken;

use crate::verify::ledger::Ledger;
use crate::verify::locked;

const LOOK: Duration = Duration::from_millis(100);

/// When nothing came for so long after the stop, there is nothing more.
const QUIET: Duration = Duration::from_secs(2);

/// Notes every record until the stop; then what is left.
pub(in crate::verify) async fn record_topic(
    mut client: ClientConfig,
    topic: String,
    partitions: i32,
    ledger: Arc<Mutex<Ledger>>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // A group is asked for, and never joined: partitions are assigned.
    client.set("group.id", format!("{topic}.recorder")).set("enable.auto.commit", "false");
    let reading = tokio::task::spawn_blocking(move || {
        let consumer: BaseConsumer = client.create().context("cannot read the topic")?;
        let mut from = TopicPartitionList::new();
        for partition in 0..partitions {
            from.add_partition_offset(&topic, partition, Offset::Beginning)?;
        }
        consumer.assign(&from)?;
        let mut heard = Instant::now();
        while !(stop.is_cancelled() && heard.elapsed() > QUIET) {
            match consumer.poll(LOOK) {
                Some(Ok(record)) => {
                    note(&record, &ledger);
                    heard = Instant::now();
                }
                // A broker that is away comes back, and the client finds it by itself.
                Some(Err(error)) => tracing::debug!(%error, "the recorder goes on"),
                None => {}
            }
        }
        Ok(())
    });
    reading.await?
}

fn note(record: &impl Message, ledger: &Mutex<Ledger>) {
    let headers = record.headers();
    let id = headers.and_then(|headers| headers.iter().find(|header| header.key == "ce_id"));
    let id = id.and_then(|header| header.value).map(String::from_utf8_lossy).unwrap_or_default();
    locked(ledger).arrival(&id, record.payload().unwrap_or_default());
}
