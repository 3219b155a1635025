//! What a pipe counts and measures, read back from a recorder.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use outbox::figures::{self, Figures, TYPES};
use outbox::memory::{Outbox, Recorder};
use outbox::policy::{Backoff, Policy};
use outbox::{Cause, Handler, Lent, Message, Outcome, Pipe, Sink, Source, code, memory, postgres, sqlite};
use tokio_util::sync::CancellationToken;

/// Every series as `name{label=value}`: a counter, or how often a histogram was told something.
fn read(snapshotter: &Snapshotter) -> BTreeMap<String, u64> {
    let all = snapshotter.snapshot().into_vec().into_iter();
    all.map(|(key, _, _, value)| {
        let labels: Vec<_> =
            key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let count = match value {
            DebugValue::Counter(count) => count,
            DebugValue::Gauge(_) => 0,
            DebugValue::Histogram(values) => values.len() as u64,
        };
        (format!("{}{{{}}}", key.key().name(), labels.join(",")), count)
    })
    .collect()
}

#[tokio::test(start_paused = true)]
async fn c10_messages_are_counted_and_measured_by_their_type() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let (outbox, sink, stop) = (Outbox::new(), Recorder::new(), CancellationToken::new());
    sink.judge_by(|message| match message.kind.as_str() {
        "bad" => Outcome::rejected(Cause::new(code::NO_ROUTE, "nobody cares")),
        _ => Outcome::Delivered,
    });
    let all = ["good", "good", "bad", "other"].map(|kind| Message::new(kind, ""));
    outbox.enqueue_all(all.to_vec()).unwrap();
    let backoff = Backoff { first: Duration::from_millis(10), most: Duration::from_millis(10) };
    let policy = Policy { attempts: 2, retry: backoff, ..Policy::default() };
    let pipe = Pipe::new(outbox.cursor("c"), sink.clone()).policy(policy).watch(Figures::new("relay"));
    let stats = pipe.stats();
    let running = tokio::spawn(pipe.run(stop.clone()));
    let dead = async {
        while stats.dead() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), dead).await.expect("it is given up");
    stop.cancel();
    running.await.unwrap().unwrap();
    let told = read(&snapshotter);
    let of = |name: &str, labels: &str| told.get(&format!("{name}{{pipe=relay,{labels}}}")).copied();
    assert_eq!(of(figures::CLAIMED, "type=good"), Some(2), "{told:#?}");
    assert_eq!((of(figures::CLAIMED, "type=bad"), of(figures::CLAIMED, "type=other")), (Some(1), Some(1)));
    assert_eq!(
        (of(figures::DELIVERED, "type=good"), of(figures::DELIVERED, "type=other")),
        (Some(2), Some(1))
    );
    assert_eq!(of(figures::LAG_SECONDS, "type=good"), Some(2));
    assert_eq!(of(figures::DELIVERY_SECONDS, "type=bad"), Some(2), "each attempt");
    assert_eq!(of(figures::FAILED, "type=bad,attempt=1,then=retry"), Some(1));
    assert_eq!(of(figures::FAILED, "type=bad,attempt=2,then=dead"), Some(1));
    assert_eq!(of(figures::CAUSES, "code=NO_ROUTE"), Some(2));
    assert!(told.keys().all(|series| all.iter().all(|message| !series.contains(message.id.as_str()))));
}

#[tokio::test]
async fn c10_types_without_end_are_told_together() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let figures = Figures::new("relay");
    let messages: Vec<_> = (0..TYPES + 50).map(|n| Message::new(format!("type {n}"), "")).collect();
    outbox::Watch::claimed(&figures, &messages);
    let told = read(&snapshotter);
    assert_eq!(told.keys().filter(|series| series.starts_with(figures::CLAIMED)).count(), TYPES + 1);
    assert_eq!(told[&format!("{}{{pipe=relay,type=other}}", figures::CLAIMED)], 50);
}

#[tokio::test]
async fn e6_what_an_inbox_knew_already_is_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let inbox = std::sync::Arc::new(memory::Inbox::new());
    let handler =
        Handler::new(inbox, "billing", |_: Lent<_>, _: Message| async { Ok::<(), outbox::Failure>(()) });
    let message = [Message::new("a", "")];
    for _ in 0..3 {
        assert_eq!(handler.deliver(&message).await, [Outcome::Delivered]);
    }
    assert_eq!(read(&snapshotter)[&format!("{}{{consumer=billing}}", figures::DUPLICATES)], 2);
}

/// One that does not give its cursor back, and one that gets it when the lease is over; then one that gets it given.
async fn hand_over(cursor: impl Fn(&str) -> Box<dyn Source>) -> BTreeMap<String, u64> {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _installed = metrics::set_default_local_recorder(&recorder);
    let taken = async |source: &dyn Source| {
        let give_up_at = Instant::now() + Duration::from_secs(60);
        while source.claim(1).await.unwrap().messages.is_empty() {
            assert!(Instant::now() < give_up_at, "the cursor was never had");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let first = cursor("first");
    taken(&*first).await;
    drop(first);
    let second = cursor("second");
    taken(&*second).await;
    second.close().await.unwrap();
    let third = cursor("third");
    taken(&*third).await;
    third.close().await.unwrap();
    let mut told = read(&snapshotter);
    told.retain(|name, _| name.starts_with(figures::TAKEOVERS));
    told
}

#[tokio::test]
async fn d8_a_cursor_that_is_taken_over_is_counted_and_one_that_was_given_back_is_not() {
    let once = BTreeMap::from([(format!("{}{{pipe=relay}}", figures::TAKEOVERS), 1)]);
    let lease = Duration::from_millis(300);
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let outbox = sqlite::Outbox::connect(&url).await.unwrap();
    outbox.migrate().await.unwrap();
    let mut tx = outbox.pool().begin().await.unwrap();
    outbox.enqueue(&mut tx, Message::new("t", "")).await.unwrap();
    tx.commit().await.unwrap();
    let told = hand_over(|owner| Box::new(outbox.cursor("relay").owner(owner).lease(lease))).await;
    assert_eq!(told, once, "SQLite");

    let Some(server) = testbed::postgres().await else { return };
    let database = server.database().await.unwrap();
    let outbox = postgres::Outbox::connect(database.url()).await.unwrap();
    outbox.migrate().await.unwrap();
    let mut tx = outbox.pool().begin().await.unwrap();
    outbox.enqueue(&mut tx, Message::new("t", "")).await.unwrap();
    tx.commit().await.unwrap();
    let told = hand_over(|owner| Box::new(outbox.cursor("relay").owner(owner).lease(lease))).await;
    assert_eq!(told, once, "PostgreSQL");
}
