//! Broker and database are restarted in turn while messages come and are handled.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use testbed::{Postgres, RabbitMq};

use super::{Path, assert_in_order, messages};

/// How long it goes on, in seconds.
fn seconds() -> u64 {
    std::env::var("OUTBOX_RESTART_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(20)
}

/// Handles what comes, of which every `stumbling`th fails the first time, while broker and database are restarted in turn.
/// Tells how many attempts the most tried message had behind it, and how many failed. None without the servers.
async fn under_restarts(stumbling: Option<usize>) -> Option<(u32, u64)> {
    let mut broker = testbed::available(RabbitMq::start().await)?;
    let mut database = testbed::available(Postgres::start().await)?;
    let (vhost, data) = (broker.vhost().await.unwrap(), database.database().await.unwrap());
    let path = Path::new(vhost.url(), data.url(), &[Duration::from_millis(300)]).await;
    let consumer = path.consume();
    let end = Instant::now() + Duration::from_secs(seconds());
    let load = async {
        let mut sent = 0;
        while Instant::now() < end || sent == 0 {
            let mut some = messages(sent, 50, 20);
            if let Some(every) = stumbling {
                some.iter_mut().step_by(every).for_each(|message| message.kind = "stumble".to_owned());
            }
            path.send(&some).await;
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
    let tried = consumer.tried.load(Ordering::Relaxed);
    let (retried, dead) = (consumer.stats.retried(), consumer.stats.dead());
    consumer.stop().await;
    eprintln!("{sent} messages, {rounds} restarts of each, {retried} failed attempts");
    assert_eq!(dead, 0);
    Some((tried, retried))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_broker_and_database_restarted_in_turn_lose_nothing_and_cost_no_attempt() {
    let Some(tried) = under_restarts(None).await else { return };
    assert_eq!(tried, (0, 0), "no attempt was spent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d4_d5_retries_through_restarts_keep_the_order_of_their_keys_and_cost_one_attempt() {
    let Some((tried, retried)) = under_restarts(Some(25)).await else { return };
    assert_eq!(tried, 1, "the failure of its own, and no other");
    assert!(retried > 0);
}
