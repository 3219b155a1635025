//! One message that always fails, among many that do not.

use std::time::Duration;

use outbox::Message;

use super::{Path, assert_in_order, messages};

const ALL: usize = 10_000;
const KEYS: usize = 100;

async fn path() -> Option<Path> {
    let broker = testbed::rabbitmq().await?.vhost().await.unwrap();
    let database = testbed::postgres().await?.database().await.unwrap();
    Some(
        Path::new(broker.url(), database.url(), &[Duration::from_millis(200), Duration::from_millis(300)])
            .await,
    )
}

/// All of them, with one in the first tenth that fails.
fn with_poison() -> (Vec<Message>, usize) {
    let mut all = messages(0, ALL, KEYS);
    let at = ALL / 10 + 42;
    all[at].kind = "poison".to_owned();
    (all, at)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_one_message_that_always_fails_among_ten_thousand_holds_up_no_other() {
    let Some(path) = path().await else { return };
    let (all, at) = with_poison();
    path.send(&all).await;
    let consumer = path.consume();
    path.until(i64::try_from(ALL - 1).unwrap()).await;
    let effects = path.effects().await;
    assert_eq!(effects.len(), ALL - 1);
    assert_in_order(&effects);
    let poison = all[at].id.as_str();
    assert!(effects.iter().all(|(_, _, id)| id != poison), "what it did was undone");
    let dead = async {
        while consumer.stats.dead() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(super::PATIENCE, dead).await.expect("it is given up");
    assert_eq!(consumer.tried.load(std::sync::atomic::Ordering::Relaxed), 2, "after two retries");
    consumer.stop().await;
}
