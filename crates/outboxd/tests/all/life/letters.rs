//! `dlq`: seen, chosen, sent back, removed, exported.

use lapin::BasicProperties;
use lapin::options::BasicPublishOptions;
use serde_json::{Value, json};

use super::scene::{Shop, stop};
use crate::program::{Program, RELAY};

fn ids(listed: &Value) -> Vec<String> {
    listed["letters"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

/// Four orders that no handler takes: three of one type, of which two of one key, and one of another.
async fn with_letters() -> Option<(Shop, Vec<String>)> {
    let shop = Shop::open("", "").await?;
    shop.endpoint.answer_type("order.created", 422);
    shop.endpoint.answer_type("order.paid", 410);
    let running = shop.run();
    let mut sent = Vec::new();
    for (kind, key) in
        [("order.created", "a"), ("order.created", "b"), ("order.created", "a"), ("order.paid", "a")]
    {
        sent.push(shop.send(kind, key));
        shop.until_count("work_error", u32::try_from(sent.len()).unwrap()).await;
    }
    stop(running);
    Some((shop, sent))
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_dead_letters_are_listed_with_what_is_known_of_them() {
    let Some((shop, sent)) = with_letters().await else { return };
    let listed = shop.program.json(&["dlq", "list"]);
    assert_eq!(ids(&listed), sent, "oldest first");
    let first = &listed["letters"][0];
    assert_eq!((&first["source"], &first["origin"]), (&json!("work"), &json!("work")), "{first}");
    assert_eq!((&first["type"], &first["key"]), (&json!("order.created"), &json!("a")));
    assert_eq!((&first["cause"]["code"], &first["attempts"]), (&json!("HTTP_422"), &json!(1)));
    assert!(first["failed_at"].is_string());
    let list = |flags: &[&str]| {
        let mut args = vec!["dlq", "list"];
        args.extend(flags);
        ids(&shop.program.json(&args))
    };
    assert_eq!(list(&["--key", "b"]), sent[1..2]);
    assert_eq!(list(&["--type", "order.p*"]), sent[3..]);
    assert_eq!(list(&["--code", "HTTP_410", "--source", "work"]), sent[3..]);
    assert_eq!((list(&["--older-than", "1h"]).len(), list(&["--newer-than", "1h"]).len()), (0, 4));
    let table = shop.program.ok(&["dlq", "list"]);
    assert!(table.starts_with("ID ") && table.contains("HTTP_422: "), "{table}");
    let some = shop.program.run(&["dlq", "list", "--most", "2"]);
    assert!(some.code == 0 && some.stderr.contains("raise --most"), "{some:#?}");
    assert_eq!(shop.count("work_error").await, 4, "nothing was changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_a_letter_is_shown_without_its_payload_unless_asked_for() {
    let Some((shop, sent)) = with_letters().await else { return };
    let text = shop.program.ok(&["dlq", "show", &sent[0]]);
    assert!(
        text.contains("cause         HTTP_422") && text.contains("7 bytes, shown with --payload"),
        "{text}"
    );
    assert!(!text.contains("{\"n\":1}"), "{text}");
    assert!(shop.program.ok(&["dlq", "show", &sent[0], "--payload"]).contains("{\"n\":1}"));
    let shown = shop.program.json(&["dlq", "show", &sent[0], "--payload"]);
    assert_eq!(shown["letters"][0]["payload"], "{\"n\":1}");
    assert_eq!(shown["letters"][0]["headers"]["x-error-code"], "HTTP_422");
    let nothing = shop.program.run(&["dlq", "show", "nothing"]);
    assert!(nothing.only_error(1).0.contains("no dead letter 'nothing'"), "{nothing:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_letters_are_sent_back_in_order_and_handled_and_the_others_stay() {
    let Some((shop, sent)) = with_letters().await else { return };
    let preview = shop.program.run(&["dlq", "retry", "--code", "HTTP_422", "--dry-run"]);
    assert!(preview.code == 0 && preview.stdout == "3 messages matched\n", "{preview:#?}");
    assert!(preview.stderr.contains("3 of type order.created with HTTP_422, from work"), "{preview:#?}");
    assert!(preview.stderr.contains(&sent[0]), "a sample: {preview:#?}");
    let nobody = shop.program.run(&["dlq", "retry", "--code", "HTTP_422"]);
    assert_eq!(nobody.code, 2, "{nobody:#?}");
    assert_eq!(shop.count("work_error").await, 4);
    shop.endpoint.answer_type("order.created", 200);
    let done =
        shop.program.json(&["dlq", "retry", "--code", "HTTP_422", "--by", "ann", "--yes", "--rate", "50/s"]);
    assert_eq!((&done["matched"], &done["changed"]), (&json!(3), &json!(3)), "{done}");
    assert_eq!((shop.count("work_error").await, shop.count("work").await), (1, 3));
    let running = shop.run();
    // The second has a key of its own, and may come at any time.
    let (other, of_key): (Vec<_>, Vec<_>) =
        shop.until_handled(3).await.into_iter().partition(|id| *id == sent[1]);
    assert_eq!((other.len(), of_key), (1, vec![sent[0].clone(), sent[2].clone()]));
    stop(running);
    assert_eq!(ids(&shop.program.json(&["dlq", "list"])), sent[3..]);
    let unknown = shop.program.run(&["dlq", "retry", &sent[3], "nothing", "--yes"]);
    assert_eq!(unknown.code, 1, "{unknown:#?}");
    assert!(unknown.stderr.contains("no dead letter 'nothing'"), "{unknown:#?}");
    assert_eq!(shop.count("work_error").await, 0, "the other was sent back");
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_letters_are_exported_and_then_removed() {
    let Some((shop, sent)) = with_letters().await else { return };
    shop.program.ok(&["dlq", "export", "--type", "order.created", "--out", "dead.ndjson"]);
    let lines: Vec<Value> =
        shop.program.read("dead.ndjson").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let exported: Vec<&str> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(exported, sent[..3]);
    assert_eq!(
        (&lines[0]["payload"], &lines[0]["headers"]["x-error-code"]),
        (&json!("{\"n\":1}"), &json!("HTTP_422"))
    );
    let again = shop.program.run(&["dlq", "export", "--out", "dead.ndjson"]);
    assert!(again.code == 1 && again.stderr.contains("cannot make dead.ndjson"), "{again:#?}");
    assert_eq!(
        shop.program.ok(&["dlq", "discard", "--type", "order.created", "--yes"]),
        "3 messages removed\n"
    );
    assert_eq!(ids(&shop.program.json(&["dlq", "list"])), sent[3..]);
    assert_eq!((shop.count("work").await, shop.count("work_error").await), (0, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_a_payload_that_is_no_text_is_exported_as_base64() {
    let Some(shop) = Shop::open("", "").await else { return };
    shop.make_topology().await;
    let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
    let sent =
        shop.channel().basic_publish("".into(), "work_error".into(), options, &[0xff, 0x00], properties);
    sent.await.unwrap();
    shop.until_count("work_error", 1).await;
    let line: Value = serde_json::from_str(shop.program.ok(&["dlq", "export"]).trim()).unwrap();
    assert_eq!((&line["payload_base64"], &line["origin"]), (&json!("/wA="), &json!("work")));
    assert!(line["id"].as_str().unwrap().starts_with("sha256-"), "{line}");
}

#[test]
fn e7_what_an_outbox_has_set_aside_is_a_dead_letter_too() {
    let program = Program::migrated(RELAY);
    let sent = ["a", "a", "b"].map(|key| program.send(key));
    program.ok(&["run", "--once"]);
    let listed = program.json(&["dlq", "list"]);
    assert_eq!(ids(&listed), [sent[0].as_str(), sent[2].as_str()], "the second waits behind the first");
    assert_eq!(listed["letters"][0]["pipe"], "relay");
    assert_eq!(program.json(&["dlq", "show", &sent[0], "--payload"])["letters"][0]["payload"], "{\"id\":1}");
    program.make_folder("out");
    let done = program.json(&["dlq", "retry", "--key", "a", "--yes"]);
    assert_eq!((&done["matched"], &done["changed"]), (&json!(1), &json!(1)));
    assert_eq!(program.ok(&["dlq", "discard", &sent[2], "--yes"]), "1 message removed\n");
    program.ok(&["run", "--once"]);
    assert_eq!(program.read("out/lines.jsonl").lines().count(), 2);
    assert!(ids(&program.json(&["dlq", "list"])).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_a_broker_that_is_down_does_not_hide_the_others() {
    let program = Program::migrated(&format!(
        "{RELAY}[sources.work]\non = \"rabbit\"\nqueue = \"work\"\n[pipes.handle]\nfrom = \"work\"\nto = \"lines\"\n"
    ).replace("[connections]", "[connections]\nrabbit = \"amqp://guest:guest@127.0.0.1:1/\""));
    let id = program.send("a");
    program.ok(&["run", "--once", "--pipe", "relay"]);
    let listed = program.run(&["dlq", "list"]);
    assert_eq!(listed.code, 4, "{listed:#?}");
    assert!(listed.stdout.contains(&id) && listed.stderr.contains("source 'work'"), "{listed:#?}");
    let refused = program.run(&["dlq", "retry", "--yes"]);
    assert!(refused.only_error(4).0.contains("source 'work'"), "{refused:#?}");
    assert_eq!(program.ok(&["dlq", "retry", "--source", "orders", "--yes"]), "1 message sent back\n");
}
