//! `/messages`: found by filter and page, and each with its whole life.

use super::scene::{HTTP, Scene, Store};
use crate::program::RELAY;

#[tokio::test(flavor = "multi_thread")]
async fn e5_messages_are_found_by_filter_and_state_page_by_page() {
    let Some(store) = Store::open("").await else { return };
    let scene = &store.scene;
    scene.goto("/messages").await;
    scene.sees("The outbox is empty").await;
    scene.sees("outboxd send --source orders").await;
    store.endpoint.answer_type("order.refused", 422);
    for number in 0..60 {
        let kind = if number % 20 == 0 { "order.refused" } else { "order.created" };
        scene.program.ok(&["send", "--type", kind, "--key", &format!("k{number}"), "--data", "{\"n\":1}"]);
    }
    scene.until("/messages?filter=state%3Adead+key%3Ak40", "HTTP_422").await;
    // Two pipes read the outbox.
    let rows = "document.querySelectorAll('tbody tr').length";
    scene.goto("/messages?filter=type%3Aorder.refused+pipe%3Anotify").await;
    assert_eq!(scene.page.eval(rows).await.unwrap(), 3);
    scene.goto("/messages").await;
    assert_eq!(scene.page.eval(rows).await.unwrap(), 50);
    scene.press("Next page").await;
    scene.page.until("location.search.includes('after=')").await.unwrap();
    scene.sees("First page").await;
    let text = scene.page.text().await.unwrap();
    assert!(!text.contains("\tk35\t") && text.contains("\tk34\t") && text.contains("\tk10\t"), "{text}");
    scene.press("dead").await;
    scene.sees("Retry all").await;
    assert_eq!(scene.page.eval(rows).await.unwrap(), 3);
    scene.page.fill("[name=filter]", "type:order.refused key:k20").await.unwrap();
    scene.page.key("Enter").await.unwrap();
    scene.page.until(&format!("{rows} === 2")).await.unwrap();
    scene.sees("outboxd list --source orders --filter 'type:order.refused key:k20'").await;
    store.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_a_filter_that_is_wrong_is_told_with_its_place() {
    let Some(scene) = Scene::open(&format!("{RELAY}{HTTP}")).await else { return };
    let page = scene.other_page().await;
    page.goto(&format!("{}/messages?filter=type%3Aa+stat%3Adead", scene.url)).await.unwrap();
    page.until_text("the filter, at character 8").await.unwrap();
    page.until_text("state").await.unwrap();
    assert_eq!(page.eval("document.querySelector('[name=filter]').value").await.unwrap(), "type:a stat:dead");
    scene.goto("/").await;
    scene.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_a_message_tells_its_life_and_its_payload_to_the_last_digit() {
    let Some(store) = Store::open("").await else { return };
    let scene = &store.scene;
    store.endpoint.answer_type("order.refused", 422);
    let data = r#"{"id":12345678901234567890123,"total":0.10,"note":"<b>bold</b>"}"#;
    let id = scene
        .program
        .ok(&["send", "--type", "order.refused", "--key", "k", "--data", data])
        .trim()
        .to_owned();
    let path = format!("/messages/orders/{id}");
    // The pipes end in any order, and the page that was loaded does not change.
    for words in ["Pipe 'archive' is through with it", "Pipe 'notify' has given it up after 1 attempt"] {
        scene.until(&path, words).await;
    }
    for words in ["Written to outbox 'orders'", "HTTP_422", "in the error queue"] {
        scene.sees(words).await;
    }
    for words in ["12345678901234567890123", "0.10", "<b>bold</b>"] {
        scene.sees(words).await;
    }
    scene.sees(&format!("outboxd show {id} --payload")).await;
    store.endpoint.answer_type("order.refused", 200);
    scene.press("Retry…").await;
    scene.sees("Retry 1 message?").await;
    scene.press("Retry 1 message").await;
    scene.sees("Retried 1 of 1.").await;
    assert!(scene.page.address().await.unwrap().ends_with(&path), "one is back where one was");
    scene.until(&path, "Pipe 'notify' is through with it").await;
    // What somebody let go is not told as if it had arrived.
    store.endpoint.answer_type("order.refused", 422);
    let sent = scene.program.ok(&["send", "--type", "order.refused", "--key", "k", "--data", "{}"]);
    let path = format!("/messages/orders/{}", sent.trim());
    scene.until(&path, "Pipe 'notify' has given it up after 1 attempt").await;
    scene.press("Skip…").await;
    scene.press("Skip 1 message").await;
    scene.sees("Skipped 1 of 1.").await;
    scene.sees("Pipe 'notify' is through with it").await;
    scene.sees("anonymous skipped it").await;
    let missing = scene.other_page().await;
    missing.goto(&format!("{}/messages/orders/nobody", scene.url)).await.unwrap();
    missing.until_text("What to do").await.unwrap();
    store.end();
}
