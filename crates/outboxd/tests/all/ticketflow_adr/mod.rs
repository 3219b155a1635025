//! `examples/ticketflow-adr` against real servers: its own configurations, tables and producer. Requirements D1 to D6,
//! D9 and D10.

mod dispatch;
mod growth;
mod handlers;
#[cfg(feature = "kafka")]
mod kafka;
mod once;
#[allow(dead_code, reason = "its main is not ours")]
#[path = "../../../../../examples/ticketflow-adr/producer.rs"]
mod producer;
mod retries;
mod topology;

use std::time::{Duration, Instant};

use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgConnection};
use testbed::{Mail, RabbitMq, Smtp, Vhost};
use uuid::Uuid;

use crate::broker::Queue;
use crate::program::{PATIENCE, Program, Running};
use producer::Ticket;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ticketflow-adr");
const SCHEMA: &str = include_str!("../../../../../examples/ticketflow-adr/schema.sql");

/// The configurations of the example.
const FILES: [&str; 3] = ["outboxd.toml", "application.toml", "kafka.toml"];

/// Delays that a test can wait for.
const SOON: (&str, &str) = (r#"retry = ["1m", "5m", "15m"]"#, r#"retry = ["1s", "2s", "3s"]"#);

/// The system of one test: a database, a virtual host, a mail server, and the program with a file of the example.
struct Scene {
    program: Program,
    pool: PgPool,
    vhost: Vhost,
    post: &'static Smtp,
}

impl Scene {
    /// With `outboxd.toml` on the shared servers; `None` when there is no server to be had.
    async fn shared(changes: &[(&str, &str)]) -> Option<Self> {
        Self::of("outboxd.toml", changes).await
    }

    /// With a file of the example, and what is to be changed in it.
    async fn of(file: &str, changes: &[(&str, &str)]) -> Option<Self> {
        Self::at(testbed::rabbitmq().await?, file, changes).await
    }

    /// On a broker of the test's own.
    async fn at(broker: &RabbitMq, file: &str, changes: &[(&str, &str)]) -> Option<Self> {
        let (database, post) = (testbed::postgres().await?, testbed::smtp().await?);
        let (database, vhost) = (database.database().await.unwrap(), broker.vhost().await.unwrap());
        let pool = PgPoolOptions::new().max_connections(4).connect(database.url()).await.unwrap();
        sqlx::raw_sql(SCHEMA).execute(&pool).await.unwrap();
        let program = Program::with(&changed(file, changes))
            .env("DATABASE_URL", database.url())
            .env("RABBITMQ_URL", vhost.url())
            .env("SMTP_URL", &format!("smtp://127.0.0.1:{}", post.open_port()))
            .env("LISTEN", "127.0.0.1:0");
        Some(Self { program, pool, vhost, post })
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

    async fn session(&self) -> sqlx::pool::PoolConnection<sqlx::Postgres> {
        self.pool.acquire().await.unwrap()
    }

    /// A new ticket, whose events go to this person; gives the id of its event.
    async fn create(&self, notify: &str) -> Uuid {
        let mut session = self.session().await;
        Ticket::new("Printer", notify).create(&mut session).await.unwrap()
    }

    /// So many events in one transaction, whoever hears of them.
    async fn create_at_once(&self, count: usize) {
        let mut tx = self.pool.begin().await.unwrap();
        save_events(&mut tx, count).await;
        tx.commit().await.unwrap();
    }

    async fn execute(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.pool).await.unwrap();
    }

    async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&self.pool).await.unwrap()
    }

    /// Waits until a query gives this number.
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

    /// Waits until a query says yes.
    async fn until_true(&self, sql: &str) {
        self.until(&format!("select ({sql})::int::bigint"), 1).await;
    }

    /// Waits until nothing is to be dispatched.
    async fn until_dispatched(&self) {
        self.until(r#"select count(*) from "Outbox" where "DispatchedAt" is null"#, 0).await;
    }

    /// Waits until a consumer has handled so many.
    async fn until_processed(&self, consumer: &str, count: i64) {
        let sql = format!(r#"select count(*) from "ProcessedEvents" where "Consumer" = '{consumer}'"#);
        self.until(&sql, count).await;
    }

    /// Waits until somebody has so many letters.
    async fn until_mails(&self, recipient: &str, count: usize) -> Vec<Mail> {
        let began = Instant::now();
        loop {
            let mails = self.post.mails(recipient).unwrap();
            if mails.len() == count {
                return mails;
            }
            assert!(began.elapsed() < PATIENCE, "{} letters and not {count}", mails.len());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn queue(&self, name: &str) -> Queue {
        Queue::open(self.vhost.url(), name).await
    }

    /// Waits until a queue has so many messages that nobody has.
    async fn until_queue(&self, name: &str, count: u32) {
        Queue::until(self.vhost.url(), name, count).await;
    }
}

async fn save_events(connection: &mut PgConnection, count: usize) {
    let ticket = Ticket::new("Printer", &somebody("many"));
    for _ in 0..count {
        ticket.save_event(connection, producer::CREATED, "open").await.unwrap();
    }
}

/// A recipient that no other test has; what the mail server does with a letter, the name decides.
fn somebody(name: &str) -> String {
    format!("{name}@{}.example", Uuid::new_v4().simple())
}

/// A file of the example with some of it changed, wherever it stands.
fn changed(file: &str, changes: &[(&str, &str)]) -> String {
    let mut config = std::fs::read_to_string(format!("{FOLDER}/{file}")).unwrap();
    for (from, to) in changes {
        assert!(config.contains(from), "{file} has no {from}");
        config = config.replace(from, to);
    }
    config
}

/// Ends the program with SIGTERM; it must leave cleanly. Gives what it said.
fn stop(running: Running) -> String {
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
    said
}

/// Also in a build that has no Kafka.
#[test]
fn the_files_are_valid_as_they_stand() {
    for file in FILES {
        let program = Program::new();
        let mut command = program.command(&["validate", "--config", &format!("{FOLDER}/{file}")]);
        for variable in ["DATABASE_URL", "RABBITMQ_URL", "KAFKA_URL", "SMTP_URL", "LISTEN"] {
            command.env_remove(variable);
        }
        let ran = Program::finish(&mut command);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{file}: {ran:#?}");
    }
}
