//! What has arrived at a RabbitMQ queue.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{BasicConsumeOptions, BasicGetOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties};

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

    fn name(&self) -> &str {
        &self.name
    }
}

fn read(delivery: Delivery) -> Arrived {
    let properties = &delivery.properties;
    let headers = properties.headers().iter().flat_map(|table| table.inner()).filter_map(|(name, value)| {
        let AMQPValue::LongString(value) = value else { return None };
        Some((name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
    });
    Arrived {
        id: properties.message_id().clone().unwrap().to_string(),
        routing_key: delivery.routing_key.to_string(),
        persistent: *properties.delivery_mode() == Some(2),
        headers: headers.collect(),
        body: delivery.data,
    }
}
