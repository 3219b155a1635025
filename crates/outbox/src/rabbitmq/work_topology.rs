//! Makes the queues of a consumer, or looks whether they are there and as configured; once for every connection.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::config::{QueueKind, Topology};
use super::connection::{Establish, Way};
use super::declare::{Declaring, Make};
use super::error::{differs_in, topology_fault};
use super::work_config::{Argument, WorkQueueConfig};
use crate::broker::{Steps, retry_name};
use crate::sink::Cause;

type Arguments = BTreeMap<String, Argument>;

/// More often than that nothing is ever handed out.
const DELIVERY_LIMIT: i64 = 1_000_000_000;

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

    async fn establish(&self, declaring: &mut Declaring<'_>) -> Result<(), Cause> {
        // The dead letters first: from the moment that the queue is there, it may need them.
        self.dead_queue(declaring).await?;
        for delay in Steps::new(&self.retry).all() {
            let millis = i64::try_from(delay.as_millis()).unwrap_or(i64::MAX);
            let mut arguments = self.dead_letters_to(&self.queue);
            arguments.insert("x-message-ttl".to_owned(), Argument::Integer(millis));
            let name = retry_name(&self.queue, *delay);
            let made = self.declared(declaring, &self.make(&name, &arguments)).await;
            made.map_err(|error| self.fault(&name, &error))?;
        }
        self.work_queue(declaring).await?;
        self.bindings(declaring).await
    }
}

impl WorkQueueConfig {
    /// The arguments with which the queue is declared, besides its kind: whoever else declares it needs the same.
    pub fn queue_arguments(&self) -> Arguments {
        let mut arguments = self.safe_arguments();
        if self.kind == QueueKind::Quorum {
            // Since version 4 a quorum queue gives up what was handed out 20 times. Every lost connection counts for all
            // that was read ahead, so an outage would cost messages; -1 for no limit is not known to version 3.
            arguments.entry("x-delivery-limit".to_owned()).or_insert(Argument::Integer(DELIVERY_LIMIT));
        }
        arguments
    }

    /// What was chosen for the queue, with a place for what the broker itself gives up: it would drop it.
    fn safe_arguments(&self) -> Arguments {
        let mut arguments = self.plain_arguments();
        if self.kind == QueueKind::Quorum {
            for (name, value) in self.dead_letters_to(&self.dead) {
                arguments.entry(name).or_insert(value);
            }
        }
        arguments
    }

    /// What was chosen for the queue, without a place for what the broker itself gives up.
    fn plain_arguments(&self) -> Arguments {
        let mut arguments = self.arguments.clone();
        if self.single_active {
            arguments.entry("x-single-active-consumer".to_owned()).or_insert(Argument::Flag(true));
        }
        arguments
    }

    /// What leaves the queue by itself goes to another one, through the default exchange.
    fn dead_letters_to(&self, queue: &str) -> Arguments {
        let mut arguments = vec![("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", queue)];
        if self.kind == QueueKind::Quorum {
            // Otherwise the broker moves a message without waiting for the confirm, and it may get lost.
            arguments.extend([("x-dead-letter-strategy", "at-least-once"), ("x-overflow", "reject-publish")]);
        }
        let owned = |(name, value): (&str, &str)| (name.to_owned(), Argument::Text(value.to_owned()));
        arguments.into_iter().map(owned).collect()
    }

    fn make<'m>(&self, name: &'m str, arguments: &'m Arguments) -> Make<'m> {
        Make { name, kind: self.kind, durable: true, arguments }
    }

    fn fault(&self, queue: &str, error: &lapin::Error) -> Cause {
        topology_fault(&format!("queue '{queue}'"), self.topology, error)
    }

    /// Declares a queue. One that shall only be checked must be there; then a declaration compares its arguments.
    async fn declared(&self, declaring: &mut Declaring<'_>, make: &Make<'_>) -> lapin::Result<()> {
        if self.topology == Topology::Check {
            declaring.is_there(make.name).await?;
        }
        declaring.queue(make).await
    }

    async fn dead_queue(&self, declaring: &mut Declaring<'_>) -> Result<(), Cause> {
        match self.declared(declaring, &self.make(&self.dead, &self.dead_arguments)).await {
            // Somebody reads it, and has a place for what fails there again: letters are as safe in it.
            Err(error) if differs_in(&error).is_some_and(is_of_a_reader) => Ok(()),
            made => made.map_err(|error| self.fault(&self.dead, &error)),
        }
    }

    /// A quorum queue may have been made by whoever sends to it, who knows nothing of our dead letters. Its messages are
    /// ours to move; only what the broker gives up by itself has no place then.
    async fn work_queue(&self, declaring: &mut Declaring<'_>) -> Result<(), Cause> {
        let (full, safe, plain) = (self.queue_arguments(), self.safe_arguments(), self.plain_arguments());
        let Err(error) = self.declared(declaring, &self.make(&self.queue, &full)).await else {
            return Ok(());
        };
        let differs = differs_in(&error).is_some();
        if differs && full != safe && declaring.queue(&self.make(&self.queue, &safe)).await.is_ok() {
            tracing::warn!(
                queue = self.queue,
                "it was made without x-delivery-limit: since version 4 RabbitMQ gives up what it has handed out 20 times, and \
                 every lost connection counts; set delivery-limit by a policy, or delete the queue while it is empty, and it \
                 is made anew"
            );
            return Ok(());
        }
        let is_plain =
            differs && full != plain && declaring.queue(&self.make(&self.queue, &plain)).await.is_ok();
        if !is_plain {
            return Err(self.fault(&self.queue, &error));
        }
        tracing::warn!(
            queue = self.queue,
            "it was made without a place for what the broker gives up: since version 4 RabbitMQ drops a message that it has \
             handed out 20 times; set dead-letter-exchange and dead-letter-routing-key by a policy, or delete the queue \
             while it is empty, and it is made anew"
        );
        Ok(())
    }

    async fn bindings(&self, declaring: &mut Declaring<'_>) -> Result<(), Cause> {
        let passive = self.topology == Topology::Check;
        for bind in &self.bind {
            let what = format!("exchange '{}'", bind.exchange);
            let fault = |error| topology_fault(&what, self.topology, &error);
            declaring.exchange(&bind.exchange, bind.kind, passive).await.map_err(fault)?;
            // RabbitMQ cannot be asked for bindings.
            let keys = if passive { &[][..] } else { &bind.keys };
            for key in keys {
                let what = format!("the binding by '{key}' to {what}");
                declaring
                    .bind(&self.queue, &bind.exchange, key)
                    .await
                    .map_err(|error| topology_fault(&what, self.topology, &error))?;
            }
        }
        Ok(())
    }
}

/// Whether an argument is one that a reader gives its queue, and that costs no message.
fn is_of_a_reader(argument: &str) -> bool {
    argument.starts_with("x-dead-letter-")
        || matches!(argument, "x-overflow" | "x-single-active-consumer" | "x-delivery-limit")
}
