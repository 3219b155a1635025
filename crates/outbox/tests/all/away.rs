//! What a running pipe tells of a source or a sink that is away (D8), on a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use outbox::memory::{Cursor, Outbox, Recorder};
use outbox::{Claim, Error, ErrorKind, Pipe, Result, Source, Verdict};

use crate::pipe::{message, start};

/// A source that can be told to fail.
struct Shaky {
    cursor: Cursor,
    fails_claims: Arc<AtomicBool>,
    fails_settles: Arc<AtomicBool>,
}

fn fail(when: &AtomicBool, why: &str) -> Result<()> {
    if when.load(Ordering::Relaxed) { Err(Error::new(ErrorKind::Unreachable, why)) } else { Ok(()) }
}

#[async_trait]
impl Source for Shaky {
    async fn claim(&self, limit: usize) -> Result<Claim> {
        fail(&self.fails_claims, "no claim")?;
        self.cursor.claim(limit).await
    }
    async fn settle(&self, claim: &Claim, verdicts: &[Verdict]) -> Result<()> {
        fail(&self.fails_settles, "no settle")?;
        self.cursor.settle(claim, verdicts).await
    }
}

/// Waits until it is so.
async fn until(what: &str, is: impl Fn() -> bool) {
    let waited = async {
        while !is() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waited).await.unwrap_or_else(|_| panic!("never {what}"));
}

#[tokio::test(start_paused = true)]
async fn d8_a_source_is_away_from_the_first_failure_until_it_answers() {
    let (outbox, sink) = (Outbox::new(), Recorder::new());
    let (claims, settles) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
    let source = Shaky {
        cursor: outbox.cursor("relay"),
        fails_claims: claims.clone(),
        fails_settles: settles.clone(),
    };
    outbox.enqueue(message("a", 0)).unwrap();
    let running = start(Pipe::new(source, sink.clone()));
    let stats = running.stats.clone();
    let away = |why: &str| stats.source_away().is_some_and(|(_, told)| told.contains(why));
    until("away", || away("no claim")).await;
    let since = stats.source_away().unwrap().0;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(stats.source_away().unwrap().0, since, "an outage has one beginning");
    claims.store(false, Ordering::Relaxed);
    sink.wait_for(1).await;
    until("away", || away("no settle")).await;
    assert!(stats.unmoved_since().is_some() && stats.last_message_at().is_none(), "it is not settled");
    settles.store(false, Ordering::Relaxed);
    until("settled", || stats.delivered() == 1).await;
    assert_eq!((stats.source_away(), stats.unmoved_since()), (None, None));
    assert!(stats.last_message_at().is_some());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn d8_a_sink_is_away_since_its_breaker_opened() {
    let (outbox, sink) = (Outbox::new(), Recorder::new());
    sink.go_down();
    outbox.enqueue(message("a", 0)).unwrap();
    let running = start(Pipe::new(outbox.cursor("relay"), sink.clone()));
    let stats = running.stats.clone();
    until("open", || stats.open_since().is_some()).await;
    let since = stats.open_since();
    assert_eq!((stats.open_cause().is_some(), stats.last_message_at()), (true, None));
    // Several probes long.
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(stats.open_since(), since);
    sink.come_up();
    until("delivered", || stats.delivered() == 1).await;
    assert_eq!((stats.open_since(), stats.last_message_at().is_some()), (None, true));
    running.stop().await;
}
