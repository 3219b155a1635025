//! What it answers, on the memory backend and a paused clock.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use outbox::memory::{LogStore, Outbox, Recorder};
use outbox::{
    Cause, Error, ErrorKind, Kept, Limits, Message, Outcome, Pipe, Published, Publisher, Result, Sink, Store,
    code,
};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::pipe::{message, payloads, start};

fn publisher(sink: impl Sink + 'static, outbox: &Outbox) -> Publisher {
    Publisher::new(Arc::new(sink), Arc::new(outbox.store("later")))
}

fn code_of(published: &Published) -> &str {
    match published {
        Published::Confirmed => "confirmed",
        Published::Kept(Kept::Behind) => "behind",
        Published::Kept(Kept::Cause(cause)) => &cause.code,
    }
}

#[tokio::test(start_paused = true)]
async fn e4_what_is_published_is_confirmed_and_during_an_outage_kept_and_delivered_later_in_order() {
    let (outbox, broker) = (Outbox::new(), Recorder::new());
    let publisher = publisher(broker.clone(), &outbox);
    let publish = async |key, number| {
        let published = publisher.publish(message(key, number)).await.unwrap();
        code_of(&published).to_owned()
    };
    assert_eq!(publish("a", 0).await, "confirmed");
    broker.go_down();
    assert_eq!(publish("a", 1).await, code::UNREACHABLE);
    let asked = Instant::now();
    assert_eq!(publish("b", 0).await, code::UNREACHABLE, "without a try");
    assert_eq!(Instant::now(), asked, "nobody waits for what is known to be down");
    broker.come_up();
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(publish("a", 2).await, "behind", "it would overtake");
    assert_eq!(publish("c", 0).await, "confirmed", "the one that finds out");
    assert_eq!(publish("b", 1).await, "behind");
    assert_eq!(payloads(&broker.received()), ["a:0", "c:0"]);
    let pipe = start(Pipe::new(outbox.cursor("later"), broker.clone()));
    broker.wait_for(6).await;
    pipe.stop().await;
    assert_eq!(publish("a", 3).await, "confirmed", "nothing of it is kept any more");
    let came = payloads(&broker.received());
    let of = |key: &str| came.iter().filter(|name| name.starts_with(key)).cloned().collect::<Vec<_>>();
    assert_eq!(of("a"), ["a:0", "a:1", "a:2", "a:3"]);
    assert_eq!(of("b"), ["b:0", "b:1"]);
}

/// Answers when it is let.
#[derive(Clone)]
struct Slow {
    sink: Recorder,
    leave: Arc<Semaphore>,
}

#[async_trait]
impl Sink for Slow {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        self.leave.acquire().await.unwrap().forget();
        self.sink.deliver(messages).await
    }
}

#[tokio::test(start_paused = true)]
async fn e4_no_answer_in_time_means_kept_and_the_next_does_not_wait_for_it() {
    let (outbox, sink) = (Outbox::new(), Recorder::new());
    let slow = Slow { sink: sink.clone(), leave: Arc::new(Semaphore::new(0)) };
    let publisher = publisher(slow.clone(), &outbox).timeout(Duration::from_secs(2));
    let asked = Instant::now();
    let (one, two) = tokio::join!(publisher.publish(message("a", 0)), publisher.publish(message("a", 1)));
    assert_eq!((code_of(&one.unwrap()), code_of(&two.unwrap())), (code::TIMEOUT, code::TIMEOUT));
    assert_eq!(asked.elapsed(), Duration::from_secs(2), "the second was kept as soon as the first was");
    assert_eq!(code_of(&publisher.publish(message("b", 0)).await.unwrap()), code::TIMEOUT);
    assert_eq!(asked.elapsed(), Duration::from_secs(2));
    // What was on its way arrives after all: then it comes twice, under the same id, and first in its place.
    slow.leave.add_permits(100);
    sink.wait_for(1).await;
    let pipe = start(Pipe::new(outbox.cursor("later"), sink.clone()));
    let came = sink.wait_for(4).await;
    pipe.stop().await;
    assert_eq!(payloads(&came)[0], "a:0");
    assert_eq!(came.iter().map(|message| &message.id).collect::<HashSet<_>>().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn e4_a_message_whose_turn_does_not_come_in_time_is_kept() {
    let (outbox, sink) = (Outbox::new(), Recorder::new());
    let slow = Slow { sink: sink.clone(), leave: Arc::new(Semaphore::new(0)) };
    let publisher = Arc::new(publisher(slow.clone(), &outbox).timeout(Duration::from_secs(2)));
    let publish = |number: usize| {
        let publisher = publisher.clone();
        tokio::spawn(async move { publisher.publish(message("hot", number)).await.unwrap() })
    };
    let all: Vec<_> = (0..4).map(publish).collect();
    // One and a half seconds for each: the third would have to wait for three.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        slow.leave.add_permits(1);
    }
    let mut answers = Vec::new();
    for one in all {
        answers.push(code_of(&one.await.unwrap()).to_owned());
    }
    assert_eq!(answers, ["confirmed", "confirmed", code::TIMEOUT, code::TIMEOUT]);
}

#[tokio::test(start_paused = true)]
async fn e4_what_is_refused_for_good_is_an_error_and_what_may_heal_is_kept() {
    let (outbox, sink) = (Outbox::new(), Recorder::new());
    let publisher = publisher(sink.clone(), &outbox);
    sink.judge_by(|message| match message.kind.as_str() {
        "large" => Outcome::refused(Cause::new(code::TOO_LARGE, "too large")),
        "lost" => Outcome::rejected(Cause::new(code::NO_ROUTE, "nobody is bound")),
        _ => Outcome::Delivered,
    });
    let error = publisher.publish(Message::new("large", "").key("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("TOO_LARGE: too large"), "{error}");
    let error = publisher.publish(Message::new(" ", "").key("a")).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("has no type"), "{error}");
    assert_eq!(publisher.publish(message("a", 0)).await.unwrap(), Published::Confirmed, "nothing was kept");
    let kept = publisher.publish(Message::new("lost", "").key("b")).await.unwrap();
    assert_eq!(code_of(&kept), code::NO_ROUTE);
    assert_eq!(code_of(&publisher.publish(message("b", 0)).await.unwrap()), "behind");
    assert_eq!(publisher.publish(message("a", 1)).await.unwrap(), Published::Confirmed);
}

/// A store that can be told to fail.
#[derive(Clone)]
struct Faulty {
    store: LogStore,
    mute: Arc<AtomicBool>,
    full: Arc<AtomicBool>,
}

impl Faulty {
    fn new(outbox: &Outbox) -> Self {
        Self { store: outbox.store("later"), mute: Arc::default(), full: Arc::default() }
    }
}

#[async_trait]
impl Store for Faulty {
    fn limits(&self) -> Limits {
        self.store.limits()
    }
    fn admit(&self, message: Message) -> Result<Message> {
        self.store.admit(message)
    }
    async fn keep(&self, messages: &[Message]) -> Result<()> {
        if self.full.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Busy, "told to be full"));
        }
        if messages.iter().any(|message| message.kind == "poison") {
            return Err(Error::new(ErrorKind::Invalid, "a constraint"));
        }
        self.store.keep(messages).await
    }
    async fn has_kept(&self, keys: &[&str]) -> Result<HashSet<String>> {
        match self.mute.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Unreachable, "told to be gone")),
            false => self.store.has_kept(keys).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn e4_what_is_neither_sent_nor_kept_is_an_error() {
    let (outbox, sink) = (Outbox::new(), Recorder::new());
    let store = Faulty::new(&outbox);
    let publisher = Publisher::new(Arc::new(sink.clone()), Arc::new(store.clone()));
    store.mute.store(true, Ordering::Relaxed);
    let error = publisher.publish(message("a", 0)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unreachable && error.chain().contains("told to be gone"), "{error}");
    assert_eq!(sink.received(), [], "it might have overtaken one");
    let keyless = publisher.publish(Message::new("t", "")).await.unwrap();
    assert_eq!(keyless, Published::Confirmed, "what has no key has no order");
    store.mute.store(false, Ordering::Relaxed);
    store.full.store(true, Ordering::Relaxed);
    assert_eq!(publisher.publish(message("a", 0)).await.unwrap(), Published::Confirmed);
    sink.go_down();
    let error = publisher.publish(message("a", 1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    let told = error.to_string();
    assert!(told.contains("neither confirmed (UNREACHABLE: told to be down) nor kept"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn e4_a_message_that_cannot_be_kept_does_not_harm_its_neighbours() {
    let (outbox, sink) = (Outbox::new(), Recorder::new());
    let publisher = Publisher::new(Arc::new(sink.clone()), Arc::new(Faulty::new(&outbox)));
    sink.go_down();
    publisher.publish(message("first", 0)).await.unwrap();
    let publish = |number: usize| {
        let kind = if number == 7 { "poison" } else { "t" };
        publisher.publish(Message::new(kind, "").key(number))
    };
    let answers = futures_util::future::join_all((0..20).map(publish)).await;
    for (number, answer) in answers.iter().enumerate() {
        assert_eq!(answer.is_err(), number == 7, "{number}: {answer:?}");
    }
}

/// Notes how much is out at a time, and that nothing is out twice.
#[derive(Default)]
struct Busy {
    out: std::sync::Mutex<HashSet<String>>,
    most: AtomicUsize,
    calls: AtomicUsize,
    received: std::sync::Mutex<Vec<Message>>,
}

#[async_trait]
impl Sink for Busy {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        {
            let mut out = self.out.lock().unwrap();
            for message in messages {
                assert!(out.insert(message.key.clone().unwrap()), "two of one key are out");
            }
            self.most.fetch_max(out.len(), Ordering::Relaxed);
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(rand::random_range(1..50))).await;
        self.received.lock().unwrap().extend(messages.iter().cloned());
        let mut out = self.out.lock().unwrap();
        out.retain(|key| !messages.iter().any(|message| message.key.as_deref() == Some(key)));
        vec![Outcome::Delivered; messages.len()]
    }
}

#[tokio::test(start_paused = true)]
async fn e4_messages_of_a_key_go_one_after_the_other_and_those_of_others_together() {
    let (outbox, sink) = (Outbox::new(), Arc::new(Busy::default()));
    let store = Arc::new(outbox.store("later"));
    let publisher = Publisher::new(sink.clone(), store).timeout(Duration::from_secs(600));
    let publish = |number: usize| publisher.publish(message(&format!("k{}", number % 50), number / 50));
    let answers = futures_util::future::join_all((0..1_000).map(publish)).await;
    assert!(answers.iter().all(|answer| *answer.as_ref().unwrap() == Published::Confirmed));
    let came = payloads(&sink.received.lock().unwrap());
    for key in 0..50 {
        let of_key: Vec<_> =
            came.iter().filter(|name| name.split(':').next() == Some(&format!("k{key}"))).cloned().collect();
        assert_eq!(of_key, (0..20).map(|number| format!("k{key}:{number}")).collect::<Vec<_>>());
    }
    let (most, calls) = (sink.most.load(Ordering::Relaxed), sink.calls.load(Ordering::Relaxed));
    assert!(most > 10 && calls < 500, "{most} were out at a time, in {calls} calls");
}

#[tokio::test(start_paused = true)]
async fn e4_a_caller_that_leaves_takes_nothing_back() {
    let (outbox, sink) = (Outbox::new(), Recorder::new());
    let slow = Slow { sink: sink.clone(), leave: Arc::new(Semaphore::new(0)) };
    let publisher = publisher(slow.clone(), &outbox);
    let gone = tokio::time::timeout(Duration::from_millis(10), publisher.publish(message("a", 0))).await;
    assert!(gone.is_err());
    slow.leave.add_permits(100);
    assert_eq!(publisher.publish(message("a", 1)).await.unwrap(), Published::Confirmed);
    assert_eq!(payloads(&sink.received()), ["a:0", "a:1"]);
}

struct Broken;

#[async_trait]
impl Sink for Broken {
    async fn deliver(&self, _messages: &[Message]) -> Vec<Outcome> {
        panic!("told to");
    }
}

#[tokio::test(start_paused = true)]
async fn e4_a_sink_that_panics_loses_nothing() {
    let outbox = Outbox::new();
    let publisher = publisher(Broken, &outbox);
    for number in 0..2 {
        assert_eq!(code_of(&publisher.publish(message("a", number)).await.unwrap()), code::PANIC);
    }
    let sink = Recorder::new();
    let pipe = start(Pipe::new(outbox.cursor("later"), sink.clone()));
    assert_eq!(payloads(&sink.wait_for(2).await), ["a:0", "a:1"]);
    pipe.stop().await;
}
