//! A queue as a source, against a real RabbitMQ.

mod bad_input;
mod conformance;
#[cfg(feature = "sqlite")]
mod error_log;
mod letters;
mod order;
mod outage;
mod partial;
mod prefetch;
mod retries;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lapin::BasicProperties;
use lapin::options::{BasicPublishOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use outbox::policy::{OnDead, Policy};
use outbox::rabbitmq::{WorkQueue, WorkQueueConfig};
use outbox::{Cause, Message, Outcome, Pipe, Sink};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Scene;

pub(crate) const QUEUE: &str = "work";

/// Short steps, by configuration.
pub(crate) fn config(retry: &[u64]) -> WorkQueueConfig {
    let mut config = WorkQueueConfig::new(QUEUE);
    config.retry = retry.iter().map(|millis| Duration::from_millis(*millis)).collect();
    config
}

/// The policy that goes with a queue.
pub(crate) fn policy(config: &WorkQueueConfig) -> Policy {
    Policy { steps: Some(config.retry.clone()), on_dead: OnDead::Skip, ..Policy::default() }
}

impl Scene {
    /// Puts a message into a queue, as anybody could.
    pub(crate) async fn put(&self, queue: &str, body: &[u8], properties: BasicProperties) {
        let options = BasicPublishOptions::default();
        let confirm = self.channel.basic_publish("".into(), queue.into(), options, body, properties);
        confirm.await.unwrap().await.unwrap();
    }

    /// How many messages are ready in a queue.
    pub(crate) async fn count(&self, queue: &str) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = self.channel.queue_declare(queue.into(), options, FieldTable::default());
        declared.await.unwrap().message_count()
    }

    /// Waits until so many are ready in a queue.
    pub(crate) async fn until_count(&self, queue: &str, count: u32) {
        let looking = async {
            while self.count(queue).await != count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let failed = format!("{count} messages in '{queue}'");
        tokio::time::timeout(Duration::from_secs(30), looking).await.expect(&failed);
    }
}

/// Properties of a message with an id.
pub(crate) fn with_id(id: &str) -> BasicProperties {
    BasicProperties::default().with_message_id(id.into()).with_type("order.created".into())
}

/// A handler that fails as told and remembers every call.
#[derive(Clone, Default)]
pub(crate) struct Hands(Arc<Inner>);

#[derive(Default)]
struct Inner {
    calls: Mutex<Vec<Message>>,
    /// Which payloads fail, and in how many attempts.
    fails: Mutex<Vec<(String, u32)>>,
    called: Notify,
}

impl Hands {
    pub(crate) async fn fail(&self, name: &str, attempts: u32) {
        self.0.fails.lock().await.push((name.to_owned(), attempts));
    }

    pub(crate) async fn calls(&self) -> Vec<Message> {
        self.0.calls.lock().await.clone()
    }

    /// What was called, as text with the attempts before.
    pub(crate) async fn names(&self) -> Vec<String> {
        let name = |message: &Message| format!("{}#{}", text(message), message.attempts);
        self.0.calls.lock().await.iter().map(name).collect()
    }

    pub(crate) async fn until(&self, calls: usize) {
        let waiting = async {
            loop {
                let notified = self.0.called.notified();
                if self.0.calls.lock().await.len() >= calls {
                    return;
                }
                notified.await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), waiting).await;
        assert!(waited.is_ok(), "{calls} calls, but {:?}", self.names().await);
    }
}

pub(crate) fn text(message: &Message) -> String {
    String::from_utf8_lossy(&message.payload).into_owned()
}

#[async_trait]
impl Sink for Hands {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let fails = self.0.fails.lock().await.clone();
        let fails = |message: &Message| {
            fails.iter().any(|(name, attempts)| *name == text(message) && message.attempts < *attempts)
        };
        let outcomes = messages.iter().map(|message| match fails(message) {
            true => Outcome::rejected(Cause::new("BROKEN", "told to fail")),
            false => Outcome::Delivered,
        });
        let outcomes = outcomes.collect();
        self.0.calls.lock().await.extend(messages.iter().cloned());
        self.0.called.notify_waiters();
        outcomes
    }
}

/// A pipe from the queue to the hands.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinHandle<outbox::Result<()>>,
}

impl Running {
    pub(crate) fn start(url: &str, config: &WorkQueueConfig, hands: &Hands) -> Self {
        let source = WorkQueue::new(url, config.clone()).unwrap();
        let stop = CancellationToken::new();
        let pipe = Pipe::new(source, hands.clone()).policy(policy(config));
        Self { task: tokio::spawn(pipe.run(stop.clone())), stop }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
    }
}
