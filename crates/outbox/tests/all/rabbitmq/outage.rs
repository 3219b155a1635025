//! The broker stops, dies, or takes nothing more: each with a broker of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use outbox::Sink;
use outbox::rabbitmq::Exchange;
use testbed::RabbitMq;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::{Scene, delivered, order, orders, until_delivered, words};

#[tokio::test]
async fn k7_a_broker_that_is_stopped_is_unreachable_until_it_is_back() {
    let Some(mut rabbit) = testbed::available(RabbitMq::start().await) else { return };
    let vhost = rabbit.vhost().await.unwrap();
    let scene = Scene::at(vhost.clone()).await.with_orders().await;
    let sink = scene.sink();
    assert_eq!(words(&sink.deliver(&orders(2)).await), ["delivered"; 2]);
    rabbit.stop().await.unwrap();
    for _ in 0..3 {
        assert_eq!(words(&sink.deliver(&orders(2)).await), ["~UNREACHABLE"; 2]);
    }
    rabbit.start_again().await.unwrap();
    until_delivered(&sink, &orders(2)).await;
    let scene = Scene::at(vhost).await;
    assert_eq!(scene.drain_ids("orders").await.len(), 4);
}

/// Killed under load, twice: whatever was called delivered is in the queue after the restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k2_what_is_delivered_survives_the_death_of_the_broker() {
    let Some(mut rabbit) = testbed::available(RabbitMq::start().await) else { return };
    let vhost = rabbit.vhost().await.unwrap();
    let scene = Scene::at(vhost.clone()).await.with_orders().await;
    let sink = Arc::new(scene.sink());
    let mut done = BTreeSet::new();
    for _ in 0..2 {
        let (progress, mut seen) = watch::channel(0);
        let calls = (0..3).map(|_| {
            let (sink, progress) = (Arc::clone(&sink), progress.clone());
            tokio::spawn(async move {
                let mut done = BTreeSet::new();
                loop {
                    let messages = orders(200);
                    let outcomes = sink.deliver(&messages).await;
                    let now = delivered(&messages, &outcomes);
                    progress.send_modify(|count| *count += now.len());
                    done.extend(now);
                    if words(&outcomes).iter().any(|word| word.starts_with('~')) {
                        return done;
                    }
                }
            })
        });
        let calls: Vec<_> = calls.collect();
        seen.wait_for(|count| *count > 1_000).await.unwrap();
        rabbit.kill().await.unwrap();
        for call in calls {
            done.extend(call.await.unwrap());
        }
        rabbit.start_again().await.unwrap();
        until_delivered(&sink, &[order(0)]).await;
    }
    let arrived = Scene::at(vhost).await.drain_ids("orders").await;
    let lost: Vec<_> = done.iter().filter(|id| !arrived.contains_key(*id)).collect();
    assert!(lost.is_empty(), "{} of {} are lost", lost.len(), done.len());
}

#[tokio::test]
async fn k6_a_memory_alarm_is_blocked_within_the_time_limit_and_ends_by_itself() {
    let Some(mut rabbit) = testbed::available(RabbitMq::start().await) else { return };
    let scene = Scene::at(rabbit.vhost().await.unwrap()).await.with_orders().await;
    let mut config = scene.config();
    config.timeout = Duration::from_secs(2);
    let sink = Exchange::new(&scene.url, config).unwrap();
    assert_eq!(words(&sink.deliver(&orders(1)).await), ["delivered"]);

    rabbit.block().await.unwrap();
    let held = orders(50);
    let outcomes = timeout(Duration::from_secs(10), sink.deliver(&held)).await.expect("it ends");
    assert_eq!(words(&outcomes), ["~BLOCKED"; 50]);
    assert!(format!("{outcomes:?}").contains("low on memory"), "{:?}", outcomes[0]);
    // From now on it is known: nothing is sent, and nobody waits.
    let unsent = orders(50);
    let started = Instant::now();
    assert_eq!(words(&sink.deliver(&unsent).await), ["~BLOCKED"; 50]);
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());

    rabbit.unblock().await.unwrap();
    until_delivered(&sink, &held).await;
    until_delivered(&sink, &unsent).await;
    let arrived = scene.drain_ids("orders").await;
    assert_eq!(arrived.len(), 101);
    assert!(unsent.iter().all(|message| arrived[message.id.as_str()] == 1), "they were not sent before");
}

/// An alarm that is over within the time limit costs nothing, not even a duplicate.
#[tokio::test]
async fn a_short_alarm_only_delays() {
    let Some(mut rabbit) = testbed::available(RabbitMq::start().await) else { return };
    let scene = Scene::at(rabbit.vhost().await.unwrap()).await.with_orders().await;
    let mut config = scene.config();
    config.timeout = Duration::from_secs(60);
    let sink = Arc::new(Exchange::new(&scene.url, config).unwrap());
    assert_eq!(words(&sink.deliver(&orders(1)).await), ["delivered"]);
    rabbit.block().await.unwrap();
    let call = tokio::spawn({
        let sink = Arc::clone(&sink);
        async move { sink.deliver(&orders(100)).await }
    });
    // Once the sink knows of the alarm, the call above is in the middle of it.
    let blocked = async { while !rabbit_blocks(&rabbit).await {} };
    timeout(Duration::from_secs(30), blocked).await.unwrap();
    rabbit.unblock().await.unwrap();
    assert_eq!(words(&call.await.unwrap()), ["delivered"; 100]);
    let arrived = scene.drain_ids("orders").await;
    assert_eq!(arrived.len(), 101);
    assert!(arrived.values().all(|count| *count == 1));
}

async fn rabbit_blocks(rabbit: &RabbitMq) -> bool {
    let connections = rabbit.ctl(&["list_connections", "state"]).await.unwrap();
    connections.lines().any(|line| line.trim() == "blocked")
}
