//! How many messages a consumer has at a time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outbox::rabbitmq::WorkQueue;
use outbox::{Message, Outcome, Pipe, Sink};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::super::Scene;
use super::{QUEUE, config, policy, with_id};

/// Finishes as many messages as it is allowed to.
struct Gate(Arc<Semaphore>);

#[async_trait]
impl Sink for Gate {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        for _ in messages {
            self.0.acquire().await.unwrap().forget();
        }
        vec![Outcome::Delivered; messages.len()]
    }
}

/// Ready, and with a consumer, by the broker's own account.
async fn counts(scene: &Scene) -> (u32, u32) {
    let ask =
        ["list_queues", "-q", "-p", scene.vhost.name(), "name", "messages_ready", "messages_unacknowledged"];
    let told = testbed::rabbitmq().await.unwrap().ctl(&ask).await.unwrap();
    let line = told.lines().find(|line| line.split_whitespace().next() == Some(QUEUE)).unwrap();
    let mut numbers = line.split_whitespace().skip(1).map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

async fn until_counts(scene: &Scene, expected: (u32, u32)) {
    let mut last = None;
    let looking = async {
        while last != Some(expected) {
            last = Some(counts(scene).await);
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(30), looking).await;
    assert!(found.is_ok(), "expected {expected:?}, the broker says {last:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_has_no_more_unacknowledged_messages_than_its_prefetch() {
    let Some(scene) = Scene::shared().await else { return };
    let mut config = config(&[]);
    config.prefetch = 7;
    WorkQueue::new(&scene.url, config.clone()).unwrap().check().await.unwrap();
    for n in 0..50 {
        scene.put(QUEUE, b"x", with_id(&n.to_string())).await;
    }
    let gate = Arc::new(Semaphore::new(0));
    let stop = CancellationToken::new();
    // The pipe itself would take all of them.
    let source = WorkQueue::new(&scene.url, config.clone()).unwrap();
    let pipe = Pipe::new(source, Gate(gate.clone())).policy(policy(&config)).batch(100).concurrency(100);
    let stats = pipe.stats();
    let running = tokio::spawn(pipe.run(stop.clone()));
    until_counts(&scene, (43, 7)).await;
    // It stays so, for all that the pipe asks for.
    assert_eq!(counts(&scene).await, (43, 7));
    assert_eq!(stats.delivered(), 0);
    gate.add_permits(7);
    until_counts(&scene, (36, 7)).await;
    gate.add_permits(43);
    until_counts(&scene, (0, 0)).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!(stats.delivered(), 50);
}
