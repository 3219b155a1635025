//! `examples/ecommerce`, end to end: its own tables, configuration and producer, PostgreSQL and RabbitMQ.

mod claims;
mod deaths;
mod order;
mod sharing;

#[path = "../../../../examples/ecommerce/producer.rs"]
#[expect(dead_code, reason = "its main is for people")]
mod producer;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, PgConnection, PgPool};
use testbed::{Database, Proxy, Vhost};
use uuid::Uuid;

use crate::broker::{Arrived, Queue};
use crate::program::{PATIENCE, Program, Running};
use producer::{Outbox, create_order, save_event};

const SCHEMA: &str = include_str!("../../../../examples/ecommerce/schema.sql");

/// A test should not wait five seconds for every look.
const QUICK: (&str, &str) = ("poll = \"5s\"", "poll = \"50ms\"");

/// The queue audit, which has everything, has no events of this type.
const NOT_ARCHIVED: (&str, &str) =
    ("keys = [\"#\"]", "keys = [\"OrderCreated\", \"OrderPaid\", \"OrderShipped\"]");

fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ecommerce"))
}

/// The shop, with nothing in it yet.
struct Shop {
    database: Database,
    vhost: Vhost,
    pool: PgPool,
}

impl Shop {
    async fn open() -> Option<Self> {
        let (postgres, rabbitmq) = (testbed::postgres().await?, testbed::rabbitmq().await?);
        let (database, vhost) = (postgres.database().await.unwrap(), rabbitmq.vhost().await.unwrap());
        let pool = PgPool::connect(database.url()).await.unwrap();
        sqlx::raw_sql(SCHEMA).execute(&pool).await.unwrap();
        Some(Self { database, vhost, pool })
    }

    /// A copy of a file of the example, with changes; what is changed must be there.
    fn program(&self, file: &str, changes: &[(&str, &str)]) -> Program {
        self.program_at(self.vhost.url(), file, changes)
    }

    fn program_at(&self, rabbitmq: &str, file: &str, changes: &[(&str, &str)]) -> Program {
        let mut config = std::fs::read_to_string(folder().join(file)).unwrap();
        for (from, to) in changes {
            assert_eq!(config.matches(from).count(), 1, "{from}");
            config = config.replace(from, to);
        }
        Program::with(&config).env("DATABASE_URL", self.database.url()).env("RABBITMQ_URL", rabbitmq)
    }

    async fn proxy(&self) -> (Proxy, String) {
        let port = self.vhost.url().rsplit(':').next().unwrap().split('/').next().unwrap();
        let proxy = Proxy::to(("127.0.0.1", port.parse::<u16>().unwrap())).await.unwrap();
        let url = proxy.reroute(self.vhost.url()).unwrap();
        (proxy, url)
    }

    async fn audit(&self) -> Queue {
        Queue::open(self.vhost.url(), "audit").await
    }

    async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&self.pool).await.unwrap()
    }

    /// How many rows of the outbox are so.
    async fn count(&self, condition: &str) -> i64 {
        self.number(&format!(r#"select count(*) from "OutboxEvents" where {condition}"#)).await
    }

    async fn until(&self, condition: &str, expected: i64) {
        let sql = format!(r#"select count(*) from "OutboxEvents" where {condition}"#);
        self.until_number(&sql, expected).await;
    }

    async fn until_number(&self, sql: &str, expected: i64) {
        let start = Instant::now();
        loop {
            let found = self.number(sql).await;
            if found == expected {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{found} and not {expected}: {sql}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Writes so many steps for each of so many orders, all of it in one transaction; gives the ids of the events.
    async fn write(&self, outbox: Outbox, orders: usize, steps: usize) -> BTreeSet<String> {
        let mut tx = self.pool.begin().await.unwrap();
        let orders: Vec<Uuid> = (0..orders).map(|_| Uuid::new_v4()).collect();
        let ids = write_steps(&mut tx, outbox, &orders, 0..steps).await;
        tx.commit().await.unwrap();
        ids
    }
}

/// Writes steps for each of these orders; all orders have their first step before one has its second.
async fn write_steps(
    connection: &mut PgConnection,
    outbox: Outbox,
    orders: &[Uuid],
    steps: std::ops::Range<usize>,
) -> BTreeSet<String> {
    const TYPES: [&str; 3] = ["OrderCreated", "OrderPaid", "OrderShipped"];
    let mut ids = BTreeSet::new();
    for step in steps {
        for order in orders {
            let kind = TYPES[step % TYPES.len()];
            ids.insert(save_step(connection, outbox, *order, kind, step).await);
        }
    }
    ids
}

async fn save_step(
    connection: &mut PgConnection,
    outbox: Outbox,
    order: Uuid,
    kind: &str,
    step: usize,
) -> String {
    let data = json!({ "OrderId": order.to_string(), "Step": step });
    save_event(connection, outbox, order, kind, &data).await.unwrap().to_string()
}

fn running(program: &Program) -> Running {
    let mut relay = program.start(&["run"]);
    relay.wait_for("started");
    relay
}

fn body(arrived: &Arrived) -> Value {
    serde_json::from_slice(&arrived.body).unwrap()
}

/// The steps of each order, as they arrived.
fn histories(arrived: &[Arrived]) -> BTreeMap<String, Vec<u64>> {
    let mut histories = BTreeMap::<String, Vec<u64>>::new();
    for body in arrived.iter().map(body) {
        let order = body["OrderId"].as_str().unwrap().to_owned();
        histories.entry(order).or_default().push(body["Step"].as_u64().unwrap());
    }
    histories
}

/// Fails unless exactly these have arrived, each once.
fn assert_each_once(arrived: &[Arrived], ids: &BTreeSet<String>) {
    let mut counts = HashMap::<&str, usize>::new();
    arrived.iter().for_each(|one| *counts.entry(&one.id).or_default() += 1);
    let missing = ids.iter().filter(|id| !counts.contains_key(id.as_str())).count();
    let twice = counts.values().filter(|count| **count > 1).count();
    let strange = counts.keys().filter(|id| !ids.contains(**id)).count();
    assert_eq!((missing, twice, strange), (0, 0, 0), "missing, twice, strange, of {}", ids.len());
}

#[test]
fn the_configurations_are_valid_as_they_stand() {
    for file in ["outboxd.toml", "partitions.toml"] {
        let (program, path) = (Program::new(), folder().join(file));
        let mut command = program.command(&["validate", "--config", path.to_str().unwrap()]);
        let ran = Program::finish(command.env_remove("DATABASE_URL").env_remove("RABBITMQ_URL"));
        assert_eq!(ran.code, 0, "{ran:#?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c2_the_table_is_carried_as_it_is_in_batches_of_a_hundred() {
    let Some(shop) = Shop::open().await else { return };
    let (saga, spent, done) = (Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4());
    let mut tx = shop.pool.begin().await.unwrap();
    for _ in 0..249 {
        create_order(&mut tx, Outbox::Single).await.unwrap();
    }
    for (order, kind) in [(saga, "OrderPaid"), (spent, "OrderPaid"), (done, "OrderPaid")] {
        save_step(&mut tx, Outbox::Single, order, kind, 0).await;
    }
    for (set, order) in [
        (r#""SagaId" = "Id", "SagaStep" = 2"#, saga),
        (r#""RetryCount" = 3"#, spent),
        (r#""IsProcessed" = true"#, done),
    ] {
        let sql = format!(r#"update "OutboxEvents" set {set} where "EventData"->>'OrderId' = '{order}'"#);
        sqlx::query(AssertSqlSafe(sql)).execute(&mut *tx).await.unwrap();
    }
    tx.commit().await.unwrap();
    // The very file, not a copy.
    let file = folder().join("outboxd.toml");
    let program = shop.program("outboxd.toml", &[]);
    let _relay = program.start(&["run", "--config", file.to_str().unwrap()]);
    shop.until(r#""IsProcessed" and "ProcessedAt" is not null and "RetryCount" = 0"#, 250).await;
    assert_eq!(
        shop.count(r#"not "IsProcessed" and "RetryCount" = 3 and "ProcessingStartedAt" is null"#).await,
        1
    );
    assert_eq!(shop.count(r#""IsProcessed" and "ProcessedAt" is null"#).await, 1, "it was done before");
    let batches: Vec<i64> = sqlx::query_scalar(
        r#"select count(*) from "OutboxEvents" where "ProcessingStartedAt" is not null
           group by "ProcessingStartedAt" order by "ProcessingStartedAt""#,
    )
    .fetch_all(&shop.pool)
    .await
    .unwrap();
    assert_eq!(batches, [100, 100, 50]);
    let arrived = shop.audit().await.drain().await;
    assert_eq!(arrived.len(), 250);
    let created = arrived.iter().find(|one| one.routing_key == "OrderCreated").unwrap();
    assert_eq!(body(created)["TotalAmount"], json!(99.95));
    assert!(!created.headers.contains_key("x-saga-id"), "{created:?}");
    let paid = arrived.iter().find(|one| one.routing_key == "OrderPaid").unwrap();
    assert_eq!(paid.headers["x-saga-id"], paid.id);
    assert_eq!(paid.headers["x-saga-step"], "2");
    assert_eq!(body(paid)["OrderId"], saga.to_string());
    for (queue, count) in [("inventory", 249), ("payments", 249), ("notifications", 250)] {
        let arrived = Queue::open(shop.vhost.url(), queue).await.drain().await;
        assert_eq!(arrived.len(), count, "{queue}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c2_three_tries_are_the_end_until_a_person_asks_for_more() {
    let Some(shop) = Shop::open().await else { return };
    let quick = (QUICK.0, "poll = \"50ms\"\nretry_first = \"50ms\"\nretry_most = \"50ms\"");
    let program = shop.program("outboxd.toml", &[quick, NOT_ARCHIVED]);
    let mut tx = shop.pool.begin().await.unwrap();
    let id = save_step(&mut tx, Outbox::Single, Uuid::new_v4(), "OrderArchived", 0).await;
    tx.commit().await.unwrap();
    let mut relay = running(&program);
    relay.wait_for("NO_ROUTE");
    let spent = r#""RetryCount" = 3 and not "IsProcessed" and "ProcessingStartedAt" is null"#;
    shop.until(spent, 1).await;
    let listed = program.json(&["list", "--state", "dead"]);
    assert_eq!(listed["messages"][0]["id"], json!(id), "{listed}");
    let audit = shop.audit().await;
    audit.bind("shop.events", "OrderArchived").await;
    shop.write(Outbox::Single, 1, 1).await;
    shop.until(r#""IsProcessed""#, 1).await;
    assert_eq!(shop.count(spent).await, 1, "it is never selected again");
    assert_eq!(program.ok(&["retry", &id, "--yes"]), "1 message due again\n");
    shop.until(r#""IsProcessed""#, 2).await;
    assert_eq!(audit.drain().await.len(), 2);
}
