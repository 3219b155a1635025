//! How fast the Kafka sink is: batches that overlap, against one message at a time, in one run.
//!
//! `cargo run --release -p outbox --features kafka --example kafka_rate -- kafka://localhost:9092 <topic> [rounds]`
//!
//! The topic must exist. It writes to it.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use outbox::kafka::{Topic, TopicConfig};
use outbox::{Message, Outcome, Sink, Template};

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// So many messages of 300 bytes a second, when so many calls at a time deliver batches of this size.
async fn rate(sink: &Arc<Topic>, calls: usize, rounds: usize, batch: usize) -> Fallible<f64> {
    let event = |n| Message::new("order.created", vec![b'x'; 300]).key(n);
    // Made before the clock starts: in a pipe this is the work of the source.
    let batches: Vec<Vec<Message>> = (0..calls).map(|_| (0..batch).map(event).collect()).collect();
    let started = Instant::now();
    let mut running = Vec::new();
    for messages in batches {
        let sink = Arc::clone(sink);
        running.push(tokio::spawn(async move {
            for _ in 0..rounds {
                let outcomes = sink.deliver(&messages).await;
                if let Some(other) = outcomes.into_iter().find(|outcome| *outcome != Outcome::Delivered) {
                    return Err(format!("{other:?}"));
                }
            }
            Ok(())
        }));
    }
    for call in running {
        call.await??;
    }
    Ok((calls * rounds * batch) as f64 / started.elapsed().as_secs_f64())
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "it is what this program is for")]
async fn main() -> Fallible<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(topic)) = (arguments.next(), arguments.next()) else {
        return Err("usage: kafka_rate <url> <topic> [rounds]".into());
    };
    let rounds = arguments.next().map_or(Ok(3), |rounds| rounds.parse())?;
    let sink = Arc::new(Topic::new(&url, TopicConfig::new(Template::parse(&topic)?))?);
    sink.check().await?;
    rate(&sink, 4, 4, 500).await?;
    for _ in 0..rounds {
        let single = rate(&sink, 1, 200, 1).await?;
        let batch = rate(&sink, 1, 40, 500).await?;
        let four = rate(&sink, 4, 40, 500).await?;
        let large = rate(&sink, 4, 20, 5_000).await?;
        println!(
            "one by one {single:.0} a second; batches of 500: {batch:.0} ({:.0} times); 4 overlapping: {four:.0} ({:.0} \
             times); 4 overlapping of 5000: {large:.0} ({:.0} times)",
            batch / single,
            four / single,
            large / single,
        );
    }
    Ok(())
}
