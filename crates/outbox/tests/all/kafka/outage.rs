//! The broker stops or dies: each with a broker of its own.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use outbox::memory::Outbox;
use outbox::policy::Backoff;
use outbox::{Outcome, Pipe, Policy, Sink};
use testbed::Kafka;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{ids, order, orders, sink, until_delivered, words};

const LIMIT: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_broker_that_is_stopped_costs_no_attempt_and_work_resumes_by_itself() {
    let Some(mut kafka) = testbed::available(Kafka::start().await) else { return };
    let topic = kafka.topic(2).await.unwrap();
    let (outbox, stop) = (Outbox::new(), CancellationToken::new());
    let probe = Backoff { first: Duration::from_millis(100), most: Duration::from_secs(1) };
    let policy = Policy { probe, attempts: 2, ..Policy::default() };
    let pipe = Pipe::new(outbox.cursor("relay"), sink(&kafka, &topic, LIMIT)).policy(policy);
    let stats = pipe.stats();
    let pipe = tokio::spawn(pipe.run(stop.clone()));
    let first = orders(50);
    outbox.enqueue_all(first.clone()).unwrap();
    assert_eq!(ids(&kafka.records(&topic, 50).await.unwrap()).len(), 50);

    kafka.stop().await.unwrap();
    let second = orders(500);
    outbox.enqueue_all(second.clone()).unwrap();
    let outage = async {
        while stats.open_cause().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), outage).await.expect("the breaker opens");
    // It takes seconds to start, in which several probes find nobody.
    kafka.start_again().await.unwrap();
    let arrived = ids(&kafka.records(&topic, 550).await.unwrap());
    assert!(first.iter().chain(&second).all(|message| arrived.contains_key(message.id.as_str())));
    assert_eq!((stats.retried(), stats.dead()), (0, 0), "nothing was charged");
    stop.cancel();
    pipe.await.unwrap().unwrap();
}

/// Killed under load, twice: whatever was called delivered is in the topic after the restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k2_what_is_delivered_survives_the_death_of_the_broker() {
    let Some(mut kafka) = testbed::available(Kafka::start().await) else { return };
    let topic = kafka.topic(3).await.unwrap();
    let sink = Arc::new(sink(&kafka, &topic, LIMIT));
    let mut done = BTreeSet::new();
    for _ in 0..2 {
        let (progress, mut seen) = watch::channel(0);
        let calls = (0..3).map(|_| {
            let (sink, progress) = (Arc::clone(&sink), progress.clone());
            tokio::spawn(async move {
                let mut done = BTreeSet::new();
                loop {
                    let messages = orders(200);
                    let outcomes = sink.deliver(&messages).await;
                    let now: Vec<_> =
                        messages.iter().zip(&outcomes).filter(|(_, o)| **o == Outcome::Delivered).collect();
                    progress.send_modify(|count| *count += now.len());
                    done.extend(now.into_iter().map(|(message, _)| message.id.to_string()));
                    if words(&outcomes).iter().any(|word| word.starts_with('~')) {
                        return done;
                    }
                }
            })
        });
        let calls: Vec<_> = calls.collect();
        seen.wait_for(|count| *count > 2_000).await.unwrap();
        kafka.kill().await.unwrap();
        for call in calls {
            done.extend(call.await.unwrap());
        }
        kafka.start_again().await.unwrap();
        until_delivered(&sink, &[order(0)]).await;
    }
    let arrived = ids(&kafka.records(&topic, done.len()).await.unwrap());
    let lost: Vec<_> = done.iter().filter(|id| !arrived.contains_key(*id)).collect();
    assert!(lost.is_empty(), "{} of {} are lost", lost.len(), done.len());
}
