//! `doctor`: the upkeep of a log, of a file, and of the instances. Each is found, and not found where all is well.

use sqlx::{AssertSqlSafe, Connection as _, SqliteConnection};
use testbed::PgBouncer;

use crate::doctor::{findings, run_sql, the};
use crate::program::{Program, RELAY};

fn log(url: &str, more: &str) -> String {
    format!(
        "[connections]\nshop = \"{url}\"\n[sources.orders]\non = \"shop\"\n{more}\n\
         [sinks.screen]\nstdout = true\n[pipes.relay]\nfrom = \"orders\"\nto = \"screen\"\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_nobody_vacuums_or_that_lacks_an_index_is_found_with_the_statement() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    let program = Program::migrated(&log(database.url(), ""));
    let (code, found) = findings(&program, &["--deny-warnings"]);
    assert_eq!(code, 0, "{found:#?}");
    for what in ["vacuum", "old snapshots", "claim index", "session", "file limit", "instances", "versions"] {
        assert_eq!(the(&found, what)["level"], "ok", "{found:#?}");
    }
    run_sql(&database, "alter table outbox.parked set (autovacuum_enabled = off)").await;
    run_sql(&database, "drop index outbox.parked_due").await;
    let (_, found) = findings(&program, &[]);
    for what in ["vacuum", "claim index"] {
        let finding = the(&found, what);
        assert_eq!(finding["level"], "warning", "{finding:#}");
        run_sql(&database, finding["fix"].as_str().unwrap()).await;
    }
    let (code, found) = findings(&program, &["--deny-warnings"]);
    assert_eq!(code, 0, "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_that_a_pooler_swallows_is_found() {
    let Some(postgres) = testbed::postgres().await else { return };
    let Some(pooler) = testbed::available(PgBouncer::start(postgres).await) else { return };
    let database = postgres.database().await.unwrap();
    let program = Program::migrated(&log(database.url(), "notify = true"));
    assert_eq!(the(&findings(&program, &[]).1, "notify")["level"], "ok");
    let name = database.url().rsplit('/').next().unwrap().to_owned();
    let program = Program::with(&log(&pooler.url(&name), "notify = true"));
    let (_, found) = findings(&program, &[]);
    assert_eq!(the(&found, "notify")["level"], "warning", "{found:#?}");
    assert!(the(&found, "session")["evidence"].as_str().unwrap().contains("a pooler"), "{found:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_wal_or_with_old_tables_is_found() {
    let program = Program::migrated(RELAY);
    program.make_folder("out");
    let (_, found) = findings(&program, &["--deny-warnings"]);
    for what in ["journal", "disk", "tables"] {
        assert_eq!(the(&found, what)["level"], "ok", "{found:#?}");
    }
    let url = format!("sqlite:{}", program.path("shop.db").display());
    let mut database = SqliteConnection::connect(&url).await.unwrap();
    sqlx::query("PRAGMA journal_mode = DELETE").execute(&mut database).await.unwrap();
    sqlx::query("DELETE FROM outbox_migrations WHERE version > 1").execute(&mut database).await.unwrap();
    database.close().await.unwrap();
    let (_, found) = findings(&program, &["--source", "orders"]);
    assert_eq!(the(&found, "journal")["level"], "warning", "{found:#?}");
    let tables = the(&found, "tables");
    assert_eq!(
        (&tables["level"], &tables["fix"]),
        (&"failure".into(), &"outboxd migrate".into()),
        "{found:#?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_an_instance_that_is_gone_or_of_another_version_is_found() {
    let program = Program::migrated(RELAY);
    program.make_folder("out");
    let mut running = program.start(&["run"]);
    running.wait_for("outboxd is up");
    running.signal("TERM");
    assert_eq!(running.end().0, 0);
    let (_, found) = findings(&program, &[]);
    assert_eq!(the(&found, "instances")["evidence"], "nobody runs a pipe", "it stopped as it should");
    let url = format!("sqlite:{}", program.path("shop.db").display());
    let mut database = SqliteConnection::connect(&url).await.unwrap();
    let beat = |instance: &str, version: &str, ago: &str| {
        format!(
            "INSERT INTO outbox_beats (instance, pipe, version, started_at, state, delivered, failed, in_flight, beat_at)
             VALUES ('{instance}', 'relay', '{version}', '2026-01-31T12:00:00Z', 'running', 0, 0, 0,
                     strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{ago}'))"
        )
    };
    for sql in [beat("old:1", "0.0.1", "1 seconds"), beat("lost:2", "0.0.1", "10 minutes")] {
        sqlx::query(AssertSqlSafe(sql)).execute(&mut database).await.unwrap();
    }
    let (code, found) = findings(&program, &["--deny-warnings"]);
    assert_eq!(code, 6, "{found:#?}");
    let instances = the(&found, "instances")["evidence"].as_str().unwrap();
    assert!(instances.contains("offline: lost:2") && instances.contains("1 running: old:1"), "{instances}");
    let versions = the(&found, "versions")["evidence"].as_str().unwrap();
    assert!(versions.contains("old:1 has 0.0.1") && !versions.contains("lost:2"), "{versions}");
}

#[test]
fn a_limit_of_open_files_that_is_too_low_is_found() {
    let program = Program::migrated(RELAY);
    program.make_folder("out");
    let outboxd = program.command(&[]).get_program().to_owned();
    let limited = |limit: &str| {
        let mut command = std::process::Command::new("sh");
        let script = format!("ulimit -n {limit}; exec \"$0\" doctor --format json");
        command.args(["-c", &script]).arg(&outboxd).current_dir(program.path(""));
        let ran = Program::finish(&mut command);
        let told: serde_json::Value =
            serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:#?}"));
        the(told["findings"].as_array().unwrap(), "file limit").clone()
    };
    assert_eq!(limited("1024")["level"], "ok");
    let low = limited("50");
    assert_eq!(low["level"], "warning", "{low:#}");
    assert!(low["fix"].as_str().unwrap().starts_with("ulimit -n "), "{low:#}");
}
