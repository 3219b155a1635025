//! Many at once: writers against a relay, relays against each other, repairs against both.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outbox::admin::{Admin, Filter, Repair, ReplayFrom, Stand};
use outbox::memory::Recorder;
use outbox::sqlite::Outbox;
use outbox::{ErrorKind, Message, Pipe, Source, Verdict};
use tokio_util::sync::CancellationToken;

use super::{Fresh, dead, drain, payloads, retry};
use crate::busy;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_writers_and_a_relay_lose_nothing_and_keep_order() {
    const WRITERS: usize = 8;
    const EACH: usize = 60;
    let fresh = Fresh::new().await;
    let recorder = Arc::new(Recorder::new());
    let stop = CancellationToken::new();
    let pipe = Pipe::new(fresh.outbox.cursor("relay"), recorder.clone()).batch(50);
    let relay = tokio::spawn(pipe.run(stop.clone()));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        // Each with a pool of its own, as a process would have.
        let outbox = Outbox::connect(&fresh.url).await.unwrap();
        writers.spawn(async move {
            let mut committed = 0;
            for number in 0..EACH {
                // Deferred, as most applications begin: it takes the lock with its first write.
                let mut tx = outbox.pool().begin().await.unwrap();
                let message = Message::new("a", format!("{writer}:{number:03}")).key(writer);
                outbox.enqueue(&mut tx, message).await.unwrap();
                if number % 10 == 9 {
                    tx.rollback().await.unwrap();
                } else {
                    tx.commit().await.unwrap();
                    committed += 1;
                }
            }
            committed
        });
    }
    let written: usize = writers.join_all().await.into_iter().sum();
    assert_eq!(written, WRITERS * EACH * 9 / 10);
    let received = tokio::time::timeout(Duration::from_secs(60), recorder.wait_for(written)).await.unwrap();
    stop.cancel();
    relay.await.unwrap().unwrap();
    let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for message in received {
        let payload = String::from_utf8_lossy(&message.payload).into_owned();
        assert!(!payload.ends_with('9'), "{payload} was rolled back");
        by_key.entry(message.key.unwrap()).or_default().push(payload);
    }
    assert_eq!(by_key.len(), WRITERS);
    for (key, payloads) in by_key {
        assert_eq!(payloads.len(), EACH * 9 / 10, "key {key}");
        assert!(payloads.is_sorted(), "key {key}: {payloads:?}");
    }
    let status = fresh.outbox.status().await.unwrap();
    assert_eq!((status[0].pending, status[0].delivered), (0, u64::try_from(written).ok()));
    assert_eq!(status[0].owner, None, "closed");
}

/// Claims on every lane once and settles what came; tells it, with the lanes it came from.
async fn turn(lanes: &[outbox::sqlite::Cursor], came: &mut Vec<(usize, String)>) {
    for (number, lane) in lanes.iter().enumerate() {
        let claim = lane.claim(10).await.unwrap();
        match lane.settle(&claim, &vec![Verdict::Done; claim.messages.len()]).await {
            Ok(()) => came.extend(payloads(&claim).into_iter().map(|payload| (number, payload))),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Lost),
        }
    }
}

async fn owners(fresh: &Fresh) -> HashMap<String, usize> {
    let mut owners = HashMap::new();
    for lane in fresh.outbox.status().await.unwrap() {
        *owners.entry(lane.owner.unwrap_or_default()).or_default() += 1;
    }
    owners
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_share_the_lanes_fairly_and_none_has_two_owners() {
    let fresh = Fresh::new().await;
    for key in 0..20 {
        fresh.write(&format!("k{key}-"), 0..10).await;
    }
    let relay = |name: &str| fresh.outbox.cursor("c").owner(name).lease(Duration::from_secs(3)).lanes(5);
    let (one, two) = (relay("one"), relay("two"));
    let (mut by_one, mut by_two) = (Vec::new(), Vec::new());
    turn(&one, &mut by_one).await;
    assert_eq!(owners(&fresh).await, HashMap::from([("one".to_owned(), 5)]), "alone it has them all");
    let shared = HashMap::from([("one".to_owned(), 3), ("two".to_owned(), 2)]);
    let settled_down = async {
        while owners(&fresh).await != shared {
            turn(&two, &mut by_two).await;
            turn(&one, &mut by_one).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), settled_down).await.expect("the second gets its share");
    for key in 0..20 {
        fresh.write(&format!("k{key}-"), 10..20).await;
    }
    for _ in 0..20 {
        turn(&two, &mut by_two).await;
        turn(&one, &mut by_one).await;
    }
    assert!(!by_one.is_empty() && !by_two.is_empty());
    let all: Vec<&(usize, String)> = by_one.iter().chain(&by_two).collect();
    let distinct: HashSet<&String> = all.iter().map(|(_, payload)| payload).collect();
    assert_eq!((all.len(), distinct.len()), (400, 400), "each once");
    let mut lane_of = HashMap::new();
    for (lane, payload) in all {
        let key = payload.split('-').next().unwrap();
        assert_eq!(lane_of.entry(key).or_insert(lane), &lane, "a key has one lane");
    }

    // One leaves: the other gets everything.
    for lane in &one {
        lane.close().await.unwrap();
    }
    let alone = HashMap::from([("two".to_owned(), 5)]);
    let taken_over = async {
        while owners(&fresh).await != alone {
            turn(&two, &mut by_two).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), taken_over).await.expect("the rest is taken over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_never_idle_gives_lanes_back_all_the_same() {
    let fresh = Fresh::new().await;
    let mut tx = fresh.outbox.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
    fresh.outbox.enqueue_all(&mut tx, &busy::work().collect::<Vec<_>>()).await.unwrap();
    tx.commit().await.unwrap();
    let relay = |owner: &str| -> Vec<Arc<dyn Source>> {
        let cursor = fresh.outbox.cursor("c").owner(owner).lease(Duration::from_secs(3));
        cursor.lanes(busy::LANES).into_iter().map(|lane| Arc::new(lane) as _).collect()
    };
    busy::assert_lanes_are_given_back(&relay("one"), &relay("two")).await;
}

#[tokio::test]
async fn another_number_of_lanes_loses_nothing_and_waits_until_the_old_ones_are_free() {
    let fresh = Fresh::new().await;
    let keys: Vec<String> = (0..10).map(|key| format!("k{key}-")).collect();
    for key in &keys {
        fresh.write(key, 0..2).await;
    }
    let old = fresh.outbox.cursor("c");
    let claim = old.claim(4).await.unwrap();
    old.settle(&claim, &[dead(true), Verdict::Behind, Verdict::Done, Verdict::Done]).await.unwrap();
    let new = fresh.outbox.cursor("c").lanes(3);
    assert!(new[0].claim(10).await.unwrap().messages.is_empty(), "the old one is still there");
    old.close().await.unwrap();
    let mut came = Vec::new();
    for lane in &new {
        came.extend(drain(lane).await);
    }
    assert_eq!(came.len(), 16);
    let all = Filter { limit: 100, ..Filter::default() };
    let behind = Filter { stand: Some(Stand::Behind), ..all.clone() };
    assert_eq!(fresh.outbox.list(&behind).await.unwrap().len(), 1);
    assert_eq!(fresh.outbox.repair(&all, Repair::Retry, false).await.unwrap(), 1);
    for lane in &new {
        came.extend(drain(lane).await);
    }
    assert_eq!(came.len(), 18, "what was set aside went to its new lane");
    assert_eq!(came.iter().collect::<HashSet<_>>().len(), 18, "{came:?}");
    let status = fresh.outbox.status().await.unwrap();
    assert_eq!(status.iter().map(|lane| lane.delivered.unwrap()).sum::<u64>(), 20);
}

#[tokio::test]
async fn a_replay_while_a_relay_runs_repeats_everything_and_its_open_claim_is_lost() {
    let fresh = Fresh::new().await;
    fresh.write("a", 0..6).await;
    let cursor = fresh.outbox.cursor("relay");
    let claim = cursor.claim(3).await.unwrap();
    cursor.settle(&claim, &[Verdict::Done, retry(0), Verdict::Behind]).await.unwrap();
    let open = cursor.claim(2).await.unwrap();
    assert_eq!(fresh.outbox.replay("relay", &ReplayFrom::Start, false).await.unwrap(), 6);
    let error = cursor.settle(&open, &vec![Verdict::Done; open.messages.len()]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(drain(&cursor).await, ["a0", "a1", "a2", "a3", "a4", "a5"]);
    fresh.write("a", 6..8).await;
    assert_eq!(fresh.outbox.replay("relay", &ReplayFrom::Start, true).await.unwrap(), 8, "a preview");
    assert_eq!(drain(&cursor).await, ["a6", "a7"], "changes nothing");
}

#[tokio::test]
async fn a_replay_from_a_time_never_moves_forward() {
    let fresh = Fresh::new().await;
    fresh.write("a", 0..3).await;
    let cursor = fresh.outbox.cursor("relay");
    let claim = cursor.claim(1).await.unwrap();
    cursor.settle(&claim, &[Verdict::Done]).await.unwrap();
    let later = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    assert_eq!(fresh.outbox.replay("relay", &ReplayFrom::Time(later), false).await.unwrap(), 0);
    let last = fresh.outbox.list(&Filter::default()).await.unwrap().pop().unwrap();
    assert_eq!(fresh.outbox.replay("relay", &ReplayFrom::Message(last.id), false).await.unwrap(), 1);
    assert_eq!(drain(&cursor).await, ["a1", "a2"], "what was pending before the point is still pending");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purging_all_the_time_takes_nothing_that_is_needed_and_numbers_are_not_reused() {
    let fresh = Fresh::new().await;
    let stop = Arc::new(AtomicBool::new(false));
    let purger = {
        let (outbox, stop) = (fresh.outbox.clone(), stop.clone());
        tokio::spawn(async move {
            let mut purged = 0;
            while !stop.load(Ordering::Relaxed) {
                purged += outbox.purge(Duration::ZERO, 7, false).await.unwrap();
                tokio::task::yield_now().await;
            }
            purged
        })
    };
    let (fast, slow) = (fresh.outbox.cursor("fast"), fresh.outbox.cursor("slow"));
    let (mut by_fast, mut by_slow) = (Vec::new(), Vec::new());
    assert!(drain(&slow).await.is_empty());
    for round in 0..20 {
        fresh.write("a", round * 5..round * 5 + 5).await;
        by_fast.extend(drain(&fast).await);
        let claim = slow.claim(3).await.unwrap();
        let verdicts: Vec<Verdict> = claim.messages.iter().map(|_| Verdict::Done).collect();
        slow.settle(&claim, &verdicts).await.unwrap();
        by_slow.extend(payloads(&claim));
    }
    by_slow.extend(drain(&slow).await);
    let expected: Vec<String> = (0..100).map(|number| format!("a{number}")).collect();
    assert_eq!((&by_fast, &by_slow), (&expected, &expected));
    while fresh.outbox.purge(Duration::ZERO, 7, true).await.unwrap() > 0 {
        tokio::task::yield_now().await;
    }
    stop.store(true, Ordering::Relaxed);
    assert_eq!(purger.await.unwrap(), 100);
    fresh.write("a", 100..101).await;
    assert_eq!(drain(&fast).await, ["a100"], "a number used twice would have been passed over");
}
