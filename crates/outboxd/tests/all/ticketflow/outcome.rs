//! A7: what is written when it went well, and when it did not.

use super::{Mark, QUICK, Scene, UNROUTED, event, ids, stop};

#[tokio::test(flavor = "multi_thread")]
async fn a7_dispatched_at_and_processed_events_are_written_in_one_transaction() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    scene.create(5).await;
    let running = scene.run_active();
    scene.until_dispatched().await;
    stop(running);
    let sent = Mark { dispatched: true, processed: true, attempts: 0, error: None };
    assert_eq!(scene.marks().await, vec![sent; 5]);
    // The transaction that wrote a row's version is in its xmin.
    let together = r#"select count(*) from "OutboxMessages" as o join "ProcessedEvents" as p on "EventId" = "Id"
        where o.xmin = p.xmin"#;
    assert_eq!(scene.count(together).await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_a_failure_counts_keeps_the_error_and_after_five_a_person_decides() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let failing = event(UNROUTED, 10);
    scene.insert(&failing).await;
    let others = scene.create(2).await;
    let mut running = scene.run();
    scene.until(r#"select "Attempts" > 0 from "OutboxMessages" order by "OccurredAt" limit 1"#).await;
    let line = running.wait_for("dead: set aside until a person decides");
    assert!(line.contains(&failing.id.to_string()) && line.contains("NO_ROUTE"), "{line}");
    scene.until(r#"select "Attempts" = 5 from "OutboxMessages" order by "OccurredAt" limit 1"#).await;
    let marks = scene.marks().await;
    let error = marks[0].error.clone().unwrap();
    assert!(error.starts_with("NO_ROUTE: ") && error.contains("invoice.sent"), "{error}");
    assert_eq!(marks[0], Mark { dispatched: false, processed: false, attempts: 5, error: Some(error) });
    assert!(marks[1..].iter().all(|mark| mark.dispatched), "it holds up nobody: {marks:#?}");
    let queue = scene.queue().await;
    assert_eq!(queue.drain().await.into_iter().map(|a| a.id).collect::<Vec<_>>(), ids(&others));
    // A person sees it …
    let dead = scene.program.json(&["list", "--state", "dead"]);
    let found: Vec<_> = dead["messages"].as_array().unwrap().iter().map(|entry| &entry["id"]).collect();
    assert_eq!(found, [failing.id.to_string().as_str()], "{dead}");
    assert_eq!(dead["messages"][0]["cause"]["code"], "NO_ROUTE", "{dead}");
    assert_eq!(dead["messages"][0]["attempts"], 5, "{dead}");
    // … mends the cause, and brings it back.
    queue.bind("ticketflow.events", "invoice.#").await;
    let retried = scene.program.ok(&["retry", &failing.id.to_string(), "--yes"]);
    assert_eq!(retried, "1 message due again\n");
    scene.until_dispatched().await;
    assert_eq!(queue.drain().await.into_iter().map(|a| a.id).collect::<Vec<_>>(), ids(&[failing]));
    stop(running);
    assert!(scene.marks().await[0].processed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a7_a_backlog_that_no_queue_wants_yet_waits_for_the_queue_and_not_for_a_person() {
    let no_queue = [("queues = [{ name = \"tickets\", keys = [\"ticket.#\"] }]", "")];
    let Some(scene) = Scene::shared(&[&QUICK[..], &no_queue].concat()).await else { return };
    let mut events = ids(&scene.create(60).await);
    let mut running = scene.run();
    let line = running.wait_for("the sink is unavailable; nothing is charged");
    assert!(line.contains("NO_ROUTE"), "{line}");
    // The consumer comes late.
    let queue = scene.queue().await;
    queue.declare().await;
    queue.bind("ticketflow.events", "ticket.#").await;
    running.wait_for("the sink is back");
    scene.until_dispatched().await;
    let mut arrived = scene.arrived().await;
    arrived.sort();
    events.sort();
    assert_eq!(arrived, events);
    let spared = scene.count(r#"select count(*) from "OutboxMessages" where "Attempts" = 0"#).await;
    assert!(spared >= 30, "the breaker opened before all were tried: {spared}");
    let said = stop(running);
    assert!(!said.contains("dead: set aside"), "{said}");
}
