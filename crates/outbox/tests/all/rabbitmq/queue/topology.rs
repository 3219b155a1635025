//! Queues and bindings: declared, or checked and refused when they differ.

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use outbox::rabbitmq::{
    Argument, Binding, Exchange, ExchangeKind, QueueConfig, QueueKind, Topology, WorkQueue, WorkQueueConfig,
};
use outbox::{ErrorKind, Message, Outcome, Sink};

use super::super::{EXCHANGE, Scene};
use super::{Hands, QUEUE, Running, config};

fn bound(retry: &[u64]) -> WorkQueueConfig {
    let keys = ["ticket.created", "ticket.status.changed"].map(str::to_owned).to_vec();
    let mut config = config(retry);
    config.bind = vec![Binding { exchange: EXCHANGE.to_owned(), kind: ExchangeKind::Topic, keys }];
    config
}

fn with_topology(topology: Topology, retry: &[u64]) -> WorkQueueConfig {
    let mut config = bound(retry);
    config.topology = topology;
    config
}

async fn refused(scene: &Scene, config: &WorkQueueConfig) -> String {
    let error = WorkQueue::new(&scene.url, config.clone()).unwrap().check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{}", error.chain());
    error.chain()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d1_what_is_missing_is_declared_and_bound() {
    let Some(scene) = Scene::shared().await else { return };
    let hands = Hands::default();
    let config = bound(&[60_000, 300_000, 900_000]);
    WorkQueue::new(&scene.url, config.clone()).unwrap().check().await.unwrap();
    let running = Running::start(&scene.url, &config, &hands);
    let relay = scene.sink();
    let messages =
        ["ticket.created", "ticket.status.changed", "ticket.deleted"].map(|kind| Message::new(kind, kind));
    let outcomes = relay.deliver(&messages).await;
    assert_eq!(outcomes[..2], [Outcome::Delivered, Outcome::Delivered]);
    assert_ne!(outcomes[2], Outcome::Delivered, "no key is bound for it");
    hands.until(2).await;
    running.stop().await;
    for queue in ["work.dlq", "work.retry.1m", "work.retry.5m", "work.retry.15m"] {
        assert_eq!(scene.count(queue).await, 0, "{queue} is there");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d1_what_is_only_checked_must_be_there() {
    let Some(scene) = Scene::shared().await else { return };
    let checked = |retry: &[u64]| with_topology(Topology::Check, retry);
    let told = refused(&scene, &checked(&[1_000])).await;
    assert!(told.contains("queue 'work.dlq' does not exist"), "{told}");
    WorkQueue::new(&scene.url, bound(&[1_000])).unwrap().check().await.unwrap();
    WorkQueue::new(&scene.url, checked(&[1_000])).unwrap().check().await.unwrap();
    let further = checked(&[1_000, 7_000]);
    let told = refused(&scene, &further).await;
    assert!(told.contains("queue 'work.retry.7s' does not exist"), "{told}");
    // A check makes nothing.
    let told = refused(&scene, &further).await;
    assert!(told.contains("queue 'work.retry.7s' does not exist"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d1_what_differs_is_refused_and_told() {
    let Some(scene) = Scene::shared().await else { return };
    let mut arguments = FieldTable::default();
    arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(10));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    scene.channel.queue_declare(QUEUE.into(), options, arguments).await.unwrap();
    for topology in [Topology::Declare, Topology::Check] {
        if topology == Topology::Check {
            let mut fitting = bound(&[1_000]);
            fitting.arguments.insert("x-max-length".to_owned(), Argument::Integer(10));
            WorkQueue::new(&scene.url, fitting).unwrap().check().await.unwrap();
        }
        let told = refused(&scene, &with_topology(topology, &[1_000])).await;
        assert!(told.contains("queue 'work' exists and is not as configured"), "{told}");
        assert!(told.contains("x-max-length"), "what differs: {told}");
    }
    let mut quorum = bound(&[1_000]);
    quorum.kind = QueueKind::Quorum;
    let told = refused(&scene, &quorum).await;
    assert!(told.contains("x-queue-type"), "{told}");
}

/// A quorum queue and the arguments that the broker has for it.
fn quorum(queue: &str, retry: &[u64]) -> WorkQueueConfig {
    let mut config = config(retry);
    config.queue = queue.to_owned();
    config.dead = format!("{queue}.dlq");
    config.kind = QueueKind::Quorum;
    config
}

/// A sink that makes the queue too, of this kind.
fn sending(scene: &Scene, queue: QueueConfig) -> Exchange {
    let mut config = scene.config();
    config.queues = vec![queue];
    Exchange::new(&scene.url, config).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d1_a_quorum_queue_may_be_made_by_its_sink_or_by_its_source_first() {
    let Some(scene) = Scene::shared().await else { return };
    for source_first in [true, false] {
        let queue = format!("work-{source_first}");
        let sink = sending(&scene, QueueConfig::new(&queue, [&queue]).quorum());
        let source = WorkQueue::new(&scene.url, quorum(&queue, &[1_000])).unwrap();
        if source_first {
            source.check().await.unwrap();
        }
        sink.check().await.unwrap();
        source.check().await.unwrap();
        assert_eq!(sink.deliver(&[Message::new(&queue, "x")]).await, [Outcome::Delivered], "{queue}");
        scene.until_count(&queue, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e3_the_dead_letters_of_a_quorum_queue_may_be_read_and_made_in_any_order() {
    let Some(scene) = Scene::shared().await else { return };
    for reader_first in [true, false] {
        let queue = format!("work-{reader_first}");
        let work = WorkQueue::new(&scene.url, quorum(&queue, &[])).unwrap();
        let reader = WorkQueue::new(&scene.url, quorum(&format!("{queue}.dlq"), &[])).unwrap();
        if reader_first {
            reader.check().await.unwrap();
        }
        work.check().await.unwrap();
        reader.check().await.unwrap();
        for checked in [queue.clone(), format!("{queue}.dlq")] {
            let mut config = quorum(&checked, &[]);
            config.topology = Topology::Check;
            WorkQueue::new(&scene.url, config).unwrap().check().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d1_a_sink_that_knows_the_arguments_of_the_reader_makes_the_queue_with_them() {
    let Some(scene) = Scene::shared().await else { return };
    let mut read = quorum(QUEUE, &[]);
    read.single_active = true;
    let mut made = QueueConfig::new(QUEUE, ["#"]).quorum();
    made.arguments = read.queue_arguments();
    sending(&scene, made).check().await.unwrap();
    WorkQueue::new(&scene.url, read.clone()).unwrap().check().await.unwrap();
    // Made with all of them: one that lacks a place for what the broker gives up is another.
    let mut plain = FieldTable::default();
    plain.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    plain.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    assert!(scene.channel.queue_declare(QUEUE.into(), options, plain).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d1_what_costs_messages_is_refused_in_every_queue() {
    let Some(scene) = Scene::shared().await else { return };
    WorkQueue::new(&scene.url, config(&[])).unwrap().check().await.unwrap();
    let error = sending(&scene, QueueConfig::new(QUEUE, ["#"]).quorum()).check().await.unwrap_err();
    assert!(error.chain().contains("x-queue-type"), "the kind is the sink's too: {}", error.chain());
    let mut arguments = FieldTable::default();
    arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(1_000));
    let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    scene.channel.queue_declare("other.dlq".into(), options, arguments).await.unwrap();
    let mut other = config(&[]);
    (other.queue, other.dead) = ("other".into(), "other.dlq".into());
    let told = refused(&scene, &other).await;
    assert!(told.contains("queue 'other.dlq'") && told.contains("x-message-ttl"), "{told}");
}
