//! Several relays on one cursor: leases, lanes, and what a stale owner can do (nothing).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use outbox::admin::Admin;
use outbox::conformance::source::SourceFixture;
use outbox::memory::Recorder;
use outbox::postgres::Outbox;
use outbox::{Message, Pipe, Result, Source};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Log;

const LANES: u32 = 4;

/// One process that runs every lane which it can get.
struct Relay {
    stop: CancellationToken,
    pipes: JoinSet<Result<()>>,
}

impl Relay {
    fn start(outbox: &Outbox, owner: &str, lanes: u32, sink: &Recorder) -> Self {
        let (stop, mut pipes) = (CancellationToken::new(), JoinSet::new());
        let cursor = outbox.cursor("c").owner(owner).lease(Duration::from_millis(900));
        for lane in cursor.lanes(lanes) {
            pipes.spawn(
                Pipe::new(lane, sink.clone()).batch(20).idle(Duration::from_millis(50)).run(stop.clone()),
            );
        }
        Self { stop, pipes }
    }

    async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.pipes.join_next().await {
            ended.unwrap().unwrap();
        }
    }
}

async fn owners(outbox: &Outbox) -> Vec<Option<String>> {
    outbox.status().await.unwrap().into_iter().map(|lane| lane.owner).collect()
}

async fn until_shared(outbox: &Outbox, expected: &[(&str, usize)]) {
    let shared = async {
        loop {
            let owners = owners(outbox).await;
            let held = |name: &str| owners.iter().flatten().filter(|owner| *owner == name).count();
            if expected.iter().all(|(name, lanes)| held(name) == *lanes) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let told = format!("{expected:?} was never reached");
    tokio::time::timeout(Duration::from_secs(20), shared).await.expect(&told);
}

fn batch(from: usize) -> Vec<Message> {
    (from..from + 200).map(|n| Message::new("t", n.to_string()).key(n % 40)).collect()
}

fn assert_once_and_in_order(came: &[Message], count: usize) {
    let ids: HashSet<_> = came.iter().map(|message| &message.id).collect();
    assert_eq!((ids.len(), came.len()), (count, count), "each exactly once");
    let mut last: HashMap<&str, usize> = HashMap::new();
    for message in came {
        let number: usize = std::str::from_utf8(&message.payload).unwrap().parse().unwrap();
        let before = last.insert(message.key.as_deref().unwrap(), number);
        assert!(before.is_none_or(|before| before < number));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lanes_are_shared_fairly_with_no_double_owner_and_change_hands_cleanly() {
    let Some(log) = Log::new().await else { return };
    let sink = Recorder::new();
    log.enqueue(batch(0)).await;
    let one = Relay::start(&log.outbox, "one", LANES, &sink);
    until_shared(&log.outbox, &[("one", 4)]).await;
    sink.wait_for(200).await;
    let two = Relay::start(&log.outbox, "two", LANES, &sink);
    until_shared(&log.outbox, &[("one", 2), ("two", 2)]).await;
    for round in 1..5 {
        log.enqueue(batch(round * 200)).await;
    }
    sink.wait_for(1000).await;
    one.stop().await;
    until_shared(&log.outbox, &[("one", 0), ("two", 4)]).await;
    log.enqueue(batch(1000)).await;
    assert_once_and_in_order(&sink.wait_for(1200).await, 1200);
    two.stop().await;
    assert!(owners(&log.outbox).await.iter().all(Option::is_none), "nothing stays claimed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lanes_of_a_relay_that_dies_are_taken_over_when_its_lease_is_over() {
    let Some(log) = Log::new().await else { return };
    let sink = Recorder::new();
    let (one, two) =
        (Relay::start(&log.outbox, "one", LANES, &sink), Relay::start(&log.outbox, "two", LANES, &sink));
    until_shared(&log.outbox, &[("one", 2), ("two", 2)]).await;
    drop(one.pipes);
    until_shared(&log.outbox, &[("two", 4)]).await;
    log.enqueue(batch(0)).await;
    assert_once_and_in_order(&sink.wait_for(200).await, 200);
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_lanes_can_change_without_loss() {
    let Some(log) = Log::new().await else { return };
    let sink = Recorder::new();
    for (round, lanes) in [1, 4, 3, 1].into_iter().enumerate() {
        log.enqueue(batch(round * 200)).await;
        let relay = Relay::start(&log.outbox, &format!("relay {round}"), lanes, &sink);
        sink.wait_for((round + 1) * 200).await;
        relay.stop().await;
        assert_eq!(owners(&log.outbox).await.len(), lanes as usize);
    }
    assert_once_and_in_order(&sink.received(), 800);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_owner_keeps_its_lease_and_a_standby_waits() {
    let Some(log) = Log::new().await else { return };
    let lease = Duration::from_millis(600);
    let holder = Arc::new(log.outbox.cursor("c").owner("holder").lease(lease));
    assert!(holder.claim(1).await.unwrap().messages.is_empty());
    let standby = log.outbox.cursor("c").owner("standby").lease(lease);
    // Three leases long, with nobody claiming on the holder's side: renewals alone keep it.
    let end = tokio::time::Instant::now() + 3 * lease;
    while tokio::time::Instant::now() < end {
        assert!(standby.claim(1).await.unwrap().messages.is_empty());
        assert_eq!(owners(&log.outbox).await, [Some("holder".to_owned())]);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    holder.close().await.unwrap();
    standby.claim(1).await.unwrap();
    assert_eq!(owners(&log.outbox).await, [Some("standby".to_owned())]);
}
