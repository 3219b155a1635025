//! Every route answers what its verb answers with `--format json`.

use serde_json::json;

use super::scene::{Api, encoded, settled};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_seen_is_what_the_command_line_shows() {
    let (api, ids) = Api::with_dead().await;
    let cli = |args: &[&str]| settled(api.program.json(args));
    for (path, args) in [
        ("/v1/messages".to_owned(), vec!["list"]),
        ("/v1/messages?limit=1".to_owned(), vec!["list", "--limit", "1"]),
        ("/v1/messages?source=orders&after=1".to_owned(), vec!["list", "--source", "orders", "--after", "1"]),
        (
            format!("/v1/messages?filter={}", encoded("type:order.* state:dead code:UNREACHABLE key:b")),
            vec!["list", "--type", "order.*", "--state", "dead", "--code", "UNREACHABLE", "--key", "b"],
        ),
        (format!("/v1/messages?filter=id:{}", ids[1]), vec!["list", "--id", &ids[1]]),
        (format!("/v1/messages?filter=id:{}", ids[1]), vec!["list", "--filter", "state:behind"]),
        (format!("/v1/messages/{}", ids[0]), vec!["show", &ids[0]]),
        (format!("/v1/messages/{}?payload=true", ids[0]), vec!["show", &ids[0], "--payload"]),
        (format!("/v1/messages/{}?source=orders", ids[0]), vec!["show", &ids[0], "--source", "orders"]),
        ("/v1/config".to_owned(), vec!["config", "show"]),
        ("/v1/audit?limit=10".to_owned(), vec!["audit", "list", "--limit", "10"]),
    ] {
        assert_eq!(settled(api.get(&path).await), cli(&args), "{path}");
    }
    // A beat may come between two looks.
    let without_instances = |mut status: serde_json::Value| {
        status["instances"] = status["instances"].as_array().map(Vec::len).into();
        settled(status)
    };
    for (path, args) in [
        ("/v1/status", &["status"][..]),
        ("/v1/status?source=orders&activity=true", &["status", "--source", "orders", "--activity"]),
    ] {
        let (told, shown) = (api.get(path).await, api.program.json(args));
        assert_eq!(without_instances(told), without_instances(shown), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_done_is_what_the_command_line_does() {
    let (api, ids) = Api::with_dead().await;
    for (path, body, args) in [
        ("/v1/messages/retry", json!({ "dry_run": true }), vec!["retry", "--dry-run"]),
        (
            "/v1/messages/skip",
            json!({ "ids": [ids[0]], "dry_run": true }),
            vec!["skip", &ids[0], "--dry-run"],
        ),
        (
            "/v1/messages/skip",
            json!({ "filter": "state:behind", "source": "orders", "dry_run": true }),
            vec!["skip", "--filter", "state:behind", "--source", "orders", "--dry-run"],
        ),
        (
            "/v1/pipes/relay/replay",
            json!({ "from_start": true, "dry_run": true }),
            vec!["replay", "--pipe", "relay", "--from-start", "--dry-run"],
        ),
        (
            "/v1/outboxes/orders/purge",
            json!({ "older_than": "0s", "dry_run": true }),
            vec!["purge", "--older-than", "0s", "--dry-run"],
        ),
    ] {
        assert_eq!(api.post(path, &body).await, api.program.json(&args), "{path} {body}");
    }
    // A preview changes nothing, and is not written down.
    api.until_listed("state:dead", 2).await;
    assert_eq!(api.get("/v1/audit").await, json!({ "entries": [], "next": null }));

    let skipped = api.post("/v1/messages/skip", &json!({ "ids": [ids[2]] })).await;
    assert_eq!(skipped, json!({ "verb": "skip", "matched": 1, "changed": 1 }));
    let again = api.post("/v1/messages/skip", &json!({ "ids": [ids[2]] })).await;
    assert_eq!(again, json!({ "verb": "skip", "matched": 0, "changed": 0 }));
    api.program.make_folder("out");
    let retried = api.post("/v1/messages/retry", &json!({ "filter": "code:UNREACHABLE" })).await;
    assert_eq!(retried, json!({ "verb": "retry", "matched": 1, "changed": 1 }));
    api.until_listed("state:done", 3).await;
    let written = api.get("/v1/audit").await;
    let deeds: Vec<_> = written["entries"].as_array().unwrap().iter().map(|entry| &entry["action"]).collect();
    assert_eq!(deeds, ["retry", "retry", "skip", "skip", "skip"], "{written:#}");
    assert!(written["entries"].as_array().unwrap().iter().all(|entry| entry["by"] == "ci"), "{written:#}");

    let body = json!({ "type": "order.sent", "key": "c", "headers": { "h": "v" }, "payload": { "a": 1 } });
    let sent = api.post("/v1/outboxes/orders/messages", &body).await;
    let id = sent["id"].as_str().unwrap();
    assert_eq!(sent["source"], "orders");
    let written = api.get(&format!("/v1/audit?action=send&id={id}&by=ci")).await;
    assert_eq!(written["entries"].as_array().unwrap().len(), 1, "{written:#}");
    api.until_listed(&format!("id:{id} state:done"), 1).await;
    let shown = api.get(&format!("/v1/messages/{id}?payload=true")).await;
    assert_eq!((&shown["payload"], &shown["headers"]["h"]), (&json!("{\"a\":1}"), &json!("v")), "{shown:#}");
    assert!(api.get(&format!("/v1/messages/{id}")).await.get("payload").is_none());

    let replayed = api.post("/v1/pipes/relay/replay", &json!({ "from_id": id })).await;
    assert_eq!(replayed, json!({ "verb": "replay", "pipe": "relay", "matched": 1, "changed": 1 }));
    api.until_listed("state:done", 4).await;
    let purged = api.post("/v1/outboxes/orders/purge", &json!({ "older_than": "0s" })).await;
    assert_eq!(purged, json!({ "verb": "purge", "matched": 4, "changed": 4 }));
    let left = api.get("/v1/messages").await;
    assert_eq!(left, json!({ "messages": [], "next": null, "partial": false }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_in_trouble_hides_no_other_and_is_tried_anew() {
    let (api, _) = Api::with_dead().await;
    let mut config = api.program.read("outboxd.toml");
    drop(api.running);
    config.push_str(
        "[connections.late]\nurl = \"sqlite:late.db\"\n[sources.late]\non = \"late\"\n\
         [pipes.later]\nfrom = \"late\"\nto = \"lines\"\n[audit]\non = \"shop\"\n",
    );
    api.program.write("outboxd.toml", &config);
    let api = Api::over(api.program);
    let row = async |source: &str| {
        let status = api.get("/v1/status").await;
        status["pipes"].as_array().unwrap().iter().find(|row| row["source"] == source).unwrap().clone()
    };
    assert!(row("late").await["error"].as_str().unwrap().contains("there is no such file"));
    assert_eq!(row("orders").await["started"], true);
    api.program.ok(&["migrate"]);
    assert_eq!(row("late").await.get("error"), None, "a failure is not kept");
}
