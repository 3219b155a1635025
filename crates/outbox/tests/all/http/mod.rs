//! An endpoint as a sink, against servers of the tests' own: one that speaks HTTP, and one that is handed its words.

mod answers;
mod conformance;
mod forbidden;
mod tls;
mod wire;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use outbox::http::{Endpoint, EndpointConfig};
use outbox::{Message, Outcome};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A request as it came.
#[derive(Debug, Clone)]
struct Seen {
    method: String,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

impl Seen {
    fn header(&self, name: &str) -> Option<String> {
        assert!(self.headers.get_all(name).iter().count() < 2, "{name} is there twice");
        self.headers.get(name).map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap())
    }
}

/// A server that keeps every request, and answers what it is told.
struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    serving: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Server {
    async fn start<R: IntoResponse>(answer: impl Fn(&Seen) -> R + Clone + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1", move |seen| std::future::ready(answer(&seen).into_response())).await
    }

    async fn start_at<F>(address: &str, answer: impl Fn(Seen) -> F + Clone + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response> + Send + 'static,
    {
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let kept = seen.clone();
        let router = axum::Router::new().fallback(move |request: Request| {
            let (answer, kept) = (answer.clone(), kept.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
                let (method, path) = (parts.method.to_string(), parts.uri.path().to_owned());
                let seen = Seen { method, path, headers: parts.headers, body };
                kept.lock().unwrap().push(seen.clone());
                answer(seen).await
            }
        });
        let listener = TcpListener::bind((address, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { port, seen, serving }
    }

    async fn ok() -> Self {
        Self::start(|_| StatusCode::NO_CONTENT).await
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/events", self.port)
    }

    fn config(&self) -> EndpointConfig {
        EndpointConfig::new(self.url())
    }

    fn sink(&self) -> Endpoint {
        Endpoint::new(self.config()).unwrap()
    }
}

fn order(n: usize) -> Message {
    Message::new("order.created", format!("{{\"n\":{n}}}")).content_type("application/json").key(n)
}

/// The outcome in a word: `delivered`, or the code of its cause with `!` when permanent and `~` when unavailable.
fn word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Delivered => "delivered".to_owned(),
        Outcome::Rejected(rejection) if rejection.permanent => format!("{}!", rejection.cause.code),
        Outcome::Rejected(rejection) => rejection.cause.code.to_string(),
        Outcome::Unavailable(cause) => format!("~{}", cause.code),
    }
}

fn words(outcomes: &[Outcome]) -> Vec<String> {
    outcomes.iter().map(word).collect()
}

fn detail(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Delivered => String::new(),
        Outcome::Rejected(rejection) => rejection.cause.detail.clone(),
        Outcome::Unavailable(cause) => cause.detail.clone(),
    }
}

/// Long enough for anything here on a slow day.
const PATIENCE: Duration = Duration::from_secs(20);
