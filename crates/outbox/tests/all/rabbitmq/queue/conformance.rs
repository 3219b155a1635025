//! The suite of every source on a broker; classic and quorum.

use async_trait::async_trait;
use outbox::conformance::source::SourceFixture;
use outbox::rabbitmq::{Binding, Exchange, ExchangeKind, QueueKind, WorkQueue, WorkQueueConfig};
use outbox::{Message, Outcome, Sink};
use testbed::Proxy;

use super::super::{EXCHANGE, Scene, proxy};
use super::config;

pub(super) struct Queue {
    pub(super) scene: Scene,
    proxy: Proxy,
    relay: Exchange,
    pub(super) config: WorkQueueConfig,
}

impl Queue {
    pub(super) async fn new(kind: QueueKind) -> Option<Self> {
        let scene = Scene::shared().await?;
        let proxy = proxy(&scene).await;
        let mut config = config(&[100, 700]);
        config.kind = kind;
        let keys = vec!["#".to_owned()];
        config.bind = vec![Binding { exchange: EXCHANGE.to_owned(), kind: ExchangeKind::Topic, keys }];
        WorkQueue::new(&scene.url, config.clone()).unwrap().check().await.unwrap();
        let relay = scene.sink();
        Some(Self { scene, proxy, relay, config })
    }
}

#[async_trait]
impl SourceFixture for Queue {
    type Source = WorkQueue;

    async fn enqueue(&self, messages: Vec<Message>) {
        let outcomes = self.relay.deliver(&messages).await;
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Delivered), "{outcomes:?}");
    }

    /// What RabbitMQ has for it: a transaction of a channel.
    async fn roll_back(&self, messages: Vec<Message>) {
        self.scene.channel.tx_select().await.unwrap();
        for message in messages {
            let properties = super::with_id(message.id.as_str());
            let (options, body) = (lapin::options::BasicPublishOptions::default(), &message.payload);
            let sent =
                self.scene.channel.basic_publish(EXCHANGE.into(), "any".into(), options, body, properties);
            sent.await.unwrap();
        }
        self.scene.channel.tx_rollback().await.unwrap();
    }

    fn source(&self, _cursor: &str) -> WorkQueue {
        WorkQueue::new(&self.proxy.reroute(&self.scene.url).unwrap(), self.config.clone()).unwrap()
    }

    /// The connection breaks.
    async fn expire(&self, _cursor: &str) {
        self.proxy.cut();
    }
}

mod classic {
    outbox::broker_source_suite!(super::Queue::new(outbox::rabbitmq::QueueKind::Classic));
}

mod quorum {
    outbox::broker_source_suite!(super::Queue::new(outbox::rabbitmq::QueueKind::Quorum));
}
