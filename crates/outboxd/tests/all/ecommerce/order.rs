//! C4: the events of an order arrive in their order, also when something fails. C9: the types of a batch go side by side.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::producer::Outbox;
use super::{NOT_ARCHIVED, QUICK, Shop, assert_each_once, histories, running, save_step, write_steps};

/// Of each order: steps 0 and 1, then one that no queue takes, then another.
async fn write_stuck(shop: &Shop, orders: &[Uuid]) {
    let mut tx = shop.pool.begin().await.unwrap();
    write_steps(&mut tx, Outbox::Single, orders, 0..2).await;
    for order in orders {
        save_step(&mut tx, Outbox::Single, *order, "OrderArchived", 2).await;
        save_step(&mut tx, Outbox::Single, *order, "OrderShipped", 3).await;
    }
    tx.commit().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_an_event_that_cannot_go_holds_back_its_own_order_and_no_other() {
    let Some(shop) = Shop::open().await else { return };
    let slow = (QUICK.0, "poll = \"50ms\"\nretry_first = \"3s\"");
    let program = shop.program("outboxd.toml", &[slow, NOT_ARCHIVED]);
    let stuck: Vec<Uuid> = (0..5).map(|_| Uuid::new_v4()).collect();
    write_stuck(&shop, &stuck).await;
    let _relay = running(&program);
    shop.until(r#""RetryCount" = 1"#, 5).await;
    shop.write(Outbox::Single, 20, 4).await;
    shop.until(r#""IsProcessed""#, 5 * 2 + 20 * 4).await;
    let audit = shop.audit().await;
    audit.bind("shop.events", "OrderArchived").await;
    assert_eq!(shop.count(r#"not "IsProcessed" and "EventType" = 'OrderShipped'"#).await, 5, "they wait");
    shop.until(r#""IsProcessed""#, 25 * 4).await;
    let histories = histories(&audit.drain().await);
    assert_eq!(histories.len(), 25);
    assert!(histories.values().all(|steps| *steps == [0, 1, 2, 3]), "{histories:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_an_event_that_is_dead_holds_its_order_until_a_person_decides() {
    let Some(shop) = Shop::open().await else { return };
    let quick = (QUICK.0, "poll = \"50ms\"\nretry_first = \"50ms\"");
    let program = shop.program("outboxd.toml", &[quick, NOT_ARCHIVED]);
    let stuck: Vec<Uuid> = (0..3).map(|_| Uuid::new_v4()).collect();
    write_stuck(&shop, &stuck).await;
    let relay = running(&program);
    shop.until(r#""RetryCount" = 3"#, 3).await;
    // Another relay has to find out what waits.
    drop(relay);
    let _relay = running(&program);
    shop.write(Outbox::Single, 3, 4).await;
    shop.until(r#""IsProcessed""#, 3 * 2 + 3 * 4).await;
    assert_eq!(shop.count(r#"not "IsProcessed" and "EventType" = 'OrderShipped'"#).await, 3, "they wait");
    let audit = shop.audit().await;
    audit.bind("shop.events", "OrderArchived").await;
    assert_eq!(program.ok(&["retry", "--yes"]), "3 messages due again\n");
    shop.until(r#""IsProcessed""#, 6 * 4).await;
    let histories = histories(&audit.drain().await);
    assert!(histories.values().all(|steps| *steps == [0, 1, 2, 3]), "{histories:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_order_is_kept_while_the_broker_comes_and_goes() {
    let Some(shop) = Shop::open().await else { return };
    let (proxy, url) = shop.proxy().await;
    let brief = (QUICK.0, "poll = \"50ms\"\nprobe_first = \"50ms\"\nprobe_most = \"200ms\"");
    let program = shop.program_at(&url, "outboxd.toml", &[brief]);
    let _relay = running(&program);
    let mut written = 0;
    for bytes in [3_000, 10_000, 30_000] {
        proxy.cut_after(bytes);
        written += shop.write(Outbox::Single, 20, 6).await.len();
        shop.until(r#""IsProcessed""#, i64::try_from(written).unwrap()).await;
    }
    proxy.refuse();
    proxy.cut();
    written += shop.write(Outbox::Single, 20, 6).await.len();
    tokio::time::sleep(Duration::from_millis(500)).await; // An outage is nothing but time.
    proxy.accept();
    shop.until(r#""IsProcessed""#, i64::try_from(written).unwrap()).await;
    assert_eq!(shop.count(r#""RetryCount" > 0"#).await, 0, "an outage costs no attempt");
    for (order, mut steps) in histories(&shop.audit().await.drain().await) {
        // What was on its way when the connection broke comes again, and nothing overtakes it.
        steps.dedup();
        assert_eq!(steps, [0, 1, 2, 3, 4, 5], "{order}");
    }
}

/// Ten events of each of three types, of as many orders, one type after the other and again.
async fn write_types(shop: &Shop) -> BTreeSet<String> {
    let (mut ids, mut tx) = (BTreeSet::new(), shop.pool.begin().await.unwrap());
    for _ in 0..10 {
        for (step, kind) in ["OrderCreated", "OrderPaid", "OrderShipped"].into_iter().enumerate() {
            ids.insert(save_step(&mut tx, Outbox::Single, Uuid::new_v4(), kind, step).await);
        }
    }
    tx.commit().await.unwrap();
    ids
}

/// How long a batch of three types takes over a slow line, and the types as they arrived.
async fn of_three_types(concurrency: usize) -> Option<(Duration, Vec<String>)> {
    let shop = Shop::open().await?;
    let (proxy, url) = shop.proxy().await;
    let setting = format!("poll = \"50ms\"\nconcurrency = {concurrency}");
    let program = shop.program_at(&url, "outboxd.toml", &[(QUICK.0, &setting)]);
    let _relay = running(&program);
    // To connect, and to open channels, takes its time as well.
    let mut ids = write_types(&shop).await;
    shop.until(r#""IsProcessed""#, 30).await;
    proxy.latency(Duration::from_millis(300));
    let start = Instant::now();
    ids.extend(write_types(&shop).await);
    shop.until(r#""IsProcessed""#, 60).await;
    let taken = start.elapsed();
    let arrived = shop.audit().await.drain().await;
    assert_each_once(&arrived, &ids);
    Some((taken, arrived.into_iter().skip(30).map(|one| one.routing_key).collect()))
}

#[tokio::test(flavor = "multi_thread")]
async fn c9_a_batch_is_grouped_by_type_and_the_groups_go_in_parallel() {
    let Some((in_turn, mut types)) = of_three_types(1).await else { return };
    let Some((at_once, _)) = of_three_types(3).await else { return };
    types.dedup();
    assert_eq!(types.len(), 3, "one delivery has one type: {types:?}");
    assert!(at_once * 2 < in_turn, "{at_once:?} at once, {in_turn:?} in turn");
}
