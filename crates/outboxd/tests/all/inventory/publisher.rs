//! E4: published at once, or kept and delivered later, in order for its key.

use std::net::SocketAddr;

use serde_json::{Value, json};
use testbed::RabbitMq;
use uuid::Uuid;

use super::{QUEUE, Scene, product, stop};
use crate::broker::Queue;
use crate::web;

/// The token of the file, as it stands.
const TOKEN: &str = "inventory-on-this-machine";

/// Publishes a product under a key; gives the status, how it stands, and its id.
async fn publish(server: SocketAddr, key: &str, product: &Value) -> (u16, String, String) {
    let id = Uuid::new_v4().to_string();
    let body = json!({ "id": id, "type": "product.created", "key": key, "payload": product });
    let (status, answer) = web::post(server, "/v1/messages", TOKEN, &body).await;
    (status, answer["state"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned(), id)
}

async fn pending(scene: &Scene, condition: &str) -> i64 {
    let sql = format!(r#"select count(*) from "PendingMessages" where {condition}"#);
    sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&scene.inventory).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn e4_a_product_is_published_at_once_and_nothing_is_kept() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    let mut running = scene.program.start(&["run", "--pipe", "deliver", "--pipe", "consume"]);
    let server = web::server(&mut running);
    running.wait_for("ready");
    let (status, state, id) = publish(server, "lamp", &product("Lamp", 19.9)).await;
    assert_eq!((status, state.as_str()), (200, "confirmed"));
    scene.until_handled(1).await;
    let handled = format!(r#"select count(*) from "InventoryEventLogs" where "MessageId" = '{id}'"#);
    assert_eq!(scene.number(&handled).await, 1);
    assert_eq!(pending(&scene, "true").await, 0);
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn e4_what_the_broker_does_not_take_is_kept_and_delivered_in_order_for_its_key() {
    let Some(mut broker) = testbed::available(RabbitMq::start().await) else { return };
    let Some(scene) = Scene::at(&broker, &[]).await else { return };
    let mut running = scene.program.start(&["run", "--pipe", "deliver"]);
    let server = web::server(&mut running);
    running.wait_for("ready");
    let mut sent = vec![publish(server, "lamp", &product("Lamp 0", 1.0)).await.2];
    scene.until_queue(QUEUE, 1).await;
    broker.stop().await.unwrap();
    for number in 1..=3 {
        let (status, state, id) = publish(server, "lamp", &product(&format!("Lamp {number}"), 1.0)).await;
        assert_eq!((status, state.as_str()), (202, "kept"));
        sent.push(id);
    }
    let (status, state, other) = publish(server, "chair", &product("Chair", 5.0)).await;
    assert_eq!((status, state.as_str()), (202, "kept"));
    assert_eq!(
        pending(&scene, r#""SentAt" is null and "RetryCount" = 0"#).await,
        4,
        "an outage costs no tries"
    );
    broker.start_again().await.unwrap();
    // Whether it is still kept or goes at once: never before the earlier ones of its key.
    sent.push(publish(server, "lamp", &product("Lamp 4", 1.0)).await.2);
    Queue::until(scene.vhost.url(), QUEUE, 6).await;
    let began = std::time::Instant::now();
    while pending(&scene, r#""SentAt" is null"#).await > 0 {
        assert!(began.elapsed() < crate::program::PATIENCE);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    stop(running);
    let arrived: Vec<String> = scene
        .queue(QUEUE)
        .await
        .drain()
        .await
        .into_iter()
        .map(|one| one.headers["x-event-id"].clone())
        .collect();
    assert!(arrived.contains(&other));
    assert_eq!(arrived.into_iter().filter(|id| *id != other).collect::<Vec<_>>(), sent);
}
