//! A program that runs with an API, and a client of it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::errors::until_errors;
use crate::life::scene::Shop;
use crate::program::{PATIENCE, Program, RELAY, Running};
use crate::web::server;

pub const TOKEN: &str = "0123456789abcdef0123456789";

/// A table of errors, in which nothing is yet.
const ERRORS: &str = "[sinks.errors]\non = \"shop\"\nerror_log = true\n";

/// A pipe on which every message dies, whatever is done about it, and one that makes an error of every message.
const FAILING: &str = r#"
[sinks.grave]
file = "nowhere/lines.jsonl"
[pipes.bury]
from = "orders"
to = "grave"
order = "none"
poll = "10ms"
outage = "count"
attempts = 1
[pipes.note]
from = "orders"
to = "errors"
poll = "10ms"
"#;

/// A server for a configuration.
pub const HTTP: &str = "[http]\nlisten = \"127.0.0.1:0\"\n\
    [http.people.ci]\nrole = \"operator\"\ntoken = \"0123456789abcdef0123456789\"\n";

/// A program that runs, and its address.
pub struct Api {
    pub program: Program,
    pub running: Running,
    pub address: SocketAddr,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

impl Api {
    /// Runs a program with this configuration.
    pub fn over(program: Program) -> Self {
        let mut running = program.start(&["run"]);
        let address = server(&mut running);
        Self { program, running, address }
    }

    /// A shop that runs, with [`HTTP`] in its configuration.
    pub fn of_shop(shop: &Shop) -> Self {
        let mut running = shop.run();
        let address = server(&mut running);
        Self { program: Program::new(), running, address }
    }

    /// Three messages in SQLite that could not be delivered: two dead, and one behind the first.
    pub async fn with_dead() -> (Self, Vec<String>) {
        let program = Program::migrated(&(RELAY.to_owned() + ERRORS + HTTP));
        let ids = ["a", "a", "b"].map(|key| program.send(key)).to_vec();
        let api = Self::over(program);
        api.until_listed("state:dead", 2).await;
        (api, ids)
    }

    /// The same three, and every message that comes is dead on another pipe and an error in a table: there is always
    /// something to deal with.
    pub async fn with_failures() -> (Self, Vec<String>) {
        let program = Program::migrated(&(RELAY.to_owned() + ERRORS + FAILING + HTTP));
        let ids = ["a", "a", "b"].map(|key| program.send(key)).to_vec();
        let api = Self::over(program);
        api.until_listed("pipe:relay state:dead", 2).await;
        api.until_listed("pipe:bury state:dead", 3).await;
        until_errors(&api, 3).await;
        (api, ids)
    }

    /// The configuration of [`RELAY`] with another connection.
    pub fn config(url: &str) -> String {
        RELAY.replace("sqlite:shop.db", url) + HTTP
    }

    /// Asks until so many messages match.
    pub async fn until_listed(&self, filter: &str, count: usize) {
        let end = Instant::now() + PATIENCE;
        loop {
            let path = format!("/v1/messages?filter={}", encoded(filter));
            let head = format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}");
            let listed = self.ask(&head, b"").await.json();
            if listed["messages"].as_array().is_some_and(|all| all.len() == count) {
                return;
            }
            assert!(Instant::now() < end, "{filter}: {listed:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Gets what must be there.
    pub async fn get(&self, path: &str) -> Value {
        let answer = self.ask(&format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}"), b"").await;
        assert_eq!(answer.status, 200, "{path}: {answer:#?}");
        answer.json()
    }

    /// Posts what must be right.
    pub async fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.try_post(path, body).await;
        assert_eq!(answer.status, 200, "{path} {body}: {answer:#?}");
        answer.json()
    }

    /// Posts, and does not wait for the answer: whoever drops the connection has gone.
    pub async fn begin(&self, path: &str, body: &Value) -> TcpStream {
        let (mut stream, body) = (TcpStream::connect(self.address).await.unwrap(), body.to_string());
        let (address, length) = (self.address, body.len());
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    pub async fn try_post(&self, path: &str, body: &Value) -> Answer {
        let head = format!(
            "POST {path} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: application/json"
        );
        self.ask(&head, body.to_string().as_bytes()).await
    }

    /// Sends a head and a body as they are.
    pub async fn ask(&self, head: &str, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let length = match head.contains("Content-Length") {
            true => String::new(),
            false => format!("Content-Length: {}\r\n", body.len()),
        };
        let head = format!("{head}\r\nHost: {}\r\nConnection: close\r\n{length}\r\n", self.address);
        stream.write_all(head.as_bytes()).await.unwrap();
        // Who is refused early need not be listened to.
        let _ = stream.write_all(body).await;
        let mut bytes = Vec::new();
        let read = stream.read_to_end(&mut bytes).await;
        let answer = String::from_utf8_lossy(&bytes);
        let (told, rest) =
            answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{head}: {read:?} {answer}"));
        let status = told[9..12].parse().unwrap();
        Answer { status, head: told.to_owned(), body: rest.to_owned() }
    }
}

/// As a part of an address.
pub fn encoded(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// Without what differs from one look to the next.
pub fn settled(mut value: Value) -> Value {
    const PASSING: [&str; 4] = ["lag_seconds", "lease_until", "beat_at", "age_seconds"];
    match &mut value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                let held =
                    if PASSING.contains(&name.as_str()) { json!(null) } else { settled(member.take()) };
                *member = held;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = settled(item.take())),
        _ => {}
    }
    value
}
