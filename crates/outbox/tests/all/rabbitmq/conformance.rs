//! The suite of every sink, twice: the broker is gone when it is down, or there and silent.

use std::time::Duration;

use async_trait::async_trait;
use lapin::message::Delivery;
use outbox::conformance::sink::SinkFixture;
use outbox::rabbitmq::Exchange;
use outbox::{Message, header};
use testbed::Proxy;
use tokio::sync::Mutex;

use super::{Scene, proxy, text, through};

/// A queue for the messages of the suite, behind a network that can be disturbed.
struct Destination {
    scene: Scene,
    proxy: Proxy,
    sink: Exchange,
    is_silent: bool,
    received: Mutex<Vec<Message>>,
}

impl Destination {
    async fn new(is_silent: bool) -> Option<Self> {
        let scene = Scene::shared().await?.with_orders().await;
        scene.bind("orders", "suite.#").await;
        let proxy = proxy(&scene).await;
        // Long enough for a batch on a slow day, and short: that is how long a silent broker is waited for.
        let sink = through(&proxy, &scene, Duration::from_secs(2));
        Some(Self { scene, proxy, sink, is_silent, received: Mutex::default() })
    }
}

#[async_trait]
impl SinkFixture for Destination {
    type Sink = Exchange;

    fn sink(&self) -> &Exchange {
        &self.sink
    }

    async fn received(&self, count: usize) -> Vec<Message> {
        let mut received = self.received.lock().await;
        loop {
            received.extend(self.scene.drain("orders").await.iter().map(message));
            if received.len() >= count {
                return received.clone();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn poison(&self) -> Option<Message> {
        Some(match self.is_silent {
            true => Message::new("suite.tested", "").header("CC", "not a list of keys"),
            false => Message::new("nobody.cares", ""),
        })
    }

    async fn go_down(&self) -> bool {
        if self.is_silent {
            self.proxy.block();
        } else {
            self.proxy.refuse();
            self.proxy.cut();
        }
        true
    }

    async fn come_up(&self) {
        self.proxy.unblock();
        self.proxy.accept();
    }
}

/// The message as a consumer can put it together again.
fn message(delivery: &Delivery) -> Message {
    let attribute = |name: &str| text(delivery, &format!("cloudEvents_{name}"));
    let mut message = Message::new(attribute("type").unwrap(), delivery.data.clone())
        .id(super::id(delivery))
        .content_type(delivery.properties.content_type().as_ref().unwrap().as_str())
        .occurred_at(attribute("time").unwrap().parse().unwrap());
    message.key = attribute("partitionkey");
    for name in delivery.properties.headers().as_ref().unwrap().inner().keys() {
        let (name, value) = (name.as_str(), text(delivery, name.as_str()).unwrap());
        // The sink adds these; a message that names no correlation correlates with itself.
        let is_ours = name.starts_with("cloudEvents_")
            || name == header::EVENT_ID
            || (name == header::CORRELATION_ID && value == message.id.as_str());
        if !is_ours {
            message.headers.insert(name.to_owned(), value);
        }
    }
    message
}

mod gone {
    outbox::sink_suite!(super::Destination::new(false));
}

mod silent {
    outbox::sink_suite!(super::Destination::new(true));
}
