//! `examples/ticketflow` against real servers: its own configuration, tables and producer. Requirements A1 to A10.

mod claims;
mod crash;
mod cycle;
mod lock;
mod monitoring;
mod outcome;
#[allow(dead_code, reason = "its main is not ours")]
#[path = "../../../../../examples/ticketflow/producer.rs"]
mod producer;
mod publishing;
mod scenarios;

use std::time::{Duration, Instant};

use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{Connection, PgConnection, Row};
use testbed::{RabbitMq, Vhost};
use uuid::Uuid;

use crate::broker::Queue;
use crate::program::{PATIENCE, Program, Running};
use producer::Event;

const CONFIG: &str = include_str!("../../../../../examples/ticketflow/outboxd.toml");
const SCHEMA: &str = include_str!("../../../../../examples/ticketflow/schema.sql");

/// Changes to the file, for tests that must not wait for seconds.
const QUICK: [(&str, &str); 3] = [
    ("poll = \"5s\"", "poll = \"20ms\""),
    ("retry_first = \"5s\"", "retry_first = \"50ms\""),
    ("retry_most = \"5s\"", "retry_most = \"50ms\""),
];

/// The rule of the document.
const COUNT: [(&str, &str); 1] = [("# outage = \"count\"", "outage = \"count\"")];

/// A type that no queue wants.
const UNROUTED: &str = "TicketFlow.Domain.Events.InvoiceSentEvent";

/// The system of one test: a database, a virtual host, and the program with the example's configuration.
struct Scene {
    program: Program,
    pool: PgPool,
    database: String,
    vhost: Vhost,
}

/// A row of "OutboxMessages", as far as outboxd changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    dispatched: bool,
    processed: bool,
    attempts: i32,
    error: Option<String>,
}

impl Scene {
    /// On the shared servers, with what is to be changed in the file; `None` when there is no server to be had.
    async fn shared(changes: &[(&str, &str)]) -> Option<Self> {
        Self::at(testbed::rabbitmq().await?, changes).await
    }

    /// On a broker of the test's own.
    async fn at(broker: &RabbitMq, changes: &[(&str, &str)]) -> Option<Self> {
        let database = testbed::postgres().await?.database().await.unwrap().url().to_owned();
        let vhost = broker.vhost().await.unwrap();
        let pool = PgPoolOptions::new().max_connections(4).connect(&database).await.unwrap();
        sqlx::raw_sql(SCHEMA).execute(&pool).await.unwrap();
        let program =
            Program::with(&changed(changes)).env("DATABASE_URL", &database).env("RABBITMQ_URL", vhost.url());
        Some(Self { program, pool, database, vhost })
    }

    /// Starts a relay; it is up when this returns.
    fn run(&self) -> Running {
        let mut running = self.program.start(&["run"]);
        running.wait_for("started");
        running
    }

    /// Starts a relay and waits until it has the lock.
    fn run_active(&self) -> Running {
        let mut running = self.run();
        running.wait_for("this relay is the active one");
        running
    }

    /// Starts a relay that gets to a server in another way, and waits until it has the lock.
    fn run_by(&self, variable: &str, url: &str) -> Running {
        let mut running = Program::begin(self.program.command(&["run"]).env(variable, url));
        running.wait_for("this relay is the active one");
        running
    }

    /// A session of somebody else.
    async fn session(&self) -> PgConnection {
        PgConnection::connect(&self.database).await.unwrap()
    }

    async fn insert(&self, event: &Event) -> Uuid {
        event.insert(&mut self.pool.acquire().await.unwrap()).await.unwrap();
        event.id
    }

    /// Writes so many tickets as the application would; gives their events.
    async fn create(&self, tickets: usize) -> Vec<Event> {
        let mut session = self.pool.acquire().await.unwrap();
        let mut events = Vec::new();
        for number in 0..tickets {
            events.push(producer::create(&mut session, &format!("Ticket {number}")).await.unwrap().1);
        }
        events
    }

    /// Writes so many events in one transaction.
    async fn create_at_once(&self, count: usize) {
        let mut tx = self.pool.begin().await.unwrap();
        for _ in 0..count {
            event(producer::CREATED, 0).insert(&mut tx).await.unwrap();
        }
        tx.commit().await.unwrap();
    }

    async fn execute(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.pool).await.unwrap();
    }

    async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.pool).await.unwrap()
    }

    /// Waits until a query says yes.
    async fn until(&self, sql: &'static str) {
        let began = Instant::now();
        while !sqlx::query_scalar::<_, bool>(sql).fetch_one(&self.pool).await.unwrap() {
            assert!(began.elapsed() < PATIENCE, "never: {sql}\n{:#?}", self.marks().await);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until nothing is pending.
    async fn until_dispatched(&self) {
        self.until(r#"select not exists (select from "OutboxMessages" where "DispatchedAt" is null)"#).await;
    }

    async fn marks(&self) -> Vec<Mark> {
        let rows = sqlx::query(
            r#"select "DispatchedAt" is not null, "EventId" is not null, "Attempts", "Error"
               from "OutboxMessages" left join "ProcessedEvents" on "EventId" = "Id" order by "OccurredAt", "Id""#,
        );
        let rows = rows.fetch_all(&self.pool).await.unwrap();
        let mark = |row: &sqlx::postgres::PgRow| Mark {
            dispatched: row.get(0),
            processed: row.get(1),
            attempts: row.get(2),
            error: row.get(3),
        };
        rows.iter().map(mark).collect()
    }

    /// The queue of the example's configuration; the relay has made it.
    async fn queue(&self) -> Queue {
        Queue::open(self.vhost.url(), "tickets").await
    }

    /// The ids of everything that has arrived, in order.
    async fn arrived(&self) -> Vec<String> {
        self.queue().await.drain().await.into_iter().map(|arrived| arrived.id).collect()
    }
}

/// The example's configuration with some of it changed.
fn changed(changes: &[(&str, &str)]) -> String {
    let mut config = CONFIG.to_owned();
    for (from, to) in changes {
        assert!(config.contains(from), "the example has no {from}");
        config = config.replace(from, to);
    }
    config
}

fn ids(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| event.id.to_string()).collect()
}

/// An event of this type, some seconds ago.
fn event(kind: &'static str, seconds_ago: i64) -> Event {
    let mut event = Event::new(kind, r#"{"ticketId":"1"}"#.to_owned());
    event.occurred_at -= jiff::SignedDuration::from_secs(seconds_ago);
    event
}

/// The address of a server.
fn address(url: &str) -> String {
    let url = url::Url::parse(url).unwrap();
    format!("{}:{}", url.host_str().unwrap(), url.port().unwrap())
}

/// Ends a relay with SIGTERM; it must leave cleanly. Gives what it said.
fn stop(running: Running) -> String {
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
    said
}

#[test]
fn the_file_is_valid_as_it_stands() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ticketflow/outboxd.toml");
    let program = Program::new();
    let mut command = program.command(&["validate", "--config", path]);
    command.env_remove("DATABASE_URL").env_remove("RABBITMQ_URL");
    let ran = Program::finish(&mut command);
    assert_eq!(ran.code, 0, "{ran:#?}");
}
