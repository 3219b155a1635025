//! The broker dies and comes back, under a pipe that reads, retries and commits.

use std::collections::BTreeSet;
use std::time::Duration;

use outbox::memory::Recorder;
use outbox::{Cause, ErrorKind, Message, Outcome, Source, Verdict, code};
use testbed::Kafka;

use super::{Running, claim_of, config, enqueue, group, named, names, settle, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_dies_costs_nothing_and_work_resumes_by_itself() {
    let Some(mut kafka) = testbed::available(Kafka::start().await) else { return };
    let topic = kafka.topic(3).await.unwrap();
    let sink = Recorder::new();
    // Some fail at first, so that there are moves when it happens.
    sink.judge_by(|message: &Message| match message.payload.ends_with(b"7") && message.attempts == 0 {
        true => Outcome::rejected(Cause::new(code::HANDLER, "at first")),
        false => Outcome::Delivered,
    });
    let mut config = config(&topic, &topic);
    config.timeout = Duration::from_secs(2);
    let running = Running::start(&kafka, config, sink.clone());
    let mut written = BTreeSet::new();
    for round in 0..3 {
        let messages: Vec<_> =
            (0..500).map(|n| named(format!("{round}-{n}"), &format!("k{}", n % 50))).collect();
        written.extend(names(&messages));
        enqueue(&kafka, &topic, &messages).await;
        let before = sink.received().len();
        until("it goes on", async || sink.received().len() > before + 100).await;
        kafka.kill().await.unwrap();
        kafka.start_again().await.unwrap();
    }
    let all = async || names(&sink.received()).into_iter().collect::<BTreeSet<_>>() == written;
    until("all are handled", all).await;
    assert_eq!(running.stats.dead(), 0);
    running.stop().await;
}

/// What is claimed when the broker goes is still ours when it is back, unless somebody else was quicker.
#[tokio::test]
async fn a_claim_is_settled_after_the_outage_that_it_met() {
    let Some(mut kafka) = testbed::available(Kafka::start().await) else { return };
    let topic = kafka.topic(1).await.unwrap();
    enqueue(&kafka, &topic, &[named("1", "a"), named("2", "b")]).await;
    let mut config = config(&topic, &topic);
    config.timeout = Duration::from_secs(1);
    let source = group(&kafka, config.clone());
    let claims = claim_of(&source, 2).await;
    kafka.stop().await.unwrap();
    let told = async || match source.claim(10).await {
        Ok(claim) => !claim.messages.is_empty(),
        Err(error) => error.kind() == ErrorKind::Unreachable && error.is_temporary(),
    };
    until("the outage is told", told).await;
    let verdicts = vec![Verdict::Done; claims[0].messages.len()];
    let error = source.settle(&claims[0], &verdicts).await.unwrap_err();
    assert!(error.is_temporary(), "{error}");
    kafka.start_again().await.unwrap();
    let settled = async || {
        source.settle(&claims[0], &verdicts).await.inspect_err(|e| assert!(e.is_temporary(), "{e}")).is_ok()
    };
    until("it is settled", settled).await;
    settle(&source, &claims[1..], |_| Verdict::Done).await;
    source.close().await.unwrap();
    assert_eq!(kafka.committed(&topic, &topic).await.unwrap(), [Some(2)]);
}

#[tokio::test]
async fn an_absent_broker_is_told_and_is_no_error_at_construction() {
    let mut config = config("orders", "g");
    config.timeout = Duration::from_secs(1);
    let source = outbox::kafka::Group::new("kafka://reader:s3cret@127.0.0.1:1", config).unwrap();
    let error = source.claim(1).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unreachable && error.is_temporary(), "{error}");
    let told = format!("{error:?} {source:?}");
    assert!(told.contains("Connection refused") && !told.contains("s3cret"), "{told}");
    source.wait(Duration::from_millis(10)).await;
    source.close().await.unwrap();
}
