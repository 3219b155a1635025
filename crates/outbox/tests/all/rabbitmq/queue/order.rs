//! Order per key through retries, and several consumers.

use std::collections::BTreeMap;
use std::time::Duration;

use outbox::rabbitmq::{WorkQueue, WorkQueueConfig};
use outbox::{Message, Outcome, Sink, Source, Verdict};

use super::super::{EXCHANGE, Scene};
use super::{Hands, Running, config, text};

pub(super) async fn bound(scene: &Scene, retry: &[u64]) -> WorkQueueConfig {
    let mut config = config(retry);
    let keys = vec!["#".to_owned()];
    let kind = outbox::rabbitmq::ExchangeKind::Topic;
    config.bind = vec![outbox::rabbitmq::Binding { exchange: EXCHANGE.to_owned(), kind, keys }];
    WorkQueue::new(&scene.url, config.clone()).unwrap().check().await.unwrap();
    config
}

pub(super) async fn send(scene: &Scene, messages: &[Message]) {
    let outcomes = scene.sink().deliver(messages).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Delivered), "{outcomes:?}");
}

pub(super) fn named(key: &str, n: usize) -> Message {
    Message::new("a", format!("{key}{n:03}")).key(key)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_the_later_ones_of_a_key_wait_for_a_retry_and_other_keys_do_not() {
    let Some(scene) = Scene::shared().await else { return };
    let config = bound(&scene, &[300, 300]).await;
    let hands = Hands::default();
    hands.fail("a000", 2).await;
    hands.fail("b001", u32::MAX).await;
    let running = Running::start(&scene.url, &config, &hands);
    send(&scene, &[named("a", 0), named("a", 1), named("b", 0), named("b", 1), named("b", 2), named("c", 0)])
        .await;
    hands.until(6).await;
    // While they wait, more comes.
    send(&scene, &[named("a", 2), named("b", 3), named("c", 1)]).await;
    // a000 three times, b001 three times, the other seven once.
    hands.until(13).await;
    scene.until_count("work.dlq", 1).await;
    running.stop().await;
    let names = hands.names().await;
    let of = |key: &str| names.iter().filter(|name| name.starts_with(key)).cloned().collect::<Vec<_>>();
    assert_eq!(of("a"), ["a000#0", "a000#1", "a000#2", "a001#0", "a002#0"]);
    assert_eq!(
        of("b"),
        ["b000#0", "b001#0", "b001#1", "b001#2", "b002#0", "b003#0"],
        "dead, then the key goes on"
    );
    assert_eq!(of("c"), ["c000#0", "c001#0"]);
    assert_eq!(scene.count("work").await + scene.count("work.retry.300ms").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d10_several_consumers_share_a_queue() {
    let Some(scene) = Scene::shared().await else { return };
    let mut config = bound(&scene, &[100]).await;
    config.prefetch = 20;
    let all: Vec<Message> = (0..2_000).map(|n| named(&format!("k{}-", n % 50), n)).collect();
    let hands = [Hands::default(), Hands::default(), Hands::default()];
    let running: Vec<Running> =
        hands.iter().map(|hands| Running::start(&scene.url, &config, hands)).collect();
    for part in all.chunks(500) {
        send(&scene, part).await;
    }
    let mut counts = BTreeMap::new();
    let whole = async {
        loop {
            counts.clear();
            for hands in &hands {
                for message in hands.calls().await {
                    *counts.entry(text(&message)).or_insert(0) += 1;
                }
            }
            if counts.len() == all.len() {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), whole).await.unwrap();
    for running in running {
        running.stop().await;
    }
    assert!(counts.values().all(|count| *count == 1), "each by one of them");
    for hands in &hands {
        assert!(!hands.calls().await.is_empty(), "all of them work");
    }
    assert_eq!(scene.count("work").await, 0);
}

/// The first may fail again after the second was claimed: then the second must stay back, as bars see to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_one_that_came_back_is_not_claimed_as_the_first_of_its_key() {
    let Some(scene) = Scene::shared().await else { return };
    let config = bound(&scene, &[100]).await;
    let source = WorkQueue::new(&scene.url, config).unwrap();
    send(&scene, &[named("a", 0), named("a", 1)]).await;
    let claim = async |limit: usize| {
        let asked = async {
            loop {
                let claim = source.claim(limit).await.unwrap();
                if !claim.messages.is_empty() {
                    return claim;
                }
                source.wait(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), asked).await.expect("nothing came")
    };
    let retry = Verdict::Retry { after: Duration::ZERO, attempts: 1, cause: outbox::Cause::new("X", "x") };
    let first = claim(1).await;
    source.settle(&first, &[retry]).await.unwrap();
    let second = claim(1).await;
    assert!(second.is_held(0));
    source.settle(&second, &[Verdict::Behind]).await.unwrap();
    scene.until_count("work.retry.100ms", 0).await;
    let (first, second) = (claim(1).await, claim(1).await);
    assert_eq!((text(&first.messages[0]), text(&second.messages[0])), ("a000".to_owned(), "a001".to_owned()));
    assert!(first.is_set_aside() && !second.is_set_aside());
}

/// What has waited comes back behind what came meanwhile. Given back untried, or lost with the connection, both come again in
/// that order, and the later one of the key must not go first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_what_came_back_and_was_given_back_is_not_overtaken_by_what_came_meanwhile() {
    let Some(scene) = Scene::shared().await else { return };
    let config = bound(&scene, &[300]).await;
    let source = WorkQueue::new(&scene.url, config).unwrap();
    send(&scene, &[named("a", 0)]).await;
    let claim = async || {
        let asked = async {
            loop {
                let claim = source.claim(1).await.unwrap();
                if !claim.messages.is_empty() {
                    return claim;
                }
                source.wait(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), asked).await.expect("nothing came")
    };
    let retry = Verdict::Retry { after: Duration::ZERO, attempts: 1, cause: outbox::Cause::new("X", "x") };
    let first = claim().await;
    source.settle(&first, &[retry]).await.unwrap();
    send(&scene, &[named("a", 1)]).await;
    for is_lost in [false, true, false] {
        let (later, first) = (claim().await, claim().await);
        assert_eq!(
            (text(&later.messages[0]), text(&first.messages[0])),
            ("a001".to_owned(), "a000".to_owned())
        );
        assert!(later.is_held(0) && !first.is_held(0), "lost: {is_lost}");
        if is_lost {
            source.close().await.unwrap();
        } else {
            source.settle(&later, &[Verdict::Released]).await.unwrap();
            source.settle(&first, &[Verdict::Released]).await.unwrap();
        }
    }
}
