//! Queues, dead letters and error tables, with a real RabbitMQ.

use super::scene::{HTTP, Scene};
use crate::life::scene::Shop;

/// The dead letters of a second queue lead into an error table.
const TABLE: &str = r#"
[sources.failed]
on = "rabbit"
queue = "work_error"
[sinks.errors]
on = "shop"
error_log = true
[pipes.note]
from = "failed"
to = "errors"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn d8_e5_queues_and_dead_letters_are_seen_returned_and_discarded() {
    let Some(shop) = Shop::open("", HTTP).await else { return };
    shop.make_topology().await;
    shop.endpoint.answer_type("order.created", 422);
    let ids = [shop.send("order.created", "a"), shop.send("order.created", "b")];
    let Shop { program, endpoint, .. } = shop;
    let Some(scene) = Scene::of(program).await else { return };
    scene.until("/queues", "dead letters\t2").await;
    for words in ["work", "handle", "work_error", "this one"] {
        scene.sees(words).await;
    }
    scene.goto("/failures").await;
    scene.sees("dead letters in work_error").await;
    scene.press("Look").await;
    scene.sees(&ids[0]).await;
    scene.goto(&format!("/failures/letters/work/{}", ids[0])).await;
    scene.sees("HTTP_422").await;
    scene.sees("x-error-code").await;
    scene.press("Its whole life").await;
    scene.sees("Written to outbox 'orders'").await;
    scene.sees("Given up after 1 attempt").await;
    scene.goto(&format!("/failures/letters/work/{}", ids[0])).await;
    scene.press("Discard…").await;
    scene.sees("Discard 1 dead letter?").await;
    scene.press("Discard 1 dead letter").await;
    scene.sees("Discarded 1 of 1.").await;
    endpoint.answer_type("order.created", 200);
    scene.press("Retry…").await;
    scene.sees("Retry 1 dead letter?").await;
    scene.press("Retry 1 dead letter").await;
    scene.sees("Retried 1 of 1.").await;
    scene.until("/queues", "dead letters\t0").await;
    // Two counts a few seconds apart make a rate: of what lies in a queue, and of what an instance delivers.
    scene.until("/queues", "steady").await;
    scene.until("/queues", "/s").await;
    scene.until(&format!("/messages/orders/{}", ids[1]), "processed").await;
    scene.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_e5_an_error_is_edited_and_sent_back_and_another_resolved() {
    let Some(shop) = Shop::open("", &format!("{TABLE}{HTTP}")).await else { return };
    shop.make_topology().await;
    shop.endpoint.answer_type("order.created", 422);
    shop.endpoint.answer_type("order.paid", 410);
    let (mended, closed) = (shop.send("order.created", "a"), shop.send("order.paid", "b"));
    let Shop { program, endpoint, .. } = shop;
    let Some(scene) = Scene::of(program).await else { return };
    scene.until("/failures", "HTTP_410").await;
    scene.until("/failures", "HTTP_422").await;
    scene.goto("/failures/errors?sink=errors&type=order.created").await;
    scene.page.click("tbody a").await.unwrap();
    scene.sees(&mended).await;
    scene.sees("Edit and retry").await;
    endpoint.answer_type("order.created", 200);
    scene.page.fill("textarea", "{\"n\": 2}").await.unwrap();
    scene.press("Edit and retry").await;
    scene.sees("Its payload is changed, and it is sent back: 1 of 1.").await;
    scene.sees("Payload as it first was").await;
    let posted = endpoint.posted();
    scene.until("/failures", "HTTP_410").await;
    assert!(posted.iter().all(|one| one.id != closed || one.body.contains("\"n\":1")), "only one was edited");
    scene.goto("/failures").await;
    scene.press("Resolve…").await;
    scene.page.fill("[name=note]", "paid by hand").await.unwrap();
    scene.press("Resolve 1 error").await;
    scene.sees("Resolved 1 of 1.").await;
    scene.until("/failures", "Nothing waits for you").await;
    scene.goto("/failures/errors?sink=errors&state=resolved").await;
    scene.page.click("tbody a").await.unwrap();
    scene.sees("paid by hand").await;
    scene.end();
}
