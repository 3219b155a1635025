//! All that waits for a person, grouped by cause, and the look of the doctor.

use serde_json::{Value, json};
use sqlx::Connection as _;

use super::errors::{TABLE, until_errors};
use super::scene::{Api, HTTP};
use crate::life::scene::Shop;
use crate::program::{Program, RELAY};

/// A pipe that gives everything up at once.
const MORE: &str = r#"
[sinks.lines]
file = "out/lines.jsonl"
[pipes.lines]
from = "orders"
to = "lines"
outage = "count"
attempts = 1
"#;

/// A broker that is not there.
const GONE: &str = "\n[sources.gone]\non = \"away\"\nqueue = \"gone\"\n";

fn group<'f>(failures: &'f Value, place: &Value, kind: &str) -> &'f Value {
    let groups = failures["groups"].as_array().unwrap();
    let found = groups.iter().find(|group| group["place"] == *place && group["type"] == kind);
    found.unwrap_or_else(|| panic!("{place} {kind}: {failures:#}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_failures_are_grouped_by_place_and_cause_and_a_place_that_is_away_is_told() {
    let Some(shop) = Shop::open("", &format!("{MORE}{HTTP}")).await else { return };
    let config = shop.program.read("outboxd.toml");
    let away = "[connections]\naway = \"amqp://guest:guest@127.0.0.1:1/\"";
    shop.program.write("outboxd.toml", &(config.replacen("[connections]", away, 1) + GONE));
    shop.endpoint.answer_type("order.created", 422);
    shop.endpoint.answer_type("order.paid", 410);
    let api = Api::of_shop(&shop);
    let sent = [("order.created", "a"), ("order.paid", "b"), ("order.created", "c")]
        .map(|(kind, key)| shop.send(kind, key));
    shop.until_count("work_error", 3).await;
    api.until_listed("pipe:lines state:dead", 3).await;
    let failures = api.get("/v1/failures").await;
    let letters = json!({ "kind": "letters", "source": "work", "place": "work_error" });
    let created = group(&failures, &letters, "order.created");
    assert_eq!((&created["code"], &created["count"]), (&json!("HTTP_422"), &json!(2)), "{created:#}");
    assert_eq!((&created["ids"], &created["at_least"]), (&json!([sent[0], sent[2]]), &json!(false)));
    assert!(created["detail"].as_str().unwrap().contains("422"), "{created:#}");
    assert!(created["first_seen"].as_str().unwrap() <= created["last_seen"].as_str().unwrap());
    assert_eq!(group(&failures, &letters, "order.paid")["code"], "HTTP_410");
    let outbox = json!({ "kind": "outbox", "source": "orders", "pipe": "lines" });
    assert_eq!(group(&failures, &outbox, "order.created")["count"], 2);
    let hidden = failures["hidden"].as_array().unwrap();
    assert_eq!(hidden.len(), 1, "{failures:#}");
    assert_eq!(hidden[0]["place"]["source"], "gone");
    assert!(
        !hidden[0]["error"].as_str().unwrap().is_empty() && !hidden[0]["help"].as_str().unwrap().is_empty()
    );
    assert_eq!(shop.count("work_error").await, 3, "nothing was changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_open_errors_are_failures_until_they_are_resolved() {
    let Some(shop) = Shop::open("", &format!("{TABLE}{HTTP}")).await else { return };
    shop.endpoint.answer_type("order.created", 422);
    let api = Api::of_shop(&shop);
    shop.send("order.created", "a");
    shop.send("order.created", "b");
    let found = until_errors(&api, 2).await;
    let failures = api.get("/v1/failures").await;
    let errors = group(&failures, &json!({ "kind": "errors", "sink": "errors" }), "order.created");
    assert_eq!((&errors["count"], &errors["code"]), (&json!(2), &json!("HTTP_422")), "{failures:#}");
    assert!(errors["ids"].as_array().unwrap().contains(&found[0]["id"]));
    api.post("/v1/errors/resolve", &json!({ "all": true })).await;
    assert_eq!(api.get("/v1/failures").await["groups"], json!([]));
}

/// More than is counted: a page must not wait for all of them.
#[tokio::test(flavor = "multi_thread")]
async fn e7_what_is_more_than_is_counted_is_told_as_at_least() {
    let program = Program::migrated(&(RELAY.to_owned() + HTTP));
    let url = format!("sqlite:{}", program.path("shop.db").display());
    let mut database = sqlx::SqliteConnection::connect(&url).await.unwrap();
    let fill = "WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 10001)
        INSERT INTO outbox_messages (type, key, payload) SELECT 'order.created', 'k' || n, '{}' FROM n";
    sqlx::query(fill).execute(&mut database).await.unwrap();
    program.ok(&["run", "--once"]);
    let api = Api::over(program);
    let failures = api.get("/v1/failures").await;
    let groups = failures["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 1, "{failures:#}");
    assert_eq!((&groups[0]["count"], &groups[0]["at_least"]), (&json!(10_000), &json!(true)), "{failures:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_says_over_http_what_it_says_on_the_command_line() {
    let (api, _) = Api::with_dead().await;
    let whole = api.get("/v1/doctor?source=orders").await;
    // What is free on a disk is another figure a moment later.
    let lasting = |report: &Value| -> Vec<Value> {
        let findings = report["findings"].as_array().unwrap().iter();
        findings.filter(|finding| finding["what"] != "disk").cloned().collect()
    };
    assert_eq!(lasting(&whole), lasting(&api.program.json(&["doctor", "--source", "orders"])));
    assert_eq!(whole["worst"], "warning", "two are dead: {whole:#}");
    let all = api.get("/v1/doctor").await;
    let of_relay = |finding: &&Value| finding["place"] == "relay";
    assert!(all["findings"].as_array().unwrap().iter().any(|finding| of_relay(&finding)), "{all:#}");
    let head = format!("GET /v1/doctor?sink=x HTTP/1.1\r\nAuthorization: Bearer {}", super::scene::TOKEN);
    assert_eq!(api.ask(&head, b"").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_tells_the_warnings_of_the_configuration_over_http_too() {
    let more = "[http]\nanonymous = \"viewer\"\nhosts = [\"outbox.example.com\"]\n";
    let proxied = HTTP.replacen("[http]\n", more, 1);
    let api = Api::over(Program::migrated(&(RELAY.to_owned() + &proxied)));
    let of_config = |report: &Value| -> Vec<Value> {
        let findings = report["findings"].as_array().unwrap().iter();
        findings.filter(|finding| finding["place"] == "config").cloned().collect()
    };
    let found = of_config(&api.get("/v1/doctor").await);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0]["evidence"].as_str().unwrap().contains("outbox.example.com"), "{found:#?}");
    let ran = api.program.run(&["doctor", "--format", "json"]);
    assert_eq!(found, of_config(&serde_json::from_str(&ran.stdout).unwrap()));
}
