//! D1 and D2: the exchange, the queues and what a message bears.

use super::producer::{ASSIGNED, CREATED, STATUS_CHANGED, Ticket};
use super::{Scene, somebody, stop};

/// Who makes nothing and only looks.
const CHECK: (&str, &str) = (
    r#"retry = ["1m", "5m", "15m"]"#,
    "retry = [\"1m\", \"5m\", \"15m\"]\ntopology = \"check\"\nkind = \"classic\"",
);

/// What the broker says of one kind of thing, as words.
async fn listed(scene: &Scene, what: &str, columns: &[&str]) -> Vec<Vec<String>> {
    let mut args = vec![what, "-q", "-p", scene.vhost.name()];
    args.extend(columns);
    let text = testbed::rabbitmq().await.unwrap().ctl(&args).await.unwrap();
    text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn d1_the_topology_of_the_document_is_declared() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    let running = scene.run(&["dispatch", "notify", "count"]);
    // Something has come through, so everything is there.
    let ana = somebody("ana");
    scene.create(&ana).await;
    scene.until_mails(&ana, 1).await;
    scene.until_processed("count", 1).await;
    let exchanges = listed(&scene, "list_exchanges", &["name", "type", "durable"]).await;
    assert!(exchanges.contains(&["tickets", "topic", "true"].map(str::to_owned).into()), "{exchanges:?}");
    let queues = listed(&scene, "list_queues", &["name", "durable"]).await;
    let bindings = listed(&scene, "list_bindings", &["source_name", "destination_name", "routing_key"]).await;
    for queue in ["notifications", "metrics"] {
        for suffix in ["", ".dlq", ".retry.1m", ".retry.5m", ".retry.15m"] {
            let wanted = vec![format!("{queue}{suffix}"), "true".to_owned()];
            assert!(queues.contains(&wanted), "{wanted:?}: {queues:?}");
        }
        for key in [CREATED, STATUS_CHANGED, ASSIGNED] {
            let wanted = ["tickets", queue, key].map(str::to_owned).to_vec();
            assert!(bindings.contains(&wanted), "{wanted:?}: {bindings:?}");
        }
    }
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn d1_a_topology_that_is_not_there_or_differs_is_told_and_not_made() {
    let Some(scene) = Scene::shared(&[CHECK]).await else { return };
    let mut running = scene.run(&["notify"]);
    running.wait_for("queue 'notifications.dlq'");
    assert_eq!(listed(&scene, "list_queues", &["name"]).await, [[""; 0]; 0], "it only looks");
    drop(running);
    scene.queue("notifications.dlq").await.declare().await;
    scene.queue("notifications.retry.1m").await.declare().await;
    let mut running = scene.run(&["notify"]);
    let told = running.wait_for("queue 'notifications.retry.1m'");
    assert!(told.contains("x-message-ttl"), "{told}");
    drop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_every_message_has_its_event_id_and_its_correlation_id() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    let running = scene.run(&["dispatch", "notify", "count"]);
    let ana = somebody("ana");
    scene.create(&ana).await;
    scene.until_mails(&ana, 1).await;
    let seen = scene.queue("seen").await;
    seen.declare().await;
    seen.bind("tickets", "#").await;
    let ticket = Ticket::new("Printer", &ana);
    let mut session = scene.session().await;
    let created = ticket.create(&mut session).await.unwrap();
    let assigned = ticket.assign(&mut session, "ana").await.unwrap();
    let changed = ticket.change_status(&mut session, "closed").await.unwrap();
    scene.until_mails(&ana, 4).await;
    let mut arrived = seen.drain().await;
    arrived.sort_by(|one, other| one.routing_key.cmp(&other.routing_key));
    let seen: Vec<_> = arrived
        .iter()
        .map(|one| {
            let header = |name: &str| one.headers[name].as_str();
            (
                one.routing_key.as_str(),
                header("x-event-id").to_owned(),
                header("x-correlation-id"),
                one.persistent,
            )
        })
        .collect();
    let wanted = [(ASSIGNED, assigned), (CREATED, created), (STATUS_CHANGED, changed)];
    let wanted = wanted.map(|(kind, id)| (kind, id.to_string(), ticket.correlation.as_str(), true));
    assert_eq!(seen, wanted);
    stop(running);
}
