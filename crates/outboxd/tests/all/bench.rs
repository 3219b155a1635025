//! `bench`: every scenario runs on every pair, and tells what it should. Never how fast: machines differ.

use std::time::Duration;

use serde_json::Value;

use crate::program::Program;

/// As little as shows that it works.
const SMALL: [&str; 12] =
    ["--messages", "300", "--seconds", "1", "--rate", "50", "--rounds", "1", "--seed", "7", "--keys", "20"];

/// Runs scenarios and gives the report.
fn bench(program: &Program, config: Option<&str>, scenarios: &str) -> Value {
    let mut args = vec!["bench", "--scenario", scenarios];
    args.extend(SMALL);
    args.extend(["--backlog", "600", "--history", "700"]);
    args.extend(config.into_iter().flat_map(|config| ["--config", config]));
    let report = program.json(&args);
    assert_eq!(report["seed"], 7, "{report:#}");
    assert!(report["cores"].as_u64().is_some_and(|cores| cores > 0), "{report:#}");
    report
}

/// The runs of a scenario, by what ran, with how many messages each carried.
fn runs(report: &Value, scenario: &str, sink: &str) -> Vec<(String, u64)> {
    let scenes = report["scenarios"].as_array().unwrap();
    let scene = scenes.iter().find(|scene| scene["scenario"] == scenario && scene["sink"] == sink);
    let scene = scene.unwrap_or_else(|| panic!("no {scenario} to {sink}: {report:#}"));
    let runs = scene["runs"].as_array().unwrap().iter();
    runs.map(|run| (run["what"].as_str().unwrap().to_owned(), run["messages"].as_u64().unwrap())).collect()
}

/// The figure of a run whose name begins so.
fn figure<'r>(report: &'r Value, scenario: &str, sink: &str, what: &str, name: &str) -> &'r Value {
    let scenes = report["scenarios"].as_array().unwrap();
    let scene = scenes.iter().find(|scene| scene["scenario"] == scenario && scene["sink"] == sink).unwrap();
    let run = scene["runs"].as_array().unwrap().iter();
    let run = run.into_iter().find(|run| run["what"].as_str().unwrap().starts_with(what));
    let figure = run.unwrap_or_else(|| panic!("no {what}: {scene:#}")).pointer(name);
    figure.unwrap_or_else(|| panic!("no {name} of {what}: {scene:#}"))
}

fn is_positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|value| value > 0.0)
}

#[test]
fn on_sqlite_every_scenario_tells_its_figures() {
    let program = Program::new();
    let report = bench(&program, None, "drain,steady,consumer,enqueue,idle,backlog,history,blocked,mapped");
    let drain = runs(&report, "drain", "file");
    assert!(drain.contains(&("outboxd".to_owned(), 300)), "{drain:?}");
    assert!(drain.contains(&("lines from memory, synced".to_owned(), 300)), "{drain:?}");
    assert!(is_positive(figure(&report, "drain", "file", "outboxd", "/per_second")), "{report:#}");
    assert!(is_positive(figure(&report, "drain", "file", "outboxd", "/ratio_to_limit")), "{report:#}");
    assert!(is_positive(figure(&report, "drain", "file", "outboxd", "/peak_memory_kib")), "{report:#}");
    assert!(figure(&report, "drain", "file", "outboxd", "/cpu_seconds_per_million/database").is_null());
    assert_eq!(runs(&report, "steady", "file"), [("outboxd".to_owned(), 50)]);
    let latency = figure(&report, "steady", "file", "outboxd", "/latency_ms");
    let [p50, p99] = ["p50", "p99"].map(|name| latency[name].as_f64().unwrap());
    assert!(p50 <= p99, "{latency}");
    assert_eq!(runs(&report, "consumer", "file").len(), 3);
    assert!(is_positive(figure(&report, "consumer", "file", "outboxd", "/ratio_to_limit")));
    assert_eq!(runs(&report, "enqueue", "-").iter().map(|(_, count)| count).collect::<Vec<_>>(), [&15; 3]);
    assert!(figure(&report, "idle", "file", "outboxd", "/core_percent/ours").is_number());
    let backlog = runs(&report, "backlog", "file");
    assert_eq!(backlog[0], ("300 waiting".to_owned(), 300));
    assert!(backlog[1].0 == "600 waiting" && backlog[1].1 >= 300, "{backlog:?}");
    assert_eq!(runs(&report, "history", "file")[1], ("a log that has held 700".to_owned(), 300));
    let blocked = runs(&report, "blocked", "http");
    assert!(blocked[0].1 == 0 && blocked[1].1 > 0, "{blocked:?}");
    let left_out = report["left_out"].as_array().unwrap();
    assert!(left_out[0].as_str().unwrap().contains("a mapped table is in PostgreSQL"), "{left_out:?}");
    assert!(!report["goals"].as_array().unwrap().is_empty(), "{report:#}");
}

#[test]
fn what_takes_long_tells_how_far_it_has_come() {
    let program = Program::new();
    let mut args = vec!["bench", "--scenario", "history,backlog", "--history", "700", "--backlog", "600"];
    args.extend(SMALL);
    let run = program.run(&args);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for words in
        ["700 of 700 were written, carried and removed", "writing 600 messages, of which 300 will be carried"]
    {
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
}

#[test]
fn people_get_a_table() {
    let program = Program::new();
    let mut args = vec!["bench", "--scenario", "idle"];
    args.extend(SMALL);
    let table = program.ok(&args);
    assert!(table.contains("seed 7") && table.contains("SCENARIO"), "{table}");
    assert!(table.contains("% of a core"), "{table}");
}

/// A configuration with these connections and nothing else.
fn connections(database: &str, broker: Option<&str>) -> String {
    let broker = broker.map(|url| format!("broker = \"{url}\"\n")).unwrap_or_default();
    format!("[connections]\ndatabase = \"{database}\"\n{broker}")
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_and_rabbitmq_every_scenario_tells_its_figures_and_nothing_stays_behind() {
    let Some(postgres) = testbed::postgres().await else { return };
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let (database, vhost) = (postgres.database().await.unwrap(), rabbitmq.vhost().await.unwrap());
    let program = Program::with(&connections(database.url(), Some(vhost.url())));
    let report = bench(
        &program,
        Some("outboxd.toml"),
        "drain,steady,consumer,enqueue,idle,mapped,backlog,history,blocked",
    );
    for sink in ["rabbitmq quorum", "rabbitmq classic"] {
        let drain = runs(&report, "drain", sink);
        assert!(drain.contains(&("outboxd".to_owned(), 300)), "{drain:?}");
        assert!(drain.contains(&("raw lapin from memory".to_owned(), 300)), "{drain:?}");
        assert!(is_positive(figure(&report, "drain", sink, "outboxd", "/ratio_to_limit")), "{report:#}");
        assert!(is_positive(figure(&report, "drain", sink, "outboxd", "/ratio_to_loop")), "{report:#}");
        assert!(is_positive(figure(&report, "drain", sink, "outboxd", "/wal_bytes_per_message")));
        assert!(figure(&report, "drain", sink, "outboxd", "/dead_tuples_per_message").is_number());
        assert!(figure(&report, "drain", sink, "outboxd", "/cpu_seconds_per_million/broker").is_number());
        let steady = [("raw lapin from memory, one by one", 50), ("outboxd", 50)];
        assert_eq!(runs(&report, "steady", sink), steady.map(|(what, count)| (what.to_owned(), count)));
        assert_eq!(runs(&report, "consumer", sink)[1], ("outboxd, sql with an inbox".to_owned(), 300));
        assert_eq!(runs(&report, "mapped", sink)[1], ("outboxd, preset ticketflow".to_owned(), 300));
        assert!(is_positive(figure(&report, "mapped", sink, "outboxd", "/ratio_to_loop")));
        assert_eq!(runs(&report, "backlog", sink)[0], ("300 waiting".to_owned(), 300));
        assert_eq!(runs(&report, "history", sink)[1], ("a log that has held 700".to_owned(), 300));
        assert_eq!(runs(&report, "blocked", sink)[0], ("while it takes nothing".to_owned(), 0));
    }
    let left = rabbitmq.ctl(&["-q", "list_queues", "-p", vhost.name(), "name"]).await.unwrap();
    assert!(!left.contains("outboxd-bench"), "{left}");
    let schemas = "select count(*) from pg_namespace where nspname in ('outbox', 'outboxd_bench')";
    let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(database.url()).await.unwrap();
    let schemas: i64 = sqlx::Row::get(&sqlx::query(schemas).fetch_one(&mut connection).await.unwrap(), 0);
    assert_eq!(schemas, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_notifies_is_notified() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    let program = Program::with(&connections(database.url(), None));
    let mut args = vec!["bench", "--config", "outboxd.toml", "--scenario", "steady"];
    args.extend(SMALL);
    args.extend(["--source", "notify = true"]);
    let mut listener = sqlx::postgres::PgListener::connect(database.url()).await.unwrap();
    listener.listen("outbox").await.unwrap();
    let report = tokio::task::block_in_place(|| program.json(&args));
    assert_eq!(runs(&report, "steady", "file"), [("outboxd".to_owned(), 50)]);
    let told = tokio::time::timeout(Duration::from_secs(10), listener.recv()).await;
    told.expect("writers wake readers").unwrap();
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_and_kafka_every_scenario_tells_its_figures() {
    let Some(postgres) = testbed::postgres().await else { return };
    let Some(kafka) = testbed::kafka().await else { return };
    if kafka.is_mock() {
        return testbed::skip("this needs an Apache Kafka");
    }
    let database = postgres.database().await.unwrap();
    let program = Program::with(&connections(database.url(), Some(&kafka.url())));
    let report =
        bench(&program, Some("outboxd.toml"), "drain,steady,consumer,idle,mapped,backlog,history,blocked");
    let drain = runs(&report, "drain", "kafka");
    assert!(drain.contains(&("outboxd".to_owned(), 300)), "{drain:?}");
    assert!(drain.contains(&("raw rdkafka from memory".to_owned(), 300)), "{drain:?}");
    assert!(is_positive(figure(&report, "drain", "kafka", "outboxd", "/ratio_to_limit")), "{report:#}");
    assert!(is_positive(figure(&report, "drain", "kafka", "outboxd", "/ratio_to_loop")), "{report:#}");
    let steady = [("raw rdkafka from memory, one by one", 50), ("outboxd", 50)];
    assert_eq!(runs(&report, "steady", "kafka"), steady.map(|(what, count)| (what.to_owned(), count)));
    assert_eq!(runs(&report, "consumer", "kafka")[1], ("outboxd, sql with an inbox".to_owned(), 300));
    assert_eq!(runs(&report, "mapped", "kafka")[1], ("outboxd, preset prisma".to_owned(), 300));
    let left_out = report["left_out"].to_string();
    assert!(left_out.contains("blocked from postgres to kafka"), "{left_out}");
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread")]
async fn kafka_is_blocked_by_a_proxy_at_the_address_that_it_announces() {
    let Some(postgres) = testbed::postgres().await else { return };
    let Some(kafka) = testbed::available(testbed::Kafka::start_behind().await) else { return };
    let (url, announced) = kafka.behind().unwrap();
    let database = postgres.database().await.unwrap();
    let program = Program::with(&connections(database.url(), Some(&url)));
    let proxy = announced.to_string();
    // So many that some of them still wait when the proxy shuts.
    let args = ["bench", "--config", "outboxd.toml", "--scenario", "blocked", "--kafka-proxy", &proxy];
    let report = program.json(&[args.as_slice(), &["--messages", "20000", "--seconds", "1"]].concat());
    let blocked = runs(&report, "blocked", "kafka");
    assert!(blocked[0].1 == 0 && blocked[1].1 > 0, "{blocked:?}");
}

#[test]
fn what_was_measured_is_told_when_it_ends_before_its_time() {
    let program = Program::new();
    let args =
        ["bench", "--format", "json", "--scenario", "enqueue,idle", "--messages", "300", "--rounds", "1"];
    let mut running = program.start(&[args.as_slice(), &["--seconds", "3600"]].concat());
    running.wait_for("idle from sqlite");
    running.signal("INT");
    let ended = running.end_with_data();
    assert_eq!(ended.code, 130, "{ended:#?}");
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(runs(&report, "enqueue", "-").len(), 3, "{report:#}");
    assert_eq!(report["scenarios"].as_array().unwrap().len(), 1, "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_empty_is_refused_unless_it_may_be_destroyed() {
    let Some(postgres) = testbed::postgres().await else { return };
    let database = postgres.database().await.unwrap();
    let program = Program::with(&connections(database.url(), None));
    let mut connection = <sqlx::PgConnection as sqlx::Connection>::connect(database.url()).await.unwrap();
    sqlx::raw_sql("create table orders (id int)").execute(&mut connection).await.unwrap();
    let mut args = vec!["--config", "outboxd.toml", "bench", "--scenario", "idle"];
    args.extend(SMALL);
    let refused = program.run(&args);
    let (error, help) = refused.only_error(2);
    assert!(
        error.contains("there is the table public.orders") && help.contains("--yes-destroy"),
        "{refused:#?}"
    );
    args.push("--yes-destroy");
    program.ok(&args);
    sqlx::raw_sql("select * from orders").execute(&mut connection).await.unwrap();
}

#[test]
fn a_configuration_without_a_database_is_refused() {
    let program = Program::with("[connections]\nbroker = \"amqp://localhost\"\n");
    let refused = program.run(&["--config", "outboxd.toml", "bench"]);
    assert!(refused.only_error(2).0.contains("has no connection to a database"), "{refused:#?}");
    let refused = program.run(&["bench", "--kafka-proxy", "127.0.0.1:1"]);
    assert!(refused.only_error(2).0.contains("--kafka-proxy without Kafka"), "{refused:#?}");
}
