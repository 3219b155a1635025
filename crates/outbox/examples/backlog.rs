//! How fast a backlog in PostgreSQL drains, and what claims of one would cost. Figures: docs/performance.md.
//!
//! `cargo run --release -p outbox --features postgres --example backlog -- postgres://localhost/scratch 1000000`
//!
//! The database must be yours to fill: an outbox is made in it, with that many messages of 300 bytes.
#![allow(clippy::print_stdout, reason = "this is what it is for")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use outbox::admin::{Admin, ReplayFrom};
use outbox::postgres::Outbox;
use outbox::{Message, Outcome, Pipe, Sink};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const FILL: &str = "
    insert into outbox.messages (type, key, payload)
    select 'order.created', 'k' || n % 10000, convert_to(repeat('x', 300), 'UTF8') from generate_series(1, $1) as n";

/// Takes everything and counts it, so that what is measured is the log and the loop.
struct Counter(Arc<watch::Sender<u64>>);

#[async_trait]
impl Sink for Counter {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        self.0.send_modify(|count| *count += messages.len() as u64);
        vec![Outcome::Delivered; messages.len()]
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(count)) = (arguments.next(), arguments.next()) else {
        return Err("usage: backlog <postgres url> <messages>".into());
    };
    let count: u64 = count.parse()?;
    let outbox = Outbox::connect(&url).await?;
    outbox.migrate().await?;
    eprintln!("writing {count} messages");
    let start = Instant::now();
    sqlx::query(FILL).bind(i64::try_from(count)?).execute(outbox.pool()).await?;
    eprintln!("written in {:.1?}", start.elapsed());

    let quarters = drain(&outbox, 500, 4, count).await?;
    let rate = |quarter: &Duration| (count as f64 / 4.0) / quarter.as_secs_f64();
    let rates: Vec<f64> = quarters.iter().map(rate).collect();
    for (quarter, rate) in rates.iter().enumerate() {
        println!("batches of 500, 4 in flight, quarter {}: {rate:>8.0} messages/s", quarter + 1);
    }
    println!("last quarter / first quarter: {:.2}", rates[3] / rates[0]);

    // A small part again, one by one: what a loop without batches would make of the same log.
    let part = (count / 100).max(4);
    outbox.replay("drain", &ReplayFrom::Start, false).await?;
    let one_by_one = drain(&outbox, 1, 1, part).await?;
    let slow = part as f64 / one_by_one.iter().sum::<Duration>().as_secs_f64();
    let fast = count as f64 / quarters.iter().sum::<Duration>().as_secs_f64();
    println!("one by one: {slow:.0} messages/s; in batches {:.0} times as fast", fast / slow);
    Ok(())
}

/// Drains `count` messages and tells how long each quarter took.
async fn drain(
    outbox: &Outbox,
    batch: usize,
    depth: usize,
    count: u64,
) -> Result<Vec<Duration>, outbox::Error> {
    let counter = Arc::new(watch::Sender::new(0));
    let (mut counted, stop) = (counter.subscribe(), CancellationToken::new());
    let pipe = Pipe::new(outbox.cursor("drain"), Counter(counter)).batch(batch).depth(depth);
    let pipe = tokio::spawn(pipe.run(stop.clone()));
    let (mut quarters, mut start) = (Vec::new(), Instant::now());
    for quarter in 1..=4 {
        let _ = counted.wait_for(|delivered| *delivered >= count * quarter / 4).await;
        quarters.push(start.elapsed());
        start = Instant::now();
    }
    stop.cancel();
    pipe.await.map_err(|_| outbox::Error::new(outbox::ErrorKind::Unexpected, "the pipe panicked"))??;
    Ok(quarters)
}
