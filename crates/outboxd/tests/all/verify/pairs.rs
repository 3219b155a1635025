//! A short run on each pair of servers, 210 kills in all, each with every fault that is possible there.
//!
//! `OUTBOX_KILLS` sets how many relays are killed in all.

use super::{count, holds, run};
use crate::program::Program;

/// This part of the kills.
fn kills(of_thousand: u64) -> String {
    let all: u64 = std::env::var("OUTBOX_KILLS").ok().map_or(210, |all| all.parse().unwrap());
    (all * of_thousand).div_ceil(1000).to_string()
}

fn verify(program: &Program, kills: &str, flags: &[&str]) -> serde_json::Value {
    let mut args = vec!["--kills", kills, "--rate", "100"];
    args.extend(flags);
    let report = holds(&run(program, &args));
    assert!(count(&report, "kills") >= kills.parse().unwrap(), "{report:#}");
    report
}

#[test]
fn d3_on_sqlite_nothing_is_lost_whatever_breaks() {
    let report = verify(&Program::new(), &kills(400), &[]);
    assert_eq!((&report["database"], &report["broker"]), (&"sqlite".into(), &serde_json::Value::Null));
    assert!(report["left_out"].to_string().contains("database-cut"), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_on_postgres_with_rabbitmq_nothing_is_lost_whatever_breaks() {
    let Some(postgres) = testbed::postgres().await else { return };
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let (database, vhost) = (postgres.database().await.unwrap(), rabbitmq.vhost().await.unwrap());
    let config = format!("[connections]\nshop = \"{}\"\nrabbit = \"{}\"\n", database.url(), vhost.url());
    let program = Program::with(&config);
    let report = verify(&program, &kills(300), &["--config", "outboxd.toml"]);
    for fault in
        ["database-cut", "database-freeze", "broker-cut", "broker-freeze", "unbind", "column", "clock"]
    {
        assert!(report["faults"][fault].as_u64() > Some(0), "{fault}: {report:#}");
    }
    // It cleans up after itself: nothing is left of it.
    let queues = rabbitmq.ctl(&["list_queues", "-q", "-p", vhost.name(), "name"]).await.unwrap();
    let exchanges = rabbitmq.ctl(&["list_exchanges", "-q", "-p", vhost.name(), "name"]).await.unwrap();
    assert!(
        !queues.contains("outboxd-verify") && !exchanges.contains("outboxd-verify"),
        "{queues}{exchanges}"
    );
    let pool = sqlx::PgPool::connect(database.url()).await.unwrap();
    let tables =
        "select count(*) from pg_tables where schemaname not in ('pg_catalog', 'information_schema')";
    assert_eq!(sqlx::query_scalar::<_, i64>(tables).fetch_one(&pool).await.unwrap(), 0);
}

#[cfg(feature = "kafka")]
#[tokio::test(flavor = "multi_thread")]
async fn d3_on_postgres_with_kafka_nothing_is_lost_whatever_breaks() {
    let Some(postgres) = testbed::postgres().await else { return };
    // Not the shared one: its clients go to the address that it announces, and there the proxy must be.
    let Some(kafka) = testbed::available(testbed::Kafka::start_behind().await) else { return };
    let (url, announced) = kafka.behind().unwrap();
    let database = postgres.database().await.unwrap();
    let config = format!("[connections]\nshop = \"{}\"\nkafka = \"{url}\"\n", database.url());
    let program = Program::with(&config);
    let flags = ["--config", "outboxd.toml", "--kafka-proxy", &announced.to_string()];
    let report = verify(&program, &kills(300), &flags);
    assert_eq!(report["broker"], "kafka");
    for fault in ["database-cut", "broker-cut", "broker-freeze", "broker-slow", "broker-cut-after", "clock"] {
        assert!(report["faults"][fault].as_u64() > Some(0), "{fault}: {report:#}");
    }
}
