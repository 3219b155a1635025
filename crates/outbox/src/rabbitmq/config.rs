//! What a person decides about an exchange; plain values, checked by [`ExchangeConfig::check`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::envelope::RESERVED;
use super::work_config::Argument;
use crate::cloudevents::DEFAULT_SOURCE;
use crate::error::{Error, ErrorKind, Result};
use crate::template::Template;

/// The longest name, key or property that AMQP 0-9-1 can carry, in bytes.
pub(super) const SHORT: usize = 255;

/// How messages reach an exchange, and what the exchange is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExchangeConfig {
    /// The name of the exchange; empty is the default exchange, where the routing key names a queue.
    pub exchange: String,
    /// What kind it is.
    pub kind: ExchangeKind,
    /// Whether we make the exchange and the queues, or only look whether they are there.
    pub topology: Topology,
    /// Queues that must exist, with the keys that bind them to the exchange.
    pub queues: Vec<QueueConfig>,
    /// The routing key of a message.
    pub routing_key: Template,
    /// Headers that every message bears besides its own.
    pub headers: Vec<(String, Template)>,
    /// The `source` of the CloudEvents attributes.
    pub source: String,
    /// What the broker's own tools call our connection.
    pub connection_name: String,
    /// Payloads of more bytes are refused before they are sent: the broker would close the channel.
    pub max_message: usize,
    /// How long a batch may take, from the first message to the last confirm.
    pub timeout: Duration,
    /// How long a connection may take, topology included.
    pub connect_timeout: Duration,
    /// After so much silence the connection is taken for dead; whole seconds.
    pub heartbeat: Duration,
    /// A file of certificates in PEM that are trusted besides the system's, for `amqps`.
    pub ca_file: Option<PathBuf>,
}

impl ExchangeConfig {
    /// A durable topic exchange with the type as routing key, declared when missing.
    pub fn new(exchange: impl Into<String>) -> Self {
        Self {
            exchange: exchange.into(),
            kind: ExchangeKind::default(),
            topology: Topology::default(),
            queues: Vec::new(),
            routing_key: type_as_key(),
            headers: Vec::new(),
            source: DEFAULT_SOURCE.to_owned(),
            connection_name: "outboxd".to_owned(),
            max_message: 16 * 1024 * 1024,
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(30),
            ca_file: None,
        }
    }

    /// Says in one sentence what cannot work, if anything.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Config, what));
        let names = std::iter::once(&self.exchange)
            .chain(self.queues.iter().flat_map(|queue| std::iter::once(&queue.name).chain(&queue.keys)))
            .chain(self.headers.iter().map(|(name, _)| name));
        if let Some(long) = names.into_iter().find(|name| name.len() > SHORT) {
            return wrong(format!(
                "'{long}' is longer than the {SHORT} bytes that RabbitMQ takes for a name"
            ));
        }
        if let Some((name, _)) = self.headers.iter().find(|(name, _)| RESERVED.contains(&name.as_str())) {
            return wrong(format!("RabbitMQ keeps the header '{name}' for itself; choose another name"));
        }
        for queue in &self.queues {
            if queue.name.is_empty() {
                return wrong("a queue needs a name".into());
            }
            if queue.kind == QueueKind::Quorum && !queue.durable {
                return wrong(format!("queue '{}': a quorum queue is always durable", queue.name));
            }
            if self.exchange.is_empty() && !queue.keys.is_empty() {
                return wrong(format!("queue '{}': the default exchange cannot be bound to", queue.name));
            }
        }
        if self.timeout.is_zero() || self.connect_timeout.is_zero() {
            return wrong("a time limit of zero would give everything up at once".into());
        }
        Ok(())
    }
}

fn type_as_key() -> Template {
    #[expect(clippy::expect_used, reason = "a constant, covered by the tests")]
    Template::parse("{type}").expect("the default template parses")
}

/// The kinds of exchange that RabbitMQ has of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExchangeKind {
    /// Keys are words between dots; a binding may use `*` and `#`.
    #[default]
    Topic,
    /// The key of the binding equals the routing key.
    Direct,
    /// Every bound queue gets every message.
    Fanout,
    /// Bindings go by headers.
    Headers,
}

/// Who makes the exchange and the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Topology {
    /// We do, durable, on every new connection; what is there already must be of the same kind. Whoever sends to a queue
    /// takes its further arguments as they are, whoever reads it does not.
    #[default]
    Declare,
    /// Somebody else does; we look whether exchange and queues exist (RabbitMQ cannot be asked for bindings).
    Check,
}

/// A queue that must exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueConfig {
    /// Its name.
    pub name: String,
    /// What kind it is.
    pub kind: QueueKind,
    /// Whether it outlives the broker; a message in one that does not is not safe.
    pub durable: bool,
    /// Further arguments, for when it is made here; see
    /// [`WorkQueueConfig::queue_arguments`](super::WorkQueueConfig::queue_arguments) for those that its reader needs.
    pub arguments: BTreeMap<String, Argument>,
    /// The keys that bind it to the exchange.
    pub keys: Vec<String>,
}

impl QueueConfig {
    /// A durable classic queue, bound by these keys.
    pub fn new<K: Into<String>>(name: impl Into<String>, keys: impl IntoIterator<Item = K>) -> Self {
        let keys = keys.into_iter().map(Into::into).collect();
        Self { name: name.into(), kind: QueueKind::Classic, durable: true, arguments: BTreeMap::new(), keys }
    }

    /// Makes it a quorum queue: replicated, and always durable.
    #[must_use]
    pub fn quorum(mut self) -> Self {
        self.kind = QueueKind::Quorum;
        self.durable = true;
        self
    }
}

/// The kinds of queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueKind {
    /// On one node.
    #[default]
    Classic,
    /// Replicated.
    Quorum,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_told_at_once() {
        assert!(ExchangeConfig::new("shop.events").check().is_ok());
        let told = |change: &dyn Fn(&mut ExchangeConfig)| {
            let mut config = ExchangeConfig::new("shop.events");
            change(&mut config);
            let error = config.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            error.to_string()
        };
        assert!(told(&|config| config.exchange = "x".repeat(256)).contains("longer than the 255 bytes"));
        assert!(told(&|config| config.headers.push(("CC".into(), type_as_key()))).contains("'CC'"));
        assert!(told(&|config| config.queues.push(QueueConfig::new("", ["#"]))).contains("needs a name"));
        assert!(told(&|config| config.timeout = Duration::ZERO).contains("zero"));
        let transient = QueueConfig { durable: false, ..QueueConfig::new("q", ["#"]).quorum() };
        assert!(told(&|config| config.queues.push(transient.clone())).contains("always durable"));
        let bound = |config: &mut ExchangeConfig| {
            config.exchange.clear();
            config.queues.push(QueueConfig::new("q", ["#"]));
        };
        assert!(told(&bound).contains("cannot be bound to"));
    }
}
