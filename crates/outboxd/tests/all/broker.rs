//! What has arrived at a RabbitMQ queue.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};

use crate::program::PATIENCE;

/// A message as a consumer gets it.
#[derive(Debug, Clone)]
pub struct Arrived {
    pub id: String,
    pub routing_key: String,
    pub body: Vec<u8>,
    pub persistent: bool,
    pub headers: BTreeMap<String, String>,
}

/// A queue of a virtual host, to be looked at.
pub struct Queue {
    channel: Channel,
    name: String,
}

impl Queue {
    pub async fn open(url: &str, name: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
        Self { channel: connection.create_channel().await.unwrap(), name: name.to_owned() }
    }

    /// Makes it, as a consumer does.
    pub async fn declare(&self) {
        let (options, table) = (QueueDeclareOptions::durable(), FieldTable::default());
        self.channel.queue_declare(self.name().into(), options, table).await.unwrap();
    }

    pub async fn bind(&self, exchange: &str, key: &str) {
        let (options, table) = (QueueBindOptions::default(), FieldTable::default());
        let bound = self.channel.queue_bind(self.name().into(), exchange.into(), key.into(), options, table);
        bound.await.unwrap();
    }

    /// Takes everything out, in order.
    pub async fn drain(&self) -> Vec<Arrived> {
        let mut arrived = Vec::new();
        // A consumer is quick, and only an answer to `get` says for sure that nothing is left.
        while let Some(first) = self.get().await {
            arrived.push(first);
            let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
            let queue = self.channel.queue_declare(self.name().into(), passive, FieldTable::default()).await;
            let count = usize::try_from(queue.unwrap().message_count()).unwrap();
            let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
            let tag = format!("drain-{}", arrived.len());
            let table = FieldTable::default();
            let consumer =
                self.channel.basic_consume(self.name().into(), tag.as_str().into(), options, table);
            let mut consumer = consumer.await.unwrap().take(count);
            while let Some(delivery) = consumer.next().await {
                arrived.push(read(delivery.unwrap()));
            }
            self.channel.basic_cancel(tag.as_str().into(), Default::default()).await.unwrap();
        }
        arrived
    }

    pub async fn get(&self) -> Option<Arrived> {
        let got = self.channel.basic_get(self.name().into(), BasicGetOptions { no_ack: true }).await.unwrap();
        got.map(|got| read(got.delivery))
    }

    /// How many messages wait in it; none if it is not there.
    pub async fn count(url: &str, name: &str) -> Option<u32> {
        let queue = Self::open(url, name).await;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        let found = queue.channel.queue_declare(name.into(), passive, FieldTable::default()).await;
        found.ok().map(|found| found.message_count())
    }

    /// Waits until so many messages wait in it.
    pub async fn until(url: &str, name: &str, count: u32) {
        let began = Instant::now();
        loop {
            let found = Self::count(url, name).await;
            if found == Some(count) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "queue '{name}' has {found:?} and not {count}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn name(&self) -> &str {
        &self.name
    }
}

/// Publishes as somebody else would, who knows nothing of outboxd.
pub struct Sender {
    channel: Channel,
}

impl Sender {
    pub async fn open(url: &str) -> Self {
        let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Self { channel }
    }

    /// It must be routed.
    pub async fn publish(&self, exchange: &str, key: &str, properties: BasicProperties, body: &[u8]) {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let confirm = self.channel.basic_publish(exchange.into(), key.into(), options, body, properties);
        let confirm = confirm.await.unwrap().await.unwrap();
        assert!(confirm.is_ack() && confirm.take_message().is_none(), "{key}: nobody wants it");
    }
}

/// With these headers.
pub fn headers(headers: &[(&str, &str)]) -> BasicProperties {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        table.insert((*name).into(), AMQPValue::LongString((*value).into()));
    }
    BasicProperties::default().with_headers(table).with_delivery_mode(2)
}

fn read(delivery: Delivery) -> Arrived {
    let properties = &delivery.properties;
    let headers = properties.headers().iter().flat_map(|table| table.inner()).filter_map(|(name, value)| {
        let AMQPValue::LongString(value) = value else { return None };
        Some((name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
    });
    Arrived {
        id: properties.message_id().clone().map(|id| id.to_string()).unwrap_or_default(),
        routing_key: delivery.routing_key.to_string(),
        persistent: *properties.delivery_mode() == Some(2),
        headers: headers.collect(),
        body: delivery.data,
    }
}
