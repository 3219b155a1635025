//! D3: an event is handled once, however often it comes.

use uuid::Uuid;

use super::producer::CREATED;
use super::{SOON, Scene, somebody, stop};
use crate::broker::{Sender, headers};

/// Where nobody reads letters.
const NOBODY: &str = "nobody@ticketflow.example";

/// Publishes events as a dispatcher does that is not outboxd.
async fn publish(scene: &Scene, ids: &[Uuid], notify: &str) {
    let sender = Sender::open(scene.vhost.url()).await;
    let body = format!(r#"{{"ticketId":"7","title":"Printer","status":"open","notify":"{notify}"}}"#);
    for id in ids {
        let properties = headers(&[("x-event-id", &id.to_string()), ("x-correlation-id", "7")]);
        sender.publish("tickets", CREATED, properties, body.as_bytes()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_a_known_id_is_acknowledged_and_nothing_else() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    let (ana, known) = (somebody("ana"), Uuid::new_v4());
    scene
        .execute(&format!(
            r#"insert into "ProcessedEvents" values ('{known}', 'notify', '2025-10-21T12:00:00Z')"#
        ))
        .await;
    let running = scene.run(&["notify"]);
    scene.until_queue("notifications", 0).await;
    publish(&scene, &[known, Uuid::new_v4()], &ana).await;
    scene.until_processed("notify", 2).await;
    stop(running);
    assert_eq!(scene.post.mails(&ana).unwrap().len(), 1);
    // What was not acknowledged would be back.
    for queue in ["notifications", "notifications.dlq", "notifications.retry.1m"] {
        scene.until_queue(queue, 0).await;
    }
    let kept = r#"select count(*) from "ProcessedEvents" where "ProcessedAt" = '2025-10-21T12:00:00Z'"#;
    assert_eq!(scene.number(kept).await, 1, "what was recorded stays as it is");
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_an_event_that_comes_again_is_handled_once() {
    let Some(scene) = Scene::of("application.toml", &[]).await else { return };
    let running = scene.run(&["count"]);
    scene.until_queue("metrics", 0).await;
    let (id, other) = (Uuid::new_v4(), Uuid::new_v4());
    publish(&scene, &[id, id, other, id], NOBODY).await;
    scene.until_processed("count", 2).await;
    stop(running);
    scene.until_queue("metrics", 0).await;
    assert_eq!(scene.number(r#"select "Total" from "TicketMetrics""#).await, 2);
}

/// A trigger that fails in the table of the handler, or as late as the commit in that of the ids.
const BROKEN: [&str; 2] = [
    r#"create trigger broken before insert on "TicketMetrics" for each row execute function fail()"#,
    r#"create constraint trigger broken after insert on "ProcessedEvents" deferrable initially deferred
       for each row execute function fail()"#,
];

#[tokio::test(flavor = "multi_thread")]
async fn d3_handling_and_recording_are_one_transaction() {
    for (broken, table) in BROKEN.into_iter().zip(["TicketMetrics", "ProcessedEvents"]) {
        let Some(scene) = Scene::of("application.toml", &[SOON]).await else { return };
        scene
            .execute(
                r#"create function fail() returns trigger language plpgsql as
                   $$ begin raise check_violation using message = 'not now'; end $$"#,
            )
            .await;
        scene.execute(broken).await;
        let running = scene.run(&["count"]);
        scene.until_queue("metrics", 0).await;
        publish(&scene, &[Uuid::new_v4()], NOBODY).await;
        scene.until_queue("metrics.retry.1s", 1).await;
        let rows =
            r#"select (select count(*) from "TicketMetrics") + (select count(*) from "ProcessedEvents")"#;
        assert_eq!(scene.number(rows).await, 0, "{table}");
        scene.execute(&format!(r#"drop trigger broken on "{table}""#)).await;
        scene.until_processed("count", 1).await;
        assert_eq!(scene.number(r#"select "Total" from "TicketMetrics""#).await, 1, "{table}");
        stop(running);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_a_consumer_that_is_killed_handles_everything_once() {
    const EVENTS: i64 = 400;
    let batch = (r#"to = "totals""#, "to = \"totals\"\nbatch = 5");
    let Some(scene) = Scene::of("application.toml", &[batch]).await else { return };
    let running = scene.run(&["count"]);
    scene.until_queue("metrics", 0).await;
    stop(running);
    let ids: Vec<Uuid> = (0..EVENTS).map(|_| Uuid::new_v4()).collect();
    publish(&scene, &ids, NOBODY).await;
    // Killed wherever it is, as soon as so many more are done.
    for mark in (1..=8).map(|kill| kill * 40) {
        let mut running = scene.run(&["count"]);
        scene.until_true(&format!(r#"select count(*) >= {mark} from "ProcessedEvents""#)).await;
        running.kill();
    }
    let running = scene.run(&["count"]);
    scene.until_processed("count", EVENTS).await;
    stop(running);
    scene.until_queue("metrics", 0).await;
    assert_eq!(scene.number(r#"select "Total" from "TicketMetrics""#).await, EVENTS);
}
