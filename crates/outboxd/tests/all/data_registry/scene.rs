//! The registry with its table, a Kafka, and what the tests ask of them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgPool};
use testbed::{Database, Kafka};

use super::FILE;
use super::producer::save_event;
use crate::program::{PATIENCE, Program, Running};

const SCHEMA: &str = include_str!("../../../../../examples/data-registry/schema.sql");

/// The registry, with nothing in it yet.
pub struct Registry {
    pub database: Database,
    pub kafka: &'static Kafka,
    pub pool: PgPool,
    /// A topic that is there.
    pub topic: String,
}

impl Registry {
    /// `None` without an Apache Kafka: a mock cluster makes every topic that it is asked for.
    pub async fn open() -> Option<Self> {
        let (postgres, kafka) = (testbed::postgres().await?, testbed::kafka().await?);
        if kafka.is_mock() {
            testbed::skip("this needs an Apache Kafka");
            return None;
        }
        let database = postgres.database().await.unwrap();
        let pool = PgPool::connect(database.url()).await.unwrap();
        sqlx::raw_sql(SCHEMA).execute(&pool).await.unwrap();
        let topic = kafka.topic(3).await.unwrap();
        Some(Self { database, kafka, pool, topic })
    }

    /// A copy of the example's file, with changes; what is changed must be there.
    pub fn program(&self, changes: &[(&str, &str)]) -> Program {
        let mut config = std::fs::read_to_string(FILE).unwrap();
        for (from, to) in changes {
            assert_eq!(config.matches(from).count(), 1, "{from}");
            config = config.replace(from, to);
        }
        let kafka = self.kafka.url();
        Program::with(&config).env("DATABASE_URL", self.database.url()).env("KAFKA_URL", &kafka)
    }

    /// Writes one event as the application does; gives its id.
    pub async fn write(&self, topic: &str, payload: &Value) -> String {
        let mut connection = self.pool.acquire().await.unwrap();
        save_event(&mut connection, topic, payload).await.unwrap()
    }

    /// Writes so many events to the topic that is there.
    pub async fn write_good(&self, count: usize) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        for number in 0..count {
            ids.insert(self.write(&self.topic, &json!({ "matchId": format!("m{number}") })).await);
        }
        ids
    }

    /// How many rows are so.
    pub async fn count(&self, condition: &str) -> i64 {
        let sql = format!(r#"select count(*) from "Outbox" where {condition}"#);
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&self.pool).await.unwrap()
    }

    pub async fn until(&self, condition: &str, expected: i64) {
        let start = Instant::now();
        loop {
            let found = self.count(condition).await;
            if found == expected {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{found} and not {expected}: {condition}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Status and retries of a row.
    pub async fn row(&self, id: &str) -> (String, i32) {
        let sql = r#"select "status"::text, "retries" from "Outbox" where "id" = $1"#;
        sqlx::query_as(sql).bind(id).fetch_one(&self.pool).await.unwrap()
    }

    /// The ids that a topic has, each as often as it is there.
    pub async fn arrived(&self, topic: &str, count: usize) -> Vec<String> {
        let records = self.kafka.records(topic, count).await.unwrap();
        records.iter().map(|record| record.header("ce_id").unwrap()).collect()
    }
}

pub fn running(program: &Program) -> Running {
    let mut relay = program.start(&["run"]);
    relay.wait_for("started");
    relay
}

/// Done, and says since when: in UTC, as Prisma writes it.
pub const PROCESSED: &str = r#""status" = 'PROCESSED'
    and "processedAt" between (now() at time zone 'UTC') - interval '5 minutes'
                          and (now() at time zone 'UTC') + interval '1 minute'"#;
