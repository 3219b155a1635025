//! The exchange as a sink, against a real RabbitMQ. What arrived is always read back from the queue.

mod conformance;
mod neighbours;
mod outage;
mod queue;
mod sink;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lapin::options::{BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind, message::Delivery};
use outbox::rabbitmq::{Exchange, ExchangeConfig};
use outbox::{Message, Outcome, Sink};
use testbed::{Proxy, Vhost};

pub(crate) const EXCHANGE: &str = "shop.events";

/// A virtual host of one test, with a channel of its own to look at what arrived.
pub(crate) struct Scene {
    pub(crate) url: String,
    vhost: Vhost,
    pub(crate) channel: Channel,
}

impl Scene {
    /// On the shared broker; `None` when there is none to be had.
    pub(crate) async fn shared() -> Option<Self> {
        Some(Self::at(testbed::rabbitmq().await?.vhost().await.unwrap()).await)
    }

    pub(crate) async fn at(vhost: Vhost) -> Self {
        let url = vhost.url().to_owned();
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        Self { url, vhost, channel }
    }

    /// With the exchange and the durable queue `orders` for `order.#`.
    pub(crate) async fn with_orders(self) -> Self {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let table = FieldTable::default();
        self.channel.exchange_declare(EXCHANGE.into(), ExchangeKind::Topic, options, table).await.unwrap();
        self.queue("orders", "order.#", &[]).await;
        self
    }

    async fn queue(&self, name: &str, key: &str, arguments: &[(&str, AMQPValue)]) {
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        self.channel.queue_declare(name.into(), QueueDeclareOptions::durable(), table).await.unwrap();
        self.bind(name, key).await;
    }

    pub(crate) async fn bind(&self, name: &str, key: &str) {
        let (options, table) = (QueueBindOptions::default(), FieldTable::default());
        self.channel.queue_bind(name.into(), EXCHANGE.into(), key.into(), options, table).await.unwrap();
    }

    pub(crate) async fn unbind(&self, name: &str, key: &str) {
        let table = FieldTable::default();
        self.channel.queue_unbind(name.into(), EXCHANGE.into(), key.into(), table).await.unwrap();
    }

    pub(crate) fn config(&self) -> ExchangeConfig {
        ExchangeConfig::new(EXCHANGE)
    }

    pub(crate) fn sink(&self) -> Exchange {
        Exchange::new(&self.url, self.config()).unwrap()
    }

    /// Takes everything out of a queue.
    pub(crate) async fn drain(&self, queue: &str) -> Vec<Delivery> {
        let mut all = Vec::new();
        let options = BasicGetOptions { no_ack: true };
        while let Some(got) = self.channel.basic_get(queue.into(), options).await.unwrap() {
            all.push(got.delivery);
        }
        all
    }

    /// How often each message id is in a queue; takes everything out of it.
    async fn drain_ids(&self, queue: &str) -> BTreeMap<String, usize> {
        let mut ids = BTreeMap::new();
        for delivery in self.drain(queue).await {
            *ids.entry(id(&delivery)).or_default() += 1;
        }
        ids
    }
}

pub(crate) fn id(delivery: &Delivery) -> String {
    delivery.properties.message_id().as_ref().unwrap().to_string()
}

/// A header of a message.
pub(crate) fn text(delivery: &Delivery, name: &str) -> Option<String> {
    let headers = delivery.properties.headers().as_ref().unwrap();
    match headers.inner().get(name) {
        Some(AMQPValue::LongString(value)) => Some(String::from_utf8(value.as_bytes().to_vec()).unwrap()),
        Some(other) => panic!("{name} is {other:?}"),
        None => None,
    }
}

pub(crate) fn through(proxy: &Proxy, scene: &Scene, limit: Duration) -> Exchange {
    let mut config = scene.config();
    config.timeout = limit;
    config.connect_timeout = limit;
    Exchange::new(&proxy.reroute(&scene.url).unwrap(), config).unwrap()
}

pub(crate) async fn proxy(scene: &Scene) -> Proxy {
    let port = scene.url.rsplit(':').next().unwrap().split('/').next().unwrap().parse::<u16>().unwrap();
    Proxy::to(("127.0.0.1", port)).await.unwrap()
}

fn order(n: usize) -> Message {
    Message::new("order.created", format!("{{\"n\":{n}}}")).content_type("application/json").key(n)
}

fn orders(count: usize) -> Vec<Message> {
    (0..count).map(order).collect()
}

/// The outcome in a word: `delivered`, or the code of its cause with `!` when permanent and `~` when
/// unavailable.
fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Delivered => "delivered".to_owned(),
        Outcome::Rejected(rejection) if rejection.permanent => format!("{}!", rejection.cause.code),
        Outcome::Rejected(rejection) => rejection.cause.code.to_string(),
        Outcome::Unavailable(cause) => format!("~{}", cause.code),
    }
}

fn words(outcomes: &[Outcome]) -> Vec<String> {
    outcomes.iter().map(word).collect()
}

/// The ids whose outcome is delivered.
fn delivered(messages: &[Message], outcomes: &[Outcome]) -> BTreeSet<String> {
    assert_eq!(messages.len(), outcomes.len(), "one outcome per message");
    let pairs = messages.iter().zip(outcomes);
    pairs.filter(|(_, outcome)| **outcome == Outcome::Delivered).map(|(m, _)| m.id.to_string()).collect()
}

/// Delivers again and again, as a pipe that probes does, until everything is delivered.
async fn until_delivered(sink: &Exchange, messages: &[Message]) {
    let mut last = Vec::new();
    let probing = async {
        let mut rest = messages.to_vec();
        while !rest.is_empty() {
            let outcomes = sink.deliver(&rest).await;
            last.clone_from(&outcomes);
            let done = delivered(&rest, &outcomes);
            rest.retain(|message| !done.contains(message.id.as_str()));
            if !rest.is_empty() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    };
    let recovered = tokio::time::timeout(Duration::from_secs(60), probing).await;
    assert!(recovered.is_ok(), "the sink recovers by itself, but {:?}", last.first());
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }
}
