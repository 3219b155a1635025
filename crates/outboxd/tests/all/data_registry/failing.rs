//! B2: five tries are the end. B4: why it failed, in words. B5: what fails holds up nothing.

use serde_json::{Value, json};
use testbed::Kafka;

use super::scene::{PROCESSED, Registry, running};
use crate::program::Program;

const QUICK: [(&str, &str); 2] = [
    ("retry_first = \"500ms\"", "retry_first = \"50ms\""),
    ("retry_most = \"500ms\"", "retry_most = \"50ms\""),
];

fn dead(program: &Program) -> Vec<Value> {
    program.json(&["list", "--state", "dead"])["messages"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn b2_after_five_tries_it_is_failed_and_stays_until_a_person_repairs_it() {
    let Some(registry) = Registry::open().await else { return };
    let (missing, program) = (Kafka::topic_name(), registry.program(&QUICK));
    let bad = registry.write(&missing, &json!({ "matchId": "x" })).await;
    let _relay = running(&program);
    registry.until(r#""status" = 'FAILED'"#, 1).await;
    assert_eq!(registry.row(&bad).await, ("FAILED".to_owned(), 5));
    let listed = dead(&program);
    assert_eq!((listed.len(), &listed[0]["id"], &listed[0]["attempts"]), (1, &json!(bad), &json!(5)));
    registry.kafka.create_topic(&missing, 1, &[]).await.unwrap();
    registry.write_good(3).await;
    registry.until(PROCESSED, 3).await;
    assert_eq!(registry.row(&bad).await, ("FAILED".to_owned(), 5), "it is never selected again");
    assert_eq!(program.ok(&["retry", &bad, "--yes"]), "1 message due again\n");
    registry.until(PROCESSED, 4).await;
    assert_eq!(registry.arrived(&missing, 1).await, [bad]);
    assert!(dead(&program).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn b4_the_log_says_why_a_message_failed() {
    let Some(registry) = Registry::open().await else { return };
    let program = registry.program(&QUICK);
    let mut relay = running(&program);
    let missing = Kafka::topic_name();
    let large = json!({ "matchId": "x", "notes": "x".repeat(2_000_000) });
    for (topic, payload, code, words) in [
        (missing.as_str(), json!({}), "NO_TOPIC", "the topic does not exist"),
        (registry.topic.as_str(), large, "TOO_LARGE", "bytes"),
        ("", json!({}), "UNFIT", "the row has no type"),
        ("no topic", json!({}), "UNFIT", "topic"),
    ] {
        let id = registry.write(topic, &payload).await;
        let line = relay.wait_for(&id);
        assert!(line.contains(code) && line.contains(words), "{line}");
        registry.until(&format!(r#""id" = '{id}' and "status" = 'FAILED'"#), 1).await;
    }
    registry.write_good(1).await;
    registry.until(PROCESSED, 1).await;
}

/// The document's table has no place for the cause; a column more, and it is in the table as well.
#[tokio::test(flavor = "multi_thread")]
async fn b4_with_a_column_for_it_the_table_says_why() {
    let Some(registry) = Registry::open().await else { return };
    sqlx::raw_sql(r#"alter table "Outbox" add "lastError" text"#).execute(&registry.pool).await.unwrap();
    let preset =
        ("preset = \"prisma\"", "preset = \"prisma\"\nerror = \"lastError\"\npayload = \"payload->event\"");
    let program = registry.program(&[QUICK[0], QUICK[1], preset]);
    let missing = Kafka::topic_name();
    let whole = json!({ "matchId": "x", "event": { "home": 1 } });
    let lost = registry.write(&missing, &whole).await;
    let corrupt = registry.write(&registry.topic, &json!({ "matchId": "x" })).await;
    registry.write(&registry.topic, &whole).await;
    let _relay = running(&program);
    registry.until(PROCESSED, 1).await;
    registry.until(r#""status" = 'FAILED'"#, 2).await;
    let causes = dead(&program);
    let cause = |id: &str| causes.iter().find(|one| one["id"] == json!(id)).unwrap()["cause"].clone();
    assert_eq!(cause(&lost)["code"], "NO_TOPIC");
    assert!(cause(&lost)["detail"].as_str().unwrap().contains("does not exist"), "{causes:?}");
    assert_eq!(cause(&corrupt)["code"], "UNFIT");
    assert!(cause(&corrupt)["detail"].as_str().unwrap().contains("'payload->event'"), "{causes:?}");
    let records = registry.kafka.records(&registry.topic, 1).await.unwrap();
    assert_eq!(records[0].payload, br#"{"home": 1}"#);
}

/// More failing ones than a claim, a streak or all claims in flight hold, all of them older than the good ones.
#[tokio::test(flavor = "multi_thread")]
async fn b5_failing_messages_do_not_hold_up_later_ones() {
    let Some(registry) = Registry::open().await else { return };
    let missing = Kafka::topic_name();
    for _ in 0..100 {
        // Of the same key, too.
        registry.write(&missing, &json!({ "matchId": "m0" })).await;
    }
    for topic in ["", "no topic"] {
        registry.write(topic, &json!({ "matchId": "m0" })).await;
    }
    let good = registry.write_good(100).await;
    let slow = [
        ("retry_first = \"500ms\"", "retry_first = \"1h\""),
        ("retry_most = \"500ms\"", "retry_most = \"1h\""),
    ];
    let program = registry.program(&slow);
    let mut relay = running(&program);
    registry.until(PROCESSED, 100).await;
    registry.until(r#""status" = 'PENDING' and "retries" = 1"#, 100).await;
    let mut arrived = registry.arrived(&registry.topic, 100).await;
    arrived.sort();
    assert_eq!(arrived, good.into_iter().collect::<Vec<_>>());
    // While those wait, whatever is written goes at once.
    registry.write_good(10).await;
    registry.until(PROCESSED, 110).await;
    let said = relay.heard().join("\n");
    assert!(!said.contains("unavailable"), "no outage: {said}");
}
