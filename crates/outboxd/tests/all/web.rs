//! A client of the program's own server.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::program::Running;

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

pub async fn ask(address: SocketAddr, head: &str, body: &str) -> (u16, String) {
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
