//! A sink that remembers what it was given, and can be told to fail.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::message::Message;
use crate::sink::{Cause, Outcome, Sink, code};

type Judge = dyn Fn(&Message) -> Outcome + Send + Sync;

/// Keeps every message that it was given and called delivered.
#[derive(Clone)]
pub struct Recorder {
    received: Arc<watch::Sender<Vec<Message>>>,
    judge: Arc<Mutex<Arc<Judge>>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            received: Arc::new(watch::Sender::new(Vec::new())),
            judge: Arc::new(Mutex::new(Arc::new(|_| Outcome::Delivered))),
        }
    }
}

impl Recorder {
    /// A sink that takes everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on outcomes are what `judge` says.
    pub fn judge_by(&self, judge: impl Fn(&Message) -> Outcome + Send + Sync + 'static) {
        *self.judge.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(judge);
    }

    /// From now on it is out of reach, until [`come_up`](Self::come_up).
    pub fn go_down(&self) {
        self.judge_by(|_| Outcome::Unavailable(Cause::new(code::UNREACHABLE, "told to be down")));
    }

    /// From now on it takes everything.
    pub fn come_up(&self) {
        self.judge_by(|_| Outcome::Delivered);
    }

    /// What was delivered, in order.
    pub fn received(&self) -> Vec<Message> {
        self.received.borrow().clone()
    }

    /// Waits until so many were delivered.
    pub async fn wait_for(&self, count: usize) -> Vec<Message> {
        let mut received = self.received.subscribe();
        match received.wait_for(|messages| messages.len() >= count).await {
            Ok(messages) => messages.clone(),
            Err(_) => self.received(),
        }
    }
}

#[async_trait]
impl Sink for Recorder {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let judge = self.judge.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let outcomes: Vec<_> = messages.iter().map(|message| judge(message)).collect();
        self.received.send_modify(|received| {
            let delivered =
                messages.iter().zip(&outcomes).filter(|(_, outcome)| **outcome == Outcome::Delivered);
            received.extend(delivered.map(|(message, _)| message.clone()));
        });
        outcomes
    }
}
