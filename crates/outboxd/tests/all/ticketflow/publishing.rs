//! A5 and A6: what a consumer gets.

use super::producer::{self, CREATED, STATUS_CHANGED};
use super::{QUICK, Scene, event, stop};

#[tokio::test(flavor = "multi_thread")]
async fn a5_persistent_messages_on_a_durable_topic_exchange_under_the_key_of_their_type() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let mut session = scene.session().await;
    let (ticket, created) = producer::create(&mut session, "Drucker").await.unwrap();
    let changed = producer::change_status(&mut session, ticket, "Closed").await.unwrap();
    let running = scene.run_active();
    scene.until_dispatched().await;
    let arrived = scene.queue().await.drain().await;
    let seen: Vec<_> = arrived.iter().map(|a| (a.id.clone(), a.routing_key.as_str(), a.persistent)).collect();
    assert_eq!(
        seen,
        [
            (created.id.to_string(), "ticket.created", true),
            (changed.id.to_string(), "ticket.status.changed", true)
        ]
    );
    stop(running);
    let broker = testbed::rabbitmq().await.unwrap();
    let list = ["list_exchanges", "-q", "-p", scene.vhost.name(), "name", "type", "durable"];
    let exchanges = broker.ctl(&list).await.unwrap();
    let is_ours = |line: &str| line.split_whitespace().eq(["ticketflow.events", "topic", "true"]);
    assert!(exchanges.lines().any(is_ours), "{exchanges}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a5_the_body_is_the_payload_byte_for_byte() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let payloads = [
        "{\"title\":\"ñ 🐰 \\u00e9\",  \"b\" : 1.0, \"a\":2,\n\t\"a\":3}",
        " {} ",
        "not JSON at all; 'quoted' \"twice\" \\ {curly}",
        "",
    ];
    for (payload, seconds) in payloads.iter().zip([4, 3, 2, 1]) {
        scene.insert(&producer::Event { payload: (*payload).to_owned(), ..event(CREATED, seconds) }).await;
    }
    let running = scene.run_active();
    scene.until_dispatched().await;
    let arrived = scene.queue().await.drain().await;
    let bodies: Vec<_> = arrived.iter().map(|arrived| arrived.body.as_slice()).collect();
    assert_eq!(bodies, payloads.map(str::as_bytes));
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn a6_type_correlation_id_and_timestamp_are_headers() {
    let Some(scene) = Scene::shared(&QUICK).await else { return };
    let sent = event(STATUS_CHANGED, 3600);
    scene.insert(&sent).await;
    let running = scene.run_active();
    scene.until_dispatched().await;
    let arrived = scene.queue().await.drain().await;
    let header = |name: &str| arrived[0].headers.get(name).map(String::as_str);
    assert_eq!(header("Type"), Some("TicketFlow.Domain.Events.TicketStatusChangedEvent"));
    assert_eq!(header("CorrelationId"), Some(sent.correlation.as_str()));
    assert_eq!(header("Timestamp"), Some(sent.occurred_at.as_second().to_string().as_str()));
    stop(running);
}
