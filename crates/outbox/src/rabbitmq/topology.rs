//! Makes the exchange and the queues of a sink, or looks whether they are there; once for every connection.

use async_trait::async_trait;
use lapin::Error as Driver;

use super::config::{ExchangeConfig, QueueConfig, Topology};
use super::connection::{Establish, Way};
use super::declare::{Declaring, Make};
use super::error::{differs_in, topology_fault};
use crate::sink::Cause;

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

    async fn establish(&self, declaring: &mut Declaring<'_>) -> Result<(), Cause> {
        let passive = self.topology == Topology::Check;
        // The default exchange is always there and may not be declared.
        if !self.exchange.is_empty() {
            let what = format!("exchange '{}'", self.exchange);
            declaring
                .exchange(&self.exchange, self.kind, passive)
                .await
                .map_err(|error| topology_fault(&what, self.topology, &error))?;
        }
        for queue in &self.queues {
            let what = format!("queue '{}'", queue.name);
            self.queue(declaring, queue)
                .await
                .map_err(|error| topology_fault(&what, self.topology, &error))?;
        }
        Ok(())
    }
}

impl ExchangeConfig {
    async fn queue(&self, declaring: &mut Declaring<'_>, queue: &QueueConfig) -> lapin::Result<()> {
        if self.topology == Topology::Check {
            return declaring.is_there(&queue.name).await;
        }
        match declaring.queue(&queue.make()).await {
            Err(error) if is_its_readers(&error) => {
                tracing::debug!(queue = queue.name, ?error, "as somebody else has made it");
            }
            declared => declared?,
        }
        for key in &queue.keys {
            declaring.bind(&queue.name, &self.exchange, key).await?;
        }
        Ok(())
    }
}

impl QueueConfig {
    pub(super) fn make(&self) -> Make<'_> {
        Make { name: &self.name, kind: self.kind, durable: self.durable, arguments: &self.arguments }
    }
}

/// Whether a queue differs in nothing but what its reader decides, such as where its dead letters go: whoever sends to
/// it takes it as it is.
pub(super) fn is_its_readers(error: &Driver) -> bool {
    differs_in(error).is_some_and(|name| name.starts_with("x-") && name != "x-queue-type")
}
