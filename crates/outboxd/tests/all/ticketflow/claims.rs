//! A3: which rows are taken, in which order, and how. A4: what was processed before.

use std::time::{Duration, Instant};

use testbed::Proxy;

use super::producer::CREATED;
use super::{QUICK, Scene, address, event, ids, stop};

#[tokio::test(flavor = "multi_thread")]
async fn a3_what_is_dispatched_or_was_tried_five_times_is_left_alone() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let events = [1, 2, 3, 4].map(|seconds| event(CREATED, seconds));
    for event in &events {
        scene.insert(event).await;
    }
    let update = sqlx::query(
        r#"update "OutboxMessages" set "Attempts" = case when "Id" in ($2, $3) then 4 + ("Id" = $2)::int else 0 end,
           "DispatchedAt" = case when "Id" = $1 then now() end"#,
    );
    let [dispatched, tried_out, last_try, fresh] = &events;
    update.bind(dispatched.id).bind(tried_out.id).bind(last_try.id).execute(&scene.pool).await.unwrap();
    let running = scene.run_active();
    scene.until(r#"select count(*) = 2 from "ProcessedEvents""#).await;
    assert_eq!(scene.arrived().await, ids(&[fresh.clone(), last_try.clone()]));
    stop(running);
    let marks = scene.marks().await;
    let seen: Vec<_> = marks.iter().map(|mark| (mark.dispatched, mark.attempts)).collect();
    // From the oldest: the fresh one, the one at its last try, the one that waits for a person, the old one.
    assert_eq!(seen, [(true, 0), (true, 4), (false, 5), (true, 0)], "{marks:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_messages_go_by_occurred_at_whatever_the_order_of_their_rows() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let mut events: Vec<_> = (0..180).map(|seconds| event(CREATED, seconds)).collect();
    for event in &events {
        scene.insert(event).await;
    }
    let running = scene.run_active();
    scene.until_dispatched().await;
    events.reverse();
    assert_eq!(scene.arrived().await, ids(&events));
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_fifty_rows_are_claimed_at_a_time() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    // Once the network swallows everything, claims stay open.
    let proxy = Proxy::to(address(scene.vhost.url())).await.unwrap();
    let running = scene.run_by("RABBITMQ_URL", &proxy.reroute(scene.vhost.url()).unwrap());
    scene.create(1).await;
    scene.until_dispatched().await;
    proxy.block();
    scene.create_at_once(230).await;
    // A row that is locked has the number of its locker in xmax. To look must not lock anything itself.
    let sizes = r#"select coalesce(array_agg(size), '{}') from (
        select count(*) as size from "OutboxMessages" where xmax::text in
            (select transactionid::text from pg_locks where locktype = 'transactionid' and granted)
        group by xmax::text) as claims"#;
    let began = Instant::now();
    let mut claims: Vec<i64> = Vec::new();
    while claims.iter().sum::<i64>() < 200 {
        // The relay gives up after the 10 s of its sink.
        assert!(began.elapsed() < Duration::from_secs(8), "{claims:?}");
        claims = sqlx::query_scalar(sizes).fetch_one(&scene.pool).await.unwrap();
    }
    assert_eq!(claims, [50; 4]);
    proxy.unblock();
    scene.until_dispatched().await;
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a3_rows_that_another_session_has_locked_are_skipped_and_nothing_waits_for_them() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let events = scene.create(6).await;
    let mut other = scene.session().await;
    let lock = r#"begin; select from "OutboxMessages" order by "OccurredAt" limit 2 for update"#;
    sqlx::raw_sql(lock).execute(&mut other).await.unwrap();
    let running = scene.run_active();
    scene.until(r#"select count(*) = 4 from "ProcessedEvents""#).await;
    let queue = scene.queue().await;
    let arrived =
        |arrived: Vec<crate::broker::Arrived>| arrived.into_iter().map(|a| a.id).collect::<Vec<_>>();
    assert_eq!(arrived(queue.drain().await), ids(&events[2..]));
    let waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    assert_eq!(scene.count(waits).await, 0, "nobody waits for a lock");
    sqlx::raw_sql("rollback").execute(&mut other).await.unwrap();
    scene.until_dispatched().await;
    assert_eq!(arrived(queue.drain().await), ids(&events[..2]));
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a4_an_id_that_was_processed_is_marked_with_a_warning_and_not_published() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let events = scene.create(3).await;
    let insert =
        sqlx::query(r#"insert into "ProcessedEvents" values ($1, '2020-01-01Z')"#).bind(events[1].id);
    insert.execute(&scene.pool).await.unwrap();
    let mut running = scene.run();
    let line = running.wait_for("published before");
    assert!(line.contains("WARN") && line.contains(&events[1].id.to_string()), "{line}");
    scene.until_dispatched().await;
    assert_eq!(scene.arrived().await, ids(&[events[0].clone(), events[2].clone()]));
    stop(running);
    let kept = r#"select count(*) from "ProcessedEvents" where "ProcessedAt" = '2020-01-01Z'"#;
    assert_eq!(scene.count(kept).await, 1, "what was recorded before stays as it was");
    assert_eq!(scene.count(r#"select count(*) from "ProcessedEvents""#).await, 3);
}
