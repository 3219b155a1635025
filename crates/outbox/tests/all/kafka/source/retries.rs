//! What fails: kept by the broker between its attempts, then with the dead letters.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use outbox::memory::Recorder;
use outbox::{Cause, Message, Outcome, Pipe, Rejection, Source, Verdict, code, header};
use testbed::Kafka;

use super::{Running, apache, claim_of, config, enqueue, group, named, names, policy, settle, until};

fn failure() -> Cause {
    Cause::new(code::HANDLER, "told to fail")
}

/// What a handler saw: payload, attempts and when.
type Seen = Arc<Mutex<Vec<(String, u32, Instant)>>>;

/// A handler that notes what it sees, and lets `judge` say what becomes of it.
fn handler(judge: impl Fn(&str, u32) -> Outcome + Send + Sync + 'static) -> (Recorder, Seen) {
    let (recorder, seen) = (Recorder::new(), Seen::default());
    let note = seen.clone();
    recorder.judge_by(move |message: &Message| {
        let name = String::from_utf8(message.payload.to_vec()).unwrap();
        let outcome = judge(&name, message.attempts);
        note.lock().unwrap().push((name, message.attempts, Instant::now()));
        outcome
    });
    (recorder, seen)
}

async fn scene(partitions: i32) -> Option<(&'static Kafka, String)> {
    let kafka = apache().await?;
    Some((kafka, kafka.topic(partitions).await.unwrap()))
}

#[tokio::test]
async fn d5_retries_are_kept_by_the_broker_with_their_delays_and_end_with_the_dead_letters() {
    let Some((kafka, topic)) = scene(2).await else { return };
    let bad = named("bad", "k").header("team", "a");
    enqueue(kafka, &topic, &[bad.clone(), named("next", "k"), named("good", "g")]).await;
    let (sink, seen) = handler(|name, _| match name {
        "bad" => Outcome::rejected(failure()),
        _ => Outcome::Delivered,
    });
    let running = Running::start(kafka, config(&topic, &topic), sink.clone());
    let dead = format!("{topic}.{topic}.dlq");
    until("it is dead", async || running.stats.dead() == 1).await;
    sink.wait_for(2).await;
    running.stop().await;
    let seen = seen.lock().unwrap().clone();
    let tries: Vec<_> = seen.iter().filter(|(name, ..)| name == "bad").collect();
    assert_eq!(tries.iter().map(|(_, attempts, _)| *attempts).collect::<Vec<_>>(), [0, 1, 2]);
    for (pair, delay) in tries.windows(2).zip([100, 700]) {
        let waited = pair[1].2 - pair[0].2;
        assert!(waited >= Duration::from_millis(delay), "{waited:?}");
    }
    let last_bad = tries[2].2;
    let next = seen.iter().find(|(name, ..)| name == "next").unwrap();
    assert!(next.2 >= last_bad, "the next of its key waited until it was dead");
    let letters = kafka.records(&dead, 1).await.unwrap();
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!((letter.key.as_deref(), &*letter.payload), (Some(&b"k"[..]), &b"bad"[..]));
    for (name, value) in [
        (header::ERROR_ORIGIN, topic.as_str()),
        (header::ERROR_ATTEMPTS, "3"),
        (header::ERROR_CODE, code::HANDLER),
        (header::ERROR_TEXT, "told to fail"),
        (header::DESTINATION, topic.as_str()),
        (header::EVENT_ID, bad.id.as_str()),
        ("team", "a"),
        ("ce_type", "test.read"),
    ] {
        assert_eq!(letter.header(name).as_deref(), Some(value), "{name}");
    }
    let time = |name: &str| letter.header(name).unwrap().parse::<jiff::Timestamp>().unwrap();
    let took = time(header::ERROR_AT).duration_since(time(header::ERROR_FIRST_AT));
    assert!(took.as_millis() >= 800, "{took:?}");
    assert!(time(header::FIRST_TIME) <= time(header::ERROR_FIRST_AT));
    assert_eq!(letter.header(header::RETRY_ATTEMPTS), None);
    // All of it is settled, in the retry topics too.
    for name in
        [topic.clone(), format!("{topic}.{topic}.retry.100ms"), format!("{topic}.{topic}.retry.700ms")]
    {
        let (records, committed) =
            (kafka.records(&name, 0).await.unwrap(), kafka.committed(&topic, &name).await);
        for (partition, committed) in (0..).zip(committed.unwrap()) {
            let last = records.iter().filter(|record| record.partition == partition).map(|r| r.offset).max();
            assert_eq!(committed, last.map(|last| last + 1), "{name} {partition}");
        }
    }
}

#[tokio::test]
async fn d5_a_retry_outlives_the_process_that_wanted_it() {
    let Some((kafka, topic)) = scene(1).await else { return };
    enqueue(kafka, &topic, &[named("one", "k")]).await;
    let first = group(kafka, config(&topic, &topic));
    let claims = claim_of(&first, 1).await;
    let after = Duration::from_millis(700);
    settle(&first, &claims, |_| Verdict::Retry { after, attempts: 1, cause: failure() }).await;
    let settled = Instant::now();
    first.close().await.unwrap();
    drop(first);
    let second = group(kafka, config(&topic, &topic));
    let claims = claim_of(&second, 1).await;
    assert!(settled.elapsed() >= after - Duration::from_millis(20), "{:?}", settled.elapsed());
    assert!(claims[0].is_set_aside());
    assert_eq!((names(&claims[0].messages), claims[0].messages[0].attempts), (vec!["one".to_owned()], 1));
}

/// Half of the messages fail at first. Every key has its order all the same, and no key waits for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_per_key_is_kept_through_retries_by_one_consumer() {
    let Some((kafka, topic)) = scene(3).await else { return };
    let (keys, rounds) = (20, 25);
    let messages: Vec<Message> = (0..rounds)
        .flat_map(|round| (0..keys).map(move |key| named(format!("{key}:{round:03}"), &format!("k{key}"))))
        .collect();
    enqueue(kafka, &topic, &messages).await;
    // Of key n the messages whose number divides by n + 2 fail, once or twice.
    let (sink, seen) = handler(|name, attempts| {
        let (key, round) = name.split_once(':').unwrap();
        let (key, round): (u32, u32) = (key.parse().unwrap(), round.parse().unwrap());
        match round % (key + 2) == 0 && attempts < 1 + key % 2 {
            true => Outcome::rejected(failure()),
            false => Outcome::Delivered,
        }
    });
    let running = Running::start(kafka, config(&topic, &topic), sink.clone());
    let done = tokio::time::timeout(Duration::from_secs(120), sink.wait_for(messages.len())).await;
    let done = names(&done.expect("all are done"));
    let (dead, stats) = (running.stats.dead(), running.stats.clone());
    running.stop().await;
    assert_eq!((done.len(), dead), (messages.len(), 0), "{stats:?}");
    assert_eq!(done.iter().collect::<BTreeSet<_>>().len(), messages.len(), "each once");
    for key in 0..keys {
        let of_key: Vec<_> = done.iter().filter(|name| name.starts_with(&format!("{key}:"))).collect();
        assert!(of_key.is_sorted(), "{of_key:?}");
    }
    // No message was tried before all earlier ones of its key were done.
    let mut last: HashMap<String, String> = HashMap::new();
    for (name, ..) in seen.lock().unwrap().iter() {
        let before = last.insert(name.split_once(':').unwrap().0.to_owned(), name.clone());
        assert!(before.as_ref().is_none_or(|before| before <= name), "{before:?} came before {name}");
    }
}

#[tokio::test]
async fn a_wait_that_is_longer_than_every_step_goes_round_until_it_is_over() {
    let Some((kafka, topic)) = scene(1).await else { return };
    enqueue(kafka, &topic, &[named("later", "k"), named("soon", "s")]).await;
    let wait = Duration::from_millis(1_900);
    let (sink, seen) = handler(move |name, attempts| {
        let retry_after = Some(if name == "later" { wait } else { Duration::from_millis(100) });
        match attempts {
            0 => Outcome::Rejected(Rejection {
                cause: failure(),
                permanent: false,
                retry_after,
                defect: false,
            }),
            _ => Outcome::Delivered,
        }
    });
    let running = Running::start(kafka, config(&topic, &topic), sink.clone());
    let done = tokio::time::timeout(super::PATIENCE, sink.wait_for(2)).await.expect("both are done");
    running.stop().await;
    assert_eq!(names(&done), ["soon", "later"]);
    let times: Vec<Instant> =
        seen.lock().unwrap().iter().filter(|(name, ..)| name == "later").map(|(.., at)| *at).collect();
    assert_eq!(times.len(), 2, "it was not tried on the way");
    let waited = times[1] - times[0];
    // A tenth of the shortest step is the tolerance.
    assert!(waited >= wait - Duration::from_millis(30), "{waited:?}");
    let rounds = kafka.records(&format!("{topic}.{topic}.retry.700ms"), 2).await.unwrap();
    assert!(rounds.iter().all(|record| record.header(header::RETRY_ATTEMPTS).as_deref() == Some("1")));
}

#[tokio::test]
async fn without_retry_topics_a_message_waits_here_and_its_offset_with_it() {
    let Some((kafka, topic)) = scene(1).await else { return };
    enqueue(kafka, &topic, &[named("0", "a"), named("1", "b"), named("2", "b"), named("3", "c")]).await;
    let mut without = config(&topic, &topic);
    without.retry.clear();
    let mut rules = policy(&without);
    rules.steps = None;
    rules.retry.first = Duration::from_millis(200);
    let (sink, seen) = handler(|name, attempts| match name == "1" && attempts < 3 {
        true => Outcome::rejected(failure()),
        false => Outcome::Delivered,
    });
    let running = Running::of(Pipe::new(group(kafka, without.clone()), sink.clone()).policy(rules));
    tokio::time::timeout(super::PATIENCE, sink.wait_for(2)).await.expect("the others go on");
    until("it is committed", async || kafka.committed(&topic, &topic).await.unwrap() == [Some(1)]).await;
    let done = tokio::time::timeout(super::PATIENCE, sink.wait_for(4)).await.expect("all are done");
    assert_eq!(names(&done), ["0", "3", "1", "2"]);
    until("it is committed", async || kafka.committed(&topic, &topic).await.unwrap() == [Some(4)]).await;
    running.stop().await;
    let attempts: Vec<u32> = seen
        .lock()
        .unwrap()
        .iter()
        .filter(|(name, ..)| name == "1")
        .map(|(_, attempts, _)| *attempts)
        .collect();
    assert_eq!(attempts, [0, 1, 2, 3]);
}

/// Retry topics bear the name of their group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d5_what_one_group_retries_another_does_not_see() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(1).await.unwrap();
    let (failing, other) = (config(&topic, "failing"), config(&topic, "other"));
    let bystander = group(kafka, other);
    enqueue(kafka, &topic, &[named("one", "k")]).await;
    let source = group(kafka, failing);
    let cause = outbox::Cause::new("X", "no");
    let claims = claim_of(&source, 1).await;
    let retry = Verdict::Retry { after: Duration::from_millis(100), attempts: 1, cause };
    settle(&source, &claims, |_| retry.clone()).await;
    let again = claim_of(&source, 1).await;
    assert_eq!(again[0].messages[0].attempts, 1);
    settle(&source, &again, |_| Verdict::Done).await;
    let seen = claim_of(&bystander, 1).await;
    assert_eq!(seen[0].messages[0].attempts, 0);
    settle(&bystander, &seen, |_| Verdict::Done).await;
    for _ in 0..5 {
        assert!(bystander.claim(10).await.unwrap().messages.is_empty(), "the retry is none of its business");
        bystander.wait(Duration::from_millis(100)).await;
    }
    source.close().await.unwrap();
    bystander.close().await.unwrap();
}
