//! Topics that a consumer group reads, on a real Apache Kafka: the mock cluster makes no topics.

mod child;
mod conformance;
mod foreign;
mod letters;
mod members;
mod outage;
mod retries;
mod topics;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outbox::kafka::{Group, GroupConfig};
use outbox::policy::{Backoff, OnDead};
use outbox::{Claim, Message, Outcome, Pipe, Policy, Sink, Source, Stats, Verdict};
use std::sync::Arc;
use testbed::Kafka;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::apache;

/// Longer than anything here should take; only ever reached by a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// A group of this name on a topic, with short delays.
fn config(topic: &str, group: &str) -> GroupConfig {
    let mut config = GroupConfig::new(topic, group);
    config.retry = vec![Duration::from_millis(100), Duration::from_millis(700)];
    config.session_timeout = Duration::from_secs(6);
    config.timeout = Duration::from_secs(5);
    // Partitions go to members in the order of their names: the newest is the first.
    static MEMBERS: AtomicUsize = AtomicUsize::new(0);
    config.client_name = format!("m{:06}", 999_999 - MEMBERS.fetch_add(1, Ordering::Relaxed));
    config
}

fn group(kafka: &Kafka, config: GroupConfig) -> Group {
    Group::new(&kafka.url(), config).unwrap()
}

/// Writes messages as a relay of ours does.
async fn enqueue(kafka: &Kafka, topic: &str, messages: &[Message]) {
    let sink = super::sink(kafka, topic, Duration::from_secs(10));
    let outcomes = sink.deliver(messages).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Delivered), "{outcomes:?}");
}

/// A message that is told by its payload.
fn named(name: impl ToString, key: &str) -> Message {
    Message::new("test.read", name.to_string()).key(key)
}

fn names<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Vec<String> {
    let name = |message: &Message| String::from_utf8(message.payload.to_vec()).unwrap();
    messages.into_iter().map(name).collect()
}

/// Claims until so many have come, in as many claims as it takes.
async fn claim_of(source: &Group, count: usize) -> Vec<Claim> {
    let claiming = async {
        let mut open: Vec<Claim> = Vec::new();
        while open.iter().map(|claim| claim.messages.len()).sum::<usize>() < count {
            let claim = source.claim(100).await.unwrap();
            match claim.messages.is_empty() {
                true => source.wait(Duration::from_millis(50)).await,
                false => open.push(claim),
            }
        }
        open
    };
    tokio::time::timeout(PATIENCE, claiming).await.expect("they come")
}

async fn settle(source: &Group, claims: &[Claim], verdict: impl Fn(&Message) -> Verdict) {
    for claim in claims {
        let verdicts: Vec<Verdict> = claim.messages.iter().map(&verdict).collect();
        source.settle(claim, &verdicts).await.unwrap();
    }
}

/// The rules of a pipe from a topic: its retries are the steps of the source.
fn policy(config: &GroupConfig) -> Policy {
    let probe = Backoff { first: Duration::from_millis(50), most: Duration::from_millis(500) };
    let steps = Some(config.retry.clone());
    Policy { on_dead: OnDead::Skip, steps, probe, streak: 1_000_000, ..Policy::default() }
}

/// A pipe that runs until it is told to stop.
struct Running {
    stop: CancellationToken,
    task: JoinHandle<outbox::Result<()>>,
    stats: Arc<Stats>,
}

impl Running {
    fn start(kafka: &Kafka, config: GroupConfig, sink: impl Sink + 'static) -> Self {
        let rules = policy(&config);
        Self::of(Pipe::new(group(kafka, config), sink).policy(rules).idle(Duration::from_millis(50)))
    }

    fn of(pipe: Pipe) -> Self {
        let (stop, stats) = (CancellationToken::new(), pipe.stats());
        Self { task: tokio::spawn(pipe.run(stop.clone())), stop, stats }
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.expect("it stops").unwrap().unwrap();
    }
}

/// Waits until something is so.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let looking = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, looking).await.is_ok(), "{what}");
}
