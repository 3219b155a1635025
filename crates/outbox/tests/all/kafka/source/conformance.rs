//! The suite of every source on a broker.
//!
//! A cursor is a group. What is rolled back is a transaction that was aborted. A member that another displaces has lost its
//! claims, so nothing has to expire: the next source of a group gets the partition.

use async_trait::async_trait;
use outbox::Message;
use outbox::conformance::source::SourceFixture;
use outbox::kafka::Group;
use testbed::{Kafka, Record};

use super::{apache, config, enqueue, group};

/// A topic of one partition, with the retry topics that a source makes.
pub(super) struct Work {
    pub(super) kafka: &'static Kafka,
    pub(super) topic: String,
}

impl Work {
    pub(super) async fn new() -> Option<Self> {
        let kafka = apache().await?;
        Some(Self { kafka, topic: kafka.topic(1).await.unwrap() })
    }
}

#[async_trait]
impl SourceFixture for Work {
    type Source = Group;

    async fn enqueue(&self, messages: Vec<Message>) {
        enqueue(self.kafka, &self.topic, &messages).await;
    }

    async fn roll_back(&self, messages: Vec<Message>) {
        let record = |message: Message| Record {
            key: message.key.map(String::into_bytes),
            payload: message.payload.to_vec(),
            headers: vec![("x-event-id".into(), message.id.as_str().into())],
            ..Record::default()
        };
        let records = messages.into_iter().map(record).collect();
        self.kafka.write_and_abort(&self.topic, records).await.unwrap();
    }

    fn source(&self, cursor: &str) -> Group {
        group(self.kafka, config(&self.topic, &format!("{}-{cursor}", self.topic)))
    }

    async fn expire(&self, _cursor: &str) {}
}

outbox::broker_source_suite!(Work::new());
