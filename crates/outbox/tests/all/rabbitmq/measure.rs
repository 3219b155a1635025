//! How fast it goes. Not a test: run it with `--ignored --nocapture`, in release.

use std::sync::Arc;
use std::time::Instant;

use outbox::rabbitmq::Exchange;
use outbox::{Message, Outcome, Sink};

use super::Scene;

/// Calls that overlap, as in a pipe with its defaults.
const CALLS: usize = 4;

/// So many messages a second of 300 bytes each, when every call delivers `batch` of them, `rounds` times.
async fn rate(sink: &Arc<Exchange>, calls: usize, rounds: usize, batch: usize) -> f64 {
    let started = Instant::now();
    let calls: Vec<_> = (0..calls)
        .map(|_| {
            let sink = Arc::clone(sink);
            tokio::spawn(async move {
                for _ in 0..rounds {
                    let event = |n| Message::new("order.created", vec![b'x'; 300]).key(n);
                    let messages: Vec<Message> = (0..batch).map(event).collect();
                    let outcomes = sink.deliver(&messages).await;
                    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Delivered));
                }
            })
        })
        .collect();
    let count = calls.len() * rounds * batch;
    for call in calls {
        call.await.unwrap();
    }
    count as f64 / started.elapsed().as_secs_f64()
}

/// All in one run, in turns, so that a busy machine harms each alike: the ratio is what can be compared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn batches_against_one_by_one() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let sink = Arc::new(scene.sink());
    sink.check().await.unwrap();
    rate(&sink, CALLS, 4, 500).await;
    for _ in 0..3 {
        let single = rate(&sink, 1, 1_000, 1).await;
        let batch = rate(&sink, 1, 20, 500).await;
        let overlapping = rate(&sink, CALLS, 10, 500).await;
        eprintln!(
            "one by one {single:.0} a second; batches of 500: {batch:.0} ({:.1} times); {CALLS} overlapping: \
             {overlapping:.0} ({:.1} times)",
            batch / single,
            overlapping / single,
        );
    }
}
