//! The loop itself, on the memory backend and a paused clock: order, retries, the breaker, stopping.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use outbox::memory::{Outbox, Recorder};
use outbox::policy::{OnDead, Order, Outage};
use outbox::{
    Cause, Claim, Error, ErrorKind, Message, Outcome, Pipe, Policy, Result, Sink, Source, Stats, Verdict,
    code,
};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) fn rejected() -> Outcome {
    Outcome::rejected(Cause::new(code::HANDLER, "told to fail"))
}

pub(crate) fn message(key: &str, number: usize) -> Message {
    Message::new("t", format!("{key}:{number}")).key(key)
}

fn write(outbox: &Outbox, keys: &[&str], each: usize) {
    for number in 0..each {
        outbox.enqueue_all(keys.iter().map(|key| message(key, number)).collect()).unwrap();
    }
}

pub(crate) fn payloads(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|message| String::from_utf8_lossy(&message.payload).into_owned()).collect()
}

/// A pipe that runs in the background.
pub(crate) struct Running {
    stop: CancellationToken,
    pub(crate) stats: Arc<Stats>,
    task: JoinHandle<Result<()>>,
}

pub(crate) fn start(pipe: Pipe) -> Running {
    let (stop, stats) = (CancellationToken::new(), pipe.stats());
    Running { stop: stop.clone(), stats, task: tokio::spawn(pipe.run(stop)) }
}

impl Running {
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}

/// Panics if the messages of a key came out of order, or one came twice.
fn assert_in_order(messages: &[Message]) {
    let mut next: HashMap<&str, usize> = HashMap::new();
    for message in messages {
        let key = message.key.as_deref().unwrap();
        let expected = next.entry(key).or_default();
        assert_eq!(String::from_utf8_lossy(&message.payload), format!("{key}:{expected}"));
        *expected += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn c3_one_log_feeds_several_pipes_each_at_its_own_pace() {
    let outbox = Outbox::new();
    write(&outbox, &["a", "b"], 50);
    let (inventory, payments, audit) = (Recorder::new(), Recorder::new(), Recorder::new());
    payments.go_down();
    audit.judge_by(|_| Outcome::refused(Cause::new(code::UNFIT, "never")));
    let pipes = [("inventory", &inventory), ("payments", &payments), ("audit", &audit)]
        .map(|(name, sink)| start(Pipe::new(outbox.cursor(name), sink.clone()).name(name)));
    assert_in_order(&inventory.wait_for(100).await);
    assert!(payments.received().is_empty(), "one is down, the other does not notice");
    payments.come_up();
    assert_in_order(&payments.wait_for(100).await);
    for pipe in pipes {
        pipe.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn c4_order_per_key_holds_while_something_fails() {
    let outbox = Outbox::new();
    write(&outbox, &["a", "b", "c"], 30);
    let sink = Recorder::new();
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = failures.clone();
    // The sixth of `b` fails four times; all others pass at once.
    sink.judge_by(move |message| match &*message.payload {
        b"b:5" if counted.fetch_add(1, Ordering::Relaxed) < 4 => rejected(),
        _ => Outcome::Delivered,
    });
    let pipe = start(Pipe::new(outbox.cursor("c"), sink.clone()).batch(7));
    let came = sink.wait_for(90).await;
    assert_in_order(&came);
    let place = |name: &str| payloads(&came).iter().position(|payload| payload == name).unwrap();
    assert!(place("c:29") < place("b:5"), "other keys did not wait");
    assert_eq!(pipe.stats.retried(), 4);
    pipe.stop().await;
}

/// A sink that counts how many messages it holds at once, and lets go when told.
struct Gate {
    holding: AtomicUsize,
    most: AtomicUsize,
    calls: AtomicUsize,
    open: Semaphore,
}

impl Gate {
    fn new() -> Arc<Self> {
        let (holding, most, calls) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { holding, most, calls, open: Semaphore::new(0) })
    }
}

#[async_trait]
impl Sink for Gate {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let holding = self.holding.fetch_add(messages.len(), Ordering::SeqCst) + messages.len();
        self.most.fetch_max(holding, Ordering::SeqCst);
        self.open.acquire().await.unwrap().forget();
        self.holding.fetch_sub(messages.len(), Ordering::SeqCst);
        vec![Outcome::Delivered; messages.len()]
    }
}

#[tokio::test(start_paused = true)]
async fn c6_messages_of_a_batch_and_several_batches_are_in_flight_together() {
    let outbox = Outbox::new();
    outbox.enqueue_all((0..40).map(|n| message(&format!("k{n}"), 0)).collect()).unwrap();
    let gate = Gate::new();
    let pipe = start(Pipe::new(outbox.cursor("c"), gate.clone()).batch(10).depth(4).concurrency(4));
    while gate.calls.load(Ordering::SeqCst) < 4 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(gate.most.load(Ordering::SeqCst), 40);
    gate.open.add_permits(4);
    pipe.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_stops_claiming_charges_nothing_and_ends_by_itself() {
    let outbox = Outbox::new();
    write(&outbox, &["a", "b"], 500);
    let sink = Recorder::new();
    sink.go_down();
    let pipe = start(Pipe::new(outbox.cursor("c"), sink.clone()).batch(50));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(pipe.stats.open_cause().unwrap().code, code::UNREACHABLE);
    let claimed = pipe.stats.claimed();
    // Four batches before the sink had said a word, and two probes a minute, or up to four with the jitter.
    assert!(claimed < 4 * 50 + 450, "an hour of outage cost a few probes, not {claimed} claims");
    assert_eq!((pipe.stats.retried(), pipe.stats.dead()), (0, 0));
    sink.come_up();
    let came = sink.wait_for(1000).await;
    assert_in_order(&came);
    assert!(came.iter().all(|message| message.attempts == 0));
    assert_eq!(pipe.stats.open_cause(), None);
    pipe.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_may_count_if_it_shall() {
    let outbox = Outbox::new();
    write(&outbox, &["a"], 1);
    let sink = Recorder::new();
    sink.go_down();
    let policy = Policy { outage: Outage::Count, attempts: 5, ..Policy::default() };
    let pipe = start(Pipe::new(outbox.cursor("c"), sink.clone()).policy(policy));
    while pipe.stats.dead() == 0 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!((pipe.stats.retried(), pipe.stats.dead()), (4, 1));
    pipe.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_message_holds_its_key_or_lets_it_pass_as_told() {
    for (on_dead, expected) in [(OnDead::Hold, vec!["b:0", "b:1"]), (OnDead::Skip, vec!["a:1", "b:0", "b:1"])]
    {
        let outbox = Outbox::new();
        write(&outbox, &["a", "b"], 2);
        let sink = Recorder::new();
        sink.judge_by(|message| match &*message.payload {
            b"a:0" => Outcome::refused(Cause::new(code::TOO_LARGE, "too large")),
            _ => Outcome::Delivered,
        });
        let policy = Policy { on_dead, ..Policy::default() };
        let pipe = start(Pipe::new(outbox.cursor("c"), sink.clone()).policy(policy));
        sink.wait_for(expected.len()).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        let mut came = payloads(&sink.received());
        came.sort();
        assert_eq!(came, expected);
        assert_eq!(pipe.stats.dead(), 1);
        pipe.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_streak_for_one_cause_is_an_outage_and_spares_the_backlog() {
    let outbox = Outbox::new();
    outbox.enqueue_all((0..500).map(|n| message(&format!("k{n}"), 0)).collect()).unwrap();
    let sink = Recorder::new();
    sink.judge_by(|_| Outcome::refused(Cause::new(code::NO_ROUTE, "nothing is bound")));
    let pipe = start(Pipe::new(outbox.cursor("c"), sink.clone()));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let dead = pipe.stats.dead();
    assert!((20..30).contains(&dead), "the streak and a few probes, not the backlog: {dead}");
    assert_eq!(pipe.stats.open_cause().unwrap().code, code::NO_ROUTE);
    sink.come_up();
    let before_recovery = usize::try_from(pipe.stats.dead()).unwrap();
    sink.wait_for(500 - before_recovery - 1).await;
    pipe.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_drains_what_is_out_and_leaves_nothing_claimed() {
    let outbox = Outbox::new();
    outbox.enqueue_all((0..100).map(|n| message(&format!("k{n}"), 0)).collect()).unwrap();
    let gate = Gate::new();
    let pipe = start(Pipe::new(outbox.cursor("c"), gate.clone()).batch(10).depth(2).concurrency(1));
    while gate.calls.load(Ordering::SeqCst) < 1 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    pipe.stop.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!pipe.task.is_finished(), "it waits for what is out");
    gate.open.add_permits(1);
    pipe.task.await.unwrap().unwrap();
    assert_eq!(gate.calls.load(Ordering::SeqCst), 1, "nothing new went out");
    let rest = Recorder::new();
    let next = start(Pipe::new(outbox.cursor("c"), rest.clone()));
    assert_eq!(rest.wait_for(90).await.len(), 90, "no duplicate, nothing lost, no lease to wait for");
    next.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_up_on_a_sink_that_hangs() {
    let outbox = Outbox::new();
    write(&outbox, &["a"], 3);
    let pipe = start(Pipe::new(outbox.cursor("c"), Gate::new()).drain(Duration::from_secs(5)));
    tokio::time::sleep(Duration::from_secs(1)).await;
    pipe.stop().await;
    let rest = Recorder::new();
    let next = start(Pipe::new(outbox.cursor("c"), rest.clone()));
    assert_in_order(&rest.wait_for(3).await);
    next.stop().await;
}

/// A sink that hangs, and counts the deliveries that are not over.
#[derive(Clone, Default)]
struct Hanging(Arc<AtomicUsize>);

struct Underway(Hanging);

impl Drop for Underway {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Sink for Hanging {
    async fn deliver(&self, _messages: &[Message]) -> Vec<Outcome> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let _underway = Underway(self.clone());
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn no_delivery_goes_on_when_the_claims_are_given_back() {
    /// Notes how many deliveries were under way when it was closed.
    struct Closing<S> {
        source: S,
        sink: Hanging,
        found: Arc<Mutex<Vec<usize>>>,
    }
    #[async_trait]
    impl<S: Source> Source for Closing<S> {
        async fn claim(&self, limit: usize) -> Result<Claim> {
            self.source.claim(limit).await
        }
        async fn settle(&self, claim: &Claim, verdicts: &[Verdict]) -> Result<()> {
            self.source.settle(claim, verdicts).await
        }
        async fn close(&self) -> Result<()> {
            self.found.lock().unwrap().push(self.sink.0.load(Ordering::SeqCst));
            self.source.close().await
        }
    }
    let outbox = Outbox::new();
    write(&outbox, &["a", "b"], 1);
    let (sink, found) = (Hanging::default(), Arc::default());
    let source = Closing { source: outbox.cursor("c"), sink: sink.clone(), found: Arc::clone(&found) };
    let pipe = start(Pipe::new(source, sink.clone()).batch(1).depth(2).drain(Duration::from_secs(5)));
    let both = async {
        while sink.0.load(Ordering::SeqCst) < 2 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), both).await.expect("both are under way");
    pipe.stop().await;
    assert_eq!(*found.lock().unwrap(), [0], "they were ended before");
}

#[tokio::test(start_paused = true)]
async fn without_order_a_failure_keeps_nothing_back() {
    let outbox = Outbox::new();
    write(&outbox, &["a"], 10);
    let sink = Recorder::new();
    sink.judge_by(|message| if *message.payload == *b"a:0" { rejected() } else { Outcome::Delivered });
    let policy = Policy { order: Order::None, ..Policy::default() };
    let pipe = start(Pipe::new(outbox.cursor("c"), sink.clone()).policy(policy));
    assert_eq!(sink.wait_for(9).await.len(), 9);
    pipe.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_error_that_only_a_person_can_mend_ends_the_pipe_with_its_reason() {
    struct Broken;
    #[async_trait]
    impl Source for Broken {
        async fn claim(&self, _limit: usize) -> Result<Claim> {
            Err(Error::new(ErrorKind::NotMigrated, "no tables"))
        }
        async fn settle(&self, _claim: &Claim, _verdicts: &[Verdict]) -> Result<()> {
            Ok(())
        }
    }
    let error = Pipe::new(Broken, Recorder::new()).run(CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotMigrated);
}
