//! What a person decides about a queue that is read; plain values, checked by [`WorkQueueConfig::check`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::config::{ExchangeKind, QueueKind, SHORT, Topology};
use crate::broker::{Picks, check_steps, retry_name};
use crate::error::{Error, ErrorKind, Result};

/// A queue to read from, with the queues in which its messages wait for a retry or for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkQueueConfig {
    /// The name of the queue.
    pub queue: String,
    /// What kind it is; its retry queues are of the same kind.
    pub kind: QueueKind,
    /// Whether we make the queues and bindings, or only look whether they are there and as told here.
    pub topology: Topology,
    /// The exchanges that it gets its messages from.
    pub bind: Vec<Binding>,
    /// The delays of the retry queues, see [`retry_name`]. Without any, what fails is kept in memory until its retry.
    pub retry: Vec<Duration>,
    /// The queue for what is given up; `<queue>.dlq` if nothing else is told.
    pub dead: String,
    /// How many messages may be here and not settled. They lie in memory, whatever their size.
    pub prefetch: u16,
    /// Whether the broker gives messages to one consumer at a time, and to the next when that is gone.
    pub single_active: bool,
    /// Further arguments of the queue.
    pub arguments: BTreeMap<String, Argument>,
    /// Arguments of the queue of dead letters, if somebody reads it with some, see
    /// [`queue_arguments`](Self::queue_arguments).
    pub dead_arguments: BTreeMap<String, Argument>,
    /// Where id, type and key of a message stand.
    pub picks: Picks,
    /// Larger payloads are dead letters at once.
    pub max_payload: usize,
    /// What the broker's own tools call our connection.
    pub connection_name: String,
    /// How long a move to another queue may take.
    pub timeout: Duration,
    /// How long a connection may take, topology included.
    pub connect_timeout: Duration,
    /// After so much silence the connection is taken for dead; whole seconds.
    pub heartbeat: Duration,
    /// A file of certificates in PEM that are trusted besides the system's, for `amqps`.
    pub ca_file: Option<PathBuf>,
}

/// What binds a queue to an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The exchange.
    pub exchange: String,
    /// What kind it is.
    pub kind: ExchangeKind,
    /// The keys; for an exchange that looks at none, one empty key.
    pub keys: Vec<String>,
}

/// The value of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Argument {
    /// A number.
    Integer(i64),
    /// A text.
    Text(String),
    /// Yes or no.
    Flag(bool),
}

impl WorkQueueConfig {
    /// A durable classic queue, declared when missing, without retries.
    pub fn new(queue: impl Into<String>) -> Self {
        let queue = queue.into();
        Self {
            dead: format!("{queue}.dlq"),
            queue,
            kind: QueueKind::default(),
            topology: Topology::default(),
            bind: Vec::new(),
            retry: Vec::new(),
            prefetch: 300,
            single_active: false,
            arguments: BTreeMap::new(),
            dead_arguments: BTreeMap::new(),
            picks: Picks::default(),
            max_payload: 16 * 1024 * 1024,
            connection_name: "outboxd".to_owned(),
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(30),
            ca_file: None,
        }
    }

    /// Says in one sentence what cannot work, if anything.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Config, what));
        check_steps(&self.retry)?;
        if self.queue.is_empty() || self.dead.is_empty() {
            return wrong("a queue needs a name".into());
        }
        let retries: Vec<String> = self.retry.iter().map(|delay| retry_name(&self.queue, *delay)).collect();
        if self.dead == self.queue || retries.contains(&self.dead) {
            return wrong(format!("'{}' cannot be the queue of its own dead letters", self.dead));
        }
        let bound = self.bind.iter().flat_map(|bind| std::iter::once(&bind.exchange).chain(&bind.keys));
        let names = [&self.queue, &self.dead].into_iter().chain(&retries).chain(bound);
        if let Some(long) = names.into_iter().find(|name| name.len() > SHORT) {
            return wrong(format!(
                "'{long}' is longer than the {SHORT} bytes that RabbitMQ takes for a name"
            ));
        }
        if let Some(bind) = self.bind.iter().find(|bind| bind.exchange.is_empty() || bind.keys.is_empty()) {
            return wrong(format!("the binding to exchange '{}' lacks its name or its keys", bind.exchange));
        }
        if self.prefetch == 0 {
            return wrong("a prefetch of zero means without limit to RabbitMQ; name a number".into());
        }
        if self.timeout.is_zero() || self.connect_timeout.is_zero() {
            return wrong("a time limit of zero would give everything up at once".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_told_at_once() {
        assert!(WorkQueueConfig::new("orders").check().is_ok());
        let told = |change: &dyn Fn(&mut WorkQueueConfig)| {
            let mut config = WorkQueueConfig::new("orders");
            change(&mut config);
            let error = config.check().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            error.to_string()
        };
        assert!(told(&|config| config.queue.clear()).contains("needs a name"));
        assert!(told(&|config| config.dead = "orders".into()).contains("its own dead letters"));
        assert!(told(&|config| config.retry = vec![Duration::ZERO]).contains("cannot be"));
        assert!(told(&|config| config.prefetch = 0).contains("without limit"));
        assert!(told(&|config| config.queue = "q".repeat(256)).contains("255 bytes"));
        let bind = Binding { exchange: "e".into(), kind: ExchangeKind::Topic, keys: vec![] };
        assert!(told(&|config| config.bind.push(bind.clone())).contains("lacks"));
    }
}
