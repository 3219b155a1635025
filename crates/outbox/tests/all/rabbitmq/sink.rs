//! What the exchange shows beyond the suite of every sink, when neither messages nor the broker are at fault.

use std::collections::BTreeSet;
use std::time::Duration;

use outbox::rabbitmq::{Exchange, ExchangeConfig};
use outbox::{ErrorKind, Message, Sink};
use tokio::time::{Instant, timeout};

use super::{Dice, EXCHANGE, Scene, delivered, orders, proxy, through, until_delivered, words};

#[tokio::test]
async fn c4_a_batch_arrives_once_and_in_order() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let sink = scene.sink();
    let messages = orders(1_000);
    let outcomes = sink.deliver(&messages).await;
    assert_eq!(delivered(&messages, &outcomes).len(), 1_000);
    let got: Vec<String> = scene.drain("orders").await.iter().map(super::id).collect();
    let sent: Vec<String> = messages.iter().map(|message| message.id.to_string()).collect();
    assert_eq!(got, sent);
}

#[tokio::test]
async fn k4_an_absent_broker_is_unavailable_and_no_error_at_construction() {
    let sink = Exchange::new("amqp://u:s3cret@127.0.0.1:1/", ExchangeConfig::new(EXCHANGE)).unwrap();
    let outcomes = sink.deliver(&orders(2)).await;
    assert_eq!(words(&outcomes), ["~UNREACHABLE", "~UNREACHABLE"]);
    let told = format!("{outcomes:?}");
    assert!(told.contains("cannot connect to amqp://127.0.0.1:1/: Connection refused"), "{told}");
    assert!(!told.contains("s3cret"), "{told}");
    let error = Exchange::new("http://127.0.0.1/", ExchangeConfig::new(EXCHANGE)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[tokio::test]
async fn a_silent_network_is_told_as_a_time_out_and_then_as_unreachable() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let proxy = proxy(&scene).await;
    let sink = through(&proxy, &scene, Duration::from_secs(1));
    assert_eq!(words(&sink.deliver(&orders(1)).await), ["delivered"]);
    proxy.block();
    let started = Instant::now();
    let silent = orders(3);
    let outcomes = timeout(Duration::from_secs(10), sink.deliver(&silent)).await.expect("it ends");
    assert_eq!(words(&outcomes), ["~TIMEOUT", "~TIMEOUT", "~TIMEOUT"]);
    assert!(started.elapsed() >= Duration::from_secs(1), "it waited for the confirms");
    // A new connection is tried, which nobody answers either.
    assert_eq!(words(&sink.deliver(&silent[..1]).await), ["~UNREACHABLE"]);
    proxy.unblock();
    until_delivered(&sink, &silent).await;
    let ids = scene.drain_ids("orders").await;
    assert!(silent.iter().all(|message| ids.contains_key(message.id.as_str())));
}

/// Wherever the connection breaks, what is called delivered is in the queue.
#[tokio::test]
async fn k5_a_batch_that_is_cut_off_claims_no_more_than_is_there() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let proxy = proxy(&scene).await;
    let mut dice = Dice(42);
    let (mut cut_short, mut partial) = (0, 0);
    for _ in 0..40 {
        let sink = through(&proxy, &scene, Duration::from_secs(10));
        until_delivered(&sink, &orders(1)).await;
        let mut messages = orders(200);
        for message in messages.iter_mut().step_by(7) {
            message.kind = "nobody.cares".into();
        }
        proxy.cut_after(dice.below(160_000) as u64);
        let outcomes = sink.deliver(&messages).await;
        let ids = scene.drain_ids("orders").await;
        let done = delivered(&messages, &outcomes);
        assert!(done.iter().all(|id| ids.contains_key(id)), "delivered means in the queue");
        cut_short += usize::from(words(&outcomes).iter().any(|word| word == "~UNREACHABLE"));
        partial +=
            usize::from(!done.is_empty() && words(&outcomes).iter().any(|word| word == "~UNREACHABLE"));
        for (message, outcome) in messages.iter().zip(words(&outcomes)) {
            let routable = message.kind != "nobody.cares";
            let fitting = if routable { ["delivered", "~UNREACHABLE"] } else { ["NO_ROUTE", "~UNREACHABLE"] };
            assert!(fitting.contains(&outcome.as_str()), "{outcome} for {}", message.kind);
        }
    }
    assert!(cut_short > 10, "the cuts hit: {cut_short}, {partial} of them with some delivered");
}

/// Overlapping calls share a connection, and a lost one costs each of them one attempt at most.
#[tokio::test]
async fn calls_that_wait_for_one_attempt_share_its_failure() {
    let Some(scene) = Scene::shared().await else { return };
    let proxy = proxy(&scene).await;
    proxy.block();
    let sink = through(&proxy, &scene, Duration::from_secs(1));
    let started = Instant::now();
    let (one, two, three) = (orders(1), orders(1), orders(1));
    let outcomes = tokio::join!(sink.deliver(&one), sink.deliver(&two), sink.deliver(&three));
    for outcomes in [outcomes.0, outcomes.1, outcomes.2] {
        assert_eq!(words(&outcomes), ["~UNREACHABLE"]);
    }
    assert!(started.elapsed() < Duration::from_secs(2), "one after the other would take three");
    assert_eq!(proxy.connections(), 1);
}

/// Whoever waits for a call may stop waiting, at any moment; that is no other call's concern.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_dropped_halfway_harms_no_other() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let sink = scene.sink();
    sink.check().await.unwrap();
    let mut dice = Dice(11);
    let impatient = async {
        for _ in 0..60 {
            let messages: Vec<Message> =
                (0..100).map(|_| Message::new("order.big", vec![b'x'; 20_000])).collect();
            let _ = timeout(Duration::from_millis(dice.below(30) as u64), sink.deliver(&messages)).await;
        }
    };
    let mut done = BTreeSet::new();
    let patient = async {
        loop {
            let messages = orders(50);
            let outcomes = sink.deliver(&messages).await;
            assert_eq!(words(&outcomes), ["delivered"; 50]);
            done.extend(delivered(&messages, &outcomes));
        }
    };
    tokio::select! {
        () = impatient => {}
        () = patient => {}
    }
    assert_eq!(words(&sink.deliver(&orders(50)).await), ["delivered"; 50]);
    let arrived = scene.drain_ids("orders").await;
    assert!(done.iter().all(|id| arrived[id] == 1), "the connection was never lost");
}
