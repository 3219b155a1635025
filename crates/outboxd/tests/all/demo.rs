//! What a newcomer meets.

use std::time::{Duration, Instant};

use sqlx::{Connection, SqliteConnection};

use crate::program::Program;

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
