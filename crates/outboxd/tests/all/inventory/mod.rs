//! `examples/inventory` against real servers: its own configuration and tables. Requirements E1 to E5 and E7.

mod bad_input;
mod consumer;
mod publisher;
mod whole_way;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgPool, PgPoolOptions};
use testbed::{RabbitMq, Vhost};
use uuid::Uuid;

use crate::broker::{Queue, Sender, headers};
use crate::program::{PATIENCE, Program, Running};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/inventory/outboxd.toml");
const CONFIG: &str = include_str!("../../../../../examples/inventory/outboxd.toml");
const INVENTORY: &str = include_str!("../../../../../examples/inventory/inventory.sql");
const NOTIFICATION: &str = include_str!("../../../../../examples/inventory/notification.sql");

const QUEUE: &str = "product-created-queue";
const ERROR_QUEUE: &str = "product-created-queue_error";

/// Delays that a test can wait for.
const SOON: (&str, &str) = (r#"retry = ["5s", "5s"]"#, r#"retry = ["1s", "1s"]"#);

/// The system of one test: two databases, a virtual host, and the program with the file of the example.
struct Scene {
    program: Program,
    inventory: PgPool,
    notification: PgPool,
    vhost: Vhost,
}

impl Scene {
    /// On the shared servers, with what is to be changed in the file; `None` when there is no server to be had.
    async fn shared(changes: &[(&str, &str)]) -> Option<Self> {
        Self::at(testbed::rabbitmq().await?, changes).await
    }

    /// On a broker of the test's own.
    async fn at(broker: &RabbitMq, changes: &[(&str, &str)]) -> Option<Self> {
        let postgres = testbed::postgres().await?;
        let vhost = broker.vhost().await.unwrap();
        let (inventory, inventory_url) = database(postgres, INVENTORY).await;
        let (notification, notification_url) = database(postgres, NOTIFICATION).await;
        let mut config = CONFIG.to_owned();
        for (from, to) in changes {
            assert_eq!(config.matches(from).count(), 1, "{from}");
            config = config.replace(from, to);
        }
        let program = Program::with(&config)
            .env("INVENTORY_URL", &inventory_url)
            .env("NOTIFICATION_URL", &notification_url)
            .env("RABBITMQ_URL", vhost.url())
            .env("LISTEN", "127.0.0.1:0");
        program.ok(&["migrate"]);
        Some(Self { program, inventory, notification, vhost })
    }

    /// Runs these pipes; all of them have started when this returns.
    fn run(&self, pipes: &[&str]) -> Running {
        let mut args = vec!["run"];
        pipes.iter().for_each(|pipe| args.extend(["--pipe", pipe]));
        let mut running = self.program.start(&args);
        for _ in pipes {
            running.wait_for("started pipe");
        }
        running
    }

    /// Runs the consumer, and returns when its queue is there.
    async fn consume(&self) -> Running {
        let running = self.run(&["consume"]);
        self.until_queue(QUEUE, 0).await;
        running
    }

    /// Publishes a product as somebody does who knows nothing of outboxd.
    async fn publish(&self, product: &Value) -> Uuid {
        let id = Uuid::new_v4();
        let sender = Sender::open(self.vhost.url()).await;
        let properties = headers(&[("x-event-id", &id.to_string())]);
        let body = product.to_string();
        sender.publish("inventory_exchange", "product.created", properties, body.as_bytes()).await;
        id
    }

    async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&self.notification).await.unwrap()
    }

    /// Waits until a query of the worker's database gives this number.
    async fn until(&self, sql: &str, expected: i64) {
        let began = Instant::now();
        loop {
            let found = self.number(sql).await;
            if found == expected {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{found} and not {expected}: {sql}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until so many messages were handled.
    async fn until_handled(&self, count: i64) {
        self.until(r#"select count(*) from "InventoryEventLogs""#, count).await;
    }

    /// Waits until so many errors were written down.
    async fn until_errors(&self, count: i64) {
        self.until(r#"select count(*) from "ErrorLogs""#, count).await;
    }

    async fn until_queue(&self, name: &str, count: u32) {
        Queue::until(self.vhost.url(), name, count).await;
    }

    async fn queue(&self, name: &str) -> Queue {
        Queue::open(self.vhost.url(), name).await
    }
}

async fn database(postgres: &testbed::Postgres, schema: &'static str) -> (PgPool, String) {
    let database = postgres.database().await.unwrap();
    let pool = PgPoolOptions::new().max_connections(2).connect(database.url()).await.unwrap();
    sqlx::raw_sql(schema).execute(&pool).await.unwrap();
    (pool, database.url().to_owned())
}

/// A product; a price that is not above zero is one that the consumer cannot write down.
fn product(name: &str, price: f64) -> Value {
    json!({ "productId": Uuid::new_v4().to_string(), "name": name, "price": price })
}

/// Ends the program with SIGTERM; it must leave cleanly. Gives what it said.
fn stop(running: Running) -> String {
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
    said
}

#[test]
fn the_file_is_valid_as_it_stands() {
    let program = Program::new();
    let mut command = program.command(&["validate", "--config", FILE]);
    for variable in ["INVENTORY_URL", "NOTIFICATION_URL", "RABBITMQ_URL", "LISTEN", "TOKEN"] {
        command.env_remove(variable);
    }
    let ran = Program::finish(&mut command);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:#?}");
}
