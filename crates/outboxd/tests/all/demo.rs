//! What a newcomer meets.

use std::time::{Duration, Instant};

use sqlx::{Connection, SqliteConnection};

use crate::program::{PATIENCE, Program};
use crate::web::{ask, get};

#[test]
fn the_demo_ends_by_itself_and_keeps_every_promise() {
    let program = Program::new();
    let sum = program.json(&["demo", "--seconds", "5", "--dir", "shop"]);
    let count = |value: &serde_json::Value| value.as_u64().unwrap_or_else(|| panic!("{sum:#}"));
    assert!(count(&sum["written"]) > 100, "{sum:#}");
    assert!(count(&sum["rolled_back"]) > 0, "{sum:#}");
    assert_eq!((count(&sum["lost"]), count(&sum["out_of_order"])), (0, 0), "{sum:#}");
    for (pipe, dead) in [("relay", 0), ("inventory", 0), ("mailer", 1)] {
        let pipe = &sum["pipes"][pipe];
        assert_eq!((count(&pipe["duplicates_in_effect"]), count(&pipe["phantom"])), (0, 0), "{sum:#}");
        assert_eq!(count(&pipe["dead"]), dead, "{sum:#}");
        assert_eq!(
            count(&pipe["delivered"]) + dead + count(&pipe["held"]),
            count(&sum["written"]),
            "{sum:#}"
        );
    }
    assert!(count(&sum["pipes"]["mailer"]["retried"]) > 0, "it fails now and then: {sum:#}");

    // The commands that it offers work on what it left behind.
    let listed = program.json(&["--config", "shop/outboxd.toml", "list", "--state", "dead"]);
    let dead =
        listed.as_array().or_else(|| listed["messages"].as_array()).unwrap_or_else(|| panic!("{listed:#}"));
    assert_eq!(dead.len(), 1, "{listed:#}");
    program.ok(&["--config", "shop/outboxd.toml", "status"]);

    let again = program.run(&["demo", "--dir", "shop"]);
    assert!(again.only_error(1).0.contains("holds an earlier demo"), "{again:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d7_a_newcomer_sees_the_demo_on_pages_and_retries_what_is_dead() {
    let program = Program::new();
    let mut running = program.start(&["demo", "--seconds", "60", "--dir", "shop", "--format", "json"]);
    let line = running.wait_for("Look at it: http://");
    let address = line.rsplit('/').next().unwrap().parse().unwrap();
    for path in ["/", "/pipes", "/messages", "/failures", "/queues", "/doctor", "/audit"] {
        let (status, page) = get(address, path).await;
        assert_eq!(status, 200, "{path}: {page}");
    }
    let (_, pipes) = get(address, "/v1/pipes").await;
    for pipe in ["relay", "inventory", "mailer"] {
        assert!(pipes.contains(&format!("\"{pipe}\"")), "{pipes}");
    }
    let dead = "/v1/messages?source=orders&filter=state:dead";
    let until = Instant::now() + PATIENCE;
    while !get(address, dead).await.1.contains("\"mailer\"") {
        assert!(Instant::now() < until, "nothing died");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    program.ok(&["--config", "shop/outboxd.toml", "status"]);
    let retry =
        "POST /v1/messages/retry HTTP/1.1\r\nSec-Fetch-Site: same-origin\r\nContent-Type: application/json";
    let (status, answer) = ask(address, retry, "{\"source\": \"orders\", \"filter\": \"state:dead\"}").await;
    assert_eq!(status, 200, "{answer}");
    running.signal("INT");
    let sum: serde_json::Value = serde_json::from_str(&running.next_line()).unwrap();
    assert_eq!((&sum["pipes"]["mailer"]["dead"], &sum["lost"]), (&0.into(), &0.into()), "{sum:#}");
    assert_eq!(sum["by_hand"], 1, "{sum:#}");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
}

#[tokio::test]
async fn the_second_ctrl_c_leaves_the_demo_at_once() {
    let program = Program::new();
    let mut running = program.start(&["demo", "--seconds", "60", "--dir", "shop"]);
    running.wait_for("Ctrl-C ends it sooner");
    // With the database locked nothing can be caught up with.
    let url = format!("sqlite:{}", program.path("shop/shop.db").display());
    let mut lock = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("PRAGMA busy_timeout = 20000").execute(&mut lock).await.unwrap();
    sqlx::query("BEGIN IMMEDIATE").execute(&mut lock).await.unwrap();
    running.signal("INT");
    // Time to take note of it: two signals at the same moment may be one.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let pressed = Instant::now();
    running.signal("INT");
    let (code, said) = running.end();
    assert_eq!(code, 130, "{said}");
    assert!(pressed.elapsed() < Duration::from_secs(4), "{said}");
}
