//! The same over PostgreSQL, where a text with a NUL is an error and a position has 63 bits.

use std::time::{Duration, Instant};

use serde_json::json;
use sqlx::Connection as _;

use super::scene::{Api, TOKEN, encoded, settled};
use crate::program::Program;

#[tokio::test(flavor = "multi_thread")]
async fn messages_in_postgres_are_listed_shown_and_retried() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    let program = Program::migrated(&Api::config(database.url()));
    let ids = ["a", "a", "b"].map(|key| program.send(key));
    let api = Api::over(program);
    api.until_listed("state:dead", 2).await;
    let path = format!("/v1/messages?filter={}&limit=2", encoded("pipe:relay type:order.*"));
    let listed = api.program.json(&["list", "--pipe", "relay", "--type", "order.*", "--limit", "2"]);
    assert_eq!(api.get(&path).await, listed);
    let shown = settled(api.program.json(&["show", &ids[1]]));
    assert_eq!(settled(api.get(&format!("/v1/messages/{}", ids[1])).await), shown);
    for path in ["/v1/messages/%00", "/v1/messages?filter=key:%00", "/v1/audit?by=%00"] {
        let head = format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}");
        assert_eq!(api.ask(&head, b"").await.status, 400, "{path}");
    }
    assert_eq!(api.get("/v1/messages?after=18446744073709551615").await["messages"], json!([]));
    api.program.make_folder("out");
    let retried = api.post("/v1/messages/retry", &json!({ "filter": "key:a" })).await;
    assert_eq!(retried, json!({ "verb": "retry", "matched": 1, "changed": 1 }));
    api.until_listed("state:done key:a", 2).await;
    let written = api.get("/v1/audit").await;
    assert_eq!(written["entries"][0]["detail"]["done"], json!({ "changed": 1 }), "{written:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_somebody_has_locked_keeps_nobody_waiting() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    let program = Program::migrated(&Api::config(database.url()));
    program.send("a");
    let api = Api::over(program);
    api.until_listed("state:dead", 1).await;
    let mut other = sqlx::PgConnection::connect(database.url()).await.unwrap();
    let lock = "begin; lock table outbox.messages in access exclusive mode";
    sqlx::raw_sql(lock).execute(&mut other).await.unwrap();
    let begun = Instant::now();
    let head = format!("GET /v1/messages HTTP/1.1\r\nAuthorization: Bearer {TOKEN}");
    let answer = api.ask(&head, b"").await;
    let error = answer.json()["error"].as_str().unwrap().to_owned();
    assert!(answer.status == 503 && error.contains("it took longer than 2s"), "{answer:#?}");
    assert!(answer.head.to_lowercase().contains("retry-after:"), "{answer:#?}");
    let row = api.get("/v1/status").await["pipes"][0].clone();
    assert!(row["error"].as_str().unwrap().contains("it took longer than 2s"), "{row:#}");
    // Far less than the 15 s after which the database gives up; a busy machine may be slow.
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    sqlx::raw_sql("rollback").execute(&mut other).await.unwrap();
    api.until_listed("state:dead", 1).await;
}
