//! D5: what fails waits in the broker, and is set aside after the last delay.

use std::time::Duration;

use jiff::Timestamp;

use super::{SOON, Scene, somebody, stop};

#[tokio::test(flavor = "multi_thread")]
async fn d5_a_letter_is_tried_again_after_each_delay_and_then_set_aside() {
    let Some(scene) = Scene::shared(&[SOON]).await else { return };
    let running = scene.run(&["dispatch", "notify", "count"]);
    let (full, ana) = (somebody("full"), somebody("ana"));
    let id = scene.create(&full).await;
    scene.create(&ana).await;
    for queue in ["notifications.retry.1s", "notifications.retry.2s", "notifications.retry.3s"] {
        scene.until_queue(queue, 1).await;
    }
    assert_eq!(scene.until_mails(&ana, 1).await.len(), 1, "nobody waits for another's letter");
    scene.until_queue("notifications.dlq", 1).await;
    stop(running);
    let dead = scene.queue("notifications.dlq").await.get().await.unwrap();
    let header = |name: &str| dead.headers.get(name).map(String::as_str);
    assert_eq!(header("x-event-id"), Some(id.to_string().as_str()));
    assert_eq!(header("x-error-origin"), Some("notifications"), "{dead:?}");
    assert_eq!(header("x-error-code"), Some("SMTP_452"), "{dead:?}");
    assert_eq!(header("x-error-attempts"), Some("4"), "{dead:?}");
    let time = |name: &str| header(name).unwrap().parse::<Timestamp>().unwrap();
    let took = time("x-error-at").duration_since(time("x-error-first-at"));
    assert!(took >= jiff::SignedDuration::from_secs(6), "{took}: one, two and three seconds");
    assert!(dead.persistent);
    // The other consumer has handled it, and the one that failed has not recorded it.
    let consumers = format!(r#"select count(*) from "ProcessedEvents" where "EventId" = '{id}'"#);
    assert_eq!(scene.number(&consumers).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_a_delay_is_kept_by_the_broker_and_not_by_the_process() {
    let Some(scene) = Scene::shared(&[SOON]).await else { return };
    let mut running = scene.run(&["dispatch", "notify", "count"]);
    let greylisted = somebody("greylisted");
    scene.create(&greylisted).await;
    scene.until_queue("notifications.retry.1s", 1).await;
    running.kill();
    // Nobody is there, and it comes back all the same.
    scene.until_queue("notifications", 1).await;
    let running = scene.run(&["notify"]);
    let mails = scene.until_mails(&greylisted, 1).await;
    assert!(mails[0].content.contains("Subject: Printer: open"), "{}", mails[0].content);
    stop(running);
    tokio::time::timeout(Duration::from_secs(10), scene.until_queue("notifications", 0)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_what_cannot_succeed_is_set_aside_at_once() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    let running = scene.run(&["dispatch", "notify", "count"]);
    scene.create(&somebody("refused")).await;
    scene.until_queue("notifications.dlq", 1).await;
    let dead = scene.queue("notifications.dlq").await.get().await.unwrap();
    assert_eq!(dead.headers["x-error-code"], "SMTP_550", "{dead:?}");
    assert_eq!(dead.headers["x-error-attempts"], "1", "{dead:?}");
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn d5_an_event_that_lacks_a_field_of_the_letter_is_set_aside_and_the_queue_goes_on() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    let running = scene.run(&["dispatch", "notify", "count"]);
    scene
        .execute(
            r#"insert into "Outbox" ("Id", "Type", "PayloadJson", "CorrelationId", "OccurredAt")
               values (gen_random_uuid(), 'ticket.created', '{"ticketId":"7"}', '7', now())"#,
        )
        .await;
    let ana = somebody("ana");
    scene.create(&ana).await;
    scene.until_mails(&ana, 1).await;
    scene.until_queue("notifications.dlq", 1).await;
    stop(running);
    let dead = scene.queue("notifications.dlq").await.get().await.unwrap();
    assert_eq!(dead.headers["x-error-code"], "UNFIT", "{dead:?}");
    assert!(dead.headers["x-error-text"].contains("{payload.notify}"), "{dead:?}");
}
