//! The suite of every sink. An endpoint that is silent is no outage but a time-out, which is in `answers.rs`.

use std::time::Duration;

use async_trait::async_trait;
use axum::http::StatusCode;
use outbox::conformance::sink::SinkFixture;
use outbox::http::{Endpoint, EndpointConfig};
use outbox::{Message, header};
use testbed::Proxy;

use super::{Seen, Server};

/// An endpoint behind a network that can be disturbed.
struct Destination {
    server: Server,
    proxy: Proxy,
    sink: Endpoint,
}

impl Destination {
    async fn new() -> Self {
        let server = Server::start(|seen| match seen.header("ce-type").as_deref() {
            Some("poison") => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::NO_CONTENT,
        })
        .await;
        let proxy = Proxy::to(("127.0.0.1", server.port)).await.unwrap();
        let sink = Endpoint::new(EndpointConfig::new(format!("http://{}/", proxy.addr()))).unwrap();
        Self { server, proxy, sink }
    }
}

#[async_trait]
impl SinkFixture for Destination {
    type Sink = Endpoint;

    fn sink(&self) -> &Endpoint {
        &self.sink
    }

    async fn received(&self, count: usize) -> Vec<Message> {
        loop {
            let seen: Vec<_> =
                self.server.seen().iter().map(message).filter(|message| message.kind != "poison").collect();
            if seen.len() >= count {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn poison(&self) -> Option<Message> {
        Some(Message::new("poison", ""))
    }

    async fn go_down(&self) -> bool {
        self.proxy.refuse();
        self.proxy.cut();
        true
    }

    async fn come_up(&self) {
        self.proxy.accept();
    }
}

/// The message as an endpoint can put it together again.
fn message(seen: &Seen) -> Message {
    let attribute = |name: &str| seen.header(&format!("ce-{name}")).map(|value| decode(&value));
    let mut message = Message::new(attribute("type").unwrap(), seen.body.clone())
        .id(attribute("id").unwrap())
        .content_type(seen.header("content-type").unwrap())
        .occurred_at(attribute("time").unwrap().parse().unwrap());
    message.key = attribute("partitionkey");
    for name in seen.headers.keys().map(|name| name.as_str()) {
        let value = seen.header(name).unwrap();
        let is_ours = name.starts_with("ce-")
            || ["accept", "content-length", "content-type", "host", "idempotency-key", "user-agent"].contains(&name)
            || name == header::EVENT_ID
            // A message that names no correlation correlates with itself.
            || (name == header::CORRELATION_ID && value == message.id.as_str());
        if !is_ours {
            message.headers.insert(name.to_owned(), value);
        }
    }
    message
}

fn decode(text: &str) -> String {
    let query = format!("v={}", text.replace('+', "%2B"));
    let (_, value) = url::form_urlencoded::parse(query.as_bytes()).next().unwrap();
    value.into_owned()
}

mod gone {
    outbox::sink_suite!(async { Some(super::Destination::new().await) });
}
