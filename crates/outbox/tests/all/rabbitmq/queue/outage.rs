//! The broker goes away, is silent, or takes nothing: nothing is lost and nothing is charged.

use std::collections::BTreeMap;
use std::time::Duration;

use outbox::rabbitmq::WorkQueue;

use super::super::{Scene, proxy};
use super::{Hands, QUEUE, Running, config, text, with_id};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_loses_nothing_and_charges_nothing() {
    let Some(scene) = Scene::shared().await else { return };
    let proxy = proxy(&scene).await;
    let mut config = config(&[100]);
    config.connect_timeout = Duration::from_secs(2);
    WorkQueue::new(&scene.url, config.clone()).unwrap().check().await.unwrap();
    let hands = Hands::default();
    let running = Running::start(&proxy.reroute(&scene.url).unwrap(), &config, &hands);
    for n in 0..300 {
        scene.put(QUEUE, format!("{n}").as_bytes(), with_id(&n.to_string())).await;
        if n % 50 == 25 {
            hands.until(1).await;
            proxy.cut();
        }
    }
    let every_one = async {
        loop {
            let mut counts = BTreeMap::new();
            for message in hands.calls().await {
                assert_eq!(message.attempts, 0, "nothing is charged");
                *counts.entry(text(&message)).or_insert(0) += 1;
            }
            if counts.len() == 300 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), every_one).await.expect("all are handled");
    running.stop().await;
    assert_eq!(scene.count(QUEUE).await, 0);
    assert_eq!(scene.count("work.dlq").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_move_that_is_not_confirmed_is_not_acknowledged() {
    let Some(scene) = Scene::shared().await else { return };
    let config = config(&[60_000]);
    WorkQueue::new(&scene.url, config.clone()).unwrap().check().await.unwrap();
    let hands = Hands::default();
    hands.fail("bad", u32::MAX).await;
    let running = Running::start(&scene.url, &config, &hands);
    scene.put(QUEUE, b"good", with_id("0")).await;
    hands.until(1).await;
    // The retry queue goes away: the move comes back as unroutable.
    scene.channel.queue_delete("work.retry.1m".into(), Default::default()).await.unwrap();
    scene.put(QUEUE, b"bad", with_id("1")).await;
    // It is handed out again, and the queue is made again.
    hands.until(3).await;
    assert_eq!(
        hands.names().await,
        ["good#0", "bad#0", "bad#0"],
        "nothing is charged for what could not be moved"
    );
    running.stop().await;
    let retried = scene.drain("work.retry.1m").await;
    assert_eq!((retried.len(), scene.count(QUEUE).await), (1, 0));
}
