//! What a pipe counts and tells of its work, cycle by cycle.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use outbox::memory::Recorder;
use outbox::{Claim, Message, Pipe, Result, Source, Verdict};
use tokio::time::Instant;

use crate::pipe::{payloads, start};

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
