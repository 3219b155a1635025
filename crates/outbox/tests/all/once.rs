//! An inbox in front of any sink: on the inbox in memory, and on PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use outbox::conformance::sink::SinkFixture;
use outbox::memory::{Inbox, Recorder, Tx};
use outbox::{Cause, Inbox as _, Message, Once, Outcome, Sink, code};

fn named(payload: &str) -> Message {
    Message::new("test.handled", payload.to_owned())
}

fn is_unavailable(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unavailable(_))
}

/// Payloads in the order in which they were delivered.
fn came(sink: &Recorder) -> Vec<String> {
    sink.received().iter().map(|message| String::from_utf8_lossy(&message.payload).into_owned()).collect()
}

fn once(inbox: &Inbox, sink: &Recorder) -> Once<Inbox, Recorder> {
    Once::new(Arc::new(inbox.clone()), "c", sink.clone())
}

#[tokio::test]
async fn d3_a_known_id_is_delivered_without_a_call() {
    let (inbox, sink) = (Inbox::new(), Recorder::new());
    let (a, b) = (named("a"), named("b"));
    assert_eq!(once(&inbox, &sink).deliver(std::slice::from_ref(&a)).await, [Outcome::Delivered]);
    assert_eq!(once(&inbox, &sink).deliver(&[b, a.clone()]).await, vec![Outcome::Delivered; 2]);
    assert_eq!(came(&sink), ["a", "b"]);
    let other = Once::new(Arc::new(inbox), "another", sink.clone());
    assert_eq!(other.deliver(&[a]).await, [Outcome::Delivered]);
    assert_eq!(came(&sink), ["a", "b", "a"], "consumers do not see each other's ids");
}

#[tokio::test]
async fn what_is_rejected_is_not_recorded_and_harms_no_other() {
    let (inbox, sink) = (Inbox::new(), Recorder::new());
    sink.judge_by(|message| match &*message.payload {
        b"bad" => Outcome::rejected(Cause::new(code::REFUSED, "told to")),
        b"down" => Outcome::Unavailable(Cause::new(code::UNREACHABLE, "told to")),
        _ => Outcome::Delivered,
    });
    let messages = [named("a"), named("bad"), named("down"), named("b")];
    let outcomes = once(&inbox, &sink).deliver(&messages).await;
    assert_eq!((&outcomes[0], &outcomes[3]), (&Outcome::Delivered, &Outcome::Delivered));
    assert!(matches!(outcomes[1], Outcome::Rejected(_)) && is_unavailable(&outcomes[2]), "{outcomes:?}");
    sink.come_up();
    assert_eq!(once(&inbox, &sink).deliver(&messages).await, vec![Outcome::Delivered; 4]);
    assert_eq!(came(&sink), ["a", "b", "bad", "down"]);
}

#[tokio::test]
async fn an_id_that_is_twice_in_a_call_is_delivered_once() {
    let (inbox, sink) = (Inbox::new(), Recorder::new());
    let (a, b) = (named("a"), named("b"));
    let messages = [a.clone(), b, a];
    assert_eq!(once(&inbox, &sink).deliver(&messages).await, vec![Outcome::Delivered; 3]);
    assert_eq!(came(&sink), ["a", "b"]);
    assert!(once(&inbox, &sink).deliver(&[]).await.is_empty());
}

/// Takes its time.
struct Slow(Recorder);

#[async_trait]
impl Sink for Slow {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.0.deliver(messages).await
    }
}

#[tokio::test(start_paused = true)]
async fn d3_an_id_that_is_on_its_way_in_another_call_is_delivered_once() {
    let (inbox, sink) = (Inbox::new(), Recorder::new());
    let once = Arc::new(Once::new(Arc::new(inbox), "c", Slow(sink.clone())));
    let (a, b, c) = (named("a"), named("b"), named("c"));
    let calls = [vec![a.clone(), b.clone()], vec![b.clone(), c.clone()], vec![c, a.clone()], vec![a, b]];
    let calls = calls.map(|messages| {
        let once = once.clone();
        tokio::spawn(async move { once.deliver(&messages).await })
    });
    for call in calls {
        assert_eq!(call.await.unwrap(), vec![Outcome::Delivered; 2]);
    }
    let mut came = came(&sink);
    came.sort();
    assert_eq!(came, ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn k6_a_database_that_hangs_makes_all_unavailable_and_nothing_is_delivered() {
    let (inbox, sink) = (Inbox::new(), Recorder::new());
    let blocker = inbox.begin().await.unwrap();
    let outcomes = once(&inbox, &sink).deliver(&[named("a"), named("b")]).await;
    assert!(outcomes.len() == 2 && outcomes.iter().all(is_unavailable), "{outcomes:?}");
    assert!(came(&sink).is_empty());
    drop(blocker);
    assert_eq!(once(&inbox, &sink).deliver(&[named("a")]).await, [Outcome::Delivered]);
}

/// Delivers, and takes the database away before it is told.
struct Thief {
    inbox: Inbox,
    stolen: Arc<tokio::sync::Mutex<Option<Tx>>>,
    calls: Arc<AtomicUsize>,
}

#[async_trait]
impl Sink for Thief {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        *self.stolen.lock().await = Some(self.inbox.begin().await.unwrap());
        self.calls.fetch_add(1, Ordering::SeqCst);
        vec![Outcome::Delivered; messages.len()]
    }
}

#[tokio::test(start_paused = true)]
async fn k5_what_cannot_be_recorded_is_not_called_delivered_and_not_delivered_again_and_again() {
    let inbox = Inbox::new();
    let (stolen, calls) = (Arc::default(), Arc::<AtomicUsize>::default());
    let thief = Thief { inbox: inbox.clone(), stolen: Arc::clone(&stolen), calls: Arc::clone(&calls) };
    let sink = Once::new(Arc::new(inbox.clone()), "c", thief);
    let message = [named("a")];
    let outcomes = sink.deliver(&message).await;
    let [Outcome::Unavailable(cause)] = outcomes.as_slice() else { panic!("{outcomes:?}") };
    assert!(cause.detail.contains("delivered, but not noted"), "{cause}");
    // As often as it comes: the sink has it.
    let again = sink.deliver(&message).await;
    assert!(matches!(again.as_slice(), [Outcome::Unavailable(_)]), "{again:?}");
    stolen.lock().await.take();
    assert_eq!(sink.deliver(&message).await, [Outcome::Delivered]);
    assert_eq!(calls.load(Ordering::SeqCst), 1, "it was only recorded");
    let recorder = Recorder::new();
    assert_eq!(once(&inbox, &recorder).deliver(&message).await, [Outcome::Delivered]);
    assert_eq!(came(&recorder).len(), 0, "and is known");
}

/// A recorder behind an inbox; what goes down is the database.
struct Guarded {
    inbox: Inbox,
    recorder: Recorder,
    sink: Once<Inbox, Recorder>,
    blocker: tokio::sync::Mutex<Option<Tx>>,
}

impl Guarded {
    fn new() -> Self {
        let (inbox, recorder) = (Inbox::new(), Recorder::new());
        recorder.judge_by(|message| match message.kind.as_str() {
            "poison" => Outcome::refused(Cause::new(code::UNFIT, "poison")),
            _ => Outcome::Delivered,
        });
        let sink = once(&inbox, &recorder).timeout(Duration::from_millis(200));
        Self { inbox, recorder, sink, blocker: tokio::sync::Mutex::default() }
    }
}

#[async_trait]
impl SinkFixture for Guarded {
    type Sink = Once<Inbox, Recorder>;
    fn sink(&self) -> &Self::Sink {
        &self.sink
    }
    async fn received(&self, count: usize) -> Vec<Message> {
        self.recorder.wait_for(count).await
    }
    fn poison(&self) -> Option<Message> {
        Some(Message::new("poison", ""))
    }
    async fn go_down(&self) -> bool {
        *self.blocker.lock().await = Some(self.inbox.begin().await.unwrap());
        true
    }
    async fn come_up(&self) {
        self.blocker.lock().await.take();
    }
}

mod sink {
    outbox::sink_suite!(async { Some(super::Guarded::new()) });
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn d3_a_known_id_is_known_to_another_process_too() {
    let Some(log) = crate::postgres::Log::new().await else { return };
    let sink = Recorder::new();
    let messages: Vec<_> = ["a", "b", "c"].map(named).into();
    for count in [2, 3, 3] {
        // A new one each time, as after a restart.
        let once = Once::new(Arc::new(log.outbox.inbox()), "mailer", sink.clone());
        let outcomes = once.deliver(&messages[..count]).await;
        assert_eq!(outcomes, vec![Outcome::Delivered; count]);
    }
    assert_eq!(came(&sink), ["a", "b", "c"]);
}
