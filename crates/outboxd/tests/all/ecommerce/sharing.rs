//! C5: several relays share partition tables, or the lanes of one table, with no double owner. And any number of relays
//! on one table: no message twice unless one takes over from another.

use std::collections::BTreeSet;

use super::producer::Outbox;
use super::{QUICK, Shop, assert_each_once, histories, running, write_steps};
use crate::program::{Program, Running, delivered};

const EVENTS: usize = 3_000;

/// A view of all tables as one, so that a test can look at one.
const ALL: &str = r#"
    create view "AllEvents" as
        select * from "OutboxEvents" union all
        select * from "OutboxEvents_Partition_0" union all select * from "OutboxEvents_Partition_1" union all
        select * from "OutboxEvents_Partition_2" union all select * from "OutboxEvents_Partition_3""#;

/// The tables or lanes that have an owner, and the owners.
const OWNED: &str = "select count(distinct (classid, objid)) from pg_locks where ";
const OWNERS: &str = "select count(distinct pid) from pg_locks where ";

/// An exclusive lock in the place of a table's lane: whoever has it owns that lane.
const LOCKS: &str = "locktype = 'advisory' and granted and objsubid = 2 and mode = 'ExclusiveLock'
    and objid between x'6f620000'::bigint::oid and x'6f62ffff'::bigint::oid
    and database = (select oid from pg_database where datname = current_database())";

async fn until_done(shop: &Shop) {
    shop.until_number(r#"select count(*) from "AllEvents" where not "IsProcessed""#, 0).await;
}

/// Writes while the relays come up and share: one transaction for each group of orders.
async fn write_on(shop: &Shop, outbox: Outbox, events: usize) -> BTreeSet<String> {
    const STEPS: usize = 6;
    const ORDERS: usize = 10;
    let mut ids = BTreeSet::new();
    let mut connection = shop.pool.acquire().await.unwrap();
    while ids.len() < events {
        let orders: Vec<_> = (0..ORDERS).map(|_| uuid::Uuid::new_v4()).collect();
        for step in 0..STEPS {
            ids.extend(write_steps(&mut connection, outbox, &orders, step..step + 1).await);
        }
    }
    ids
}

fn relays(program: &Program, count: usize) -> Vec<Running> {
    let mut relays: Vec<_> = (0..count).map(|_| program.start(&["run"])).collect();
    relays.iter_mut().for_each(|relay| drop(relay.wait_for("started")));
    relays
}

/// So many relays, while events are written: each arrives once and, if asked for, in order.
async fn share(file: &str, outbox: Outbox, count: usize, more: &[(&str, &str)], ordered: bool) {
    let Some(shop) = Shop::open().await else { return };
    sqlx::raw_sql(ALL).execute(&shop.pool).await.unwrap();
    let program = shop.program(file, more);
    // There before anybody is, so that every relay finds work at once.
    let mut ids = write_on(&shop, outbox, EVENTS / 3).await;
    let relays = relays(&program, count);
    ids.extend(write_on(&shop, outbox, EVENTS / 3).await);
    if ordered {
        // Each has its part by now, and none gives it back.
        shop.until_number(&format!("{OWNERS}{LOCKS}"), i64::try_from(count).unwrap()).await;
    }
    ids.extend(write_on(&shop, outbox, EVENTS / 3).await);
    until_done(&shop).await;
    relays.iter().for_each(|relay| relay.signal("TERM"));
    let mut shares = Vec::new();
    for relay in relays {
        let (code, said) = relay.end();
        // Shown if the test fails: a relay that had trouble may have sent something twice.
        said.lines().filter(|line| line.contains("WARN")).for_each(|line| eprintln!("{line}"));
        assert_eq!(code, 0, "{said}");
        shares.push(delivered(&said));
    }
    // Without order nobody has a part of their own, and whoever is quick has more.
    let least = if ordered { count } else { 2 };
    assert!(shares.iter().filter(|share| **share > 0).count() >= least, "not shared: {shares:?}");
    assert_eq!(shares.iter().sum::<u64>(), ids.len() as u64, "{shares:?}");
    let arrived = shop.audit().await.drain().await;
    assert_each_once(&arrived, &ids);
    if ordered {
        let histories = histories(&arrived);
        assert!(histories.values().all(|steps| *steps == [0, 1, 2, 3, 4, 5]), "{histories:?}");
    }
}

const UNORDERED: (&str, &str) = (QUICK.0, "poll = \"50ms\"\norder = \"none\"");
const LANES: (&str, &str) = (QUICK.0, "poll = \"50ms\"\nlanes = 4");
/// As `FOR UPDATE SKIP LOCKED` claims.
const BY_LOCK: [(&str, &str); 2] =
    [("stamp = \"ProcessingStartedAt\"", "#"), ("stamp_timeout = \"1m\"", "#")];

#[tokio::test(flavor = "multi_thread")]
async fn c5_two_relays_share_the_partition_tables() {
    share("partitions.toml", Outbox::Partitioned, 2, &[QUICK], true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_four_relays_share_the_partition_tables() {
    share("partitions.toml", Outbox::Partitioned, 4, &[QUICK], true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_two_relays_share_the_lanes_of_one_table() {
    share("outboxd.toml", Outbox::Single, 2, &[LANES], true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_four_relays_share_the_lanes_of_one_table_by_lock() {
    share("outboxd.toml", Outbox::Single, 4, &[LANES, BY_LOCK[0], BY_LOCK[1]], true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_eight_relays_share_eight_lanes_of_one_table() {
    let lanes = (QUICK.0, "poll = \"50ms\"\nlanes = 8");
    share("outboxd.toml", Outbox::Single, 8, &[lanes], true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_relays_on_one_table_without_order_send_nothing_twice() {
    share("outboxd.toml", Outbox::Single, 2, &[UNORDERED], false).await;
    share("outboxd.toml", Outbox::Single, 2, &[UNORDERED, BY_LOCK[0], BY_LOCK[1]], false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn four_relays_on_one_table_without_order_send_nothing_twice() {
    share("outboxd.toml", Outbox::Single, 4, &[UNORDERED], false).await;
    share("outboxd.toml", Outbox::Single, 4, &[UNORDERED, BY_LOCK[0], BY_LOCK[1]], false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_relays_on_one_table_without_order_send_nothing_twice() {
    share("outboxd.toml", Outbox::Single, 8, &[UNORDERED], false).await;
    share("outboxd.toml", Outbox::Single, 8, &[UNORDERED, BY_LOCK[0], BY_LOCK[1]], false).await;
}

/// So many relays share the partition tables; one is killed, and the others have them all.
async fn take_over(count: usize) {
    let Some(shop) = Shop::open().await else { return };
    sqlx::raw_sql(ALL).execute(&shop.pool).await.unwrap();
    let program = shop.program("partitions.toml", &[QUICK]);
    let (owned, owners) = (format!("{OWNED}{LOCKS}"), format!("{OWNERS}{LOCKS}"));
    let mut first = running(&program);
    shop.until_number(&owned, 4).await;
    assert_eq!(shop.number(&owners).await, 1);
    let _others = relays(&program, count - 1);
    let shares = format!(
        "select count(*) from (select from pg_locks where {LOCKS} group by pid having count(*) = {}) g",
        4 / count
    );
    shop.until_number(&shares, i64::try_from(count).unwrap()).await;
    let mut ids = write_on(&shop, Outbox::Partitioned, 600).await;
    until_done(&shop).await;
    first.kill();
    ids.extend(write_on(&shop, Outbox::Partitioned, 600).await);
    until_done(&shop).await;
    assert_eq!(shop.number(&owned).await, 4);
    assert!(shop.number(&owners).await < i64::try_from(count).unwrap());
    let arrived = shop.audit().await.drain().await;
    assert_each_once(&arrived, &ids);
    assert!(histories(&arrived).values().all(|steps| *steps == [0, 1, 2, 3, 4, 5]));
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_a_partition_table_has_one_owner_and_the_other_takes_over_from_the_dead() {
    take_over(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c5_three_take_over_from_the_fourth() {
    take_over(4).await;
}
