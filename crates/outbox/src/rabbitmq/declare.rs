//! Declares exchanges, queues and bindings, one after the other. A refusal closes the channel that it was told on: then
//! another takes its place.

use std::collections::BTreeMap;

use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, ExchangeKind as Kind};

use super::config::{ExchangeKind, QueueKind};
use super::connection::Session;
use super::work_config::Argument;

/// Names are short by the checks of the configurations; should one not be, the broker tells.
pub(super) fn short(name: &str) -> ShortString {
    ShortString::try_new(name).unwrap_or_default()
}

/// A queue as it is declared.
#[derive(Debug, Clone)]
pub(super) struct Make<'m> {
    pub(super) name: &'m str,
    pub(super) kind: QueueKind,
    pub(super) durable: bool,
    /// Besides the one that tells its kind.
    pub(super) arguments: &'m BTreeMap<String, Argument>,
}

impl Make<'_> {
    fn table(&self) -> FieldTable {
        let mut table = FieldTable::default();
        if self.kind == QueueKind::Quorum {
            table.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        }
        for (name, value) in self.arguments {
            let value = match value {
                Argument::Integer(number) => AMQPValue::LongLongInt(*number),
                Argument::Text(text) => AMQPValue::LongString(text.as_str().into()),
                Argument::Flag(flag) => AMQPValue::Boolean(*flag),
            };
            table.insert(short(name), value);
        }
        table
    }

    /// Declares it on a channel; one that is there and differs is an error, and costs the channel.
    pub(super) async fn on(&self, channel: &Channel) -> lapin::Result<()> {
        let options = QueueDeclareOptions { durable: self.durable, ..QueueDeclareOptions::default() };
        channel.queue_declare(short(self.name), options, self.table()).await.map(drop)
    }
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

/// What is declared on one connection.
pub(super) struct Declaring<'d> {
    session: &'d Session,
    channel: Option<Channel>,
}

impl<'d> Declaring<'d> {
    pub(super) fn new(session: &'d Session) -> Self {
        Self { session, channel: None }
    }

    async fn channel(&mut self) -> lapin::Result<&Channel> {
        match &mut self.channel {
            Some(channel) => Ok(channel),
            none => Ok(none.insert(self.session.open().await?)),
        }
    }

    fn answered<T>(&mut self, answer: lapin::Result<T>) -> lapin::Result<T> {
        if answer.is_err() {
            self.channel = None;
        }
        answer
    }

    /// Declares an exchange, or asks whether it is there.
    pub(super) async fn exchange(
        &mut self,
        name: &str,
        kind: ExchangeKind,
        passive: bool,
    ) -> lapin::Result<()> {
        let answer = declare_exchange(self.channel().await?, name, kind, passive).await;
        self.answered(answer)
    }

    /// Declares a queue; one that is there and differs is an error.
    pub(super) async fn queue(&mut self, make: &Make<'_>) -> lapin::Result<()> {
        let answer = make.on(self.channel().await?).await;
        self.answered(answer)
    }

    /// Asks whether a queue is there, whatever it is.
    pub(super) async fn is_there(&mut self, queue: &str) -> lapin::Result<()> {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let asked = self.channel().await?.queue_declare(short(queue), options, FieldTable::default()).await;
        self.answered(asked.map(drop))
    }

    pub(super) async fn bind(&mut self, queue: &str, exchange: &str, key: &str) -> lapin::Result<()> {
        let (queue, exchange, options) = (short(queue), short(exchange), QueueBindOptions::default());
        let channel = self.channel().await?;
        let answer = channel.queue_bind(queue, exchange, short(key), options, FieldTable::default()).await;
        self.answered(answer)
    }

    /// The channel, on which nothing is pending, for others to use.
    pub(super) fn into_channel(self) -> Option<Channel> {
        self.channel
    }
}
