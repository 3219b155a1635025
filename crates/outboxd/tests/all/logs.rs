//! What the log of `run` says when the same goes wrong again and again.

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use crate::program::{Program, RELAY};

/// How many lines a sum stands for.
fn summed(line: &str) -> u64 {
    let (_, more) = line.split_once(" more=").unwrap_or_else(|| panic!("{line}"));
    more.split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_a_thousand_failures_make_few_lines_with_the_right_sum() {
    let program = Program::migrated(&format!("{RELAY}streak = 1000000\n"));
    let url = format!("sqlite:{}", program.path("shop.db").display());
    let mut shop = SqliteConnection::connect(&url).await.unwrap();
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) \
                INSERT INTO outbox_messages (type, key, payload) SELECT 'order.created', 'k' || i, '{}' FROM n";
    sqlx::query(AssertSqlSafe(many)).execute(&mut shop).await.unwrap();
    shop.close().await.unwrap();
    let ran = program.run(&["run", "--once"]);
    assert_eq!(program.json(&["status"])["pipes"][0]["dead"], 1_000, "{ran:#?}");
    let dead = ran.stderr.lines().filter(|line| line.contains("dead: set aside"));
    let (sums, first): (Vec<&str>, Vec<&str>) =
        dead.partition(|line| line.contains("more like this in the last"));
    assert_eq!(first.len(), 1, "{}", ran.stderr);
    assert!(!sums.is_empty() && sums.len() < 20, "{}", ran.stderr);
    assert_eq!(sums.iter().map(|line| summed(line)).sum::<u64>(), 999, "{}", ran.stderr);
    assert!(sums.iter().all(|line| line.contains("pipe=\"relay\"") && line.contains(" WARN ")), "{sums:#?}");
}

#[test]
fn a8_where_nobody_looks_on_the_log_is_one_json_object_a_line() {
    let program = Program::migrated(RELAY);
    program.send("a");
    let ran = Program::finish(program.command(&["run", "--once"]).env_remove("OUTBOXD_LOG_FORMAT"));
    assert!(ran.stderr.lines().count() > 2, "{ran:#?}");
    for line in ran.stderr.lines() {
        let said: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(said["level"].is_string() && said["message"].is_string(), "{said}");
    }
}
