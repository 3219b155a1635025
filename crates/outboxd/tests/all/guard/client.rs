//! A browser, as far as a server can tell.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::form_urlencoded;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Its lines, in lower case up to the colon.
    head: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{self:#?}"))
    }

    /// A refusal as JSON, with these words.
    pub fn assert_refused(&self, status: u16, words: &str) {
        assert_eq!(self.status, status, "{self:#?}");
        let told = self.json();
        assert!(told["error"].as_str().unwrap().contains(words), "{self:#?}");
        assert!(!told["help"].as_str().unwrap().is_empty(), "{self:#?}");
    }

    /// The cookie that it sets, as it is sent back.
    pub fn cookie(&self) -> String {
        let set = self.header("set-cookie").unwrap_or_else(|| panic!("{self:#?}"));
        set.split(';').next().unwrap().to_owned()
    }
}

/// Asks with these lines; a `Host` that is not among them is that of the address.
pub async fn ask(address: SocketAddr, request: &str, lines: &[&str], body: &str) -> Answer {
    let mut head = format!("{request} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    if !lines.iter().any(|line| line.starts_with("Host:")) {
        head.push_str(&format!("Host: {address}\r\n"));
    }
    for line in lines {
        head.push_str(line);
        head.push_str("\r\n");
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    let status = head[9..12].parse().unwrap();
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let head = lines.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Answer { status, head, body: body.to_owned() }
}

/// Who one is, with these lines.
pub async fn me(address: SocketAddr, lines: &[&str]) -> Answer {
    ask(address, "GET /v1/me", lines, "").await
}

/// Signs in from the page of the server itself, on the way to `next`.
pub async fn sign_in(address: SocketAddr, name: &str, password: &str, next: &str) -> Answer {
    let form = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("name", name), ("password", password), ("next", next)])
        .finish();
    let origin = format!("Origin: http://{address}");
    let lines = [&*origin, "Sec-Fetch-Site: same-origin", "Content-Type: application/x-www-form-urlencoded"];
    ask(address, "POST /login", &lines, &form).await
}
