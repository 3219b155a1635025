//! Makes the exchange and the queues, or looks whether they are there; once for every connection.

use async_trait::async_trait;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ExchangeKind as Kind};

use super::config::{ExchangeConfig, ExchangeKind, QueueConfig, QueueKind, Topology};
use super::connection::{Establish, Way};
use super::error::topology_fault;
use crate::sink::Cause;

/// Names are short by [`ExchangeConfig::check`]; should one not be, the broker tells.
pub(super) fn short(name: &str) -> ShortString {
    ShortString::try_new(name).unwrap_or_default()
}

#[async_trait]
impl Establish for ExchangeConfig {
    fn way(&self) -> Way<'_> {
        Way {
            name: &self.connection_name,
            timeout: self.connect_timeout,
            heartbeat: self.heartbeat,
            ca_file: self.ca_file.as_deref(),
        }
    }

    async fn establish(&self, channel: &Channel) -> Result<(), Cause> {
        // The default exchange is always there and may not be declared.
        if !self.exchange.is_empty() {
            let what = format!("exchange '{}'", self.exchange);
            exchange(channel, self, self.topology == Topology::Check)
                .await
                .map_err(|error| topology_fault(&what, self.topology, &error))?;
        }
        for queue in &self.queues {
            let what = format!("queue '{}'", queue.name);
            self::queue(channel, self, queue)
                .await
                .map_err(|error| topology_fault(&what, self.topology, &error))?;
        }
        Ok(())
    }
}

/// Declares the exchange, or asks whether it is there.
pub(super) async fn exchange(channel: &Channel, config: &ExchangeConfig, passive: bool) -> lapin::Result<()> {
    declare_exchange(channel, &config.exchange, config.kind, passive).await
}

/// Declares an exchange, or asks whether it is there.
pub(super) async fn declare_exchange(
    channel: &Channel,
    name: &str,
    kind: ExchangeKind,
    passive: bool,
) -> lapin::Result<()> {
    let kind = match kind {
        ExchangeKind::Topic => Kind::Topic,
        ExchangeKind::Direct => Kind::Direct,
        ExchangeKind::Fanout => Kind::Fanout,
        ExchangeKind::Headers => Kind::Headers,
    };
    let options = ExchangeDeclareOptions { passive, durable: true, ..ExchangeDeclareOptions::default() };
    channel.exchange_declare(short(name), kind, options, FieldTable::default()).await
}

/// Declares a queue, or asks whether it is there.
pub(super) async fn declare_queue(
    channel: &Channel,
    queue: &QueueConfig,
    passive: bool,
) -> lapin::Result<()> {
    let options = QueueDeclareOptions { passive, durable: queue.durable, ..QueueDeclareOptions::default() };
    let mut arguments = FieldTable::default();
    if queue.kind == QueueKind::Quorum {
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    }
    channel.queue_declare(short(&queue.name), options, arguments).await.map(drop)
}

async fn queue(channel: &Channel, config: &ExchangeConfig, queue: &QueueConfig) -> lapin::Result<()> {
    declare_queue(channel, queue, config.topology == Topology::Check).await?;
    if config.topology == Topology::Check {
        return Ok(());
    }
    for key in &queue.keys {
        let (name, exchange) = (short(&queue.name), short(&config.exchange));
        let options = QueueBindOptions::default();
        channel.queue_bind(name, exchange, short(key), options, FieldTable::default()).await?;
    }
    Ok(())
}
