//! How fast a table that a team brought along drains to RabbitMQ, against the worker that such teams write: the loop of
//! examples/ticketflow's document, written out. Figures: docs/performance.md.
//!
//! `cargo run --release -p outbox --features postgres,rabbitmq --example mapped -- <postgres url> <amqp url> 50000`
//!
//! The database must be yours: the tables of ticketflow are made in it and filled again and again. The first rounds are on
//! the wire as it is, the next with some latency to both servers; the round trip is measured and printed. Last comes the
//! worker as it is in the document, which rests for five seconds after every fifty rows.
#![allow(clippy::print_stdout, reason = "this is what it is for")]

use std::time::{Duration, Instant};

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use outbox::postgres::Table;
use outbox::rabbitmq::{Exchange, ExchangeConfig, QueueConfig};
use outbox::table::{Reading, preset};
use outbox::{Pipe, Template};
use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Row};
use testbed::Proxy;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const SCHEMA: &str = r#"
    drop table if exists "OutboxMessages", "ProcessedEvents";
    create table "OutboxMessages" (
        "Id" uuid primary key, "Type" text not null, "PayloadJson" text not null, "CorrelationId" text,
        "OccurredAt" timestamptz not null, "DispatchedAt" timestamptz, "Attempts" integer not null default 0, "Error" text
    );
    create table "ProcessedEvents" ("EventId" uuid primary key, "ProcessedAt" timestamptz not null);
    create index on "OutboxMessages" ("OccurredAt") where "DispatchedAt" is null"#;

const FILL: &str = r#"
    insert into "OutboxMessages" ("Id", "Type", "PayloadJson", "CorrelationId", "OccurredAt")
    select gen_random_uuid(), 'TicketFlow.Domain.Events.TicketCreatedEvent', '{"text": "' || repeat('x', 280) || '"}',
           'c-' || n, now() - interval '1 hour' + n * interval '1 millisecond'
    from generate_series(1, $1) as n"#;

const EXCHANGE: &str = "ticketflow.events";

type Failed = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let (Some(database), Some(broker), Some(count)) = (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: mapped <postgres url> <amqp url> <messages>".into());
    };
    let count: u32 = count.parse()?;
    // The worker is slow: a part is enough to know its rate.
    let part = (count / 25).max(50);
    compare(&database, &broker, count, part).await?;

    let (near_database, near_broker) = (proxy(&database, 5432).await?, proxy(&broker, 5672).await?);
    let (far_database, far_broker) = (near_database.reroute(&database)?, near_broker.reroute(&broker)?);
    compare(&far_database, &far_broker, count, part / 4).await?;

    let pool = PgPool::connect(&database).await?;
    let slow = worker(&pool, &broker, 150, Duration::from_secs(5)).await?;
    println!("the worker with its rests: {slow:.0} messages/s");
    Ok(())
}

async fn proxy(url: &str, port: u16) -> Result<Proxy, Failed> {
    let parsed = url::Url::parse(url)?;
    let proxy = Proxy::to((parsed.host_str().unwrap_or("localhost"), parsed.port().unwrap_or(port))).await?;
    proxy.latency(Duration::from_micros(100));
    Ok(proxy)
}

async fn compare(database: &str, broker: &str, count: u32, part: u32) -> Result<(), Failed> {
    let pool = PgPool::connect(database).await?;
    let exchange = sink(broker)?;
    // Makes the exchange, and lets everybody warm up.
    mapped(&pool, database, &exchange, part).await?;
    let name = format!("round trip {:.2} ms", round_trip(&pool).await?.as_secs_f64() * 1_000.0);
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let slow = worker(&pool, broker, part, Duration::ZERO).await?;
        let fast = mapped(&pool, database, &exchange, count).await?;
        let ratio = fast / slow;
        println!(
            "{name}: the worker without its rests {slow:.0}, the mapped table {fast:.0} messages/s: {ratio:.1} times"
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    println!("{name}: median {:.1} times", ratios[1]);
    Ok(())
}

/// What it costs to ask the database for nothing.
async fn round_trip(pool: &PgPool) -> Result<Duration, Failed> {
    let mut session = pool.acquire().await?;
    let begun = Instant::now();
    for _ in 0..100 {
        sqlx::query("select 1").execute(&mut *session).await?;
    }
    Ok(begun.elapsed() / 100)
}

fn sink(broker: &str) -> Result<std::sync::Arc<Exchange>, Failed> {
    let mut config = ExchangeConfig::new(EXCHANGE);
    config.routing_key = Template::parse("{type.dotted}")?;
    config.queues = vec![QueueConfig::new("mapped.measured", ["ticket.#"])];
    Ok(std::sync::Arc::new(Exchange::new(broker, config)?))
}

async fn fill(pool: &PgPool, count: u32) -> Result<(), Failed> {
    sqlx::raw_sql(SCHEMA).execute(pool).await?;
    sqlx::query(FILL).bind(i64::from(count)).execute(pool).await?;
    sqlx::raw_sql(r#"analyze "OutboxMessages""#).execute(pool).await?;
    Ok(())
}

/// With all that outboxd does by default: its batches, its claims in flight, the preset as it is.
async fn mapped(
    pool: &PgPool,
    database: &str,
    exchange: &std::sync::Arc<Exchange>,
    count: u32,
) -> Result<f64, Failed> {
    fill(pool, count).await?;
    let mapping =
        preset("ticketflow").ok_or("no such preset")?.check().map_err(|flaws| format!("{flaws:?}"))?;
    let table = Table::connect(database, mapping).await?;
    let stop = CancellationToken::new();
    let begun = Instant::now();
    let mut pipes = tokio::task::JoinSet::new();
    let mut stats = Vec::new();
    for source in table.sources(&Reading::default()) {
        let pipe = Pipe::new(source, exchange.clone());
        stats.push(pipe.stats());
        pipes.spawn(pipe.run(stop.clone()));
    }
    while stats.iter().map(|stats| stats.delivered()).sum::<u64>() < u64::from(count) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = begun.elapsed();
    stop.cancel();
    while let Some(ended) = pipes.join_next().await {
        ended??;
    }
    check(pool, count).await?;
    Ok(f64::from(count) / took.as_secs_f64())
}

/// The loop of the document: fifty rows; of each whether it was processed, one publish and its confirm, one UPDATE and
/// one INSERT; then a rest.
async fn worker(pool: &PgPool, broker: &str, count: u32, rest: Duration) -> Result<f64, Failed> {
    fill(pool, count).await?;
    let connection = Connection::connect(broker, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let mut session = pool.acquire().await?;
    let begun = Instant::now();
    loop {
        sqlx::query("select pg_try_advisory_lock(42)").execute(&mut *session).await?;
        let rows = sqlx::query(
            r#"select * from "OutboxMessages" where "DispatchedAt" is null and "Attempts" < 5
               order by "OccurredAt" limit 50 for update skip locked"#,
        )
        .fetch_all(&mut *session)
        .await?;
        for row in &rows {
            let id: Uuid = row.get("Id");
            let known = sqlx::query(r#"select 1 from "ProcessedEvents" where "EventId" = $1"#);
            if known.bind(id).fetch_optional(&mut *session).await?.is_none() {
                let payload = row.get::<String, _>("PayloadJson");
                let options = BasicPublishOptions::default();
                channel
                    .basic_publish(
                        EXCHANGE.into(),
                        "ticket.created".into(),
                        options,
                        payload.as_bytes(),
                        persistent.clone(),
                    )
                    .await?
                    .await?;
            }
            let marked = sqlx::query(r#"update "OutboxMessages" set "DispatchedAt" = now() where "Id" = $1"#);
            marked.bind(id).execute(&mut *session).await?;
            let recorded =
                sqlx::query(r#"insert into "ProcessedEvents" ("EventId", "ProcessedAt") values ($1, now())"#);
            recorded.bind(id).execute(&mut *session).await?;
        }
        sqlx::query("select pg_advisory_unlock(42)").execute(&mut *session).await?;
        if rows.is_empty() {
            break;
        }
        tokio::time::sleep(rest).await;
    }
    let took = begun.elapsed();
    drop(session);
    connection.close(200, "done".into()).await?;
    check(pool, count).await?;
    Ok(f64::from(count) / took.as_secs_f64())
}

async fn check(pool: &PgPool, count: u32) -> Result<(), Failed> {
    for table in [r#""OutboxMessages" where "DispatchedAt" is not null"#, r#""ProcessedEvents""#] {
        let sql = format!("select count(*) from {table}");
        let found: i64 = sqlx::query(AssertSqlSafe(sql)).fetch_one(pool).await?.get(0);
        if found != i64::from(count) {
            return Err(format!("{found} of {count} in {table}").into());
        }
    }
    Ok(())
}
