//! A2: one active worker, by `pg_try_advisory_lock(42)`.

use std::time::{Duration, Instant};

use testbed::Proxy;

use super::{QUICK, Scene, address, ids, stop};

/// How many sessions hold the lock, as anybody can see.
const HOLDERS: &str = "select count(*) from pg_locks where locktype = 'advisory' and granted
    and classid = 0 and objid = 42 and objsubid = 1
    and database = (select oid from pg_database where datname = current_database())";

const STANDS_BY: &str = "another relay is active; standing by";

#[tokio::test(flavor = "multi_thread")]
async fn a2_a_second_worker_stands_by_says_so_and_takes_over_when_the_first_leaves() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let first = scene.run_active();
    assert_eq!(scene.count(HOLDERS).await, 1);
    let mut second = scene.run();
    let line = second.wait_for(STANDS_BY);
    assert!(line.contains("lock=42"), "{line}");
    let events = scene.create(3).await;
    scene.until_dispatched().await;
    assert_eq!(scene.count(HOLDERS).await, 1);
    let said = stop(first);
    assert!(said.contains("delivered=3"), "all was the first one's work: {said}");
    second.wait_for("this relay is the active one");
    let later = scene.create(2).await;
    scene.until_dispatched().await;
    assert_eq!(scene.arrived().await, ids(&[events, later].concat()), "nothing twice");
    stop(second);
    assert_eq!(scene.count(HOLDERS).await, 0, "released");
}

#[tokio::test(flavor = "multi_thread")]
async fn a2_a_standby_takes_over_within_two_seconds_from_one_that_is_killed() {
    // With the pause of the example: to stand by must not mean to sleep for 5 s.
    let Some(scene) = Scene::shared(&[]).await else { return };
    let proxy = Proxy::to(address(scene.vhost.url())).await.unwrap();
    let mut first = scene.run_by("RABBITMQ_URL", &proxy.reroute(scene.vhost.url()).unwrap());
    let mut second = scene.run();
    second.wait_for(STANDS_BY);
    let sent = scene.create(1).await;
    scene.until_dispatched().await;
    // It has rows in its hands when it dies: the broker does not answer any more.
    proxy.block();
    let events = scene.create(20).await;
    let in_hand = r#"select count(*) = 20 from "OutboxMessages" where xmax::text in
        (select transactionid::text from pg_locks where locktype = 'transactionid' and granted)"#;
    scene.until(in_hand).await;
    first.kill();
    let killed = Instant::now();
    second.wait_for("this relay is the active one");
    assert!(killed.elapsed() < Duration::from_secs(2), "{:?}", killed.elapsed());
    scene.until_dispatched().await;
    assert_eq!(scene.arrived().await, ids(&[sent, events].concat()));
    stop(second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a2_the_lock_is_free_when_a_worker_ends_by_an_error() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let running = scene.run_active();
    assert_eq!(scene.count(HOLDERS).await, 1);
    scene.execute(r#"alter table "OutboxMessages" drop column "Error""#).await;
    scene.create(1).await;
    let (code, said) = running.end();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("the pipe has stopped") && said.contains("Error"), "{said}");
    assert_eq!(scene.count(HOLDERS).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a2_a_worker_whose_session_ends_has_no_lock_and_knows_it() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let mut running = scene.run_active();
    let first = scene.create(1).await;
    scene.until_dispatched().await;
    // The old worker queues for the lock, so that it is the next to have it.
    let mut old = scene.session().await;
    let queued = tokio::spawn(async move {
        sqlx::raw_sql("select pg_advisory_lock(42)").execute(&mut old).await.unwrap();
        old
    });
    let waits =
        "select exists (select from pg_locks where locktype = 'advisory' and objid = 42 and not granted
        and database = (select oid from pg_database where datname = current_database()))";
    scene.until(waits).await;
    let ended =
        "select count(pg_terminate_backend(pid)) from pg_locks where locktype = 'advisory' and objid = 42
        and granted and database = (select oid from pg_database where datname = current_database())";
    assert_eq!(scene.count(ended).await, 1);
    let mut old = queued.await.unwrap();
    // What it had under way at that moment it might have sent, and would send again; this comes after it.
    running.wait_for(STANDS_BY);
    let second = scene.create(1).await;
    assert_eq!(scene.count(r#"select count(*) from "ProcessedEvents""#).await, 1);
    sqlx::raw_sql("select pg_advisory_unlock(42)").execute(&mut old).await.unwrap();
    running.wait_for("this relay is the active one");
    scene.until_dispatched().await;
    assert_eq!(scene.arrived().await, ids(&[first, second].concat()));
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a2_the_old_worker_with_the_lock_keeps_us_standing_by() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let mut old = scene.session().await;
    sqlx::raw_sql("select pg_advisory_lock(42)").execute(&mut old).await.unwrap();
    let events = scene.create(2).await;
    let mut running = scene.run();
    running.wait_for(STANDS_BY);
    assert!(scene.marks().await.iter().all(|mark| !mark.dispatched));
    sqlx::raw_sql("select pg_advisory_unlock(42)").execute(&mut old).await.unwrap();
    running.wait_for("this relay is the active one");
    scene.until_dispatched().await;
    // And the old worker is kept out while we have it.
    let taken: bool =
        sqlx::query_scalar("select pg_try_advisory_lock(42)").fetch_one(&mut old).await.unwrap();
    assert!(!taken);
    assert_eq!(scene.arrived().await, ids(&events));
    stop(running);
    let taken: bool =
        sqlx::query_scalar("select pg_try_advisory_lock(42)").fetch_one(&mut old).await.unwrap();
    assert!(taken, "released");
}
