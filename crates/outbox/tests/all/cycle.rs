//! What a pipe counts and tells of its work, cycle by cycle.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use outbox::memory::{Outbox, Recorder};
use outbox::{Cause, Claim, Message, Outcome, Pipe, Result, Sink, Source, Verdict, code};
use tokio::time::{Instant, sleep};
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::fmt::MakeWriter;

use crate::pipe::{payloads, rejected, start};

/// What this thread logs at info and above.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn capture() -> (Self, tracing::subscriber::DefaultGuard) {
        // With a single subscriber alive, `tracing` asks that of the thread which comes first to a line, and
        // that may be another test, which has none: then the line would be off for all. A second one prevents it.
        static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));
        LazyLock::force(&SECOND);
        let lines = Self::default();
        let log = tracing_subscriber::fmt().with_writer(lines.clone()).with_ansi(false).without_time();
        (lines, tracing::subscriber::set_default(log.with_target(false).finish()))
    }

    /// The lines about cycles, without what they have in common.
    fn cycles(&self) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let begin = " INFO cycle pipe=\"relay\" ";
        text.lines().filter_map(|line| line.strip_prefix(begin)).map(str::to_owned).collect()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Lines {
    type Writer = Self;
    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Hands out these claims, one after the other.
struct Script(Mutex<VecDeque<Claim>>);

impl Script {
    fn new(claims: impl IntoIterator<Item = Claim>) -> Self {
        Self(Mutex::new(claims.into_iter().collect()))
    }
}

#[async_trait]
impl Source for Script {
    async fn claim(&self, _limit: usize) -> Result<Claim> {
        Ok(self.0.lock().unwrap().pop_front().unwrap_or_else(Claim::empty))
    }
    async fn settle(&self, _claim: &Claim, verdicts: &[Verdict]) -> Result<()> {
        assert!(!verdicts.is_empty(), "a claim without messages is not settled");
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a4_what_was_handled_before_is_counted_as_skipped_and_does_not_slow_the_rest() {
    let only_skipped = (0..50).map(|_| Claim::empty().with_skipped(10));
    let last = Claim::new(vec![Message::new("t", "new")], ()).with_skipped(3);
    let (sink, began) = (Recorder::new(), Instant::now());
    let pipe = start(Pipe::new(Script::new(only_skipped.chain([last])), sink.clone()));
    assert_eq!(payloads(&sink.wait_for(1).await), ["new"]);
    assert_eq!(began.elapsed(), Duration::ZERO, "there was no rest between claims that had work");
    let stats = pipe.stats.clone();
    pipe.stop().await;
    assert_eq!((stats.skipped(), stats.claimed(), stats.delivered()), (503, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a8_one_line_per_cycle_says_how_many_succeeded_failed_and_were_skipped() {
    let (lines, _guard) = Lines::capture();
    let kinds = ["good", "good", "good", "again", "never"].map(|kind| Message::new(kind, ""));
    let skipping = Claim::new(kinds.to_vec(), ()).with_skipped(7);
    let sink = Recorder::new();
    sink.judge_by(|message| match message.kind.as_str() {
        "again" => rejected(),
        "never" => Outcome::refused(Cause::new(code::UNFIT, "never")),
        _ => Outcome::Delivered,
    });
    let pipe = start(Pipe::new(Script::new([skipping, Claim::empty().with_skipped(2)]), sink).name("relay"));
    sleep(Duration::from_secs(3600)).await;
    let causes = "cause=UNFIT: never other_causes=1";
    let first = |skipped: u32| format!("delivered=3 failed=2 skipped={skipped} {causes}");
    let expected = [first(7), "delivered=0 failed=0 skipped=2".to_owned()];
    let told = lines.cycles();
    // The second claim may come before the first one is settled; then they are one cycle.
    assert!(told == expected || told == [first(9)], "an idle hour adds none: {told:?}");
    pipe.stop().await;
    assert_eq!(lines.cycles(), told, "all was told");
}

#[tokio::test(start_paused = true)]
async fn a8_a_storm_of_failures_is_a_line_per_cycle_with_the_cause_of_most() {
    let (lines, _guard) = Lines::capture();
    let outbox = Outbox::new();
    let kinds = (0..500).map(|n| if n % 10 == 0 { "odd" } else { "usual" });
    outbox.enqueue_all(kinds.map(|kind| Message::new(kind, "canary")).collect()).unwrap();
    let sink = Recorder::new();
    sink.judge_by(|message| match message.kind.as_str() {
        "odd" => Outcome::rejected(Cause::new("HTTP_409", "it answered 409")),
        _ => Outcome::rejected(Cause::new("HTTP_500", "it answered 500")),
    });
    let policy = outbox::Policy { streak: u32::MAX, ..outbox::Policy::default() };
    let pipe = start(Pipe::new(outbox.cursor("c"), sink).name("relay").policy(policy).batch(500));
    sleep(Duration::from_millis(10)).await;
    let told = lines.cycles();
    assert_eq!(
        told,
        ["delivered=0 failed=500 skipped=0 cause=HTTP_500: it answered 500 other_causes=50"],
        "not a line for each"
    );
    pipe.stop().await;
    let all = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(!all.contains("canary"), "{all}");
}

#[tokio::test(start_paused = true)]
async fn a8_messages_that_trickle_in_make_at_most_a_line_a_second_and_none_is_left_out() {
    let (lines, _guard) = Lines::capture();
    let (outbox, sink) = (Outbox::new(), Recorder::new());
    let pipe = start(Pipe::new(outbox.cursor("c"), sink.clone()).name("relay"));
    for n in 1..=100 {
        outbox.enqueue(Message::new("t", "")).unwrap();
        sink.wait_for(n).await;
        sleep(Duration::from_millis(50)).await;
    }
    pipe.stop().await;
    let told = lines.cycles();
    assert!((5..=8).contains(&told.len()), "five seconds: {told:?}");
    let counts = told.iter().map(|line| line.split(['=', ' ']).nth(1).unwrap().parse::<u64>().unwrap());
    assert_eq!(counts.sum::<u64>(), 100);
}

/// Takes a second for each delivery.
struct Slow;

#[async_trait]
impl Sink for Slow {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        sleep(Duration::from_secs(1)).await;
        vec![Outcome::Delivered; messages.len()]
    }
}

#[tokio::test(start_paused = true)]
async fn a8_work_that_does_not_end_is_told_every_five_seconds() {
    let (lines, _guard) = Lines::capture();
    let outbox = Outbox::new();
    outbox.enqueue_all((0..100).map(|_| Message::new("t", "")).collect()).unwrap();
    let pipe = start(Pipe::new(outbox.cursor("c"), Slow).name("relay").batch(1).concurrency(1));
    sleep(Duration::from_millis(60_500)).await;
    let told = lines.cycles();
    assert!((9..=12).contains(&told.len()), "a minute of work: {told:?}");
    pipe.stop().await;
}
