//! An application's endpoint, and a client of the program's own server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::program::Running;

/// A request that an application got.
#[derive(Debug, Clone)]
pub struct Called {
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

/// An application that takes every message, and remembers what came.
#[derive(Clone)]
pub struct Application {
    address: SocketAddr,
    called: Arc<Mutex<Vec<Called>>>,
}

impl Application {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let started = Self { address: listener.local_addr().unwrap(), called: Arc::default() };
        let called = started.called.clone();
        let answer = async move |headers: HeaderMap, body: Bytes| {
            let text = |value: &axum::http::HeaderValue| value.to_str().unwrap().to_owned();
            let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
            let body = serde_json::from_slice(&body).unwrap();
            called.lock().unwrap().push(Called { headers, body });
            StatusCode::NO_CONTENT
        };
        let router = Router::new().fallback(answer);
        tokio::spawn(async move { axum::serve(listener, router).await });
        started
    }

    pub fn url(&self) -> String {
        format!("http://{}/notifications", self.address)
    }

    pub fn called(&self) -> Vec<Called> {
        self.called.lock().unwrap().clone()
    }
}

/// The program's own server, by what its log says of it.
pub fn server(running: &mut Running) -> SocketAddr {
    let line = running.wait_for("listening for HTTP");
    let (_, address) = line.split_once("addr=").unwrap_or_else(|| panic!("{line}"));
    address.split_whitespace().next().unwrap().parse().unwrap()
}

pub async fn get(address: SocketAddr, path: &str) -> (u16, String) {
    ask(address, &format!("GET {path} HTTP/1.1"), "").await
}

/// Posts JSON with a token.
pub async fn post(address: SocketAddr, path: &str, token: &str, body: &Value) -> (u16, Value) {
    let head =
        format!("POST {path} HTTP/1.1\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json");
    let (status, body) = ask(address, &head, &body.to_string()).await;
    (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("{body}")))
}

async fn ask(address: SocketAddr, head: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request =
        format!("{head}\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    (head[9..12].parse().unwrap(), body.to_owned())
}
