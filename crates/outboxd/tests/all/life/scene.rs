//! A shop with a whole path: a log in SQLite, a relay to an exchange, a queue with retries, a handler behind an inbox.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};
use serde_json::Value;
use testbed::Vhost;
use tokio::task::JoinHandle;

use crate::program::{PATIENCE, Program, Running};

/// An endpoint that answers as told, by type.
pub struct Endpoint {
    pub url: String,
    state: Arc<Answers>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Answers {
    /// The status for a type; 200 for any other.
    by_type: Mutex<BTreeMap<String, u16>>,
    /// The ids of what was answered with 200, in order.
    handled: Mutex<Vec<String>>,
}

impl Endpoint {
    pub async fn start() -> Self {
        let state = Arc::new(Answers::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/events", listener.local_addr().unwrap());
        let app = Router::new().route("/events", post(answer)).with_state(state.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, state, serving }
    }

    pub fn answer(&self, kind: &str, status: u16) {
        self.state.by_type.lock().unwrap().insert(kind.to_owned(), status);
    }

    pub fn handled(&self) -> Vec<String> {
        self.state.handled.lock().unwrap().clone()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(State(state): State<Arc<Answers>>, headers: HeaderMap) -> StatusCode {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let status = state.by_type.lock().unwrap().get(header("ce-type")).copied().unwrap_or(200);
    if status == 200 {
        state.handled.lock().unwrap().push(header("ce-id").to_owned());
    }
    StatusCode::from_u16(status).unwrap()
}

/// The shop.
pub struct Shop {
    pub program: Program,
    pub endpoint: Endpoint,
    pub vhost: Vhost,
    channel: Channel,
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
