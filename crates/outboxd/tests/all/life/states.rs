//! `show`: where a message is, at any time, by its id.

use serde_json::json;

use super::scene::{Shop, stop};

#[tokio::test(flavor = "multi_thread")]
async fn e5_the_state_of_a_message_can_be_asked_from_its_writing_to_its_end() {
    let Some(shop) = Shop::open(&["\"2s\""; 20].join(", "), "").await else { return };
    shop.make_topology().await;
    let id = shop.send("order.created", "a");
    assert_eq!(shop.program.json(&["show", &id])["state"], "pending");
    shop.endpoint.answer_type("order.created", 500);
    let running = shop.run();
    let shown = shop.until_state(&id, "retrying").await;
    let retry = &shown["retries"][0];
    assert!(retry["attempts"].as_u64().unwrap() >= 1, "{shown}");
    assert_eq!(retry["cause"]["code"], "HTTP_500", "{shown}");
    assert_eq!(retry["place"], "work.retry.2s");
    assert!(retry["due"].is_string());
    assert_eq!(shown["handled"][0]["consumer"], "handle");
    assert_eq!(shown["handled"][0]["failed"]["cause"]["code"], "HTTP_500");
    shop.endpoint.answer_type("order.created", 200);
    let shown = shop.until_state(&id, "processed").await;
    let handled = shown["handled"].as_array().unwrap();
    assert!(handled.len() >= 2 && handled.last().unwrap()["failed"].is_null(), "{shown}");
    assert_eq!(shown["pipes"][0]["state"], "done", "it was relayed");
    let text = shop.program.ok(&["show", &id]);
    assert!(text.starts_with("state         processed\n"), "{text}");
    assert!(text.contains("handle: attempt 1 failed") && text.contains("handle: handled"), "{text}");
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_d5_what_used_up_its_retries_is_in_the_error_queue_until_somebody_sends_it_back() {
    let Some(shop) = Shop::open("\"200ms\", \"200ms\"", "").await else { return };
    shop.endpoint.answer_type("order.created", 500);
    let running = shop.run();
    let id = shop.send("order.created", "a");
    let shown = shop.until_state(&id, "in the error queue").await;
    let letter = &shown["letters"][0];
    assert_eq!((&letter["origin"], &letter["attempts"]), (&json!("work"), &json!(3)), "{shown}");
    assert_eq!(letter["cause"]["code"], "HTTP_500");
    assert!(letter["place"].as_str().unwrap().starts_with("queue 'work_error' at amqp://"), "{letter}");
    let failed = shown["handled"].as_array().unwrap().iter().filter(|one| one["failed"].is_object());
    assert_eq!(failed.count(), 3, "{shown}");
    shop.endpoint.answer_type("order.created", 200);
    shop.program.ok(&["dlq", "retry", &id, "--yes"]);
    shop.until_state(&id, "processed").await;
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_what_is_at_the_broker_is_in_process() {
    let Some(shop) = Shop::open("", "").await else { return };
    shop.make_topology().await;
    let id = shop.send("order.created", "b");
    let running = shop.program.start(&["run", "--pipe", "relay"]);
    let shown = shop.until_state(&id, "in process").await;
    assert_eq!(shown["pipes"][0]["state"], "done", "{shown}");
    stop(running);
    shop.until_count("work", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_a_broker_that_is_down_is_told_and_hides_nothing_else() {
    let Some(shop) = Shop::open("", "").await else { return };
    let id = shop.send("order.created", "a");
    let config = shop.program.read("outboxd.toml");
    let url = config.lines().find_map(|line| line.strip_prefix("rabbit = ")).unwrap().to_owned();
    let program = &shop.program;
    program.write("outboxd.toml", &config.replace(&url, "\"amqp://guest:guest@127.0.0.1:1/\""));
    let shown = program.json(&["show", &id]);
    assert_eq!((&shown["state"], &shown["type"]), (&json!("pending"), &json!("order.created")));
    assert!(shown["unseen"][0].as_str().unwrap().contains("source 'work'"), "{shown}");
    assert!(program.ok(&["show", &id]).contains("not looked at "));
    let nothing = program.run(&["show", "nothing"]);
    assert_eq!(nothing.code, 4, "it may be where nobody could look: {nothing:#?}");
}
