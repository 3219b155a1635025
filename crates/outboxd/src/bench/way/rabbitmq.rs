//! An exchange of RabbitMQ with one queue.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind, PublisherConfirm,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::super::load::{Load, TYPE, number_in, own_name};
use super::super::measure::Pace;
use super::super::pacing::Pacing;
use super::super::processes::Server;
use super::super::relay::BROKER;
use super::{Arrivals, STOCK, headers};
use crate::secret::SecretUrl;

/// Channels of the raw client, and what each may have unconfirmed.
const CHANNELS: u64 = 4;
const UNCONFIRMED: usize = 1_000;

/// Messages that are handed to the driver together; one by one it would be woken for each.
const TOGETHER: usize = 50;

/// What keeps the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueKind {
    Quorum,
    Classic,
}

impl QueueKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Quorum => "rabbitmq quorum",
            Self::Classic => "rabbitmq classic",
        }
    }

    fn argument(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::Classic => "classic",
        }
    }
}

/// An exchange and a queue of the same name.
pub(crate) struct Rabbit {
    url: SecretUrl,
    name: String,
    kind: QueueKind,
    pub(super) server: Option<Server>,
}

/// Asks how many messages lie in the queue.
pub(crate) struct Counter {
    _connection: Connection,
    channel: Channel,
    queue: String,
}

impl Counter {
    pub(super) async fn count(&self) -> anyhow::Result<u64> {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let name = self.queue.as_str().into();
        let queue = self.channel.queue_declare(name, passive, FieldTable::default()).await?;
        Ok(queue.message_count().into())
    }
}

/// A message as the raw client has it.
struct Parcel {
    key: String,
    payload: Vec<u8>,
    properties: BasicProperties,
}

impl Rabbit {
    pub(crate) fn new(url: SecretUrl, kind: QueueKind, server: Option<Server>) -> Self {
        Self { url, name: own_name(), kind, server }
    }

    pub(super) fn kind(&self) -> QueueKind {
        self.kind
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn variable(&self) -> (&'static str, String) {
        (BROKER, self.url.reveal().to_owned())
    }

    pub(super) fn sink(&self) -> String {
        format!("on = \"broker\"\nexchange = \"{}\"\ntopology = \"check\"", self.name)
    }

    pub(super) fn source(&self) -> String {
        format!("on = \"broker\"\nqueue = \"{}\"\nkind = \"{}\"", self.name, self.kind.argument())
    }

    /// A connection and a channel with confirms.
    pub(crate) async fn connect(&self) -> anyhow::Result<(Connection, Channel)> {
        let connection = Connection::connect(self.url.reveal(), ConnectionProperties::default())
            .await
            .with_context(|| format!("cannot connect to {}", self.url))?;
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok((connection, channel))
    }

    pub(super) async fn fresh(&self) -> anyhow::Result<()> {
        self.clean().await?;
        let (connection, channel) = self.connect().await?;
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let (name, none) = (self.name.as_str(), FieldTable::default);
        channel.exchange_declare(name.into(), ExchangeKind::Topic, durable, none()).await?;
        let mut arguments = FieldTable::default();
        // A classic queue says nothing: so outboxd declares it, and one that says so would not be the same.
        if self.kind == QueueKind::Quorum {
            let kind = AMQPValue::LongString(LongString::from(self.kind.argument()));
            arguments.insert("x-queue-type".into(), kind);
        }
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(name.into(), durable, arguments).await?;
        channel.queue_bind(name.into(), name.into(), "#".into(), QueueBindOptions::default(), none()).await?;
        Ok(connection.close(200, "done".into()).await?)
    }

    pub(super) async fn raw(&self, load: Load, with_headers: bool) -> anyhow::Result<Pace> {
        let stock: Vec<Parcel> =
            (0..STOCK.min(load.messages)).map(|number| parcel(load, number, with_headers)).collect();
        let (connection, first) = self.connect().await?;
        let mut channels = vec![first];
        for _ in 1..CHANNELS {
            let channel = connection.create_channel().await?;
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            channels.push(channel);
        }
        self.send(&channels[0], &stock, 1).await?;
        let (first, left) = (Instant::now(), load.messages - 1);
        let share = |at: u64| left / CHANNELS + u64::from(at < left % CHANNELS);
        let sending =
            channels.iter().enumerate().map(|(at, channel)| self.send(channel, &stock, share(at as u64)));
        for sent in join_all(sending).await {
            sent?;
        }
        let pace = Pace::since_first(load.messages, first);
        connection.close(200, "done".into()).await?;
        Ok(pace)
    }

    /// Sends one by one, each when its turn comes, and tells how long the confirmation of each took.
    pub(super) async fn paced(&self, load: Load, pace: &Pacing) -> anyhow::Result<Vec<Duration>> {
        let stock: Vec<Parcel> =
            (0..STOCK.min(load.messages)).map(|number| parcel(load, number, true)).collect();
        let (connection, channel) = self.connect().await?;
        let mut waiting = JoinSet::new();
        while let Some(number) = pace.next(load.messages).await {
            let at = Instant::now();
            let confirm = self.publish(&channel, &stock[usize::try_from(number % STOCK)?]).await?;
            waiting.spawn(async move {
                confirmed(confirm).await?;
                anyhow::Ok(at.elapsed())
            });
        }
        let took = waiting.join_all().await.into_iter().collect::<anyhow::Result<_>>()?;
        connection.close(200, "done".into()).await?;
        Ok(took)
    }

    /// Sends so many, and ends when all are confirmed and none came back.
    async fn send(&self, channel: &Channel, stock: &[Parcel], count: u64) -> anyhow::Result<()> {
        let mut waiting = std::collections::VecDeque::with_capacity(UNCONFIRMED + TOGETHER);
        let mut parcels = stock.iter().cycle();
        let mut left = usize::try_from(count)?;
        while left > 0 {
            let together = left.min(TOGETHER);
            let writes = parcels.by_ref().take(together).map(|parcel| self.publish(channel, parcel));
            for confirm in join_all(writes).await {
                waiting.push_back(confirm?);
            }
            left -= together;
            while waiting.len() > UNCONFIRMED
                && let Some(confirm) = waiting.pop_front()
            {
                confirmed(confirm).await?;
            }
        }
        for confirm in waiting {
            confirmed(confirm).await?;
        }
        Ok(())
    }

    async fn publish(&self, channel: &Channel, parcel: &Parcel) -> lapin::Result<PublisherConfirm> {
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        let (exchange, key) = (self.name.as_str().into(), parcel.key.as_str().into());
        channel.basic_publish(exchange, key, options, &parcel.payload, parcel.properties.clone()).await
    }

    pub(super) async fn counter(&self) -> anyhow::Result<Counter> {
        let (connection, channel) = self.connect().await?;
        Ok(Counter { _connection: connection, channel, queue: self.name.clone() })
    }

    /// Whether nobody can stand in between.
    pub(crate) fn is_tls(&self) -> bool {
        self.url.reveal().starts_with("amqps")
    }

    /// Where the broker is.
    pub(crate) fn url(&self) -> &SecretUrl {
        &self.url
    }

    pub(super) async fn listen(&self) -> anyhow::Result<Arrivals> {
        let (connection, channel) = self.connect().await?;
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let name = self.name.as_str();
        let mut messages =
            channel.basic_consume(name.into(), "bench".into(), options, FieldTable::default()).await?;
        let (send, arrivals) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            // Kept as long as it is listened to.
            let _connection = connection;
            while let Some(Ok(delivery)) = messages.next().await {
                let now = Instant::now();
                if let Some(number) = number_in(&delivery.data)
                    && send.send((number, now)).is_err()
                {
                    return;
                }
            }
        });
        Ok(arrivals)
    }

    pub(super) async fn clean(&self) -> anyhow::Result<()> {
        let (connection, channel) = self.connect().await?;
        for queue in [self.name.clone(), format!("{}.dlq", self.name)] {
            channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await?;
        }
        channel.exchange_delete(self.name.as_str().into(), ExchangeDeleteOptions::default()).await?;
        Ok(connection.close(200, "done".into()).await?)
    }
}

fn parcel(load: Load, number: u64, with_headers: bool) -> Parcel {
    let (id, key) = (Uuid::now_v7().to_string(), load.key(number));
    let mut properties = BasicProperties::default()
        .with_message_id(id.as_str().into())
        .with_type(TYPE.into())
        .with_content_type("application/json".into())
        .with_delivery_mode(2);
    if with_headers {
        let mut table = FieldTable::default();
        for (name, value) in headers("cloudEvents_", &id, &key) {
            table.insert(name.as_str().into(), AMQPValue::LongString(LongString::from(value)));
        }
        properties = properties.with_headers(table);
    }
    Parcel { key: TYPE.to_owned(), payload: load.payload(number), properties }
}

async fn confirmed(confirm: PublisherConfirm) -> anyhow::Result<()> {
    match confirm.await? {
        Confirmation::Ack(None) => Ok(()),
        other => anyhow::bail!("the broker did not take a message: {other:?}"),
    }
}
