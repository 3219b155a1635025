//! Relays that are killed at any step, and several relays at once: nothing is lost, and nothing twice without a death.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::RngExt;
use serde_json::json;

use super::producer::save_event;
use super::scene::{Registry, running};
use crate::kills::{Kills, Ledger, STEPS};
use crate::program::delivered;

/// What a relay may have in flight: four claims of 20.
const WINDOW: usize = 80;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_relays_are_killed_at_random() {
    let Some(registry) = Registry::open().await else { return };
    let program = registry.program(&[("poll = \"500ms\"", "poll = \"20ms\"")]);
    let mut kills = Kills::new("data-registry", 100);
    let (ledger, over) = (Arc::new(Ledger::default()), Arc::new(AtomicBool::new(false)));
    let (pool, topic) = (registry.pool.clone(), registry.topic.clone());
    let writer = tokio::spawn(write(pool, topic, ledger.clone(), over.clone(), kills.random()));
    kills.run(&program, &["run"], &STEPS).await;
    over.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    // What is marked is at the broker, also when the one who marked it was killed.
    let marked: Vec<String> = sqlx::query_scalar(r#"select "id" from "Outbox" where "status" = 'PROCESSED'"#)
        .fetch_all(&registry.pool)
        .await
        .unwrap();
    assert!(!marked.is_empty());
    let there: HashSet<String> = registry.arrived(&registry.topic, marked.len()).await.into_iter().collect();
    assert!(marked.iter().all(|id| there.contains(id)), "marked, and not at the broker");
    let _last = running(&program);
    registry.until(r#""status" = 'PROCESSED' and "processedAt" is not null"#, ledger.len() as i64).await;
    let arrived = registry.arrived(&registry.topic, ledger.len()).await;
    ledger.assert_arrived(arrived.iter().map(String::as_str), &kills, WINDOW);
    assert_eq!(registry.count(r#""retries" > 0"#).await, 0, "a kill costs no attempt");
}

async fn write(
    pool: sqlx::PgPool,
    topic: String,
    ledger: Arc<Ledger>,
    over: Arc<AtomicBool>,
    mut random: rand::rngs::StdRng,
) {
    while !over.load(Ordering::Relaxed) {
        let mut tx = pool.begin().await.unwrap();
        let id = save_event(&mut tx, &topic, &json!({ "matchId": "m" })).await.unwrap();
        if random.random_bool(0.1) {
            tx.rollback().await.unwrap();
            continue;
        }
        tx.commit().await.unwrap();
        ledger.note(&id);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// By `FOR UPDATE SKIP LOCKED`.
async fn share(count: usize) {
    let Some(registry) = Registry::open().await else { return };
    let program = registry.program(&[("poll = \"500ms\"", "poll = \"50ms\"")]);
    let mut ids: BTreeSet<String> = registry.write_good(1_500).await;
    let mut relays: Vec<_> = (0..count).map(|_| program.start(&["run"])).collect();
    relays.iter_mut().for_each(|relay| drop(relay.wait_for("started")));
    ids.extend(registry.write_good(1_500).await);
    registry.until(r#""status" = 'PROCESSED'"#, 3_000).await;
    for relay in &relays {
        relay.signal("TERM");
    }
    let mut shares = Vec::new();
    for relay in relays {
        let (code, said) = relay.end();
        assert_eq!(code, 0, "{said}");
        shares.push(delivered(&said));
    }
    assert!(shares.iter().filter(|share| **share > 0).count() > 1, "one did it all: {shares:?}");
    assert_eq!(shares.iter().sum::<u64>(), 3_000, "{shares:?}");
    let mut arrived = registry.arrived(&registry.topic, 3_000).await;
    arrived.sort();
    assert_eq!(arrived.len(), 3_000, "none twice");
    assert!(arrived.iter().eq(ids.iter()), "none missing");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_relays_share_the_table_and_send_nothing_twice() {
    share(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn four_relays_share_the_table_and_send_nothing_twice() {
    share(4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_relays_share_the_table_and_send_nothing_twice() {
    share(8).await;
}
