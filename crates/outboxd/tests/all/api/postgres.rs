//! The same over PostgreSQL, where a text with a NUL is an error and a position has 63 bits.

use serde_json::json;

use super::scene::{Api, encoded, settled};
use crate::program::Program;

#[tokio::test(flavor = "multi_thread")]
async fn messages_in_postgres_are_listed_shown_and_retried() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    let program = Program::migrated(&Api::config(&database.url()));
    let ids = ["a", "a", "b"].map(|key| program.send(key));
    let api = Api::over(program);
    api.until_listed("state:dead", 2).await;
    let path = format!("/v1/messages?filter={}&limit=2", encoded("pipe:relay type:order.*"));
    let listed = api.program.json(&["list", "--pipe", "relay", "--type", "order.*", "--limit", "2"]);
    assert_eq!(api.get(&path).await, listed);
    let shown = settled(api.program.json(&["show", &ids[1]]));
    assert_eq!(settled(api.get(&format!("/v1/messages/{}", ids[1])).await), shown);
    for path in ["/v1/messages/%00", "/v1/messages?filter=key:%00", "/v1/audit?by=%00"] {
        let head = format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {}", super::scene::TOKEN);
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
