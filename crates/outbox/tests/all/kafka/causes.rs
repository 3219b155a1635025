//! Every cause that a broker tells, by a real broker.

use std::time::{Duration, Instant};

use outbox::kafka::Topic;
use outbox::{ErrorKind, Message, Sink};
use testbed::Kafka;

use super::{apache, config, detail, ids, order, orders, sink, until_delivered, words};

const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn b4_a_topic_that_does_not_exist_is_told_at_once_and_used_once_it_does() {
    let Some(kafka) = apache().await else { return };
    let topic = Kafka::topic_name();
    let sink = sink(kafka, &topic, LIMIT);
    let started = Instant::now();
    for _ in 0..2 {
        let outcomes = sink.deliver(&orders(2)).await;
        assert_eq!(words(&outcomes), ["NO_TOPIC"; 2]);
        let told = detail(&outcomes[0]);
        assert!(told.contains(&format!("topic '{topic}'")) && told.contains("does not exist"), "{told}");
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(sink.check().await.unwrap_err().kind(), ErrorKind::Config);
    kafka.create_topic(&topic, 1, &[]).await.unwrap();
    until_delivered(&sink, &orders(3)).await;
    sink.check().await.unwrap();
    assert_eq!(kafka.records(&topic, 3).await.unwrap().len(), 3);
}

#[tokio::test]
async fn k3_a_topic_that_is_missing_harms_no_other() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(1).await.unwrap();
    let sink = sink(kafka, "{type}", LIMIT);
    let messages =
        [Message::new(&topic, ""), Message::new(Kafka::topic_name(), ""), Message::new(&topic, "")];
    assert_eq!(words(&sink.deliver(&messages).await), ["delivered", "NO_TOPIC", "delivered"]);
}

#[tokio::test]
async fn k7_a_topic_that_is_removed_and_made_again_is_used_again() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(1).await.unwrap();
    let sink = sink(kafka, &topic, Duration::from_secs(4));
    assert_eq!(words(&sink.deliver(&orders(2)).await), ["delivered"; 2]);
    kafka.delete_topic(&topic).await.unwrap();
    // The client has to hear of it first; until then it waits for the topic to come back.
    let mut last = words(&sink.deliver(&orders(1)).await);
    let started = Instant::now();
    while last != ["NO_TOPIC"] && started.elapsed() < Duration::from_secs(30) {
        assert!(last[0].starts_with('~'), "{last:?}");
        last = words(&sink.deliver(&orders(1)).await);
    }
    assert_eq!(last, ["NO_TOPIC"]);
    kafka.create_topic(&topic, 1, &[]).await.unwrap();
    until_delivered(&sink, &orders(2)).await;
}

/// The broker weighs a request and not a message: what was with a message that is too large goes through all the same.
#[tokio::test]
async fn k3_a_message_too_large_for_the_broker_is_refused_alone() {
    let Some(kafka) = apache().await else { return };
    let topic = Kafka::topic_name();
    kafka.create_topic(&topic, 1, &[("max.message.bytes", "20000")]).await.unwrap();
    let sink = sink(kafka, &topic, LIMIT);
    let mut messages: Vec<Message> =
        (0..60).map(|n| Message::new("t", vec![b'x'; 1_000]).key(format!("{n}"))).collect();
    messages[17] = Message::new("t", vec![b'x'; 50_000]);
    let outcomes = sink.deliver(&messages).await;
    for (at, word) in words(&outcomes).iter().enumerate() {
        assert_eq!(word, if at == 17 { "TOO_LARGE!" } else { "delivered" }, "{at}");
    }
    assert!(detail(&outcomes[17]).contains("max.message.bytes"), "{}", detail(&outcomes[17]));
    let arrived = ids(&kafka.records(&topic, 59).await.unwrap());
    assert_eq!(arrived.len(), 59);
    assert!(!arrived.contains_key(messages[17].id.as_str()));
    // And the producer is as good as before.
    assert_eq!(words(&sink.deliver(&orders(3)).await), ["delivered"; 3]);
}

#[tokio::test]
async fn a_message_over_our_own_limit_is_not_sent() {
    let Some(kafka) = testbed::kafka().await else { return };
    let topic = kafka.topic(1).await.unwrap();
    let mut config = config(&topic);
    config.max_message = 1_000;
    let sink = Topic::new(&kafka.url(), config).unwrap();
    let messages = [Message::new("t", vec![0; 1_001]), Message::new("t", vec![0; 1_000])];
    assert_eq!(words(&sink.deliver(&messages).await), ["TOO_LARGE!", "delivered"]);
    assert_eq!(kafka.records(&topic, 1).await.unwrap().len(), 1);
}

/// A payload at the limit with headers beyond the broker's: the client itself must not refuse it first.
#[tokio::test]
async fn a_large_message_goes_where_the_broker_takes_it() {
    let Some(kafka) = apache().await else { return };
    let topic = Kafka::topic_name();
    kafka.create_topic(&topic, 1, &[("max.message.bytes", "6000000")]).await.unwrap();
    let mut config = config(&topic);
    config.max_message = 5_000_000;
    let sink = Topic::new(&kafka.url(), config).unwrap();
    let message = Message::new("t", vec![0; 5_000_000]).header("h", "x".repeat(16_000));
    assert_eq!(words(&sink.deliver(&[message]).await), ["delivered"]);
}

/// A compacted topic takes no record without a key; those with one are not harmed by it.
#[tokio::test]
async fn k3_a_record_that_the_broker_calls_invalid_is_refused_alone() {
    let Some(kafka) = apache().await else { return };
    let topic = Kafka::topic_name();
    kafka.create_topic(&topic, 1, &[("cleanup.policy", "compact")]).await.unwrap();
    let sink = sink(kafka, &topic, LIMIT);
    let mut messages = orders(10);
    messages[4] = Message::new("t", "no key");
    let outcomes = sink.deliver(&messages).await;
    for (at, word) in words(&outcomes).iter().enumerate() {
        assert_eq!(word, if at == 4 { "UNFIT!" } else { "delivered" }, "{at}: {}", detail(&outcomes[at]));
    }
    assert!(detail(&outcomes[4]).contains("compacted"), "{}", detail(&outcomes[4]));
    assert_eq!(ids(&kafka.records(&topic, 9).await.unwrap()).len(), 9);
}

#[tokio::test]
async fn k4_an_absent_broker_is_unavailable_and_no_error_at_construction() {
    let mut config = config("orders");
    config.timeout = Duration::from_secs(1);
    let sink = Topic::new("kafka://relay:s3cret@127.0.0.1:1", config).unwrap();
    let started = Instant::now();
    let outcomes = sink.deliver(&orders(2)).await;
    assert_eq!(words(&outcomes), ["~UNREACHABLE"; 2]);
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    let told = format!("{outcomes:?} {sink:?}");
    assert!(told.contains("kafka://127.0.0.1:1: ") && told.contains("Connection refused"), "{told}");
    assert!(!told.contains("s3cret"), "{told}");
    assert_eq!(sink.check().await.unwrap_err().kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn a_host_that_nobody_knows_is_unreachable() {
    let mut config = config("orders");
    config.timeout = Duration::from_secs(2);
    let sink = Topic::new("kafka://no-such-host.invalid", config).unwrap();
    let outcomes = sink.deliver(&[order(0)]).await;
    assert_eq!(words(&outcomes), ["~UNREACHABLE"]);
    assert!(detail(&outcomes[0]).contains("no-such-host.invalid"), "{outcomes:?}");
}

#[tokio::test]
async fn what_cannot_work_is_told_when_the_sink_is_made() {
    let broken = |url: &str, change: &dyn Fn(&mut outbox::kafka::TopicConfig)| {
        let mut config = config("orders");
        change(&mut config);
        let error = Topic::new(url, config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.chain()
    };
    assert!(broken("amqp://localhost", &|_| {}).contains("'amqp' is not Kafka's"));
    assert!(broken("kafka://relay@localhost", &|_| {}).contains("has no password"));
    let told = broken("kafka+ssl://localhost", &|config| config.ca_file = Some("/nonexistent/ca.pem".into()));
    assert!(told.contains("ssl.ca.location"), "{told}");
    assert!(broken("localhost", &|config| config.timeout = Duration::ZERO).contains("time limit"));
}
