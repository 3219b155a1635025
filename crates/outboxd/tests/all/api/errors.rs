//! Error tables over HTTP: seen, edited, sent back and resolved, and who did it is known.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::scene::{Api, HTTP};
use crate::life::scene::Shop;
use crate::program::PATIENCE;

/// The dead letters of the shop lead into an error table.
pub const TABLE: &str = r#"
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

/// Asks until there are so many open errors.
pub async fn until_errors(api: &Api, count: usize) -> Vec<Value> {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = api.get("/v1/errors").await["errors"].as_array().unwrap().clone();
        if found.len() == count {
            return found;
        }
        assert!(Instant::now() < end, "{found:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Three orders that the handler refuses, in the error table, with everything running.
async fn with_errors() -> Option<(Shop, Api, Vec<String>)> {
    let shop = Shop::open("", &format!("{TABLE}{HTTP}")).await?;
    shop.endpoint.answer_type("order.created", 422);
    shop.endpoint.answer_type("order.paid", 410);
    let api = Api::of_shop(&shop);
    let sent = [("order.created", "a"), ("order.created", "b"), ("order.paid", "a")]
        .map(|(kind, key)| shop.send(kind, key))
        .to_vec();
    until_errors(&api, 3).await;
    Some((shop, api, sent))
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_an_error_is_edited_and_sent_back_and_then_processed() {
    let Some((shop, api, sent)) = with_errors().await else { return };
    assert_eq!(api.get("/v1/errors").await, shop.program.json(&["errors", "list"]));
    let path = format!("/v1/errors/errors/{}", sent[0]);
    let shown = api.get(&format!("{path}?payload=true")).await;
    assert_eq!(shown, shop.program.json(&["errors", "show", &sent[0], "--payload"]));
    let id = shown["errors"][0]["id"].as_str().unwrap();
    let edit = |payload: &str, dry_run: bool| json!({ "id": id, "payload": payload, "dry_run": dry_run });
    let broken = api.try_post("/v1/errors/edit", &edit("{\"n\":", false)).await;
    assert!(broken.status == 400 && broken.body.contains("no JSON (line 1"), "{broken:#?}");
    assert_eq!(api.post("/v1/errors/edit", &edit("{\"n\":2}", true)).await["changed"], 0);
    assert_eq!(api.get(&path).await["errors"][0]["edited"], false, "only looked");
    assert_eq!(api.post("/v1/errors/edit", &edit("{\"n\":2}", false)).await["changed"], 1);
    let shown = api.get(&format!("{path}?payload=true")).await;
    let shown = &shown["errors"][0];
    assert_eq!((&shown["payload"], &shown["original_payload"]), (&json!("{\"n\":2}"), &json!("{\"n\":1}")));

    shop.endpoint.answer_type("order.created", 200);
    let done = api.post("/v1/errors/retry", &json!({ "ids": [id] })).await;
    assert_eq!((&done["matched"], &done["changed"]), (&json!(1), &json!(1)), "{done:#}");
    shop.until_state(&sent[0], "processed").await;
    let posted = shop.endpoint.posted();
    let last = posted.iter().rev().find(|posted| posted.id == sent[0]).unwrap();
    assert_eq!(last.body, "{\"n\":2}", "as it was edited");
    let written = api.get(&format!("/v1/audit?id={}", sent[0])).await;
    let of =
        |one: &Value| (one["by"].as_str().unwrap().to_owned(), one["action"].as_str().unwrap().to_owned());
    let of: Vec<_> = written["entries"].as_array().unwrap().iter().map(of).collect();
    let by_ci = |action: &str| ("ci".to_owned(), action.to_owned());
    assert_eq!(of, [by_ci("errors.retry"), by_ci("errors.edit")], "the newest first");
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_all_errors_that_match_are_resolved_or_sent_back() {
    let Some((shop, api, sent)) = with_errors().await else { return };
    let note = json!({ "code": "HTTP_410", "note": "cancelled", "dry_run": true });
    let meant = api.post("/v1/errors/resolve", &note).await;
    assert_eq!((&meant["matched"], &meant["changed"]), (&json!(1), &json!(0)), "{meant:#}");
    until_errors(&api, 3).await;
    let note = json!({ "code": "HTTP_410", "note": "cancelled" });
    assert_eq!(api.post("/v1/errors/resolve", &note).await["changed"], 1);
    let closed = api.get("/v1/errors?state=resolved&type=order.paid").await;
    let closed = &closed["errors"][0];
    assert_eq!((&closed["message_id"], &closed["resolved_by"]), (&json!(sent[2]), &json!("ci")));
    assert_eq!(closed["note"], "cancelled");
    shop.endpoint.answer_type("order.created", 200);
    let done = api.post("/v1/errors/retry", &json!({ "all": true, "rate": "100/s" })).await;
    assert_eq!((&done["matched"], &done["changed"]), (&json!(2), &json!(2)), "{done:#}");
    shop.until_handled(2).await;
    until_errors(&api, 0).await;
    for (path, body, expected) in [
        ("/v1/errors/retry", json!({ "sink": "errorz" }), 404),
        ("/v1/errors/retry", json!({ "kind": "x" }), 400),
        ("/v1/errors/retry", json!({ "ids": [] }), 400),
        ("/v1/errors/resolve", json!({ "note": "all of them?" }), 400),
        ("/v1/errors/edit", json!({ "id": "nothing", "payload": "x" }), 404),
        ("/v1/errors/edit", json!({ "id": "nothing" }), 400),
    ] {
        assert_eq!(api.try_post(path, &body).await.status, expected, "{path} {body}");
    }
    let unknown = api.post("/v1/errors/resolve", &json!({ "ids": ["nothing"] })).await;
    assert_eq!(unknown["missing"], json!(["nothing"]));
}
