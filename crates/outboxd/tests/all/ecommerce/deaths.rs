//! Relays that are killed at any step while somebody writes: nothing is lost, and the marks say what the broker has.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::RngExt;
use uuid::Uuid;

use super::producer::Outbox;
use super::{QUICK, Shop, histories, running, save_step};
use crate::kills::{Kills, Ledger, STEPS};

/// What a relay may have in flight: four claims of 100.
const WINDOW: usize = 400;

/// Short, or every kill would cost a minute.
const BRIEF: [(&str, &str); 2] = [
    ("stamp_timeout = \"1m\"", "stamp_timeout = \"2s\""),
    ("routing_key = \"{type}\"", "routing_key = \"{type}\"\ntimeout = \"1s\""),
];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_relays_are_killed_at_random() {
    let Some(shop) = Shop::open().await else { return };
    let program = shop.program("outboxd.toml", &[QUICK, BRIEF[0], BRIEF[1]]);
    let mut kills = Kills::new("ecommerce", 100);
    let (ledger, over) = (Arc::new(Ledger::default()), Arc::new(AtomicBool::new(false)));
    let writer = tokio::spawn(write(shop.pool.clone(), ledger.clone(), over.clone(), kills.random()));
    kills.run(&program, &["run"], &STEPS).await;
    over.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    // What is marked is at the broker, also when the one who marked it was killed.
    let audit = shop.audit().await;
    let mut arrived = audit.drain().await;
    let there: HashSet<String> = arrived.iter().map(|one| one.id.clone()).collect();
    let marked: Vec<Uuid> = sqlx::query_scalar(
        r#"select "Id" from "OutboxEvents" where "IsProcessed" and "ProcessedAt" is not null"#,
    )
    .fetch_all(&shop.pool)
    .await
    .unwrap();
    assert!(!marked.is_empty());
    let unsent = marked.iter().filter(|id| !there.contains(&id.to_string())).count();
    assert_eq!(unsent, 0, "marked, and not at the broker");
    let _last = running(&program);
    shop.until(r#"not "IsProcessed""#, 0).await;
    arrived.extend(audit.drain().await);
    ledger.assert_arrived(arrived.iter().map(|one| one.id.as_str()), &kills, WINDOW);
    assert_eq!(shop.count(r#""RetryCount" > 0"#).await, 0, "a kill costs no attempt");
    for (order, steps) in histories(&arrived) {
        // A relay that is killed may repeat what it had in flight; nothing comes before all that is earlier.
        let mut seen = HashSet::new();
        let first: Vec<u64> = steps.into_iter().filter(|step| seen.insert(*step)).collect();
        assert!(first.is_sorted(), "{order}: {first:?}");
    }
}

/// Events of some orders, one commit or rollback each, as fast as they are carried or faster.
async fn write(
    pool: sqlx::PgPool,
    ledger: Arc<Ledger>,
    over: Arc<AtomicBool>,
    mut random: rand::rngs::StdRng,
) {
    let orders: Vec<Uuid> = (0..30).map(|_| Uuid::new_v4()).collect();
    let mut steps = vec![0; orders.len()];
    while !over.load(Ordering::Relaxed) {
        let at = random.random_range(0..orders.len());
        let mut tx = pool.begin().await.unwrap();
        let id = save_step(&mut tx, Outbox::Single, orders[at], "OrderPaid", steps[at]).await;
        if random.random_bool(0.1) {
            tx.rollback().await.unwrap();
            continue;
        }
        tx.commit().await.unwrap();
        ledger.note(&id);
        steps[at] += 1;
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}
