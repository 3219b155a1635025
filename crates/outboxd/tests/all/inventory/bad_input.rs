//! What nobody can handle: it is dead at once with a cause that a person understands, and the queue goes on.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use uuid::Uuid;

use super::{ERROR_QUEUE, QUEUE, Scene, product, stop};
use crate::broker::{Sender, headers};

const EXCHANGE: &str = "inventory_exchange";
const KEY: &str = "product.created";

/// Where the error consumer puts what it cannot write down.
const OWN_ERRORS: &str = "product-created-queue_error.dlq";

/// What a message is like, the code of its cause, and words of the cause.
struct Bad {
    what: &'static str,
    properties: BasicProperties,
    body: Vec<u8>,
    code: &'static str,
    cause: &'static str,
}

fn with_id() -> BasicProperties {
    headers(&[("x-event-id", &Uuid::new_v4().to_string())])
}

/// With these headers beside an id.
fn odd(others: &[(&str, AMQPValue)]) -> BasicProperties {
    let mut table = FieldTable::default();
    table.insert("x-event-id".into(), AMQPValue::LongString(Uuid::new_v4().to_string().into()));
    for (name, value) in others {
        table.insert((*name).into(), value.clone());
    }
    BasicProperties::default().with_headers(table)
}

fn list() -> Vec<Bad> {
    let good = product("Lamp", 19.9).to_string();
    let dear = r#"{"productId":"0b7d3a52-7c3e-4b8e-8a43-6a2f4d1e0001","name":"Lamp","price":"dear"}"#;
    let large = format!("{{\"name\":\"{}", "x".repeat(20 << 20));
    let text = |text: &str| AMQPValue::LongString(text.into());
    let table = odd(&[("x-event-id", AMQPValue::FieldTable(FieldTable::default()))]);
    let many = odd(&[("x-retry-origin", text(QUEUE)), ("x-retry-attempts", text("many"))]);
    let bad =
        |what, properties, body: &str, code, cause| Bad { what, properties, body: body.into(), code, cause };
    vec![
        bad("an empty body", with_id(), "", "UNFIT", "the payload is empty"),
        bad("no JSON", with_id(), "{\"productId\": ", "UNFIT", "the payload is no JSON"),
        bad(
            "a field that is missing",
            with_id(),
            r#"{"productId":"7","name":"Lamp"}"#,
            "UNFIT",
            ":payload.price",
        ),
        bad("a value that is no price", with_id(), dear, "UNFIT", ":payload.price"),
        bad("no id", BasicProperties::default(), &good, "NO_ID", "no id in any of"),
        bad("20 MiB", with_id(), &large, "TOO_LARGE", "the limit is 16777216"),
        bad("an id that is a table", table, &good, "BAD_HEADER", "'x-event-id'"),
        bad("attempts that are no number", many, &good, "BAD_HEADER", "'x-retry-attempts'"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_can_handle_is_set_aside_with_its_cause_and_the_queue_goes_on() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    let running = scene.consume().await;
    let (sender, errors) = (Sender::open(scene.vhost.url()).await, scene.queue(ERROR_QUEUE).await);
    let mut handled = 0;
    for Bad { what, properties, body, code, cause } in list() {
        sender.publish(EXCHANGE, KEY, properties, &body).await;
        scene.publish(&product("Lamp", 19.9)).await;
        handled += 1;
        scene.until_queue(ERROR_QUEUE, 1).await;
        let dead = errors.get().await.unwrap();
        assert_eq!(
            dead.headers.get("x-error-code").map(String::as_str),
            Some(code),
            "{what}: {:?}",
            dead.headers
        );
        let told = &dead.headers["x-error-text"];
        assert!(told.contains(cause), "{what}: {told}");
        assert!(dead.body == body, "{what}: as it came");
        scene.until_handled(handled).await;
    }
    let said = stop(running);
    assert!(!said.contains("Lamp"), "payloads are nobody's business: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_set_aside_is_written_down() {
    let Some(scene) = Scene::shared(&[]).await else { return };
    let running = scene.run(&["consume", "write_errors"]);
    scene.until_queue(QUEUE, 0).await;
    let sender = Sender::open(scene.vhost.url()).await;
    for bad in list() {
        sender.publish(EXCHANGE, KEY, bad.properties, &bad.body).await;
    }
    scene.until_errors(8).await;
    stop(running);
    let codes: Vec<String> =
        sqlx::query_scalar(r#"select "ErrorCode" from "ErrorLogs" where "QueueName" = $1 order by 1"#)
            .bind(QUEUE)
            .fetch_all(&scene.notification)
            .await
            .unwrap();
    let expected = ["BAD_HEADER", "BAD_HEADER", "NO_ID", "TOO_LARGE", "UNFIT", "UNFIT", "UNFIT", "UNFIT"];
    assert_eq!(codes, expected);
    let large = r#"select count(*) from "ErrorLogs" where length("Payload") > 20 * 1024 * 1024"#;
    assert_eq!(scene.number(large).await, 1, "as it came");
    // Also the one with a header that the error consumer cannot read either is not set aside once more.
    for queue in [QUEUE, ERROR_QUEUE, OWN_ERRORS] {
        scene.until_queue(queue, 0).await;
    }
}
