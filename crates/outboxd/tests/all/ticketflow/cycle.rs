//! A1: the loop, its errors and its end. A8: what it says of every cycle.

use std::ops::Range;
use std::time::{Duration, Instant};

use testbed::Proxy;

use super::producer::CREATED;
use super::{QUICK, Scene, UNROUTED, address, event, ids, stop};
use crate::program::PATIENCE;

const FREE: &str = "select count(*) = 0 from pg_locks where locktype = 'advisory'
    and database = (select oid from pg_database where datname = current_database())";

/// About 5 seconds, on a busy machine.
const ROUND: Range<f64> = 3.0..9.0;

impl Scene {
    /// Waits until the relay has looked for rows after that time; gives when it did, in seconds.
    async fn next_look(&self, after: f64) -> f64 {
        // Once it rests; the session of the lock has a longer name.
        let sql = "select max(extract(epoch from query_start)::float8) from pg_stat_activity
            where datname = current_database() and application_name = 'outboxd' and state = 'idle'";
        let began = Instant::now();
        loop {
            let last: Option<f64> = sqlx::query_scalar(sql).fetch_one(&self.pool).await.unwrap();
            match last {
                Some(last) if last > after => return last,
                _ => assert!(began.elapsed() < PATIENCE, "no look after {after}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a1_the_loop_comes_round_every_5_seconds() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    assert_eq!(scene.program.json(&["config", "show"])["pipes"]["relay"]["poll"], "5s");
    let running = scene.run_active();
    // It looks again soon after its start and after work, and ever less often when there is nothing: down to the poll.
    let (mut last, mut gap) = (scene.next_look(0.0).await, 0.0);
    let began = Instant::now();
    while gap < ROUND.start {
        assert!(began.elapsed() < PATIENCE, "it never rests");
        let next = scene.next_look(last).await;
        (last, gap) = (next, next - last);
    }
    for _ in 0..2 {
        let next = scene.next_look(last).await;
        assert!(ROUND.contains(&(next - last)), "{} s", next - last);
        last = next;
    }
    // Right after a look, so that the next is a whole round away.
    let began = Instant::now();
    let events = scene.create(1).await;
    scene.until_dispatched().await;
    assert!(ROUND.contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
    assert_eq!(scene.arrived().await, ids(&events));
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a1_an_error_in_a_cycle_is_logged_and_the_loop_goes_on() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let proxy = Proxy::to(address(&scene.database)).await.unwrap();
    let mut running = scene.run_by("DATABASE_URL", &proxy.reroute(&scene.database).unwrap());
    let first = scene.create(2).await;
    scene.until_dispatched().await;
    proxy.refuse();
    proxy.cut();
    let line = running.wait_for("the source does not answer; trying again");
    assert!(line.contains("WARN") && line.contains("pipe=\"relay\""), "{line}");
    let second = scene.create(2).await;
    proxy.accept();
    running.wait_for("the source is back");
    scene.until_dispatched().await;
    assert_eq!(scene.arrived().await, ids(&[first, second].concat()));
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a1_a_stop_signal_ends_it_cleanly_with_the_lock_free_and_no_row_claimed() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let running = scene.run_active();
    scene.create(120).await;
    // In the middle of the work: some are out, some are not.
    scene.until(r#"select exists (select from "ProcessedEvents")"#).await;
    let said = stop(running);
    assert!(said.contains("SIGTERM") && said.contains("outboxd is down"), "{said}");
    // The server ends the session in its own time, which is now.
    scene.until(FREE).await;
    let free = r#"select count(*) from (select from "OutboxMessages" for update skip locked) as free"#;
    assert_eq!(scene.count(free).await, 120, "nothing is claimed");
    let marks = scene.marks().await;
    let dispatched = marks.iter().filter(|mark| mark.dispatched).count();
    assert!(marks.iter().all(|mark| mark.dispatched == mark.processed), "{marks:#?}");
    assert_eq!(scene.arrived().await.len(), dispatched, "what was out was settled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_every_cycle_is_one_line_with_what_succeeded_failed_and_was_skipped() {
    // One cycle: what fails is not tried again within the test.
    let slow =
        [("retry_first = \"5s\"", "retry_first = \"1h\""), ("retry_most = \"5s\"", "retry_most = \"1h\"")];
    let Some(scene) = Scene::shared(&slow).await else { return };
    scene.create(3).await;
    scene.insert(&event(UNROUTED, 0)).await;
    let known = [event(CREATED, 1), event(CREATED, 2)];
    for event in &known {
        scene.insert(event).await;
        let insert = sqlx::query(r#"insert into "ProcessedEvents" values ($1, now())"#).bind(event.id);
        insert.execute(&scene.pool).await.unwrap();
    }
    let mut running = scene.run();
    let line = running.wait_for(" cycle ");
    assert!(line.contains("delivered=3 failed=1 skipped=2"), "{line}");
    scene.create(1).await;
    let line = running.wait_for(" cycle ");
    assert!(line.contains("delivered=1 failed=0 skipped=0"), "{line}");
    let said = stop(running);
    assert_eq!(said.lines().filter(|line| line.contains(" cycle ")).count(), 2, "{said}");
}
