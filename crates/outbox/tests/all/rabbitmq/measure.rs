//! How fast it goes. Not a test: run it with `--ignored --nocapture`, in release.

use std::sync::Arc;
use std::time::Instant;

use outbox::{Message, Outcome, Sink};

use super::Scene;

const CALLS: usize = 4;
const ROUNDS: usize = 40;
const BATCH: usize = 500;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn four_overlapping_calls_of_500_messages_of_300_bytes() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let sink = Arc::new(scene.sink());
    sink.check().await.unwrap();
    let started = Instant::now();
    let calls = (0..CALLS).map(|_| {
        let sink = Arc::clone(&sink);
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let messages: Vec<Message> =
                    (0..BATCH).map(|n| Message::new("order.created", vec![b'x'; 300]).key(n)).collect();
                let outcomes = sink.deliver(&messages).await;
                assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Delivered));
            }
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    let seconds = started.elapsed().as_secs_f64();
    let count = CALLS * ROUNDS * BATCH;
    eprintln!("{count} messages in {seconds:.2} s: {:.0} a second", count as f64 / seconds);
}
