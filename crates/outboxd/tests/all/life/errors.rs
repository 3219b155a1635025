//! `errors` and `audit`: what reached the error table is seen, edited, sent back, resolved, and who did it is known.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::Connection as _;

use super::scene::{Shop, stop};
use crate::broker::{Queue, Sender, headers};
use crate::program::{PATIENCE, Program, RELAY};

/// The dead letters of the shop lead into an error table.
const TABLE: &str = r#"
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

/// The relay of the shop makes the queue too.
const QUEUES: &str = r#"
[[sinks.events.queues]]
name = "work"
keys = ["order.*"]
"#;

fn errors(program: &Program, flags: &[&str]) -> Vec<Value> {
    let mut args = vec!["errors", "list"];
    args.extend(flags);
    program.json(&args)["errors"].as_array().unwrap().clone()
}

async fn until_errors(shop: &Shop, count: usize) -> Vec<Value> {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = errors(&shop.program, &[]);
        if found.len() == count {
            return found;
        }
        assert!(Instant::now() < end, "{found:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Three orders that the handler refuses, in the error table.
async fn with_errors() -> Option<(Shop, Vec<String>, Vec<Value>)> {
    let shop = Shop::open("", TABLE).await?;
    shop.make_topology().await;
    shop.endpoint.answer_type("order.created", 422);
    shop.endpoint.answer_type("order.paid", 410);
    let sent = [("order.created", "a"), ("order.created", "b"), ("order.paid", "a")]
        .map(|(kind, key)| shop.send(kind, key))
        .to_vec();
    let running = shop.run();
    let found = until_errors(&shop, 3).await;
    stop(running);
    Some((shop, sent, found))
}

fn actions(program: &Program, flags: &[&str]) -> Vec<Value> {
    let mut args = vec!["audit", "list"];
    args.extend(flags);
    program.json(&args)["entries"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_e7_an_error_is_seen_edited_sent_back_and_then_processed_and_who_did_it_is_known() {
    let Some((shop, sent, found)) = with_errors().await else { return };
    let program = &shop.program;
    let error = found.iter().find(|error| error["message_id"] == sent[0].as_str()).unwrap();
    assert_eq!((&error["origin"], &error["attempts"]), (&json!("work"), &json!(1)), "{error}");
    assert_eq!((&error["cause"]["code"], &error["state"]), (&json!("HTTP_422"), &json!("open")));
    assert_eq!(program.json(&["show", &sent[0]])["state"], "processed as error");
    let id = error["id"].as_str().unwrap();
    let text = program.ok(&["errors", "show", id]);
    assert!(text.contains("cause         HTTP_422") && !text.contains("{\"n\":1}"), "{text}");

    let broken = program.run(&["errors", "edit", id, "--payload", "{\"n\":", "--yes"]);
    assert!(broken.only_error(2).0.contains("no JSON (line 1"), "{broken:#?}");
    program.ok(&["errors", "edit", id, "--payload", "{\"n\":2}", "--by", "ann", "--yes"]);
    let shown = program.json(&["errors", "show", &sent[0], "--payload"]);
    let shown = &shown["errors"][0];
    assert_eq!((&shown["payload"], &shown["original_payload"]), (&json!("{\"n\":2}"), &json!("{\"n\":1}")));

    shop.endpoint.answer_type("order.created", 200);
    let done = program.json(&["errors", "retry", id, "--by", "bob", "--yes"]);
    assert_eq!((&done["matched"], &done["changed"]), (&json!(1), &json!(1)), "{done}");
    assert_eq!(program.json(&["show", &sent[0]])["state"], "in process");
    let running = shop.run();
    let life = shop.until_state(&sent[0], "processed").await;
    stop(running);
    assert_eq!(
        (&life["errors"][0]["state"], &life["errors"][0]["resolved_by"]),
        (&json!("returned"), &json!("bob"))
    );
    let posted = shop.endpoint.posted();
    let last = posted.iter().rev().find(|posted| posted.id == sent[0]).unwrap();
    assert_eq!(last.body, "{\"n\":2}", "as it was edited");

    let entries = actions(program, &["--id", &sent[0]]);
    let of: Vec<_> =
        entries.iter().map(|one| (one["by"].as_str().unwrap(), one["action"].as_str().unwrap())).collect();
    assert_eq!(of, [("bob", "errors.retry"), ("ann", "errors.edit")], "the newest first");
    let bob = actions(program, &["--by", "bob"]);
    assert_eq!(bob.len(), 3, "it begins, to which message, it is done: {bob:#?}");
    assert_eq!(bob[0]["detail"]["done"]["changed"], 1);
    assert_eq!(bob[0]["detail"]["act"], bob[2]["detail"]["act"]);
    assert!(program.ok(&["audit", "list"]).contains("errors.edit"));
}

/// Every queue of the shop of this kind, or of the one that it has if nobody says so.
fn of_kind(shop: &Shop, kind: &str) {
    let mut text = shop.program.read("outboxd.toml");
    for (key, queue) in
        [("kind", "queue = \"work\""), ("kind", "queue = \"work_error\""), ("type", "name = \"work\"")]
    {
        text = text.replace(queue, &format!("{key} = \"{kind}\"\n{queue}"));
    }
    shop.program.write("outboxd.toml", &text);
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_a_queue_that_sink_and_source_make_leads_to_the_error_table_and_back() {
    for kind in [None, Some("quorum"), Some("classic")] {
        let Some(shop) = Shop::open("\"100ms\"", &format!("{QUEUES}{TABLE}")).await else { return };
        if let Some(kind) = kind {
            of_kind(&shop, kind);
        }
        shop.endpoint.answer_type("order.created", 500);
        let sent = shop.send("order.created", "a");
        // The sink is the first to make it.
        shop.program.ok(&["run", "--once", "--pipe", "relay"]);
        assert_eq!(shop.count("work").await, 1, "{kind:?}");
        let running = shop.run();
        let found = until_errors(&shop, 1).await;
        let cause = (&found[0]["cause"]["code"], &found[0]["attempts"], &found[0]["origin"]);
        assert_eq!(cause, (&json!("HTTP_500"), &json!(2), &json!("work")), "{kind:?}");
        shop.endpoint.answer_type("order.created", 200);
        assert_eq!(shop.program.ok(&["errors", "retry", "--yes"]), "1 error sent back\n");
        shop.until_state(&sent, "processed").await;
        stop(running);
        for what in [["--source", "work"], ["--source", "failed"], ["--sink", "events"]] {
            shop.program.ok(&[&["doctor"], &what[..]].concat());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_many_errors_are_chosen_and_resolved_or_sent_back_together() {
    let Some((shop, sent, _)) = with_errors().await else { return };
    let program = &shop.program;
    assert_eq!(errors(program, &["--type", "order.c*"]).len(), 2);
    assert_eq!(
        errors(program, &["--code", "HTTP_410", "--origin", "work"])[0]["message_id"],
        sent[2].as_str()
    );
    assert_eq!(
        (errors(program, &["--key", "a"]).len(), errors(program, &["--older-than", "1h"]).len()),
        (2, 0)
    );
    let preview = program.run(&["errors", "resolve", "--code", "HTTP_410", "--dry-run"]);
    assert!(
        preview.code == 0 && preview.stderr.contains("1 of type order.paid with HTTP_410, from work"),
        "{preview:#?}"
    );
    let note = [
        "errors",
        "resolve",
        "--code",
        "HTTP_410",
        "--note",
        "the order was cancelled",
        "--by",
        "ann",
        "--yes",
    ];
    assert_eq!(program.ok(&note), "1 error resolved\n");
    let shown = program.json(&["errors", "show", &sent[2]]);
    let shown = &shown["errors"][0];
    assert_eq!((&shown["state"], &shown["resolved_by"]), (&json!("resolved"), &json!("ann")));
    assert_eq!(shown["note"], "the order was cancelled");
    assert_eq!(program.json(&["show", &sent[2]])["state"], "processed as error", "for good");
    assert_eq!(program.ok(&["errors", "retry", "--yes", "--rate", "100/s"]), "2 errors sent back\n");
    assert_eq!(shop.count("work").await, 2);
    assert!(errors(program, &[]).is_empty(), "none is open");
    assert_eq!(errors(program, &["--state", "any"]).len(), 3);
    let unknown = program.run(&["errors", "retry", "nothing", "--yes"]);
    assert_eq!(unknown.code, 1, "{unknown:#?}");
}

/// They came to the table in another order, and their rows have ids in that one.
#[tokio::test(flavor = "multi_thread")]
async fn e7_errors_go_back_in_bulk_in_the_order_in_which_they_first_failed() {
    let Some(shop) = Shop::open("", TABLE).await else { return };
    shop.make_topology().await;
    let sender = Sender::open(shop.vhost.url()).await;
    for n in [4, 0, 5, 2, 1, 3] {
        let first = format!("2026-01-31T12:00:0{n}Z");
        // What failed first was given up last.
        let last = format!("2026-01-31T13:00:0{}Z", 9 - n);
        let told = [
            ("x-error-origin", "work"),
            ("x-error-code", "HTTP_422"),
            ("x-error-first-at", first.as_str()),
            ("x-error-at", last.as_str()),
        ];
        let properties =
            headers(&told).with_message_id(format!("m-{n}").into()).with_type("order.created".into());
        sender.publish("", "work_error", properties, b"{}").await;
        let running = shop.program.start(&["run", "--pipe", "note"]);
        shop.until_state(&format!("m-{n}"), "processed as error").await;
        stop(running);
    }
    let done = shop.program.json(&["errors", "retry", "--code", "HTTP_422", "--yes"]);
    assert_eq!(done["changed"], 6, "{done}");
    let back = Queue::open(shop.vhost.url(), "work").await.drain().await;
    let back: Vec<&str> = back.iter().map(|arrived| arrived.id.as_str()).collect();
    assert_eq!(back, ["m-0", "m-1", "m-2", "m-3", "m-4", "m-5"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_what_was_done_before_it_failed_is_written_down() {
    let Some((shop, sent, _)) = with_errors().await else { return };
    let program = &shop.program;
    let file = program.path("shop.db");
    let mut database = sqlx::SqliteConnection::connect(&format!("sqlite:{}", file.display())).await.unwrap();
    // One of the three cannot be closed.
    let stuck = format!(
        "CREATE TRIGGER stuck BEFORE UPDATE ON outbox_errors WHEN old.message_id = '{}'
         BEGIN SELECT raise(ABORT, 'stuck'); END",
        sent[1]
    );
    sqlx::query(sqlx::AssertSqlSafe(stuck)).execute(&mut database).await.unwrap();
    let failed = program.run(&["errors", "resolve", "--by", "ann", "--yes"]);
    assert_ne!(failed.code, 0, "{failed:#?}");
    let left = errors(program, &[]).len();
    assert!((1..3).contains(&left), "some were closed: {left}");
    let newest = &actions(program, &["--by", "ann"])[0];
    assert_eq!(newest["detail"]["changed"], 3 - left, "{newest}");
}

#[tokio::test(flavor = "multi_thread")]
async fn e7_what_cannot_be_sent_back_stays_open_and_the_attempt_is_written_down() {
    let Some((shop, sent, _)) = with_errors().await else { return };
    shop.channel().queue_delete("work".into(), Default::default()).await.unwrap();
    let failed = shop.program.run(&["errors", "retry", &sent[0], "--by", "ann", "--yes"]);
    assert_eq!(failed.code, 5, "{failed:#?}");
    assert!(failed.stderr.contains("cannot send message") && failed.stderr.contains("'work'"), "{failed:#?}");
    assert_eq!(errors(&shop.program, &[]).len(), 3, "it is open");
    let newest = &actions(&shop.program, &["--by", "ann"])[0];
    assert!(newest["detail"]["failed"].as_str().unwrap().contains("NO_ROUTE"), "{newest}");
}

#[test]
fn e7_verbs_of_before_are_written_down_too() {
    let program = Program::migrated(RELAY);
    let sent = ["a", "a", "b"].map(|key| program.send(key));
    program.ok(&["run", "--once"]);
    program.make_folder("out");
    program.ok(&["retry", &sent[0], "--by", "ann", "--yes"]);
    program.ok(&["skip", "--key", "b", "--by", "bob", "--yes"]);
    program.ok(&["run", "--once"]);
    program.ok(&["replay", "--pipe", "relay", "--from-start", "--by", "ann", "--yes"]);
    program.ok(&["run", "--once"]);
    std::thread::sleep(Duration::from_millis(5)); // Older than a millisecond: only time does that.
    program.ok(&["purge", "--older-than", "1ms", "--by", "eve", "--yes"]);
    program.ok(&["dlq", "retry", "--dry-run", "--by", "nobody"]);
    let ended = |by: &str| -> Vec<(String, Value)> {
        let entries = actions(&program, &["--by", by]);
        let done = entries.iter().filter(|one| one["detail"]["done"].is_object());
        done.map(|one| (one["action"].as_str().unwrap().to_owned(), one["detail"]["done"]["changed"].clone()))
            .collect()
    };
    assert_eq!(ended("ann"), [("replay".to_owned(), json!(3)), ("retry".to_owned(), json!(1))]);
    assert_eq!((ended("bob"), ended("eve").len()), (vec![("skip".to_owned(), json!(1))], 1));
    assert!(ended("nobody").is_empty(), "only looked");
    assert_eq!(actions(&program, &["--id", &sent[0]])[0]["action"], "retry");
    let by_default = actions(&program, &["--action", "purge"]);
    assert_eq!(by_default[0]["target"], "orders");
}

#[test]
fn e7_without_a_place_to_write_it_down_nothing_is_done() {
    // Two databases with a log each: neither is the obvious place.
    let two = RELAY
        .replace("[connections]", "[connections]\nother = \"sqlite:other.db\"\nbare = \"sqlite:bare.db\"")
        + "[sources.bills]\non = \"other\"\n[pipes.bills]\nfrom = \"bills\"\nto = \"lines\"\n";
    let program = Program::migrated(&two);
    program.ok(&["send", "--source", "orders", "--type", "order.created", "--key", "a", "--data", "{}"]);
    program.ok(&["run", "--once"]);
    let refused = program.run(&["dlq", "discard", "--yes"]);
    assert_eq!(refused.code, 3, "{refused:#?}");
    assert!(
        refused.stderr.contains("no place to write down") && refused.stderr.contains("[audit]"),
        "{refused:#?}"
    );
    assert_eq!(program.json(&["dlq", "list"])["letters"].as_array().unwrap().len(), 1);
    program.write("outboxd.toml", &format!("{two}[audit]\non = \"bare\"\n"));
    let unready = program.run(&["dlq", "discard", "--yes"]);
    assert!(unready.stderr.contains("run `outboxd migrate`"), "{unready:#?}");
    program.ok(&["migrate"]);
    assert_eq!(program.ok(&["dlq", "discard", "--yes", "--by", "ann"]), "1 message removed\n");
    assert_eq!(actions(&program, &["--by", "ann"]).len(), 3);
}
