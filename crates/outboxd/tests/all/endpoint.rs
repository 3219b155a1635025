//! An endpoint of an application: takes down what it is sent, and answers as it is told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;

use crate::program::PATIENCE;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Posted {
    pub id: String,
    pub body: String,
    pub headers: HeaderMap,
}

#[derive(Default)]
struct Book {
    posted: Vec<Posted>,
    /// Answers for the next requests; then all is well.
    answers: VecDeque<u16>,
    /// Answers for all of a type.
    by_type: BTreeMap<String, u16>,
    /// The ids of what was answered with 200.
    handled: Vec<String>,
}

/// A server of this test alone.
pub struct Endpoint {
    pub url: String,
    book: Arc<Mutex<Book>>,
    server: tokio::task::JoinHandle<()>,
}

impl Endpoint {
    pub async fn start() -> Self {
        let book = Arc::new(Mutex::new(Book::default()));
        let router = Router::new().route("/events", post(take)).with_state(book.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/events", listener.local_addr().unwrap());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, book, server }
    }

    /// Answers the next requests with these.
    pub fn answer(&self, answers: &[u16]) {
        self.book.lock().unwrap().answers.extend(answers);
    }

    /// Answers whatever is of this type with this.
    pub fn answer_type(&self, kind: &str, answer: u16) {
        self.book.lock().unwrap().by_type.insert(kind.to_owned(), answer);
    }

    /// The ids of what was answered with 200, in order.
    pub fn handled(&self) -> Vec<String> {
        self.book.lock().unwrap().handled.clone()
    }

    pub fn posted(&self) -> Vec<Posted> {
        self.book.lock().unwrap().posted.clone()
    }

    /// Waits until so many requests have come.
    pub async fn wait_for(&self, count: usize) -> Vec<Posted> {
        let give_up_at = Instant::now() + PATIENCE * 2; // An alert is over only after a minute.
        loop {
            let posted = self.posted();
            if posted.len() >= count {
                return posted;
            }
            assert!(Instant::now() < give_up_at, "{count} requests never came: {posted:#?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn take(State(book): State<Arc<Mutex<Book>>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let mut book = book.lock().unwrap();
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let (id, kind) = (header("ce-id"), header("ce-type"));
    book.posted.push(Posted { id: id.clone(), body: String::from_utf8_lossy(&body).into_owned(), headers });
    let answer = book.by_type.get(&kind).copied().or_else(|| book.answers.pop_front()).unwrap_or(200);
    if answer == 200 {
        book.handled.push(id);
    }
    StatusCode::from_u16(answer).unwrap()
}
