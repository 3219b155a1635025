//! How fast a table that a team brought along drains to RabbitMQ, against the worker that such teams write: the loop of
//! examples/ticketflow's document, written out. Figures: docs/performance.md.
//!
//! `cargo run --release -p outbox --features postgres,rabbitmq --example mapped -- <postgres url> <amqp url> 50000`
//!
//! The database must be yours: the tables of ticketflow are made in it and filled, twice.
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
    let pool = PgPool::connect(&database).await?;
    // The worker is slow: a part is enough to know its rate.
    let part = (count / 25).max(50);

    let exchange = sink(&broker)?;
    // Makes the exchange, and lets everybody warm up.
    mapped(&pool, &database, &exchange, part).await?;
    let mut rates = Vec::new();
    for round in 1..=3 {
        let slow = worker(&pool, &broker, part).await?;
        println!("round {round}: the worker of the document: {slow:>8.0} messages/s");
        let fast = mapped(&pool, &database, &exchange, count).await?;
        println!(
            "round {round}: the mapped table:           {fast:>8.0} messages/s, {:.0} times",
            fast / slow
        );
        rates.push(fast / slow);
    }
    rates.sort_by(f64::total_cmp);
    println!("median: {:.0} times", rates[1]);
    Ok(())
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

/// The loop of the document, without its five seconds of rest between two cycles: fifty rows; of each whether it was
/// processed, one publish and its confirm, one UPDATE and one INSERT.
async fn worker(pool: &PgPool, broker: &str, count: u32) -> Result<f64, Failed> {
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
