//! Queues and bindings: declared, or checked and refused when they differ.

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use outbox::rabbitmq::{Argument, Binding, ExchangeKind, QueueKind, Topology, WorkQueue, WorkQueueConfig};
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
