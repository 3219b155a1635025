//! How fast the whole way is. Not a test: run it with `--ignored --nocapture`, in release.

use std::time::Instant;

use outbox::{Message, Pipe};
use tokio_util::sync::CancellationToken;

use super::{CURSOR, Log, Scene, until};

const COUNT: u64 = 50_000;
const KEYS: u64 = 1_000;

/// A backlog of messages of 300 bytes, from PostgreSQL to a durable queue, with the defaults of a pipe.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn a_backlog_from_postgresql_to_rabbitmq() {
    let (Some(log), Some(scene)) = (Log::new().await, Scene::shared().await) else { return };
    let scene = scene.with_orders().await;
    for chunk in 0..COUNT / 1_000 {
        let event = |n| Message::new("order.created", vec![b'x'; 300]).key((chunk * 1_000 + n) % KEYS);
        let messages: Vec<Message> = (0..1_000).map(event).collect();
        let mut tx = log.outbox.pool().begin().await.unwrap();
        log.outbox.enqueue_all(&mut tx, &messages).await.unwrap();
        tx.commit().await.unwrap();
    }
    let (sink, stop) = (scene.sink(), CancellationToken::new());
    sink.check().await.unwrap();
    let pipe = Pipe::new(log.outbox.cursor(CURSOR), sink);
    let (stats, started) = (pipe.stats(), Instant::now());
    let pipe = tokio::spawn(pipe.run(stop.clone()));
    until("the backlog to drain", async || stats.delivered() >= COUNT).await;
    let seconds = started.elapsed().as_secs_f64();
    stop.cancel();
    pipe.await.unwrap().unwrap();
    eprintln!("the whole pipe: {COUNT} messages in {seconds:.2} s: {:.0} a second", COUNT as f64 / seconds);
}
