//! Dead letters over HTTP: seen, sent back and removed as by the command line, and who did it is known.

use std::time::{Duration, Instant};

use lapin::BasicProperties;
use lapin::options::BasicPublishOptions;
use serde_json::{Value, json};

use super::scene::{Api, HTTP, TOKEN};
use crate::life::scene::{Shop, stop};
use crate::program::PATIENCE;

fn ids(listed: &Value) -> Vec<String> {
    listed["letters"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

/// Three orders of one type and one of another that no handler takes, with everything running.
async fn with_letters() -> Option<(Shop, Api, Vec<String>)> {
    let shop = Shop::open("", HTTP).await?;
    shop.endpoint.answer_type("order.created", 422);
    shop.endpoint.answer_type("order.paid", 410);
    let api = Api::of_shop(&shop);
    let mut sent = Vec::new();
    for (kind, key) in
        [("order.created", "a"), ("order.created", "b"), ("order.created", "a"), ("order.paid", "a")]
    {
        sent.push(shop.send(kind, key));
        shop.until_count("work_error", u32::try_from(sent.len()).unwrap()).await;
    }
    Some((shop, api, sent))
}

async fn status(api: &Api, path: &str) -> u16 {
    api.ask(&format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}"), b"").await.status
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_letters_are_listed_and_shown_as_by_the_command_line() {
    let Some((shop, api, sent)) = with_letters().await else { return };
    let listed = api.get("/v1/dlq").await;
    assert_eq!(ids(&listed), sent, "oldest first");
    assert_eq!(listed, shop.program.json(&["dlq", "list"]));
    assert_eq!(ids(&api.get("/v1/dlq?code=HTTP_410&source=work").await), sent[3..]);
    assert_eq!(ids(&api.get("/v1/dlq?type=order.c*&key=b&newer_than=1h").await), sent[1..2]);
    assert_eq!(api.get("/v1/dlq?most=2").await["more"], json!(["work"]));
    let path = format!("/v1/dlq/work/{}", sent[0]);
    let shown = api.get(&format!("{path}?payload=true")).await;
    assert_eq!(shown, shop.program.json(&["dlq", "show", &sent[0], "--payload"]));
    assert_eq!(shown["letters"][0]["payload"], "{\"n\":1}");
    assert!(api.get(&path).await["letters"][0]["payload"].is_null(), "only if asked for");
    for (path, expected) in [
        ("/v1/dlq/work/nothing", 404),
        ("/v1/dlq?source=worg", 404),
        ("/v1/dlq?kind=x", 400),
        ("/v1/dlq?key=%00", 400),
    ] {
        assert_eq!(status(&api, path).await, expected, "{path}");
    }
    assert_eq!(shop.count("work_error").await, 4, "nothing was changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_letters_go_back_and_away_and_the_book_says_who_did_it() {
    let Some((shop, api, sent)) = with_letters().await else { return };
    let chosen = json!({ "code": "HTTP_422", "dry_run": true });
    let meant = api.post("/v1/dlq/retry", &chosen).await;
    assert_eq!((&meant["matched"], &meant["changed"]), (&json!(3), &json!(0)), "{meant:#}");
    assert_eq!(
        meant["causes"],
        json!([{ "count": 3, "origin": "work", "type": "order.created", "code": "HTTP_422" }])
    );
    assert_eq!(shop.count("work_error").await, 4, "only looked");
    shop.endpoint.answer_type("order.created", 200);
    let done = api.post("/v1/dlq/retry", &json!({ "code": "HTTP_422", "rate": "100/s" })).await;
    assert_eq!((&done["matched"], &done["changed"]), (&json!(3), &json!(3)), "{done:#}");
    let handled = shop.until_handled(3).await;
    let of_key: Vec<&String> = handled.iter().filter(|id| **id != sent[1]).collect();
    assert_eq!(of_key, [&sent[0], &sent[2]], "a key keeps its order");
    let gone = api.post("/v1/dlq/discard", &json!({ "ids": [sent[3], "nothing"] })).await;
    assert_eq!((&gone["changed"], &gone["missing"]), (&json!(1), &json!(["nothing"])), "{gone:#}");
    assert_eq!(shop.count("work_error").await, 0);
    for (action, count) in [("dlq.retry", 3), ("dlq.discard", 1)] {
        let written = api.get(&format!("/v1/audit?action={action}&by=ci")).await;
        assert_eq!(written["entries"][0]["detail"]["done"]["changed"], count, "{written:#}");
    }
    for wrong in [json!({ "kind": "x" }), json!({ "older_than": 7 }), json!({ "rate": "fast" })] {
        assert_eq!(api.try_post("/v1/dlq/discard", &wrong).await.status, 400, "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_a_preview_of_many_letters_is_a_glance_and_says_so() {
    let Some(shop) = Shop::open("", HTTP).await else { return };
    shop.make_topology().await;
    for number in 0..520 {
        let properties = BasicProperties::default().with_message_id(format!("m-{number}").into());
        let sent = shop.channel().basic_publish(
            "".into(),
            "work_error".into(),
            BasicPublishOptions::default(),
            b"{}",
            properties,
        );
        sent.await.unwrap();
    }
    shop.until_count("work_error", 520).await;
    let api = Api::of_shop(&shop);
    let answer = api.try_post("/v1/dlq/discard", &json!({ "source": "work", "dry_run": true })).await;
    if answer.status == 200 {
        let meant = answer.json();
        assert_eq!((&meant["matched"], &meant["more"]), (&json!(500), &json!(["work"])), "{meant:#}");
    } else {
        // A machine that is busy is not through with so many in time: then it says so.
        assert!(answer.status == 503 && answer.body.contains("it took longer than 2s"), "{answer:#?}");
    }
    // The deed itself takes its time.
    let done = api.post("/v1/dlq/discard", &json!({ "source": "work" })).await;
    assert_eq!((&done["changed"], &done["more"]), (&json!(520), &json!([])), "{done:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn e6_queues_are_told_with_their_depth_their_consumers_and_who_reads_them() {
    let Some((_shop, api, _)) = with_letters().await else { return };
    let expected = json!([
        { "name": "work", "role": "work", "messages": 0, "consumers": 1 },
        { "name": "work_error", "role": "dead", "messages": 4, "consumers": 0 },
    ]);
    // What is told may be of a few seconds ago.
    let end = Instant::now() + PATIENCE;
    let told = loop {
        let told = api.get("/v1/queues").await;
        if told["sources"][0]["queues"] == expected {
            break told;
        }
        assert!(Instant::now() < end, "{told:#}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let source = &told["sources"][0];
    assert_eq!(
        (&source["source"], &source["connection"], &source["pipes"], &source["trouble"]),
        (&json!("work"), &json!("rabbit"), &json!(["handle"]), &json!(null)),
        "{told:#}"
    );
    assert_eq!(status(&api, "/v1/queues?source=work").await, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_what_an_outbox_has_set_aside_is_sent_back_too() {
    let (api, sent) = Api::with_dead().await;
    assert_eq!(ids(&api.get("/v1/dlq").await), [sent[0].as_str(), sent[2].as_str()]);
    api.program.make_folder("out");
    let done = api.post("/v1/dlq/retry", &json!({ "source": "orders", "key": "a" })).await;
    assert_eq!((&done["matched"], &done["changed"]), (&json!(1), &json!(1)), "{done:#}");
    api.until_listed("state:done key:a", 2).await;
    assert_eq!(ids(&api.get("/v1/dlq").await), sent[2..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_a_deed_that_is_under_way_at_a_stop_comes_to_its_end_and_the_book_says_so() {
    let Some((shop, api, _)) = with_letters().await else { return };
    shop.endpoint.answer_type("order.created", 200);
    let deed = json!({ "code": "HTTP_422", "rate": "30/m" });
    let client = api.begin("/v1/dlq/retry", &deed).await;
    let book = || {
        let written = shop.program.json(&["audit", "list", "--action", "dlq.retry"]);
        written["entries"].as_array().unwrap().clone()
    };
    let begun = Instant::now();
    while book().is_empty() {
        assert!(begun.elapsed() < PATIENCE, "it never began");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Nobody waits for it any more, and nothing else keeps the process.
    drop(client);
    assert!(book()[0]["detail"]["done"].is_null(), "it is under way");
    stop(api.running);
    assert_eq!(book()[0]["detail"]["done"]["changed"], 3, "{:#?}", book());
    assert_eq!(shop.count("work_error").await, 1, "those that were meant have gone back");
}
