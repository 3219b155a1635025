//! What the log of `run` says when the same goes wrong again and again.

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use crate::program::{Program, RELAY};

/// Every line is an object.
fn objects(log: &str) -> Vec<Value> {
    let object = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    log.lines().map(object).collect()
}

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
    for said in objects(&ran.stderr) {
        assert!(said["level"].is_string() && said["message"].is_string(), "{said}");
    }
}

#[cfg(feature = "failpoints")]
#[test]
fn a8_a_panic_is_one_object_of_the_log_too() {
    let program = Program::migrated(RELAY);
    program.send("a");
    let mut command = program.command(&["run"]);
    command.env_remove("OUTBOXD_LOG_FORMAT").env("OUTBOX_FAILPOINTS", "delivering=panic");
    let mut running = Program::begin(command.env("RUST_BACKTRACE", "1"));
    running.wait_for("a pipe ended by a bug");
    running.signal("TERM");
    let said = objects(&running.end().1);
    let is_of_panic = |line: &&Value| line["message"].as_str().unwrap().contains("panicked at");
    let told: Vec<_> = said.iter().filter(is_of_panic).collect();
    assert_eq!(told.len(), 1, "{said:#?}");
    let [level, message, thread] = ["level", "message", "thread"].map(|name| told[0][name].as_str().unwrap());
    assert_eq!(level, "ERROR");
    assert!(message.contains(".rs:") && message.contains("delivering"), "{message}");
    assert!(!thread.is_empty() && told[0]["backtrace"].is_string(), "{told:#?}");
}

/// How many a line says were delivered, failed and skipped.
fn counts(line: &str) -> [u64; 3] {
    ["delivered", "failed", "skipped"].map(|name| {
        let (_, count) = line.split_once(&format!(" {name}=")).unwrap_or_else(|| panic!("{line}"));
        count.split_whitespace().next().unwrap().parse().unwrap()
    })
}

#[test]
fn a8_a_busy_interval_is_one_line_with_what_came_of_it_and_an_idle_pipe_says_nothing() {
    let program = Program::migrated(RELAY);
    program.make_folder("out");
    (0..50).for_each(|n| drop(program.send(&format!("k{n}"))));
    let mut running = program.start(&["run"]);
    let first = running.wait_for(" cycle ");
    assert_eq!((counts(&first), first.contains("pipe=\"relay\"")), ([50, 0, 0], true), "{first}");
    // Idle meanwhile, and then one that nobody can write down.
    std::fs::remove_dir_all(program.path("out")).unwrap();
    program.write("out", "");
    program.send("later");
    let second = running.wait_for(" cycle ");
    assert_eq!(counts(&second), [0, 1, 0], "{second}");
    assert!(second.contains(" cause="), "{second}");
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
    assert_eq!(said.matches(" cycle ").count(), 2, "{said}");
}
