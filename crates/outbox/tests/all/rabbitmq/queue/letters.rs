//! Dead letters, seen and repaired by a person; classic and quorum.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, BasicRejectOptions, QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable};
use outbox::conformance::letters::LettersFixture;
use outbox::conformance::source::SourceFixture;
use outbox::letters::{Act, DeadLetters, Deed, Pace};
use outbox::rabbitmq::{DeadQueue, QueueKind, WorkQueue};
use outbox::{ErrorKind, Message, MessageId};

use super::super::{Scene, id, proxy};
use super::conformance::Queue;
use super::{QUEUE, config, with_id};

struct Desk {
    queue: Queue,
    letters: DeadQueue,
}

impl Desk {
    async fn new(kind: QueueKind) -> Option<Self> {
        let queue = Queue::new(kind).await?;
        let letters = DeadQueue::new(&queue.scene.url, queue.config.clone()).unwrap();
        Some(Self { queue, letters })
    }
}

#[async_trait]
impl SourceFixture for Desk {
    type Source = WorkQueue;

    async fn enqueue(&self, messages: Vec<Message>) {
        self.queue.enqueue(messages).await;
    }

    async fn roll_back(&self, messages: Vec<Message>) {
        self.queue.roll_back(messages).await;
    }

    fn source(&self, cursor: &str) -> WorkQueue {
        self.queue.source(cursor)
    }

    async fn expire(&self, cursor: &str) {
        self.queue.expire(cursor).await;
    }
}

#[async_trait]
impl LettersFixture for Desk {
    type Letters = DeadQueue;

    fn letters(&self) -> &DeadQueue {
        &self.letters
    }

    fn origin(&self) -> &str {
        QUEUE
    }

    async fn put(&self, payload: &str) {
        self.queue.scene.put("work.dlq", payload.as_bytes(), BasicProperties::default()).await;
    }

    async fn lose_origin(&self) {
        self.queue.scene.channel.queue_delete(QUEUE.into(), QueueDeleteOptions::default()).await.unwrap();
    }
}

mod classic {
    outbox::letters_suite!(super::Desk::new(outbox::rabbitmq::QueueKind::Classic));
}

mod quorum {
    outbox::letters_suite!(super::Desk::new(outbox::rabbitmq::QueueKind::Quorum));
}

/// A work queue with letters `0..count` among its dead ones.
async fn with_letters(kind: QueueKind, count: usize) -> Option<(Scene, DeadQueue)> {
    let scene = Scene::shared().await?;
    let mut config = config(&[]);
    config.kind = kind;
    WorkQueue::new(&scene.url, config.clone()).unwrap().check().await.unwrap();
    for n in 0..count {
        scene.put("work.dlq", format!("{n}").as_bytes(), with_id(&n.to_string())).await;
    }
    let letters = DeadQueue::new(&scene.url, config).unwrap();
    Some((scene, letters))
}

fn numbers(count: usize) -> Vec<MessageId> {
    (0..count).map(|n| MessageId::from(n.to_string())).collect()
}

fn deed(ids: &[MessageId], act: Act) -> Deed<'_> {
    Deed { ids, act, by: "ann", pace: None, tell: &|_| {} }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_a_quorum_queue_with_a_delivery_limit_loses_nothing_by_looks() {
    let Some(scene) = Scene::shared().await else { return };
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    arguments.insert("x-delivery-limit".into(), AMQPValue::LongLongInt(5));
    scene.channel.queue_declare("work.dlq".into(), QueueDeclareOptions::durable(), arguments).await.unwrap();
    for n in 0..3 {
        scene.put("work.dlq", b"x", with_id(&n.to_string())).await;
    }
    let letters = DeadQueue::new(&scene.url, config(&[])).unwrap();
    for n in 0..30 {
        let looked = letters.look(1 + n % 3).await.unwrap();
        let seen: Vec<&str> = looked.letters.iter().map(|letter| letter.message.id.as_str()).collect();
        assert_eq!(seen, ["0", "1", "2"][..1 + n % 3], "look {n}");
        letters.act(&deed(&["none".into()], Act::Discard)).await.unwrap();
    }
    let left: Vec<String> = scene.drain("work.dlq").await.iter().map(id).collect();
    assert_eq!(left, ["0", "1", "2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_a_slow_pace_holds_no_letters_while_it_waits() {
    for kind in [QueueKind::Classic, QueueKind::Quorum] {
        let Some((scene, letters)) = with_letters(kind, 4).await else { return };
        let ids = ["0", "2", "3"].map(MessageId::from);
        let acting = tokio::spawn(async move {
            let pace = Some(Pace::new(1, Duration::from_secs(3_600)));
            letters.act(&Deed { ids: &ids, act: Act::Return, by: "ann", pace, tell: &|_| {} }).await
        });
        scene.until_count(QUEUE, 1).await;
        // A broker takes away what is held for half an hour, and the next is due after twice as long.
        scene.until_count("work.dlq", 3).await;
        assert_eq!(scene.drain("work.dlq").await.iter().map(id).collect::<Vec<_>>(), ["1", "2", "3"]);
        assert!(!acting.is_finished(), "it waits");
        acting.abort();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_cut_off_half_way_nothing_is_lost() {
    for kind in [QueueKind::Classic, QueueKind::Quorum] {
        let Some((scene, _)) = with_letters(kind, 60).await else { return };
        let proxy = proxy(&scene).await;
        let mut config = config(&[]);
        config.kind = kind;
        let through = DeadQueue::new(&proxy.reroute(&scene.url).unwrap(), config).unwrap();
        let ids = numbers(60);
        let cut = |done: u64| {
            if done >= 20 {
                proxy.cut();
            }
        };
        let pace = Some(Pace::new(100, Duration::from_secs(1)));
        let deed = Deed { ids: &ids, act: Act::Return, by: "ann", pace, tell: &cut };
        assert!(through.act(&deed).await.is_err());
        let dead = async {
            loop {
                let all = scene.count("work.dlq").await + scene.count(QUEUE).await;
                if all >= 60 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), dead).await.expect("what was held is back");
        let ids_of = |all: Vec<lapin::message::Delivery>| all.iter().map(id).collect::<BTreeSet<String>>();
        let (back, left) = (ids_of(scene.drain(QUEUE).await), ids_of(scene.drain("work.dlq").await));
        assert!(back.len() >= 20 && !left.is_empty(), "{} returned, {} left", back.len(), left.len());
        assert_eq!(back.union(&left).count(), 60);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_a_message_that_a_queue_gave_up_by_itself_goes_back_there() {
    let Some(scene) = Scene::shared().await else { return };
    let mut arguments = FieldTable::default();
    arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
    arguments.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString("work.dlq".into()));
    let options = QueueDeclareOptions::durable;
    scene.channel.queue_declare("foreign".into(), options(), arguments).await.unwrap();
    for queue in ["work.dlq", QUEUE] {
        scene.channel.queue_declare(queue.into(), options(), FieldTable::default()).await.unwrap();
    }
    let (publish, properties) = (BasicPublishOptions::default(), with_id("1"));
    scene.channel.basic_publish("".into(), "foreign".into(), publish, b"x", properties).await.unwrap();
    scene.until_count("foreign", 1).await;
    let got = scene.channel.basic_get("foreign".into(), Default::default()).await.unwrap().unwrap();
    got.delivery.acker.reject(BasicRejectOptions { requeue: false }).await.unwrap();
    scene.until_count("work.dlq", 1).await;
    let letters = DeadQueue::new(&scene.url, config(&[])).unwrap();
    let letter = letters.look(10).await.unwrap().letters.remove(0);
    assert_eq!((letter.origin.as_deref(), letter.attempts), (Some("foreign"), 1));
    assert_eq!(letter.cause.unwrap().code, "REJECTED");
    assert!(letter.failed_at.is_some(), "RabbitMQ wrote down when");
    letters.act(&deed(&["1".into()], Act::Return)).await.unwrap();
    assert_eq!((scene.count("foreign").await, scene.count("work.dlq").await), (1, 0));
    let back = scene.drain("foreign").await.remove(0);
    let headers = back.properties.headers().as_ref().unwrap().inner();
    assert!(!headers.keys().any(|name| name.as_str().contains("death")), "{headers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_what_says_nothing_of_its_origin_goes_to_the_work_queue() {
    let Some((scene, letters)) = with_letters(QueueKind::Classic, 2).await else { return };
    assert_eq!(letters.look(1).await.unwrap().letters[0].origin.as_deref(), Some(QUEUE));
    assert_eq!(letters.act(&deed(&numbers(2), Act::Return)).await.unwrap().acted, 2);
    scene.until_count(QUEUE, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_a_queue_that_is_not_there_is_told_and_not_made() {
    let Some(scene) = Scene::shared().await else { return };
    let letters = DeadQueue::new(&scene.url, config(&[])).unwrap();
    for _ in 0..2 {
        let error = letters.look(1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("'work.dlq'"), "{error}");
    }
    assert!(letters.retries(10).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e7_a_large_queue_is_gone_through_in_good_time() {
    let Some((scene, letters)) = with_letters(QueueKind::Classic, 3_000).await else { return };
    let began = std::time::Instant::now();
    assert_eq!(letters.look(10_000).await.unwrap().letters.len(), 3_000);
    assert_eq!(letters.act(&deed(&numbers(3_000), Act::Return)).await.unwrap().acted, 3_000);
    assert_eq!(scene.count(QUEUE).await, 3_000);
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}
