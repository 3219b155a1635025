//! What a broker answers on command only: librdkafka's mock cluster.

use std::time::{Duration, Instant};

use outbox::kafka::Topic;
use outbox::{Message, Sink};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr as Answer};

use super::{config, detail, orders, until_delivered, words};

type Mock = MockCluster<'static, DefaultProducerContext>;

/// A cluster of one with the topic `orders`, and a sink that has delivered to it.
async fn scene() -> (Mock, Topic) {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic("orders", 2, 1).unwrap();
    let mut config = config("orders");
    config.timeout = Duration::from_secs(3);
    let sink = Topic::new(&mock.bootstrap_servers(), config).unwrap();
    assert_eq!(words(&sink.deliver(&orders(1)).await), ["delivered"]);
    (mock, sink)
}

fn answer(mock: &Mock, answers: &[Answer]) {
    mock.request_errors(RDKafkaApiKey::Produce, answers);
}

#[tokio::test]
async fn what_the_client_can_mend_by_itself_only_delays() {
    let (mock, sink) = scene().await;
    for answers in [
        &[Answer::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, Answer::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT][..],
        &[Answer::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION],
        // The connection is closed instead of an answer.
        &[Answer::RD_KAFKA_RESP_ERR__TRANSPORT],
    ] {
        answer(&mock, answers);
        assert_eq!(words(&sink.deliver(&orders(5)).await), ["delivered"; 5], "{answers:?}");
    }
    mock.broker_round_trip_time(1, Duration::from_millis(700)).unwrap();
    let started = Instant::now();
    assert_eq!(words(&sink.deliver(&orders(5)).await), ["delivered"; 5]);
    assert!(started.elapsed() >= Duration::from_millis(700), "{:?}", started.elapsed());
}

#[tokio::test]
async fn too_few_replicas_for_too_long_are_no_fault_of_a_message() {
    let (mock, sink) = scene().await;
    answer(&mock, &[Answer::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS; 400]);
    let started = Instant::now();
    let outcomes = sink.deliver(&orders(3)).await;
    assert!(words(&outcomes).iter().all(|word| word.starts_with('~')), "{outcomes:?}");
    assert!(started.elapsed() < Duration::from_secs(7), "{:?}", started.elapsed());
    mock.clear_request_errors(RDKafkaApiKey::Produce);
    until_delivered(&sink, &orders(3)).await;
}

#[tokio::test]
async fn a_request_that_is_too_large_is_tried_again_message_by_message() {
    let (mock, sink) = scene().await;
    answer(&mock, &[Answer::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    assert_eq!(words(&sink.deliver(&orders(20)).await), ["delivered"; 20], "alone each is small enough");
    // Now the one message is too large on its own as well.
    answer(&mock, &[Answer::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE; 2]);
    assert_eq!(words(&sink.deliver(&orders(1)).await), ["TOO_LARGE!"]);
    assert_eq!(words(&sink.deliver(&orders(5)).await), ["delivered"; 5]);
}

/// The client remembers the refusal and would not even try; the sink asks again.
#[tokio::test]
async fn a_topic_that_was_forbidden_is_used_once_it_is_granted() {
    let (mock, sink) = scene().await;
    answer(&mock, &[Answer::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
    let message = || [Message::new("t", "").key("k")];
    let outcomes = sink.deliver(&message()).await;
    assert_eq!(words(&outcomes), ["FORBIDDEN"]);
    assert!(detail(&outcomes[0]).contains("topic 'orders'"), "{}", detail(&outcomes[0]));
    assert_eq!(words(&sink.deliver(&message()).await), ["delivered"]);
}

#[tokio::test]
async fn a_cluster_that_forbids_is_unavailable() {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic("orders", 1, 1).unwrap();
    mock.request_errors(
        RDKafkaApiKey::InitProducerId,
        &[Answer::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED],
    );
    let mut config = config("orders");
    config.timeout = Duration::from_secs(3);
    let sink = Topic::new(&mock.bootstrap_servers(), config).unwrap();
    let outcomes = sink.deliver(&orders(2)).await;
    assert_eq!(words(&outcomes), ["~FORBIDDEN"; 2], "{}", detail(&outcomes[0]));
    // The producer has given up for good; another one takes its place.
    until_delivered(&sink, &orders(2)).await;
}

#[tokio::test]
async fn k7_an_idempotent_producer_that_gave_up_is_made_anew() {
    let (mock, sink) = scene().await;
    answer(&mock, &[Answer::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER; 2]);
    let outcomes = sink.deliver(&orders(4)).await;
    assert!(
        words(&outcomes).iter().all(|word| ["~UNREACHABLE", "delivered"].contains(&word.as_str())),
        "{outcomes:?}"
    );
    until_delivered(&sink, &orders(4)).await;
    answer(&mock, &[Answer::RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH]);
    until_delivered(&sink, &orders(4)).await;
}

#[tokio::test]
async fn k6_a_silent_broker_is_given_up_in_time_and_used_when_it_speaks_again() {
    let (mock, sink) = scene().await;
    mock.broker_round_trip_time(1, Duration::from_secs(60)).unwrap();
    let started = Instant::now();
    assert_eq!(words(&sink.deliver(&orders(3)).await), ["~TIMEOUT"; 3]);
    assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    mock.broker_round_trip_time(1, Duration::ZERO).unwrap();
    until_delivered(&sink, &orders(3)).await;
}

#[tokio::test]
async fn k7_all_brokers_down_is_an_outage_that_ends_by_itself() {
    let (mock, sink) = scene().await;
    mock.broker_down(1).unwrap();
    for _ in 0..2 {
        let started = Instant::now();
        let outcomes = sink.deliver(&orders(3)).await;
        assert_eq!(words(&outcomes), ["~UNREACHABLE"; 3], "{}", detail(&outcomes[0]));
        assert!(started.elapsed() < Duration::from_secs(6), "{:?}", started.elapsed());
    }
    mock.broker_up(1).unwrap();
    let started = Instant::now();
    until_delivered(&sink, &orders(3)).await;
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}
