//! The same on Kafka: topics where there were queues.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::Kafka;

use super::scene::stop;
use crate::endpoint::Endpoint;
use crate::program::{PATIENCE, Program, Running};

/// A log in SQLite, a relay to a topic, a consumer group with a retry, a handler behind an inbox.
struct Shop {
    program: Program,
    endpoint: Endpoint,
    topic: String,
}

impl Shop {
    /// `more` is added to the configuration; `TOPIC` in it is the name of the topic.
    async fn open(more: &str) -> Option<Self> {
        let kafka: &Kafka = testbed::kafka().await?;
        if kafka.is_mock() {
            testbed::skip("this needs an Apache Kafka");
            return None;
        }
        let topic = kafka.topic(3).await.unwrap();
        let endpoint = Endpoint::start().await;
        let config = format!(
            r#"
[connections]
shop = "sqlite:shop.db"
kafka = "{}"
[sources.orders]
on = "shop"
[sinks.events]
on = "kafka"
topic = "TOPIC"
[pipes.relay]
from = "orders"
to = "events"
poll = "20ms"
[sources.work]
on = "kafka"
topic = "TOPIC"
group = "TOPIC.work"
dead = "TOPIC.error"
retry = ["300ms"]
[sinks.app]
http = "{}"
private = true
inbox = "shop"
[pipes.handle]
from = "work"
to = "app"
{more}"#,
            kafka.url(),
            endpoint.url
        );
        let program = Program::migrated(&config.replace("TOPIC", &topic));
        Some(Self { program, endpoint, topic })
    }

    fn run(&self) -> Running {
        self.program.start(&["run"])
    }

    fn send(&self, kind: &str, key: &str) -> String {
        self.program.ok(&["send", "--type", kind, "--key", key, "--data", "{\"n\":1}"]).trim().to_owned()
    }

    /// Asks until what is told is as wanted.
    async fn until(&self, args: &[&str], wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let ran = self.program.run(&[args, &["--format", "json"]].concat());
            let told = serde_json::from_str(&ran.stdout).unwrap_or(Value::Null);
            if ran.code == 0 && wanted(&told) {
                return told;
            }
            assert!(Instant::now() < end, "{args:?}: {ran:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn until_state(&self, id: &str, state: &str) -> Value {
        self.until(&["show", id], |shown| shown["state"] == state).await
    }

    async fn until_handled(&self, ids: &[String]) {
        let wanted: BTreeSet<String> = ids.iter().cloned().collect();
        let end = Instant::now() + PATIENCE;
        while !wanted.is_subset(&self.endpoint.handled().into_iter().collect()) {
            assert!(Instant::now() < end, "handled: {:?}", self.endpoint.handled());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn ids(listed: &Value, list: &str, id: &str) -> BTreeSet<String> {
    let all = listed[list].as_array().unwrap_or_else(|| panic!("{listed}"));
    all.iter().map(|one| one[id].as_str().unwrap().to_owned()).collect()
}

fn set(ids: &[String]) -> BTreeSet<String> {
    ids.iter().cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_e7_dead_letters_of_a_topic_are_seen_sent_back_and_removed() {
    let Some(shop) = Shop::open("").await else { return };
    let program = &shop.program;
    shop.endpoint.answer_type("order.created", 500);
    shop.endpoint.answer_type("order.paid", 410);
    let running = shop.run();
    let sent = [("order.created", "a"), ("order.created", "b"), ("order.created", "a"), ("order.paid", "c")]
        .map(|(kind, key)| shop.send(kind, key));
    let fine = shop.send("order.shipped", "d");
    let letters = |told: &Value| told["letters"].as_array().is_some_and(|letters| letters.len() == 4);
    let listed = shop.until(&["dlq", "list"], letters).await;
    assert_eq!(ids(&listed, "letters", "id"), set(&sent));
    shop.until_state(&fine, "processed").await;
    stop(running);

    let first =
        listed["letters"].as_array().unwrap().iter().find(|one| one["id"] == sent[0].as_str()).unwrap();
    assert_eq!((&first["source"], &first["origin"]), (&json!("work"), &json!(shop.topic)), "{first}");
    assert_eq!((&first["key"], &first["attempts"]), (&json!("a"), &json!(2)), "{first}");
    assert_eq!((&first["type"], &first["cause"]["code"]), (&json!("order.created"), &json!("HTTP_500")));
    let shown = program.json(&["show", &sent[0]]);
    assert_eq!(
        (&shown["state"], &shown["pipes"][0]["state"]),
        (&json!("in the error queue"), &json!("done"))
    );
    assert!(
        shown["letters"][0]["place"].as_str().unwrap().contains(&format!("'{}.error'", shop.topic)),
        "{shown}"
    );
    let failed = shown["handled"].as_array().unwrap().iter().filter(|one| one["failed"].is_object());
    assert_eq!(failed.count(), 2, "{shown}");
    let letter = program.json(&["dlq", "show", &sent[0], "--payload"]);
    assert_eq!(letter["letters"][0]["payload"], "{\"n\":1}", "{letter}");
    let gone = program.json(&["dlq", "list", "--code", "HTTP_410"]);
    assert_eq!(ids(&gone, "letters", "id"), set(&sent[3..]));

    shop.endpoint.answer_type("order.created", 200);
    let done = program.json(&["dlq", "retry", "--type", "order.c*", "--by", "ann", "--yes"]);
    assert_eq!((&done["matched"], &done["changed"]), (&json!(3), &json!(3)), "{done}");
    assert_eq!(ids(&program.json(&["dlq", "list"]), "letters", "id"), set(&sent[3..]), "the other stays");
    let running = shop.run();
    shop.until_handled(&sent[..3]).await;
    shop.until_state(&sent[0], "processed").await;
    stop(running);
    let handled = shop.endpoint.handled();
    let place = |id: &String| handled.iter().position(|one| one == id);
    assert!(place(&sent[0]) < place(&sent[2]), "a key keeps its order: {handled:?}");
    assert_eq!(program.ok(&["dlq", "discard", &sent[3], "--by", "bob", "--yes"]), "1 message removed\n");
    assert!(ids(&program.json(&["dlq", "list"]), "letters", "id").is_empty());
    let unknown = program.run(&["dlq", "retry", &sent[0], "--yes"]);
    assert!(unknown.code == 1 && unknown.stderr.contains("no dead letter"), "{unknown:#?}");
    let entries = program.json(&["audit", "list", "--id", &sent[0]]);
    assert_eq!(entries["entries"][0]["by"], "ann", "{entries}");
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_e7_an_error_of_a_topic_is_edited_sent_back_and_then_processed() {
    let table = "[sources.failed]\non = \"kafka\"\ntopic = \"TOPIC.error\"\ngroup = \"TOPIC.note\"\n\
        [sinks.errors]\non = \"shop\"\nerror_log = true\n[pipes.note]\nfrom = \"failed\"\nto = \"errors\"\n";
    let Some(shop) = Shop::open(table).await else { return };
    let program = &shop.program;
    shop.endpoint.answer_type("order.created", 422);
    let running = shop.run();
    let sent = ["a", "b"].map(|key| shop.send("order.created", key));
    let errors = |told: &Value| told["errors"].as_array().is_some_and(|errors| errors.len() == 2);
    let listed = shop.until(&["errors", "list"], errors).await;
    stop(running);
    assert_eq!(ids(&listed, "errors", "message_id"), set(&sent));
    let first = listed["errors"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["message_id"] == sent[0].as_str())
        .unwrap();
    assert_eq!((&first["origin"], &first["key"]), (&json!(shop.topic), &json!("a")), "{first}");
    assert_eq!((&first["cause"]["code"], &first["attempts"]), (&json!("HTTP_422"), &json!(1)), "{first}");
    assert_eq!(program.json(&["show", &sent[0]])["state"], "processed as error");

    program.ok(&["errors", "edit", &sent[0], "--payload", "{\"n\":2}", "--by", "ann", "--yes"]);
    shop.endpoint.answer_type("order.created", 200);
    assert_eq!(program.ok(&["errors", "retry", &sent[0], "--by", "bob", "--yes"]), "1 error sent back\n");
    let running = shop.run();
    let life = shop.until_state(&sent[0], "processed").await;
    stop(running);
    let error = &life["errors"][0];
    assert_eq!((&error["state"], &error["resolved_by"]), (&json!("returned"), &json!("bob")), "{life}");
    let posted = shop.endpoint.posted();
    let last = posted.iter().rev().find(|posted| posted.id == sent[0]).unwrap();
    assert_eq!(last.body, "{\"n\":2}", "as it was edited");
    let open = program.json(&["errors", "list"]);
    assert_eq!(ids(&open, "errors", "message_id"), set(&sent[1..]), "the other is open");
}
