//! Topics that a consumer group reads, on a real Apache Kafka: the mock cluster makes no topics.

mod conformance;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outbox::kafka::{Group, GroupConfig};
use outbox::{Message, Outcome, Sink};
use testbed::Kafka;

use super::apache;

/// A group of this name on a topic, with short delays.
fn config(topic: &str, group: &str) -> GroupConfig {
    let mut config = GroupConfig::new(topic, group);
    config.retry = vec![Duration::from_millis(100), Duration::from_millis(700)];
    config.session_timeout = Duration::from_secs(6);
    config.timeout = Duration::from_secs(5);
    // Partitions go to members in the order of their names: the newest is the first.
    static MEMBERS: AtomicUsize = AtomicUsize::new(0);
    config.client_name = format!("m{:06}", 999_999 - MEMBERS.fetch_add(1, Ordering::Relaxed));
    config
}

fn group(kafka: &Kafka, config: GroupConfig) -> Group {
    Group::new(&kafka.url(), config).unwrap()
}

/// Writes messages as a relay of ours does.
async fn enqueue(kafka: &Kafka, topic: &str, messages: &[Message]) {
    let sink = super::sink(kafka, topic, Duration::from_secs(10));
    let outcomes = sink.deliver(messages).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Delivered), "{outcomes:?}");
}
