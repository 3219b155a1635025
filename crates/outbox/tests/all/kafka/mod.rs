//! The topic as a sink and as a source, against a real Apache Kafka; what a broker does on command only, against librdkafka's mock
//! cluster. What arrived is always read back from the topic.

mod causes;
mod conformance;
mod faults;
mod guarded;
mod outage;
mod source;
mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

use outbox::kafka::{Topic, TopicConfig};
use outbox::{Message, Outcome, Sink, Template};
use testbed::{Kafka, Record};

pub(crate) fn config(topic: &str) -> TopicConfig {
    TopicConfig::new(Template::parse(topic).unwrap())
}

/// A sink to one topic that gives up after a short time.
fn sink(kafka: &Kafka, topic: &str, limit: Duration) -> Topic {
    let mut config = config(topic);
    config.timeout = limit;
    Topic::new(&kafka.url(), config).unwrap()
}

/// The shared Apache Kafka, for what a mock cluster does not do.
async fn apache() -> Option<&'static Kafka> {
    let kafka = testbed::kafka().await?;
    if kafka.is_mock() {
        testbed::skip("this needs an Apache Kafka");
        return None;
    }
    Some(kafka)
}

fn order(n: usize) -> Message {
    Message::new("order.created", format!("{{\"n\":{n}}}")).content_type("application/json").key(n)
}

fn orders(count: usize) -> Vec<Message> {
    (0..count).map(order).collect()
}

/// The outcome in a word: `delivered`, or the code of its cause with `!` when permanent and `~` when
/// unavailable.
fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Delivered => "delivered".to_owned(),
        Outcome::Rejected(rejection) if rejection.permanent => format!("{}!", rejection.cause.code),
        Outcome::Rejected(rejection) => rejection.cause.code.to_string(),
        Outcome::Unavailable(cause) => format!("~{}", cause.code),
    }
}

fn words(outcomes: &[Outcome]) -> Vec<String> {
    outcomes.iter().map(word).collect()
}

fn detail(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Delivered => String::new(),
        Outcome::Rejected(rejection) => rejection.cause.detail.clone(),
        Outcome::Unavailable(cause) => cause.detail.clone(),
    }
}

/// How often each message id is there.
fn ids(records: &[Record]) -> BTreeMap<String, usize> {
    let mut ids = BTreeMap::new();
    for record in records {
        *ids.entry(record.header("ce_id").unwrap()).or_default() += 1;
    }
    ids
}

/// Delivers again and again, as a pipe that probes does, until everything is delivered.
async fn until_delivered(sink: &Topic, messages: &[Message]) {
    let probing = async {
        let mut rest = messages.to_vec();
        while !rest.is_empty() {
            let outcomes = sink.deliver(&rest).await;
            let mut outcomes = outcomes.iter();
            rest.retain(|_| outcomes.next() != Some(&Outcome::Delivered));
            if !rest.is_empty() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), probing).await.expect("the sink recovers by itself");
}
