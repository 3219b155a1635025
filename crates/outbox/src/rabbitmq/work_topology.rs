//! Makes the queues of a consumer, or looks whether they are there and as configured; once for every connection.

use async_trait::async_trait;
use lapin::Channel;
use lapin::options::{QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};

use super::config::{QueueKind, Topology};
use super::connection::{Establish, Way};
use super::error::topology_fault;
use super::topology::{declare_exchange, short};
use super::work_config::{Argument, WorkQueueConfig};
use crate::broker::{Steps, retry_name};
use crate::sink::Cause;

#[async_trait]
impl Establish for WorkQueueConfig {
    fn way(&self) -> Way<'_> {
        Way {
            name: &self.connection_name,
            timeout: self.connect_timeout,
            heartbeat: self.heartbeat,
            ca_file: self.ca_file.as_deref(),
        }
    }

    async fn establish(&self, channel: &Channel) -> Result<(), Cause> {
        // The dead letters first: from the moment that the queue is there, it may need them.
        for (name, arguments) in self.queues() {
            self.queue(channel, &name, arguments).await?;
        }
        for bind in &self.bind {
            let what = format!("exchange '{}'", bind.exchange);
            let passive = self.topology == Topology::Check;
            let fault = |error| topology_fault(&what, self.topology, &error);
            declare_exchange(channel, &bind.exchange, bind.kind, passive).await.map_err(fault)?;
            // RabbitMQ cannot be asked for bindings.
            let keys = if passive { &[][..] } else { &bind.keys };
            for key in keys {
                let (queue, exchange) = (short(&self.queue), short(&bind.exchange));
                let options = QueueBindOptions::default();
                channel
                    .queue_bind(queue, exchange, short(key), options, FieldTable::default())
                    .await
                    .map_err(|error| {
                        topology_fault(&format!("the binding by '{key}' to {what}"), self.topology, &error)
                    })?;
            }
        }
        Ok(())
    }
}

impl WorkQueueConfig {
    /// Every queue that has to be there, with its arguments.
    pub(super) fn queues(&self) -> Vec<(String, FieldTable)> {
        let mut queues = vec![(self.dead.clone(), self.arguments_of_kind())];
        for delay in Steps::new(&self.retry).all() {
            let mut arguments = self.arguments_of_kind();
            let millis = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
            arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(millis));
            self.dead_letters_to(&mut arguments, &self.queue);
            queues.push((retry_name(&self.queue, *delay), arguments));
        }
        let mut arguments = self.arguments_of_kind();
        if self.kind == QueueKind::Quorum {
            // A quorum queue gives up a message that was handed out too often (20 times since version 4). Without
            // this it would drop it.
            self.dead_letters_to(&mut arguments, &self.dead);
        }
        if self.single_active {
            arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
        }
        for (name, value) in &self.arguments {
            let value = match value {
                Argument::Integer(number) => AMQPValue::LongLongInt(*number),
                Argument::Text(text) => AMQPValue::LongString(text.as_str().into()),
                Argument::Flag(flag) => AMQPValue::Boolean(*flag),
            };
            arguments.insert(short(name), value);
        }
        queues.push((self.queue.clone(), arguments));
        queues
    }

    fn arguments_of_kind(&self) -> FieldTable {
        let mut arguments = FieldTable::default();
        if self.kind == QueueKind::Quorum {
            arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        }
        arguments
    }

    /// What leaves the queue by itself goes to another one, through the default exchange.
    fn dead_letters_to(&self, arguments: &mut FieldTable, queue: &str) {
        let mut text = |name: &str, value: &str| {
            arguments.insert(name.into(), AMQPValue::LongString(value.into()));
        };
        text("x-dead-letter-exchange", "");
        text("x-dead-letter-routing-key", queue);
        if self.kind == QueueKind::Quorum {
            // Otherwise the broker moves a message without waiting for the confirm, and it may get lost.
            text("x-dead-letter-strategy", "at-least-once");
            text("x-overflow", "reject-publish");
        }
    }

    /// Declares a queue. One that shall only be checked must be there; then a declaration compares its arguments.
    async fn queue(&self, channel: &Channel, name: &str, arguments: FieldTable) -> Result<(), Cause> {
        let what = format!("queue '{name}'");
        let fault = |error| topology_fault(&what, self.topology, &error);
        if self.topology == Topology::Check {
            let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
            channel.queue_declare(short(name), options, FieldTable::default()).await.map_err(fault)?;
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(short(name), options, arguments).await.map(drop).map_err(fault)
    }
}
