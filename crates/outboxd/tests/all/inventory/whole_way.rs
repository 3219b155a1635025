//! E5 and E7 on the whole way: a product is created, relayed, fails three times, is set aside and written down, is edited
//! by a person, and handled.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{QUEUE, SOON, Scene, product, stop};
use crate::program::PATIENCE;
use crate::web;

/// A product and its message, written by Inventory.API in one transaction; gives the id of the message.
async fn create_product(scene: &Scene, name: &str, price: f64) -> String {
    let (id, product) = (Uuid::new_v4(), product(name, price));
    let mut tx = scene.inventory.begin().await.unwrap();
    sqlx::query(r#"insert into "Products" values ($1::uuid, $2, $3, now())"#)
        .bind(product["productId"].as_str().unwrap())
        .bind(name)
        .bind(price)
        .execute(&mut *tx)
        .await
        .unwrap();
    sqlx::query(
        r#"insert into "PendingMessages" ("Id", "MessageType", "MessageKey", "Payload", "CreatedAt")
           values ($1, 'product.created', $2, $3, now())"#,
    )
    .bind(id)
    .bind(product["productId"].as_str().unwrap())
    .bind(product.to_string())
    .execute(&mut *tx)
    .await
    .unwrap();
    tx.commit().await.unwrap();
    id.to_string()
}

impl Scene {
    /// Asks for a message until it is in this state.
    async fn until_state(&self, id: &str, state: &str) -> Value {
        let began = Instant::now();
        loop {
            let shown = self.program.json(&["show", id]);
            if shown["state"] == state {
                return shown;
            }
            assert!(began.elapsed() < PATIENCE, "never {state}: {shown:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The errors that nobody has dealt with.
    fn open_errors(&self) -> Vec<Value> {
        self.program.json(&["errors", "list"])["errors"].as_array().unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_e7_from_the_product_to_the_person_who_repairs_it_and_on_to_the_handler() {
    let slowly = (SOON.0, r#"retry = ["2s", "2s"]"#);
    let Some(scene) = Scene::shared(&[slowly]).await else { return };
    let program = &scene.program;
    stop(scene.consume().await);
    let id = create_product(&scene, "Free lunch", 0.0).await;
    assert_eq!(program.json(&["show", &id])["state"], "pending");

    let relay = scene.run(&["deliver"]);
    scene.until_queue(QUEUE, 1).await;
    let shown = scene.until_state(&id, "in process").await;
    assert_eq!(
        (&shown["pipes"][0]["pipe"], &shown["pipes"][0]["state"]),
        (&json!("deliver"), &json!("done"))
    );
    stop(relay);

    let consumer = scene.run(&["consume"]);
    let shown = scene.until_state(&id, "retrying").await;
    assert_eq!(shown["retries"][0]["cause"]["code"], "REFUSED", "{shown:#}");
    let shown = scene.until_state(&id, "in the error queue").await;
    assert_eq!(
        (&shown["letters"][0]["origin"], &shown["letters"][0]["attempts"]),
        (&json!(QUEUE), &json!(3))
    );

    let error_consumer = scene.run(&["write_errors"]);
    let shown = scene.until_state(&id, "processed as error").await;
    assert_eq!(shown["errors"][0]["attempts"], 3, "{shown:#}");

    let errors = scene.open_errors();
    assert_eq!(errors.len(), 1, "{errors:#?}");
    assert_eq!((&errors[0]["message_id"], &errors[0]["origin"]), (&json!(id), &json!(QUEUE)));
    let told = errors[0]["cause"]["detail"].as_str().unwrap_or_default();
    assert!(told.contains("CK_InventoryEventLogs_Price"), "{errors:#?}");
    let payload = program.json(&["errors", "show", &id, "--payload"])["errors"][0]["payload"].clone();
    let mut payload: Value = serde_json::from_str(payload.as_str().unwrap()).unwrap();
    payload["price"] = json!(4.5);
    program.ok(&["errors", "edit", &id, "--payload", &payload.to_string(), "--by", "ana", "--yes"]);
    program.ok(&["errors", "retry", &id, "--by", "ana", "--yes"]);
    scene.until_handled(1).await;
    scene.until_state(&id, "processed").await;
    let handled = format!(
        r#"select count(*) from "InventoryEventLogs"
           where "MessageId" = '{id}' and "ProductName" = 'Free lunch' and "Price" = 4.5"#
    );
    assert_eq!(scene.number(&handled).await, 1);
    let resolved = r#"select count(*) from "ErrorLogs"
        where "IsResolved" and "ResolvedBy" = 'ana' and "ResolvedAt" is not null
          and "Payload"::json->>'price' = '4.5' and "OriginalPayload"::json->>'price' = '0.0'"#;
    assert_eq!(scene.number(resolved).await, 1);
    assert!(scene.open_errors().is_empty());
    stop(consumer);
    stop(error_consumer);

    let entries = program.json(&["audit", "list", "--id", &id])["entries"].as_array().unwrap().clone();
    let done: Vec<_> = entries.iter().rev().map(|one| (&one["by"], &one["action"])).collect();
    assert_eq!(done, [(&json!("ana"), &json!("errors.edit")), (&json!("ana"), &json!("errors.retry"))]);
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_many_errors_are_resolved_or_sent_back_at_once() {
    let Some(scene) = Scene::shared(&[SOON]).await else { return };
    let running = scene.run(&["deliver", "consume", "write_errors"]);
    for number in 0..3 {
        create_product(&scene, &format!("Free lunch {number}"), 0.0).await;
    }
    let lamp = create_product(&scene, "Lamp", 19.9).await;
    scene.until_errors(3).await;
    scene.until_state(&lamp, "processed").await;
    let program = &scene.program;
    let errors = scene.open_errors();
    let first = errors[0]["message_id"].as_str().unwrap();
    program.ok(&["errors", "resolve", first, "--note", "a joke", "--by", "ben", "--yes"]);
    let noted = r#"select count(*) from "ErrorLogs" where "IsResolved" and "ResolvedBy" = 'ben' and "Notes" = 'a joke'"#;
    assert_eq!(scene.number(noted).await, 1);
    // What is not mended fails again: the same error, and open again.
    let second = errors[1]["message_id"].as_str().unwrap();
    let again = format!(
        r#"select count(*) from "ErrorLogs"
           where "MessageId" = '{second}' and not "IsResolved" and "LastSeenAt" > "CreatedAt" + interval '3 seconds'"#
    );
    assert_eq!(scene.number(&again).await, 0);
    program.ok(&["errors", "retry", second, "--by", "ben", "--yes"]);
    scene.until(&again, 1).await;
    // The worker takes any price now: the cause is mended, and the two that are open go back.
    let mended = r#"alter table "InventoryEventLogs" drop constraint "CK_InventoryEventLogs_Price""#;
    sqlx::raw_sql(mended).execute(&scene.notification).await.unwrap();
    assert_eq!(
        program.ok(&["errors", "retry", "--code", "REFUSED", "--by", "ben", "--yes"]),
        "2 errors sent back\n"
    );
    scene.until_handled(3).await;
    assert!(scene.open_errors().is_empty());
    assert_eq!(scene.number(r#"select count(*) from "ErrorLogs""#).await, 3, "each is there once");
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_a_product_that_was_published_at_once_can_be_asked_for() {
    let Some(scene) = Scene::shared(&[SOON]).await else { return };
    let mut running = scene.program.start(&["run"]);
    let server = web::server(&mut running);
    running.wait_for("ready");
    let mut ids = Vec::new();
    for (name, price) in [("Lamp", 19.9), ("Free lunch", 0.0)] {
        let id = Uuid::new_v4().to_string();
        let body =
            json!({ "id": id, "type": "product.created", "key": name, "payload": product(name, price) });
        let (status, answer) = web::post(server, "/v1/messages", "inventory-on-this-machine", &body).await;
        assert_eq!((status, &answer["state"]), (200, &json!("confirmed")));
        ids.push(id);
    }
    scene.until_state(&ids[0], "processed").await;
    scene.until_state(&ids[1], "retrying").await;
    scene.until_state(&ids[1], "processed as error").await;
    stop(running);
}
