//! E1 to E3: the consumer, its tries, and what becomes of what it cannot handle.

use jiff::{SignedDuration, Timestamp};

use serde_json::json;
use uuid::Uuid;

use super::{ERROR_QUEUE, QUEUE, SOON, Scene, product, stop};
use crate::broker::{Sender, headers};

#[tokio::test(flavor = "multi_thread")]
async fn e1_the_exchange_the_key_and_the_queue_are_declared() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    let running = scene.consume().await;
    stop(running);
    let broker = testbed::rabbitmq().await.unwrap();
    let listed = async |what: &str, columns: &[&str]| {
        let args: Vec<&str> = [what, "-q", "-p", scene.vhost.name()].iter().chain(columns).copied().collect();
        broker.ctl(&args).await.unwrap()
    };
    let has = |text: &str, words: &[&str]| {
        text.lines().any(|line| line.split_whitespace().eq(words.iter().copied()))
    };
    let exchanges = listed("list_exchanges", &["name", "type", "durable"]).await;
    assert!(has(&exchanges, &["inventory_exchange", "topic", "true"]), "{exchanges}");
    let bindings = listed("list_bindings", &["source_name", "destination_name", "routing_key"]).await;
    assert!(has(&bindings, &["inventory_exchange", QUEUE, "product.created"]), "{bindings}");
    let queues = listed("list_queues", &["name", "durable"]).await;
    for queue in [QUEUE, ERROR_QUEUE, "product-created-queue.retry.5s"] {
        assert!(has(&queues, &[queue, "true"]), "{queues}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e2_three_tries_five_seconds_apart_and_then_the_error_queue() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    let running = scene.consume().await;
    let bad = scene.publish(&product("Free lunch", 0.0)).await;
    scene.until_queue("product-created-queue.retry.5s", 1).await;
    scene.publish(&product("Lamp", 19.9)).await;
    scene.until_handled(1).await;
    assert_eq!(
        scene.number(r#"select count(*) from "InventoryEventLogs" where "ProductName" = 'Lamp'"#).await,
        1
    );
    scene.until_queue(ERROR_QUEUE, 1).await;
    stop(running);
    let dead = scene.queue(ERROR_QUEUE).await.get().await.unwrap();
    let header = |name: &str| dead.headers.get(name).map(String::as_str);
    assert_eq!(header("x-event-id"), Some(bad.to_string().as_str()));
    assert_eq!(header("x-error-origin"), Some(QUEUE), "{dead:?}");
    assert_eq!(header("x-error-attempts"), Some("3"), "{dead:?}");
    assert_eq!(header("x-error-code"), Some("REFUSED"), "{dead:?}");
    assert!(header("x-error-text").unwrap().contains("CK_InventoryEventLogs_Price"), "{dead:?}");
    let time = |name: &str| header(name).unwrap().parse::<Timestamp>().unwrap();
    let took = time("x-error-at").duration_since(time("x-error-first-at"));
    assert!((SignedDuration::from_secs(10)..SignedDuration::from_secs(40)).contains(&took), "{took}");
    assert_eq!(
        scene.number(r#"select count(*) from "InventoryEventLogs""#).await,
        1,
        "nothing of it is left"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_a_success_is_in_the_event_log_and_an_error_in_the_error_log() {
    let Some(scene) = Scene::shared(&[SOON]).await else { return };
    let running = scene.run(&["consume", "write_errors"]);
    scene.until_queue(QUEUE, 0).await;
    let lamp = scene.publish(&product("Lamp", 19.9)).await;
    let bad = scene.publish(&product("Free lunch", 0.0)).await;
    scene.until_handled(1).await;
    scene.until_errors(1).await;
    stop(running);
    let logged = format!(
        r#"select count(*) from "InventoryEventLogs"
           where "MessageId" = '{lamp}' and "EventType" = 'product.created' and "ProductName" = 'Lamp' and "Price" = 19.9"#
    );
    assert_eq!(scene.number(&logged).await, 1);
    let error = format!(
        r#"select count(*) from "ErrorLogs"
           where "MessageId" = '{bad}' and "MessageType" = 'product.created' and "QueueName" = '{QUEUE}'
             and "ErrorCode" = 'REFUSED' and "ErrorMessage" like '%CK_InventoryEventLogs_Price%' and "RetryCount" = 3
             and "Payload"::json->>'name' = 'Free lunch' and "CreatedAt" <= "LastSeenAt" and not "IsResolved"
             and "ResolvedAt" is null and "ResolvedBy" is null"#
    );
    assert_eq!(scene.number(&error).await, 1);
    for queue in [QUEUE, ERROR_QUEUE, "product-created-queue_error.dlq"] {
        scene.until_queue(queue, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_what_masstransit_publishes_is_handled_as_the_page_says() {
    let envelope = (
        "dead = \"product-created-queue_error\"",
        "dead = \"product-created-queue_error\"\nenvelope = \"masstransit\"",
    );
    let members = (
        ":payload.productId, :payload.name, :payload.price",
        ":payload.message.productId, :payload.message.name, :payload.message.price",
    );
    let Some(scene) = Scene::shared(&[envelope, members]).await else { return };
    let running = scene.consume().await;
    let id = Uuid::new_v4().to_string();
    let body = json!({
        "messageId": id, "messageType": ["urn:message:Inventory.Contracts:ProductCreated"],
        "message": product("Lamp", 19.9), "sentTime": "2025-10-21T12:00:00Z",
    });
    let sender = Sender::open(scene.vhost.url()).await;
    let properties =
        headers(&[("MT-Activity-Id", "7")]).with_content_type("application/vnd.masstransit+json".into());
    for _ in 0..2 {
        let body = body.to_string();
        sender.publish("inventory_exchange", "product.created", properties.clone(), body.as_bytes()).await;
    }
    scene
        .publish(&json!({ "messageId": Uuid::new_v4().to_string(), "message": product("Chair", 45.0) }))
        .await;
    scene.until_handled(2).await;
    stop(running);
    let handled = format!(
        r#"select count(*) from "InventoryEventLogs" where "MessageId" = '{id}' and "ProductName" = 'Lamp'
           and "EventType" like '%ProductCreated'"#
    );
    assert_eq!(scene.number(&handled).await, 1, "once");
    scene.until_queue(QUEUE, 0).await;
}
