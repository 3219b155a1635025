//! The suite of every sink, twice: the broker is dead when it is down, or there and silent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use outbox::conformance::sink::SinkFixture;
use outbox::kafka::Topic;
use outbox::{Message, header};
use testbed::{Kafka, Record};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::sink;

/// One broker for both suites, a clause at a time: clients go to the address that the broker tells them, so there can
/// be no proxy in between, and a broker for each clause would take longer.
static BROKER: LazyLock<Arc<Mutex<Option<Private>>>> = LazyLock::new(Arc::default);

struct Private {
    kafka: Kafka,
    is_down: bool,
}

/// A topic for the messages of the suite, on a broker that can be disturbed.
struct Destination {
    broker: Mutex<OwnedMutexGuard<Option<Private>>>,
    shared: Option<&'static Kafka>,
    topic: String,
    sink: Topic,
    is_silent: bool,
    is_up: AtomicBool,
}

impl Destination {
    async fn new(is_silent: bool) -> Option<Self> {
        let mut broker = Arc::clone(&BROKER).lock_owned().await;
        let shared = testbed::kafka().await.filter(|kafka| kafka.is_mock());
        if shared.is_none() && broker.is_none() {
            *broker = Some(Private { kafka: testbed::available(Kafka::start().await)?, is_down: false });
        }
        // A clause that failed may have left it dead.
        if let Some(private) = broker.as_mut().filter(|private| private.is_down) {
            let _ = private.kafka.resume().await;
            private.kafka.start_again().await.unwrap();
            private.is_down = false;
        }
        let kafka = shared.or(broker.as_ref().map(|private| &private.kafka))?;
        let topic = kafka.topic(3).await.unwrap();
        // Long enough for a batch on a slow day, and short: that is how long a silent broker is waited for.
        let sink = sink(kafka, &topic, Duration::from_secs(2));
        let broker = Mutex::new(broker);
        Some(Self { broker, shared, topic, sink, is_silent, is_up: AtomicBool::new(true) })
    }
}

#[async_trait]
impl SinkFixture for Destination {
    type Sink = Topic;

    fn sink(&self) -> &Topic {
        &self.sink
    }

    async fn received(&self, count: usize) -> Vec<Message> {
        let broker = self.broker.lock().await;
        let kafka = self.shared.or(broker.as_ref().map(|private| &private.kafka)).unwrap();
        kafka.records(&self.topic, count).await.unwrap().iter().map(message).collect()
    }

    fn poison(&self) -> Option<Message> {
        Some(Message::new("suite.tested", vec![0; 2 * 1024 * 1024]))
    }

    async fn go_down(&self) -> bool {
        let mut broker = self.broker.lock().await;
        let Some(private) = broker.as_mut() else { return false };
        private.is_down = true;
        match self.is_silent {
            true => private.kafka.pause().await.unwrap(),
            false => private.kafka.kill().await.unwrap(),
        }
        self.is_up.store(false, Ordering::Relaxed);
        true
    }

    async fn come_up(&self) {
        let mut broker = self.broker.lock().await;
        let Some(private) = broker.as_mut() else { return };
        if !self.is_up.swap(true, Ordering::Relaxed) {
            match self.is_silent {
                true => private.kafka.resume().await.unwrap(),
                false => private.kafka.start_again().await.unwrap(),
            }
        }
        private.is_down = false;
    }
}

/// The message as a consumer can put it together again.
fn message(record: &Record) -> Message {
    let attribute = |name: &str| record.header(&format!("ce_{name}"));
    let mut message = Message::new(attribute("type").unwrap(), record.payload.clone())
        .id(attribute("id").unwrap())
        .content_type(record.header("content-type").unwrap())
        .occurred_at(attribute("time").unwrap().parse().unwrap());
    message.key = record.key.clone().map(|key| String::from_utf8(key).unwrap());
    assert_eq!(message.key, attribute("partitionkey"));
    for (name, value) in &record.headers {
        let value = String::from_utf8(value.clone()).unwrap();
        // The sink adds these; a message that names no correlation correlates with itself.
        let is_ours = name.starts_with("ce_")
            || name == "content-type"
            || name == header::EVENT_ID
            || (name == header::CORRELATION_ID && value == message.id.as_str());
        if !is_ours {
            message.headers.insert(name.clone(), value);
        }
    }
    message
}

mod dead {
    outbox::sink_suite!(super::Destination::new(false));
}

mod silent {
    outbox::sink_suite!(super::Destination::new(true));
}
