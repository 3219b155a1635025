//! What a run makes, breaks and removes at RabbitMQ, past the proxy.
//!
//! The exchange of the relays leads to a second one, and that to the two queues. So there is one binding that can be
//! taken away, and never a moment in which a message reaches one queue and not the other.

use std::time::Duration;

use anyhow::Context;
use lapin::options::{
    ExchangeBindOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, ExchangeUnbindOptions,
    QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use outbox::broker::retry_name;
use tokio::time::Instant;

use super::place::{Names, RETRIES};
use crate::quantity::parse_duration;
use crate::secret::SecretUrl;

/// How long the consumer may take to declare its queue.
const DECLARED: Duration = Duration::from_secs(60);

const LOOK: Duration = Duration::from_millis(100);

/// The broker of a run. Connects for each thing that it does: in between the broker may be gone.
#[derive(Clone)]
pub(super) struct RabbitMq {
    url: SecretUrl,
    names: Names,
}

impl RabbitMq {
    pub(super) fn new(url: SecretUrl, names: Names) -> Self {
        Self { url, names }
    }

    async fn channel(&self) -> lapin::Result<(Connection, Channel)> {
        let connection = Connection::connect(self.url.reveal(), ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        Ok((connection, channel))
    }

    /// Makes the exchanges and the queue of the recorder.
    pub(super) async fn make(&self) -> anyhow::Result<()> {
        let (_connection, channel) = self.channel().await.context("cannot connect to RabbitMQ")?;
        let Names { target, inner, recorded, .. } = &self.names;
        for (exchange, kind) in [(target, ExchangeKind::Topic), (inner, ExchangeKind::Fanout)] {
            let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            channel.exchange_declare(exchange.as_str().into(), kind, durable, FieldTable::default()).await?;
        }
        let mut quorum = FieldTable::default();
        quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let durable = QueueDeclareOptions::durable();
        channel.queue_declare(recorded.as_str().into(), durable, quorum).await?;
        self.bind_queue(&channel, recorded).await?;
        Ok(())
    }

    async fn bind_queue(&self, channel: &Channel, queue: &str) -> lapin::Result<()> {
        let (options, inner) = (QueueBindOptions::default(), self.names.inner.as_str());
        channel.queue_bind(queue.into(), inner.into(), "".into(), options, FieldTable::default()).await
    }

    /// Waits until a relay has declared the queue of the effects, and leads messages there; then they may come.
    pub(super) async fn open(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        loop {
            let (_connection, channel) = self.channel().await?;
            match self.bind_queue(&channel, &self.names.effects).await {
                Ok(()) => break,
                Err(error) if began.elapsed() > DECLARED => {
                    return Err(error).context("no relay has declared the queue that it reads");
                }
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
        Ok(self.bind().await?)
    }

    /// Lets the exchange lead to the queues.
    async fn bind(&self) -> lapin::Result<()> {
        let (_connection, channel) = self.channel().await?;
        let Names { target, inner, .. } = &self.names;
        let (inner, target) = (inner.as_str().into(), target.as_str().into());
        let options = ExchangeBindOptions::default();
        channel.exchange_bind(inner, target, "#".into(), options, FieldTable::default()).await
    }

    /// Lets the exchange lead nowhere for so long.
    pub(super) async fn unbind(&self, lasts: Duration) -> anyhow::Result<()> {
        let unbound = {
            let (_connection, channel) = self.channel().await?;
            let Names { target, inner, .. } = &self.names;
            let (inner, target) = (inner.as_str().into(), target.as_str().into());
            let options = ExchangeUnbindOptions::default();
            channel.exchange_unbind(inner, target, "#".into(), options, FieldTable::default()).await
        };
        tokio::time::sleep(lasts).await;
        // Whatever else happens to the broker meanwhile, this must not stay so; also if nobody answered: it may have been done.
        while let Err(error) = self.bind().await {
            tracing::debug!(%error, "the exchange cannot be bound yet");
            tokio::time::sleep(LOOK).await;
        }
        Ok(unbound?)
    }

    /// How many messages wait for the consumer, without what it has in hand and what waits for another try.
    pub(super) async fn waiting(&self) -> anyhow::Result<u64> {
        let (_connection, channel) = self.channel().await?;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let effects = self.names.effects.as_str().into();
        let queue = channel.queue_declare(effects, passive, FieldTable::default()).await?;
        Ok(queue.message_count().into())
    }

    /// Removes everything that the run and its relays have made.
    pub(super) async fn clean_up(&self) -> anyhow::Result<()> {
        let (_connection, channel) = self.channel().await?;
        let Names { target, inner, recorded, effects } = &self.names;
        let retries = RETRIES.iter().filter_map(|delay| parse_duration(delay).ok());
        let retries = retries.map(|delay| retry_name(effects, delay));
        for queue in [recorded.clone(), effects.clone(), format!("{effects}.dlq")].into_iter().chain(retries)
        {
            channel.queue_delete(queue.as_str().into(), QueueDeleteOptions::default()).await?;
        }
        for exchange in [target, inner] {
            channel.exchange_delete(exchange.as_str().into(), ExchangeDeleteOptions::default()).await?;
        }
        Ok(())
    }
}
