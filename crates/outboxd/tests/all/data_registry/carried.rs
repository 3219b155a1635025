//! B1: each message stands alone. B3: what is selected, and in which order.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use testbed::Kafka;

use super::scene::{PROCESSED, Registry, running};
use super::{FILE, producer};

#[tokio::test(flavor = "multi_thread")]
async fn b1_an_ack_marks_its_message_and_a_failure_only_counts() {
    let Some(registry) = Registry::open().await else { return };
    let missing = Kafka::topic_name();
    let mut good = registry.write_good(7).await;
    let bad = registry.write(&missing, &json!({ "matchId": "x" })).await;
    good.extend(registry.write_good(7).await);
    // So slow that the first failure can be seen.
    let program = registry.program(&[
        ("retry_first = \"500ms\"", "retry_first = \"1h\""),
        ("retry_most = \"500ms\"", "retry_most = \"1h\""),
    ]);
    let _relay = running(&program);
    registry.until(r#""retries" = 1"#, 1).await;
    assert_eq!(registry.row(&bad).await, ("PENDING".to_owned(), 1));
    assert_eq!(registry.count(r#""id" <> '' and "processedAt" is null"#).await, 1, "the rest went on");
    registry.until(PROCESSED, 14).await;
    let arrived = registry.arrived(&registry.topic, 14).await;
    assert_eq!((arrived.len(), arrived.into_iter().collect()), (14, good));
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_the_very_file_carries_what_the_producer_writes() {
    let Some(registry) = Registry::open().await else { return };
    // The one topic that the producer and its README name; tests share the broker.
    let _ = registry.kafka.create_topic(producer::TOPIC, 3, &[]).await;
    let mut connection = PgConnection::connect(registry.database.url()).await.unwrap();
    let ids: BTreeSet<String> =
        producer::register(&mut connection, producer::TOPIC, 25).await.unwrap().into_iter().collect();
    let program = registry.program(&[]);
    let _relay = program.start(&["run", "--config", FILE]);
    registry.until(PROCESSED, 25).await;
    let records = registry.kafka.records(producer::TOPIC, 25).await.unwrap();
    let ours: Vec<_> = records.iter().filter(|one| ids.contains(&one.header("ce_id").unwrap())).collect();
    assert_eq!(ours.len(), 25);
    for record in ours {
        let payload: Value = serde_json::from_slice(&record.payload).unwrap();
        assert_eq!(record.key.as_deref(), payload["matchId"].as_str().map(str::as_bytes), "{payload}");
        assert_eq!(payload["home"], 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b3_pending_rows_come_by_created_at_twenty_at_a_time_and_no_others() {
    let Some(registry) = Registry::open().await else { return };
    let topic = registry.kafka.topic(1).await.unwrap();
    // Written backwards: the last is the oldest.
    let mut ids = Vec::new();
    for number in 0..50 {
        let id = registry.write(&topic, &json!({ "matchId": "m" })).await;
        let sql = format!(
            r#"update "Outbox" set "createdAt" = "createdAt" - {number} * interval '1 minute' where "id" = '{id}'"#
        );
        sqlx::query(AssertSqlSafe(sql)).execute(&registry.pool).await.unwrap();
        ids.insert(0, id);
    }
    for set in [r#""status" = 'FAILED'"#, r#""status" = 'PROCESSED'"#, r#""retries" = 5"#] {
        let id = registry.write(&topic, &json!({ "matchId": "m" })).await;
        let sql = format!(r#"update "Outbox" set {set} where "id" = '{id}'"#);
        sqlx::query(AssertSqlSafe(sql)).execute(&registry.pool).await.unwrap();
    }
    let program = registry.program(&[("batch = 20", "batch = 20\ndepth = 1\nconcurrency = 1")]);
    let _relay = running(&program);
    registry.until(r#""processedAt" is not null"#, 50).await;
    assert_eq!(registry.arrived(&topic, 50).await, ids, "one partition: in the order of createdAt");
    // A claim is marked in one statement, with one time.
    let batches: Vec<i64> = sqlx::query_scalar(
        r#"select count(*) from "Outbox" where "processedAt" is not null group by "processedAt" order by "processedAt""#,
    )
    .fetch_all(&registry.pool)
    .await
    .unwrap();
    assert_eq!(batches, [20, 20, 10]);
    for (left, count) in [(r#""status" = 'FAILED'"#, 1), (r#""status" = 'PENDING' and "retries" = 5"#, 1)] {
        assert_eq!(registry.count(left).await, count, "{left}");
    }
}
