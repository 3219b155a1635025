//! Tables that exist already, in MariaDB: to a file and to RabbitMQ, as one configures it.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::mysql::MySqlPool;
use sqlx::{AssertSqlSafe, Row};

use crate::broker::Queue;
use crate::mapped::error_line;
use crate::program::{PATIENCE, Program, Running};

/// A table as an application of this database would have it, shared by lanes.
const ORDERS: &str = "
    create table order_events (
        id bigint unsigned auto_increment primary key,
        event_type varchar(100) not null,
        order_id binary(16) not null,
        body json not null,
        created_at timestamp(6) not null default current_timestamp(6),
        sent boolean not null default false,
        tries smallint not null default 0,
        last_error varchar(60) character set latin1,
        index (sent, id)
    )";

const RELAY: &str = r#"
[connections]
shop = "${DATABASE_URL}"
[sources.orders]
on = "shop"
table = "order_events"
id = "id"
type = "event_type"
key = "order_id"
payload = "body"
occurred_at = "created_at"
order_by = ["id"]
pending = "sent = false AND tries < 3"
done = "sent = true"
attempts = "tries"
error = "last_error"
[sinks.lines]
file = "out.jsonl"
[pipes.relay]
from = "orders"
to = "lines"
poll = "20ms"
lanes = 4
"#;

/// The tables of examples/ticketflow, as EF Core makes them here.
const TICKETFLOW: &str = "
    create table `OutboxMessages` (
        `Id` char(36) character set ascii not null primary key,
        `Type` longtext not null,
        `PayloadJson` longtext not null,
        `CorrelationId` longtext not null,
        `OccurredAt` datetime(6) not null,
        `DispatchedAt` datetime(6) null,
        `Attempts` int not null default 0,
        `Error` longtext null
    );
    create table `ProcessedEvents` (
        `EventId` char(36) character set ascii not null primary key,
        `ProcessedAt` datetime(6) not null
    )";

async fn database(ddl: &'static str) -> Option<(String, MySqlPool)> {
    let url = testbed::mariadb().await?.database().await.unwrap().url().replace("mysql://", "mariadb://");
    let pool = MySqlPool::connect(&url).await.unwrap();
    sqlx::raw_sql(ddl).execute(&pool).await.unwrap();
    Some((url, pool))
}

async fn count(pool: &MySqlPool, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(pool).await.unwrap()
}

/// Waits until a count is zero.
async fn until_none(pool: &MySqlPool, sql: &'static str) {
    let began = Instant::now();
    while count(pool, sql).await > 0 {
        assert!(began.elapsed() < PATIENCE, "never none: {sql}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn order(pool: &MySqlPool, order: u32, number: u32) {
    let sql = "insert into order_events (event_type, order_id, body) values ('order.changed', unhex(lpad(?, 32, '0')), ?)";
    let body = json!({ "number": number }).to_string();
    sqlx::query(sql).bind(order.to_string()).bind(body).execute(pool).await.unwrap();
}

fn lines(program: &Program) -> Vec<Value> {
    program.read("out.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn stop(running: Running) {
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn four_relays_share_a_table_and_each_order_is_told_in_order() {
    let Some((url, pool)) = database(ORDERS).await else { return };
    let program = Program::with(RELAY).env("DATABASE_URL", &url);
    program.ok(&["validate"]);
    let mut relays: Vec<Running> = (0..4).map(|_| program.start(&["run"])).collect();
    relays.iter_mut().for_each(|relay| drop(relay.wait_for("started")));
    for number in 0..50 {
        for key in 0..8 {
            order(&pool, key, number).await;
        }
    }
    until_none(&pool, "select count(*) from order_events where not sent").await;
    let status = program.json(&["status"]);
    assert_eq!(
        (&status["pipes"][0]["pending"], &status["pipes"][0]["dead"]),
        (&json!(0), &json!(0)),
        "{status}"
    );
    relays.into_iter().for_each(stop);
    let lines = lines(&program);
    let ids: HashSet<_> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!((lines.len(), ids.len()), (400, 400), "nothing is lost, and nothing comes twice");
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    for line in &lines {
        let (key, number) =
            (line["partitionkey"].as_str().unwrap(), line["data"]["number"].as_i64().unwrap());
        let before = last.insert(key, number);
        assert!(before.is_none_or(|before| before < number), "{key}: {number} after {before:?}");
    }
    assert_eq!(last.len(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_is_counted_and_a_person_brings_it_back() {
    let Some((url, pool)) = database(ORDERS).await else { return };
    let config = RELAY
        .replace("out.jsonl", "out/lines.jsonl")
        .replace("lanes = 4", "outage = \"count\"\nretry_first = \"10ms\"");
    let program = Program::with(&config).env("DATABASE_URL", &url);
    order(&pool, 7, 1).await;
    let running = program.start(&["run"]);
    until_none(&pool, "select count(*) from order_events where tries < 3").await;
    let row = sqlx::query("select last_error from order_events").fetch_one(&pool).await.unwrap();
    assert!(!row.get::<String, _>(0).is_empty());
    let dead = program.json(&["list", "--state", "dead"]);
    assert_eq!(dead["messages"].as_array().map(Vec::len), Some(1), "{dead}");
    program.make_folder("out");
    assert_eq!(program.ok(&["retry", "--state", "dead", "--yes"]), "1 message due again\n");
    until_none(&pool, "select count(*) from order_events where not sent").await;
    stop(running);
    assert_eq!(program.read("out/lines.jsonl").lines().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ticketflow_runs_here_too_with_a_standby_that_takes_over() {
    let Some((url, pool)) = database(TICKETFLOW).await else { return };
    let Some(broker) = testbed::rabbitmq().await else { return };
    let vhost = broker.vhost().await.unwrap();
    let config = include_str!("../../../../examples/ticketflow/outboxd.toml")
        .replace("poll = \"5s\"", "poll = \"20ms\"");
    // The number of the lock is the server's, and other tests have theirs.
    let lock = url.rsplit("t_").next().and_then(|name| u32::from_str_radix(name.get(..7)?, 16).ok()).unwrap();
    let config =
        config.replace("preset = \"ticketflow\"", &format!("preset = \"ticketflow\"\nlock = {lock}\n#"));
    let program = Program::with(&config).env("DATABASE_URL", &url).env("RABBITMQ_URL", vhost.url());
    let insert = |from: u32| {
        let pool = pool.clone();
        async move {
            for number in from..from + 20 {
                let sql = format!(
                    "insert into `OutboxMessages` (`Id`, `Type`, `PayloadJson`, `CorrelationId`, `OccurredAt`)
                     values (uuid(), 'TicketFlow.Domain.Events.TicketCreatedEvent', '{{\"n\": {number}}}', 'c-{number}', utc_timestamp(6))"
                );
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&pool).await.unwrap();
            }
        }
    };
    let mut active = program.start(&["run"]);
    active.wait_for("this relay is the active one");
    let mut standby = program.start(&["run"]);
    standby.wait_for("another relay is active; standing by");
    insert(0).await;
    until_none(&pool, "select count(*) from `OutboxMessages` where `DispatchedAt` is null").await;
    active.kill();
    insert(20).await;
    standby.wait_for("this relay is the active one");
    until_none(&pool, "select count(*) from `OutboxMessages` where `DispatchedAt` is null").await;
    stop(standby);
    assert_eq!(count(&pool, "select count(*) from `ProcessedEvents`").await, 40);
    let arrived = Queue::open(vhost.url(), "tickets").await.drain().await;
    let bodies: Vec<String> =
        arrived.iter().map(|one| String::from_utf8_lossy(&one.body).into_owned()).collect();
    assert_eq!(bodies, (0..40).map(|number| format!("{{\"n\": {number}}}")).collect::<Vec<_>>());
    assert!(arrived.iter().all(|one| one.routing_key == "ticket.created" && one.persistent));
    assert_eq!(arrived[3].headers["CorrelationId"], "c-3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapping_that_does_not_fit_is_one_line() {
    let Some((url, _pool)) = database(ORDERS).await else { return };
    let program =
        Program::with(&RELAY.replace("payload = \"body\"", "payload = \"bodi\"")).env("DATABASE_URL", &url);
    let what = "payload: table 'order_events' has no column 'bodi'";
    let ran = program.run(&["run", "--once"]);
    let line = error_line(&ran, 1);
    assert!(line.contains(what) && line.contains("source 'orders' at mariadb://"), "{line}");
    let listed = program.run(&["list"]);
    let (error, help) = listed.only_error(1);
    assert!(error.contains(what) && help.contains("outboxd doctor"), "{listed:#?}");
    let status = program.run(&["status"]);
    assert_eq!(status.code, 1, "{status:#?}");
    assert_eq!(status.stderr.matches(what).count(), 1, "{status:#?}");
}
