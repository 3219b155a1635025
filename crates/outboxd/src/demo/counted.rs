//! A sink of the demonstration, with what went through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use outbox::{Message, Outcome, Sink};

/// What a pipe has done.
#[derive(Debug, Default)]
pub(super) struct Count {
    delivered: AtomicU64,
    retried: AtomicU64,
}

impl Count {
    pub(super) fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    pub(super) fn retried(&self) -> u64 {
        self.retried.load(Ordering::Relaxed)
    }
}

/// Counts what a sink says.
pub(super) struct Counted {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) count: Arc<Count>,
}

#[async_trait]
impl Sink for Counted {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let outcomes = self.sink.deliver(messages).await;
        for outcome in &outcomes {
            match outcome {
                Outcome::Delivered => self.count.delivered.fetch_add(1, Ordering::Relaxed),
                Outcome::Rejected(why) if !why.permanent => {
                    self.count.retried.fetch_add(1, Ordering::Relaxed)
                }
                Outcome::Rejected(_) | Outcome::Unavailable(_) => continue,
            };
        }
        outcomes
    }
}
