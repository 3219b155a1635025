//! Many messages that nobody takes, among others: when that is the fault of the sink, and when it is theirs.

use std::time::Duration;

use outbox::memory::{Outbox, Recorder};
use outbox::{Cause, Message, Outcome, Pipe, code};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

fn judge(message: &Message) -> Outcome {
    match message.kind.as_str() {
        "bad" => Outcome::rejected(Cause::new(code::NO_ROUTE, "nobody cares")),
        _ => Outcome::Delivered,
    }
}

/// A tenth of all messages is rejected. When they are tried again they come together, one after the other with
/// nothing else in between; that says no more about the sink than their first rejections did.
#[tokio::test(start_paused = true)]
async fn messages_that_are_rejected_again_do_not_stop_the_others() {
    let (outbox, sink, stop) = (Outbox::new(), Recorder::new(), CancellationToken::new());
    sink.judge_by(judge);
    let kind = |n: usize| if n % 10 == 9 { "bad" } else { "good" };
    outbox.enqueue_all((0..3_000).map(|n| Message::new(kind(n), "")).collect()).unwrap();
    let pipe = Pipe::new(outbox.cursor("c"), sink.clone()).jitter(|| 0.5);
    let stats = pipe.stats();
    let pipe = tokio::spawn(pipe.run(stop.clone()));
    sink.wait_for(2_700).await;
    for n in 1..=300 {
        let written = Instant::now();
        outbox.enqueue(Message::new("good", "")).unwrap();
        sink.wait_for(2_700 + n).await;
        let took = written.elapsed();
        assert!(took < Duration::from_millis(50), "the {n}th waited {took:?} behind those that nobody takes");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(stats.retried() > 1_000, "they were tried again meanwhile: {}", stats.retried());
    stop.cancel();
    pipe.await.unwrap().unwrap();
}

/// A burst of messages that are judged without the sink is no outage: the good ones behind them do not wait for probes.
#[tokio::test(start_paused = true)]
async fn d5_a_burst_of_messages_with_a_defect_does_not_keep_the_good_ones_waiting() {
    let (outbox, sink, stop) = (Outbox::new(), Recorder::new(), CancellationToken::new());
    sink.judge_by(|message| match message.kind.as_str() {
        "bad" => Outcome::defect(Cause::new(code::UNFIT, "no JSON")),
        _ => Outcome::Delivered,
    });
    let kind = |n: usize| if n < 500 { "bad" } else { "good" };
    outbox.enqueue_all((0..600).map(|n| Message::new(kind(n), "")).collect()).unwrap();
    // In small claims, one at a time: the good ones are not out already when the streak is full.
    let pipe = Pipe::new(outbox.cursor("c"), sink.clone()).batch(10).depth(1).jitter(|| 0.5);
    let (stats, began) = (pipe.stats(), Instant::now());
    let pipe = tokio::spawn(pipe.run(stop.clone()));
    sink.wait_for(100).await;
    assert!(began.elapsed() < Duration::from_secs(1), "after {:?}", began.elapsed());
    assert_eq!(stats.open_cause(), None);
    stop.cancel();
    pipe.await.unwrap().unwrap();
    assert_eq!(stats.dead(), 500);
}
