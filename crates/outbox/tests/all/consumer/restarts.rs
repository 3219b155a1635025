//! Broker and database are restarted in turn while messages come and are handled.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use testbed::{Postgres, RabbitMq};

use super::{Path, assert_in_order, messages};

/// How long it goes on, in seconds.
fn seconds() -> u64 {
    std::env::var("OUTBOX_RESTART_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(25)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_broker_and_database_restarted_in_turn_lose_nothing_and_cost_no_attempt() {
    let Some(mut broker) = testbed::available(RabbitMq::start().await) else { return };
    let Some(mut database) = testbed::available(Postgres::start().await) else { return };
    let (vhost, data) = (broker.vhost().await.unwrap(), database.database().await.unwrap());
    let path = Path::new(vhost.url(), data.url(), &[Duration::from_millis(300)]).await;
    let consumer = path.consume();
    let end = Instant::now() + Duration::from_secs(seconds());
    let load = async {
        let mut sent = 0;
        while Instant::now() < end || sent == 0 {
            path.send(&messages(sent, 50, 20)).await;
            sent += 50;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        sent
    };
    let trouble = async {
        let mut rounds = 0;
        while Instant::now() < end || rounds == 0 {
            database.restart().await.unwrap();
            tokio::time::sleep(Duration::from_millis(500)).await;
            broker.restart().await.unwrap();
            tokio::time::sleep(Duration::from_millis(500)).await;
            rounds += 1;
        }
        rounds
    };
    let (sent, rounds) = tokio::join!(load, trouble);
    path.until(i64::try_from(sent).unwrap()).await;
    let effects = path.effects().await;
    assert_eq!(effects.len(), sent, "each once, after {rounds} restarts of each");
    assert_in_order(&effects);
    assert_eq!(consumer.tried.load(Ordering::Relaxed), 0, "no attempt was spent");
    assert_eq!((consumer.stats.retried(), consumer.stats.dead()), (0, 0));
    consumer.stop().await;
    eprintln!("{sent} messages, {rounds} restarts of each");
}
