//! A shop with a whole path: a log in SQLite, a relay to an exchange, a queue with retries, a handler behind an inbox.

use std::time::{Duration, Instant};

use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use serde_json::Value;
use testbed::Vhost;

use crate::endpoint::Endpoint;
use crate::program::{PATIENCE, Program, Running};

/// The shop.
pub struct Shop {
    pub program: Program,
    pub endpoint: Endpoint,
    pub vhost: Vhost,
    channel: Channel,
}

/// Ends a run in good order: what is killed may leave a message that it had moved and not yet acknowledged.
pub fn stop(running: Running) {
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
}

impl Shop {
    /// With these delays before further attempts; `more` is added to the configuration.
    pub async fn open(retry: &str, more: &str) -> Option<Self> {
        let vhost = testbed::rabbitmq().await?.vhost().await.unwrap();
        let endpoint = Endpoint::start().await;
        let program = Program::migrated(&format!(
            r#"
[connections]
shop = "sqlite:shop.db"
rabbit = "{}"
[sources.orders]
on = "shop"
[sinks.events]
on = "rabbit"
exchange = "shop.events"
[pipes.relay]
from = "orders"
to = "events"
poll = "20ms"
retry_first = "100ms"
[sources.work]
on = "rabbit"
queue = "work"
bind = [{{ exchange = "shop.events", keys = ["order.*"] }}]
retry = [{retry}]
dead = "work_error"
[sinks.app]
http = "{}"
private = true
inbox = "shop"
[pipes.handle]
from = "work"
to = "app"
{more}"#,
            vhost.url(),
            endpoint.url
        ));
        let connection = Connection::connect(vhost.url(), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        Some(Self { program, endpoint, vhost, channel })
    }

    /// Everything runs.
    pub fn run(&self) -> Running {
        self.program.start(&["run"])
    }

    /// Runs until the queue is there and bound: from then on nothing that is relayed has to be tried again.
    pub async fn make_topology(&self) {
        let running = self.run();
        self.send("order.first", "first");
        self.until_handled(1).await;
        stop(running);
    }

    pub fn send(&self, kind: &str, key: &str) -> String {
        let sent = self.program.ok(&["send", "--type", kind, "--key", key, "--data", "{\"n\":1}"]);
        sent.trim().to_owned()
    }

    /// How many messages are ready in a queue; 0 if it is not there yet.
    pub async fn count(&self, queue: &str) -> u32 {
        let connection =
            Connection::connect(self.vhost.url(), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = channel.queue_declare(queue.into(), options, FieldTable::default()).await;
        declared.map_or(0, |queue| queue.message_count())
    }

    pub async fn until_count(&self, queue: &str, count: u32) {
        let end = Instant::now() + PATIENCE;
        while self.count(queue).await != count {
            assert!(Instant::now() < end, "there are {} in '{queue}'", self.count(queue).await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Asks for a message until its state is this.
    pub async fn until_state(&self, id: &str, state: &str) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let shown = self.program.json(&["show", id]);
            if shown["state"] == state {
                return shown;
            }
            assert!(Instant::now() < end, "it is {shown:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the endpoint has handled so many.
    pub async fn until_handled(&self, count: usize) -> Vec<String> {
        let end = Instant::now() + PATIENCE;
        while self.endpoint.handled().len() < count {
            assert!(Instant::now() < end, "handled: {:?}", self.endpoint.handled());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.endpoint.handled()
    }

    pub fn channel(&self) -> &Channel {
        &self.channel
    }
}
