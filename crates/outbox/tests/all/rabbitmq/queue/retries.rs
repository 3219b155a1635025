//! Retries and dead letters, kept by the broker.

use std::time::{Duration, Instant};

use outbox::rabbitmq::{QueueKind, WorkQueue};
use outbox::{Cause, Message, Outcome, Pipe, Rejection, Sink, header};
use tokio_util::sync::CancellationToken;

use super::super::{Scene, text as header_of};
use super::{Hands, QUEUE, Running, config, policy, with_id};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2_three_tries_apart_then_the_error_queue_with_error_attempts_and_origin() {
    for kind in [QueueKind::Classic, QueueKind::Quorum] {
        let Some(scene) = Scene::shared().await else { return };
        let mut config = config(&[200, 200]);
        config.dead = format!("{QUEUE}_error");
        config.kind = kind;
        let hands = Hands::default();
        hands.fail("bad", u32::MAX).await;
        let running = Running::start(&scene.url, &config, &hands);
        hands.until(0).await;
        until_declared(&scene.url, &config).await;
        let began = Instant::now();
        scene.put(QUEUE, b"bad", with_id("1")).await;
        scene.put(QUEUE, b"good", with_id("2")).await;
        scene.until_count("work_error", 1).await;
        assert!(began.elapsed() >= Duration::from_millis(400), "two delays: {:?}", began.elapsed());
        let mut names = hands.names().await;
        names.sort();
        assert_eq!(names, ["bad#0", "bad#1", "bad#2", "good#0"], "three tries, and the other one");
        running.stop().await;
        let dead = scene.drain("work_error").await.remove(0);
        assert_eq!((super::super::id(&dead), &*dead.data), ("1".to_owned(), &b"bad"[..]));
        for (name, value) in [
            (header::ERROR_CODE, "BROKEN"),
            (header::ERROR_TEXT, "told to fail"),
            (header::ERROR_ATTEMPTS, "3"),
            (header::ERROR_ORIGIN, QUEUE),
            (header::DESTINATION, QUEUE),
        ] {
            assert_eq!(header_of(&dead, name).as_deref(), Some(value), "{name}");
        }
        let time = |name| header_of(&dead, name).unwrap().parse::<jiff::Timestamp>().unwrap();
        assert!(time(header::ERROR_AT) > time(header::ERROR_FIRST_AT));
        let names = dead.properties.headers().as_ref().unwrap().inner().keys();
        assert!(
            !names.into_iter().any(|name| name.as_str().starts_with("x-retry-")),
            "it is not retried any more"
        );
        assert_eq!(scene.count(QUEUE).await, 0, "all is acknowledged");
    }
}

/// Declares the topology, as the pipe does, so that the test may publish.
async fn until_declared(url: &str, config: &outbox::rabbitmq::WorkQueueConfig) {
    WorkQueue::new(url, config.clone()).unwrap().check().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_the_broker_keeps_the_retry_and_no_process_has_to_live_for_it() {
    let Some(scene) = Scene::shared().await else { return };
    let config = config(&[500, 60_000]);
    until_declared(&scene.url, &config).await;
    scene.put(QUEUE, b"bad", with_id("1")).await;
    let hands = Hands::default();
    hands.fail("bad", 1).await;
    let running = Running::start(&scene.url, &config, &hands);
    scene.until_count("work.retry.500ms", 1).await;
    running.stop().await;
    // Nobody is there when the delay is over.
    scene.until_count(QUEUE, 1).await;
    assert_eq!(scene.count("work.retry.500ms").await, 0);
    let running = Running::start(&scene.url, &config, &hands);
    hands.until(2).await;
    running.stop().await;
    assert_eq!(hands.names().await, ["bad#0", "bad#1"], "the attempt came along");
    assert_eq!(hands.calls().await[0].headers, hands.calls().await[1].headers, "and nothing else changed");
    assert_eq!(scene.count(QUEUE).await + scene.count("work.dlq").await, 0);
}

/// Asks to be tried again after a time that no retry queue has.
struct Later(Hands);

#[async_trait::async_trait]
impl Sink for Later {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let again = Rejection {
            cause: Cause::new("LATER", "not now"),
            permanent: false,
            retry_after: Some(Duration::from_millis(700)),
            defect: false,
        };
        let outcome = |message: &Message| match message.attempts {
            0 => Outcome::Rejected(again.clone()),
            _ => Outcome::Delivered,
        };
        self.0.deliver(messages).await;
        messages.iter().map(outcome).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_what_asks_for_a_longer_wait_than_its_step_goes_round_again_without_an_attempt() {
    let Some(scene) = Scene::shared().await else { return };
    let config = config(&[200]);
    until_declared(&scene.url, &config).await;
    let hands = Hands::default();
    let source = WorkQueue::new(&scene.url, config.clone()).unwrap();
    let stop = CancellationToken::new();
    let pipe = Pipe::new(source, Later(hands.clone())).policy(policy(&config));
    let task = tokio::spawn(pipe.run(stop.clone()));
    scene.put(QUEUE, b"one", with_id("1")).await;
    hands.until(1).await;
    let began = Instant::now();
    hands.until(2).await;
    assert!(began.elapsed() >= Duration::from_millis(660), "{:?}", began.elapsed());
    assert_eq!(hands.names().await, ["one#0", "one#1"]);
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_without_retry_queues_a_retry_waits_in_memory_and_still_ends_dead() {
    let Some(scene) = Scene::shared().await else { return };
    let config = config(&[]);
    until_declared(&scene.url, &config).await;
    let hands = Hands::default();
    hands.fail("bad", u32::MAX).await;
    let source = WorkQueue::new(&scene.url, config.clone()).unwrap();
    let stop = CancellationToken::new();
    let steps = Some(vec![Duration::from_millis(300)]);
    let pipe = Pipe::new(source, hands.clone()).policy(outbox::Policy { steps, ..policy(&config) });
    let task = tokio::spawn(pipe.run(stop.clone()));
    let began = Instant::now();
    scene.put(QUEUE, b"bad", with_id("1")).await;
    scene.until_count("work.dlq", 1).await;
    assert!(began.elapsed() >= Duration::from_millis(300), "{:?}", began.elapsed());
    assert_eq!(hands.names().await, ["bad#0", "bad#1"]);
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_keeps_what_the_message_came_with_but_not_what_would_lose_or_double_it() {
    let Some(scene) = Scene::shared().await else { return };
    let config = config(&[]);
    until_declared(&scene.url, &config).await;
    until_declared(&scene.url, &outbox::rabbitmq::WorkQueueConfig::new("copy")).await;
    let mut headers = lapin::types::FieldTable::default();
    headers.insert("tries".into(), lapin::types::AMQPValue::LongInt(3));
    let copies = lapin::types::AMQPValue::LongString("copy".into());
    headers.insert("CC".into(), lapin::types::AMQPValue::FieldArray(vec![copies].into()));
    let properties = with_id("1")
        .with_headers(headers)
        .with_expiration("60000".into())
        .with_reply_to("answers".into())
        .with_content_encoding("gzip".into());
    scene.put(QUEUE, b"bad", properties).await;
    assert_eq!(scene.drain("copy").await.len(), 1, "the broker itself routes it there");
    let hands = Hands::default();
    hands.fail("bad", u32::MAX).await;
    let running = Running::start(&scene.url, &config, &hands);
    scene.until_count("work.dlq", 1).await;
    running.stop().await;
    let dead = scene.drain("work.dlq").await.remove(0);
    assert_eq!(dead.properties.expiration(), &None, "it would vanish before anybody looks");
    assert_eq!(dead.properties.reply_to().as_ref().unwrap().as_str(), "answers");
    assert_eq!(dead.properties.content_encoding().as_ref().unwrap().as_str(), "gzip");
    let tries = dead.properties.headers().as_ref().unwrap().inner().get("tries").cloned();
    assert_eq!(tries, Some(lapin::types::AMQPValue::LongInt(3)), "types are kept, too");
    assert_eq!(scene.count("copy").await, 0, "no second copy");
}
