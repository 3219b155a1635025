//! Several members of a group: who comes, goes, dies or is slow takes nothing with it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use outbox::memory::Recorder;
use outbox::{ErrorKind, Message, Outcome, Sink, Source, Verdict};

use super::child::{Member, handled};
use super::{Running, apache, claim_of, config, enqueue, group, named, names, settle, until};

fn many(count: usize) -> Vec<Message> {
    (0..count).map(|n| named(n, &format!("k{}", n % 97))).collect()
}

/// Nothing is committed past a message that is not done: a member that dies then leaves all of them to the next.
#[tokio::test]
async fn s3_an_offset_is_never_committed_past_a_message_that_is_not_done() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(1).await.unwrap();
    enqueue(kafka, &topic, &(0..10).map(|n| named(n, &format!("k{n}"))).collect::<Vec<_>>()).await;
    let first = group(kafka, config(&topic, &topic));
    let claims = claim_of(&first, 10).await;
    let undone = |message: &Message| ["4", "7"].contains(&&*names([message])[0]);
    settle(&first, &claims, |message| if undone(message) { Verdict::Released } else { Verdict::Done }).await;
    assert_eq!(kafka.committed(&topic, &topic).await.unwrap(), [Some(4)]);
    // The two come again, and the first of them is claimed when it ends.
    let again = claim_of(&first, 2).await;
    assert_eq!(names(again.iter().flat_map(|claim| &claim.messages)), ["4", "7"]);
    drop(first);
    let second = group(kafka, config(&topic, &topic));
    let claims = claim_of(&second, 6).await;
    assert_eq!(names(claims.iter().flat_map(|claim| &claim.messages)), ["4", "5", "6", "7", "8", "9"]);
    settle(&second, &claims, |_| Verdict::Done).await;
    assert_eq!(kafka.committed(&topic, &topic).await.unwrap(), [Some(10)]);
    second.close().await.unwrap();
}

/// Another member joins: what stays here is settled as if nothing had happened, what goes is lost and comes there.
#[tokio::test]
async fn s10_a_rebalance_takes_only_what_goes_to_the_other() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(2).await.unwrap();
    let write = async |partition, name: &str| {
        let headers = vec![("x-event-id".to_owned(), name.as_bytes().to_vec())];
        let record =
            testbed::Record { partition, payload: name.into(), headers, ..testbed::Record::default() };
        kafka.write(&topic, vec![record]).await.unwrap();
    };
    write(0, "goes").await;
    let old = group(kafka, config(&topic, &topic));
    let goes = claim_of(&old, 1).await;
    write(1, "stays").await;
    let stays = claim_of(&old, 1).await;
    write(1, "waits").await;
    // Newer members are first in line for the first partitions.
    let new = group(kafka, config(&topic, &topic));
    let taken = claim_of(&new, 1).await;
    assert_eq!(names(&taken[0].messages), ["goes"]);
    settle(&old, &stays, |_| Verdict::Done).await;
    let error = old.settle(&goes[0], &[Verdict::Done]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    // The pipe closes and begins afresh, which does not disturb the other.
    old.close().await.unwrap();
    assert_eq!(names(&claim_of(&old, 1).await[0].messages), ["waits"]);
    settle(&new, &taken, |_| Verdict::Done).await;
    assert_eq!(kafka.committed(&topic, &topic).await.unwrap(), [Some(1), Some(1)]);
    old.close().await.unwrap();
    let claims = claim_of(&new, 1).await;
    assert_eq!(names(&claims[0].messages), ["waits"], "after it has left, the other has all");
    new.close().await.unwrap();
}

/// Three members come and go by leaving, and by being dropped in the middle of their work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d10_members_that_come_and_go_under_load_lose_nothing() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(6).await.unwrap();
    let sink = Recorder::new();
    let start =
        || Running::start(kafka, config(&topic, &topic), Brake(sink.clone(), Duration::from_millis(3)));
    let (first, messages) = (start(), many(6_000));
    for part in messages.chunks(2_000) {
        let before = sink.received().len();
        enqueue(kafka, &topic, part).await;
        let second = start();
        until("it goes on", async || sink.received().len() > before + 600).await;
        let third = start();
        until("it goes on", async || sink.received().len() > before + 1_200).await;
        // The one leaves in good order, the other is cut off.
        second.stop().await;
        third.task.abort();
    }
    let ids = |messages: &[Message]| messages.iter().map(|m| m.id.to_string()).collect::<BTreeSet<_>>();
    let all = ids(&messages);
    until("all are handled", async || ids(&sink.received()) == all).await;
    first.stop().await;
    let ends: i64 = kafka.committed(&topic, &topic).await.unwrap().into_iter().flatten().sum();
    assert_eq!(ends, 6_000, "and all is committed");
}

/// A handler that takes its time.
struct Brake<S>(S, Duration);

#[async_trait]
impl<S: Sink> Sink for Brake<S> {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        tokio::time::sleep(self.1).await;
        self.0.deliver(messages).await
    }
}

/// Three processes, of which one is killed again and again; some messages are on their way through a retry topic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d10_members_that_are_killed_under_load_lose_nothing() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(6).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    let mut start = |name: &str| {
        let member = Member::start(&kafka.url(), &topic, &topic, folder.path(), name);
        files.push(member.file());
        member
    };
    let (mut members, messages) = (vec![start("a"), start("b"), start("c")], many(3_000));
    for (round, part) in messages.chunks(1_000).enumerate() {
        enqueue(kafka, &topic, part).await;
        let so_far: Vec<_> = members.iter().map(Member::file).collect();
        let before = handled(&so_far).len();
        until("it goes on", async || handled(&so_far).len() > before + 100).await;
        members.remove(0).kill().await;
        members.push(start(&format!("again-{round}")));
    }
    let all: BTreeSet<String> = messages.iter().map(|message| message.id.to_string()).collect();
    let missing = || {
        let ids = handled(&files);
        all.iter().filter(|id| !ids.contains_key(*id)).count()
    };
    until("all are handled", async || missing() == 0).await;
    for member in members {
        member.stop().await;
    }
    let repeated = handled(&files).values().filter(|count| **count > 1).count();
    assert!(repeated < 1_500, "{repeated} of 3000 were handled more than once");
}

/// Handlers that need far longer than a member may be silent: each stays a member, and nobody takes its messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_handler_does_not_cost_the_membership() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(2).await.unwrap();
    let (sinks, pace) = ([Recorder::new(), Recorder::new()], Arc::new(AtomicU64::new(0)));
    let start = |sink: &Recorder| {
        let mut config = config(&topic, &topic);
        // The longest pause between two polls is as long.
        config.session_timeout = Duration::from_millis(1_500);
        Running::start(kafka, config, Paced(sink.clone(), pace.clone()))
    };
    let running = sinks.each_ref().map(start);
    let write = async |name: &str| {
        let record = |partition| {
            let name = format!("{name}-{partition}");
            let headers = vec![("x-event-id".to_owned(), name.as_bytes().to_vec())];
            testbed::Record { partition, payload: name.into(), headers, ..testbed::Record::default() }
        };
        kafka.write(&topic, vec![record(0), record(1)]).await.unwrap();
    };
    let has = |sink: &Recorder, name: &str| names(&sink.received()).iter().any(|n| n.starts_with(name));
    // Until each has a partition.
    let mut round = 0;
    let is_shared = async |name: &str| {
        write(name).await;
        until("it is handled", async || {
            sinks.iter().flat_map(|sink| names(&sink.received())).filter(|n| n.starts_with(name)).count() >= 2
        })
        .await;
        sinks.iter().all(|sink| has(sink, name))
    };
    while !is_shared(&format!("try{round}")).await {
        round += 1;
    }
    pace.store(6_000, Ordering::Relaxed);
    let began = Instant::now();
    assert!(is_shared("slow").await, "each has handled one");
    assert!(began.elapsed() >= Duration::from_secs(6), "{:?}", began.elapsed());
    pace.store(0, Ordering::Relaxed);
    assert!(is_shared("after").await, "each has its partition still");
    for one in running {
        one.stop().await;
    }
    let slow = sinks.iter().flat_map(|sink| names(&sink.received())).filter(|name| name.starts_with("slow"));
    assert_eq!(slow.count(), 2, "each once");
}

/// A handler whose pace is set while it runs.
struct Paced(Recorder, Arc<AtomicU64>);

#[async_trait]
impl Sink for Paced {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        tokio::time::sleep(Duration::from_millis(self.1.load(Ordering::Relaxed))).await;
        self.0.deliver(messages).await
    }
}

/// Partitions whose messages wait, and of which no more is read, hold up no other.
#[tokio::test]
async fn a_partition_of_which_no_more_is_read_does_not_stop_the_others() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(2).await.unwrap();
    let mut config = config(&topic, &topic);
    config.retry = vec![Duration::from_millis(200), Duration::from_secs(3_600)];
    config.buffer = 12;
    let source = Arc::new(group(kafka, config));
    let messages: Vec<Message> = (0..60).map(|n| named(n, &format!("k{n}"))).collect();
    enqueue(kafka, &topic, &messages).await;
    // All wait for an hour: far more than there is room for.
    let cause = outbox::Cause::new("X", "later");
    let mut moved = 0;
    while moved < 60 {
        let claims = claim_of(&source, 1).await;
        moved += claims.iter().map(|claim| claim.messages.len()).sum::<usize>();
        let after = Duration::from_secs(3_600);
        settle(&source, &claims, |_| Verdict::Retry { after, attempts: 1, cause: cause.clone() }).await;
    }
    assert_eq!(kafka.records(&format!("{topic}.{topic}.retry.1h"), 60).await.unwrap().len(), 60);
    // New ones come, and those that wait for a short time.
    let more: Vec<Message> = (100..160).map(|n| named(n, &format!("k{n}"))).collect();
    enqueue(kafka, &topic, &more).await;
    let mut came = BTreeSet::new();
    while came.len() < 60 {
        for claim in claim_of(&source, 1).await {
            let again = |message: &Message| {
                let after = Duration::from_millis(200);
                match message.attempts {
                    0 => Verdict::Retry { after, attempts: 1, cause: cause.clone() },
                    _ => Verdict::Done,
                }
            };
            let verdicts: Vec<Verdict> = claim.messages.iter().map(again).collect();
            source.settle(&claim, &verdicts).await.unwrap();
            came.extend(names(claim.messages.iter().filter(|message| message.attempts == 1)));
        }
    }
    assert_eq!(came, names(&more).into_iter().collect());
    source.close().await.unwrap();
}
