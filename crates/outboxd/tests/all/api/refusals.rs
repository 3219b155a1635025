//! What is wrong is refused: with a status that says whose fault it is, why, and what to do.

use serde_json::{Value, json};

use super::scene::{Answer, Api, TOKEN, encoded};

#[track_caller]
fn check(answer: &Answer, status: u16, told: &str) {
    let body = answer.json();
    let text = |name: &str| body[name].as_str().unwrap_or_else(|| panic!("{answer:#?}")).to_owned();
    assert!(answer.status == status && text("error").contains(told), "{status} {told}: {answer:#?}");
    assert!(!text("help").is_empty() && !text("error").contains('\n'), "{answer:#?}");
    let is_json = answer.head.to_lowercase().contains("content-type: application/json");
    assert!(is_json, "{answer:#?}");
}

async fn get(api: &Api, path: &str) -> Answer {
    api.ask(&format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}"), b"").await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_known_is_told_nothing() {
    let (api, _) = Api::with_dead().await;
    let document = api.get("/v1/openapi.json").await;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|name| *name != "parameters") {
            let head = format!("{} {path} HTTP/1.1", method.to_uppercase()).replace(['{', '}'], "");
            let why = if head.starts_with("POST /v1/messages ") {
                "a token is needed"
            } else {
                "nobody has signed in"
            };
            check(&api.ask(&head, b"").await, 401, why);
            let wrong = format!("{head}\r\nAuthorization: Bearer {TOKEN}x");
            check(&api.ask(&wrong, b"").await, 401, "the token is not known");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_asked_is_refused_with_the_way_out() {
    let (api, ids) = Api::with_dead().await;
    let filter = |text: &str| format!("/v1/messages?filter={}", encoded(text));
    for (path, status, told) in [
        ("/v1/status?sourse=orders".to_owned(), 400, "unknown field `sourse`"),
        ("/v1/config?source=orders".to_owned(), 400, "unknown field `source`"),
        ("/v1/status?activity=yes".to_owned(), 400, "activity"),
        ("/v1/status?source=order".to_owned(), 404, "there is no source 'order'"),
        ("/v1/messages?source=a&source=b".to_owned(), 400, "duplicate field `source`"),
        ("/v1/messages?limit=0".to_owned(), 400, "limit: 0 is not between 1 and 10000"),
        ("/v1/messages?limit=x".to_owned(), 400, "limit"),
        ("/v1/messages?limit=99999999999999999999".to_owned(), 400, "limit"),
        ("/v1/messages?after=-1".to_owned(), 400, "after"),
        (filter("typ:a"), 400, "the filter, at character 1: there is no term 'typ'"),
        (filter("state:lost"), 400, "there is no state 'lost'"),
        (filter("key:\"a"), 400, "the filter, at character 5: a quote is not closed"),
        (filter("pipe:rely"), 404, "there is no pipe 'rely'"),
        (filter("key:\0"), 400, "NUL"),
        ("/v1/messages/nothing".to_owned(), 404, "there is no message 'nothing'"),
        (format!("/v1/messages/{}?source=nowhere", ids[0]), 404, "there is no source 'nowhere'"),
        ("/v1/messages/%ff".to_owned(), 400, "the path cannot be read"),
        ("/v1/messages/%00".to_owned(), 400, "NUL"),
        ("/v1/audit?older_than=soon".to_owned(), 400, "older_than: a duration is"),
        ("/v1/nothing".to_owned(), 404, "there is nothing at this path"),
        ("/v1/messages/retry".to_owned(), 405, "this method does nothing here"),
    ] {
        check(&get(&api, &path).await, status, told);
    }
    let far = api.get("/v1/messages?after=18446744073709551615").await;
    assert_eq!(far, json!({ "messages": [], "next": null, "partial": false }), "beyond the last is nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_is_refused_and_changes_nothing() {
    let (api, ids) = Api::with_dead().await;
    let (retry, replay) = ("/v1/messages/retry", "/v1/pipes/relay/replay");
    let (purge, send) = ("/v1/outboxes/orders/purge", "/v1/outboxes/orders/messages");
    for (path, body, status, told) in [
        (retry, json!({ "id": "a" }), 400, "unknown field `id`"),
        ("/v1/messages/retry?dry_run=true", json!({}), 400, "unknown field `dry_run`"),
        (retry, json!({ "ids": "a" }), 400, "invalid type"),
        (retry, json!([null, null]), 400, "the body is no JSON object"),
        (retry, json!({ "source": "nowhere" }), 404, "there is no source 'nowhere'"),
        (retry, json!({ "filter": "pipe:rely" }), 404, "there is no pipe 'rely'"),
        (retry, json!({ "filter": "id:a", "ids": ["b"] }), 400, "'id' cannot be both 'a' and 'b'"),
        (retry, json!({ "ids": ["\0"] }), 400, "NUL"),
        (retry, json!({ "ids": [] }), 400, "'ids' is empty"),
        (retry, json!({}), 400, "nothing says which are meant"),
        (replay, json!({}), 400, "nothing says from where"),
        (replay, json!({ "from_start": true, "from_id": ids[0] }), 400, "several points"),
        (replay, json!({ "from_time": "noon" }), 400, "the body cannot be read"),
        (replay, json!({ "from_id": "nothing" }), 404, "nothing"),
        ("/v1/pipes/rely/replay", json!({ "from_start": true }), 404, "there is no pipe 'rely'"),
        (purge, json!({}), 400, "missing field `older_than`"),
        (purge, json!({ "older_than": "soon" }), 400, "older_than: a duration is"),
        ("/v1/outboxes/nowhere/purge", json!({ "older_than": "1d" }), 404, "there is no source 'nowhere'"),
        (send, json!({ "type": "a" }), 400, "there is no payload"),
        (send, json!({ "type": " ", "payload": 1 }), 400, "has no type"),
        (send, json!({ "type": "a\0", "payload": 1 }), 400, "NUL"),
        (send, json!({ "payload": 1 }), 400, "missing field `type`"),
        ("/v1/outboxes/nowhere/messages", json!({ "type": "a", "payload": 1 }), 404, "there is no source"),
    ] {
        check(&api.try_post(path, &body).await, status, told);
    }
    api.until_listed("state:dead", 2).await;
    assert_eq!(api.get("/v1/audit").await["entries"], Value::Array(Vec::new()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_no_json_or_too_large_is_refused() {
    let (api, _) = Api::with_dead().await;
    let post = format!("POST /v1/messages/retry HTTP/1.1\r\nAuthorization: Bearer {TOKEN}");
    let json = format!("{post}\r\nContent-Type: application/json; charset=utf-8");
    for (head, body, status, told) in [
        (post.clone(), "{}", 415, "there is no Content-Type"),
        (format!("{post}\r\nContent-Type: text/plain"), "{}", 415, "'text/plain' cannot be read here"),
        (
            format!("{post}\r\nContent-Type: application/x-www-form-urlencoded"),
            "ids=a",
            415,
            "'application/x-www-form-urlencoded'",
        ),
        (json.clone(), "", 400, "the body is empty"),
        (json.clone(), "{\"ids\": [", 400, "the body cannot be read: EOF"),
        (json.clone(), "{\"ids\": [\"a\"]} x", 400, "the body cannot be read: trailing characters"),
        // The payload of the outbox may have 1 MiB; as base64 that is a third more, and there are other fields.
        (format!("{json}\r\nContent-Length: 1463639"), "", 413, "the body is larger than 1463638 bytes"),
    ] {
        check(&api.ask(&head, body.as_bytes()).await, status, told);
    }
    // Without a length it is known only when it has come.
    let chunk = format!("{:x}\r\n{}\r\n", 800_000, " ".repeat(800_000));
    let head = format!("{json}\r\nTransfer-Encoding: chunked\r\nX-No: Content-Length");
    check(&api.ask(&head, format!("{chunk}{chunk}0\r\n\r\n").as_bytes()).await, 413, "larger than");
    let big = json!({ "filter": format!("key:{}", "x".repeat(900_000)), "dry_run": true });
    assert_eq!(api.post("/v1/messages/retry", &big).await["matched"], 0, "what fits is read");
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_a_payload_as_large_as_the_outbox_takes_can_be_sent() {
    let (api, _) = Api::with_dead().await;
    let send = "/v1/outboxes/orders/messages";
    // 1 MiB, the limit of an outbox unless it is set: as text, and as base64, which is a third longer.
    let most = 1 << 20;
    let text = json!({ "type": "big", "payload_text": "x".repeat(most) });
    let base64 = json!({ "type": "big", "payload_base64": format!("{}eA==", "eHh4".repeat(most / 3)) });
    for body in [&text, &base64] {
        assert!(api.post(send, body).await["id"].is_string());
    }
    let more = json!({ "type": "big", "payload_text": "x".repeat(most + 1) });
    check(&api.try_post(send, &more).await, 400, "the limit is 1048576");
}
