//! A pipe without order, on every log: no message waits for another one of its key.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outbox::memory::{Outbox, Recorder};
use outbox::policy::{Backoff, Order};
use outbox::{Cause, Message, Outcome, Pipe, Policy, Source, code};

use crate::pipe::{message, payloads, rejected, start};

fn three() -> Vec<Message> {
    (0..3).map(|number| message("k", number)).collect()
}

/// The first is rejected and has to wait for an hour; the second meets an outage, of which the third, sent with
/// them, sees nothing. So the second is released in the middle of its claim.
async fn a_released_message_does_not_wait_for_an_earlier_one(source: impl Source + 'static) {
    let (sink, was_down) = (Recorder::new(), AtomicBool::new(false));
    sink.judge_by(move |message| match &*message.payload {
        b"k:0" => rejected(),
        b"k:1" if !was_down.swap(true, Ordering::SeqCst) => {
            Outcome::Unavailable(Cause::new(code::UNREACHABLE, "for a moment"))
        }
        _ => Outcome::Delivered,
    });
    let hour = Duration::from_secs(3600);
    let policy = Policy {
        order: Order::None,
        retry: Backoff { first: hour, most: hour },
        probe: Backoff { first: Duration::from_millis(10), most: Duration::from_millis(10) },
        ..Policy::default()
    };
    let pipe = start(Pipe::new(source, sink.clone()).policy(policy));
    let came = tokio::time::timeout(Duration::from_secs(20), sink.wait_for(2)).await;
    assert_eq!(payloads(&came.expect("it waits behind the first")), ["k:2", "k:1"]);
    pipe.stop().await;
}

#[tokio::test(start_paused = true)]
async fn in_memory() {
    let outbox = Outbox::new();
    outbox.enqueue_all(three()).unwrap();
    a_released_message_does_not_wait_for_an_earlier_one(outbox.cursor("c")).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn in_sqlite() {
    let fresh = crate::sqlite::Fresh::new().await;
    let mut tx = fresh.outbox.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
    fresh.outbox.enqueue_all(&mut tx, &three()).await.unwrap();
    tx.commit().await.unwrap();
    a_released_message_does_not_wait_for_an_earlier_one(fresh.outbox.cursor("c")).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn in_postgres() {
    use outbox::conformance::source::SourceFixture;
    let Some(log) = crate::postgres::Log::new().await else { return };
    log.enqueue(three()).await;
    a_released_message_does_not_wait_for_an_earlier_one(log.source("c")).await;
}
