//! What a consumer costs: from a queue of RabbitMQ to statements in PostgreSQL, under the inbox. Figures:
//! docs/performance.md.
//!
//! `cargo run --release -p outbox --features postgres,rabbitmq --example consume -- <postgres url> <amqp url>`
//!
//! First a backlog with and without one message that always fails, in turns; then the figure of examples/ticketflow-adr, ten
//! thousand messages a minute for a minute, with the share of one core that this process takes. Database and virtual host
//! must be yours: a table and a queue are made in them. The messages are sent by a process of its own.
#![allow(clippy::print_stdout, reason = "this is what it is for")]

use std::process::Command;
use std::time::{Duration, Instant};

use outbox::policy::{OnDead, Policy};
use outbox::postgres::{Inbox, Outbox};
use outbox::rabbitmq::{Binding, Exchange, ExchangeConfig, ExchangeKind, WorkQueue, WorkQueueConfig};
use outbox::sql::{Kind, Statements};
use outbox::{Message, Outcome, Pipe, Sink, Stats};
use sqlx::postgres::PgPool;
use tokio_util::sync::CancellationToken;

const EXCHANGE: &str = "consume.events";
const BACKLOG: usize = 10_000;
const PER_MINUTE: usize = 10_000;
const RETRY: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(300)];

/// Makes this program the one that sends.
const SENDS: &str = "CONSUME_SENDS";

type Failed = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let mut arguments = std::env::args().skip(1);
    let (Some(database), Some(broker)) = (arguments.next(), arguments.next()) else {
        return Err("usage: consume <postgres url> <amqp url>".into());
    };
    if std::env::var_os(SENDS).is_some() {
        return send_steadily(&broker).await;
    }
    let pool = PgPool::connect(&database).await?;
    Outbox::connect(&database).await?.migrate().await?;
    for statement in
        ["drop table if exists stock", "create table stock (id uuid not null, qty int check (qty > 0))"]
    {
        sqlx::query(statement).execute(&pool).await?;
    }
    drain(&pool, &broker, false).await?;
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let (clean, poisoned) = (drain(&pool, &broker, false).await?, drain(&pool, &broker, true).await?);
        println!("a backlog of {BACKLOG}: {clean:.0} messages/s; with one that always fails: {poisoned:.0}");
        ratios.push(format!("{:.2}", poisoned / clean));
    }
    println!("with one that always fails against without: {}", ratios.join(" · "));
    steadily(&pool, &database, &broker).await
}

fn queue() -> WorkQueueConfig {
    let mut config = WorkQueueConfig::new("consume");
    let keys = vec!["#".to_owned()];
    config.bind = vec![Binding { exchange: EXCHANGE.to_owned(), kind: ExchangeKind::Topic, keys }];
    config.retry = RETRY.to_vec();
    config
}

fn message(n: usize, qty: i32) -> Result<Message, Failed> {
    let text = "x".repeat(260);
    Ok(Message::json("stock.changed", &serde_json::json!({ "qty": qty, "text": text }))?.key(n % 100))
}

async fn send(sink: &Exchange, messages: &[Message]) -> Result<(), Failed> {
    for batch in messages.chunks(500) {
        if sink.deliver(batch).await.iter().any(|outcome| *outcome != Outcome::Delivered) {
            return Err("the broker does not take all".into());
        }
    }
    Ok(())
}

/// A consumer with its counters, and what ends it.
fn consumer(pool: &PgPool, broker: &str) -> Result<(Pipe, std::sync::Arc<Stats>), Failed> {
    let statements = ["insert into stock (id, qty) values (:id, :payload.qty)"];
    let handler = Inbox::new(pool.clone()).sql("consume", Statements::parse(Kind::Postgres, &statements)?)?;
    let policy = Policy { steps: Some(RETRY.to_vec()), on_dead: OnDead::Skip, ..Policy::default() };
    let pipe = Pipe::new(WorkQueue::new(broker, queue())?, handler).policy(policy);
    let stats = pipe.stats();
    Ok((pipe, stats))
}

/// Messages a second at which a backlog is handled. Of the key of the one that fails the others come when it is given up:
/// what counts is the rate of all the rest.
async fn drain(pool: &PgPool, broker: &str, poisoned: bool) -> Result<f64, Failed> {
    WorkQueue::new(broker, queue())?.check().await?;
    let sink = Exchange::new(broker, ExchangeConfig::new(EXCHANGE))?;
    let qty = |n: usize| if poisoned && n == BACKLOG / 10 { 0 } else { 1 };
    let messages: Vec<Message> = (0..BACKLOG).map(|n| message(n, qty(n))).collect::<Result<_, _>>()?;
    send(&sink, &messages).await?;
    let (pipe, stats) = consumer(pool, broker)?;
    let (stop, began) = (CancellationToken::new(), Instant::now());
    let task = tokio::spawn(pipe.run(stop.clone()));
    let until = async |count: usize| {
        while stats.delivered() + stats.dead() < count as u64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let most = BACKLOG - 200;
    until(most).await;
    let rate = most as f64 / began.elapsed().as_secs_f64();
    until(BACKLOG).await;
    stop.cancel();
    task.await??;
    Ok(rate)
}

/// The figure of the document for a minute.
async fn steadily(pool: &PgPool, database: &str, broker: &str) -> Result<(), Failed> {
    let (pipe, stats) = consumer(pool, broker)?;
    let stop = CancellationToken::new();
    let task = tokio::spawn(pipe.run(stop.clone()));
    let mut sender =
        Command::new(std::env::current_exe()?).args([database, broker]).env(SENDS, "1").spawn()?;
    let (began, before) = (Instant::now(), cpu_seconds()?);
    while stats.delivered() < PER_MINUTE as u64 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds()? - before);
    println!(
        "{PER_MINUTE} messages in {took:.0} s took {cpu:.2} s of CPU: {:.1} % of one core, {:.0} µs a message",
        100.0 * cpu / took,
        1e6 * cpu / PER_MINUTE as f64,
    );
    sender.wait()?;
    stop.cancel();
    Ok(task.await??)
}

async fn send_steadily(broker: &str) -> Result<(), Failed> {
    let sink = Exchange::new(broker, ExchangeConfig::new(EXCHANGE))?;
    let mut tick = tokio::time::interval(Duration::from_millis(60));
    for n in 0..PER_MINUTE / 10 {
        tick.tick().await;
        let messages: Vec<Message> = (0..10).map(|m| message(10 * n + m, 1)).collect::<Result<_, _>>()?;
        send(&sink, &messages).await?;
    }
    Ok(())
}

/// What this process has used so far, in user and kernel; in hundredths, as Linux counts it.
fn cpu_seconds() -> Result<f64, Failed> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0);
    Ok((ticks(11) + ticks(12)) / 100.0)
}
