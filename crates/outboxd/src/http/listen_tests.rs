//! Clients that are silent, slow or many.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Limits;
use super::tests::{JSON, TOKEN, ask, server_within};

/// Longer than any limit that a test has set, and shorter than the usual ones.
const PATIENCE: Duration = Duration::from_secs(10);

const SHORT: Duration = Duration::from_millis(300);

/// What comes until the server closes the connection.
async fn until_cut(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
    // Closed or reset, it has ended.
    let _ = read.expect("the connection is cut");
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn who_sends_nothing_or_half_a_head_is_cut() {
    let server = server_within(Limits { head: SHORT, ..Limits::USUAL }, &[]).await;
    let mut silent = TcpStream::connect(server.addr).await.unwrap();
    let mut half = TcpStream::connect(server.addr).await.unwrap();
    half.write_all(b"GET /livez HTTP/1.1\r\nHost: ").await.unwrap();
    let mut idle = TcpStream::connect(server.addr).await.unwrap();
    let request = format!("GET /livez HTTP/1.1\r\nHost: {}\r\n\r\n", server.addr);
    idle.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(until_cut(&mut silent).await, "");
    assert!(!until_cut(&mut half).await.contains("200 OK"));
    let answered = until_cut(&mut idle).await;
    assert!(answered.starts_with("HTTP/1.1 200") && answered.ends_with("ok\n"), "{answered}");
}

/// With a head that trickles in, the time does not begin anew.
#[tokio::test]
async fn who_sends_a_head_by_the_byte_is_cut() {
    let server = server_within(Limits { head: SHORT, ..Limits::USUAL }, &[]).await;
    let mut slow = TcpStream::connect(server.addr).await.unwrap();
    let began = Instant::now();
    let mut pace = tokio::time::interval(SHORT / 10);
    while slow.write_all(b"G").await.is_ok() {
        assert!(began.elapsed() < PATIENCE, "the connection is cut");
        pace.tick().await;
    }
}

#[tokio::test]
async fn slow_clients_do_not_keep_others_from_being_answered() {
    let server = server_within(Limits { connections: 3, ..Limits::USUAL }, &["products"]).await;
    let _silent = TcpStream::connect(server.addr).await.unwrap();
    let mut slow = TcpStream::connect(server.addr).await.unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}{JSON}\r\nContent-Length: 9\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    for _ in 0..20 {
        let answer = tokio::time::timeout(PATIENCE, ask(server.addr, "GET /livez HTTP/1.1", b"")).await;
        assert_eq!(answer.expect("it is answered").0, 200);
    }
}

#[tokio::test]
async fn beyond_the_most_connections_one_waits_until_another_has_ended() {
    let limits = Limits { head: SHORT, connections: 2, ..Limits::USUAL };
    let server = server_within(limits, &[]).await;
    let began = Instant::now();
    let mut silent = Vec::new();
    for _ in 0..2 {
        silent.push(TcpStream::connect(server.addr).await.unwrap());
    }
    let answer = tokio::time::timeout(PATIENCE, ask(server.addr, "GET /livez HTTP/1.1", b"")).await;
    assert_eq!(answer.expect("the silent ones were cut").0, 200);
    assert!(began.elapsed() >= SHORT, "{:?}: it did not wait for a place", began.elapsed());
}

#[tokio::test]
async fn a_request_without_end_is_told_so() {
    let server = server_within(Limits { request: SHORT, ..Limits::USUAL }, &["products"]).await;
    let mut slow = TcpStream::connect(server.addr).await.unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}{JSON}\r\nContent-Length: 9\r\n\r\n{{"
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    let answer = until_cut(&mut slow).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("the request took longer than 300ms"), "{answer}");
}

/// Also a form that anybody may send.
#[tokio::test]
async fn who_sends_a_body_by_the_byte_is_told_so() {
    let server = server_within(Limits { body: SHORT, ..Limits::USUAL }, &["products"]).await;
    let (here, form) = (server.addr, "\r\nContent-Type: application/x-www-form-urlencoded");
    for head in [
        format!("POST /login HTTP/1.1\r\nHost: {here}\r\nOrigin: http://{here}{form}"),
        format!("POST /v1/messages HTTP/1.1\r\nHost: {here}\r\nAuthorization: Bearer {TOKEN}{JSON}"),
    ] {
        let mut slow = TcpStream::connect(here).await.unwrap();
        slow.write_all(format!("{head}\r\nContent-Length: 99999\r\n\r\n").as_bytes()).await.unwrap();
        let (mut answers, mut sends) = slow.split();
        let mut pace = tokio::time::interval(SHORT / 10);
        let drip = async {
            while sends.write_all(b"n").await.is_ok() {
                pace.tick().await;
            }
            std::future::pending::<()>().await;
        };
        let mut answer = [0; 1_000];
        let answered = tokio::select! {
            read = answers.read(&mut answer) => read.unwrap(),
            () = drip => unreachable!("it has no end"),
            () = tokio::time::sleep(PATIENCE) => panic!("nobody answers {head}"),
        };
        let answer = String::from_utf8_lossy(&answer[..answered]);
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains("the body took longer than 300ms"), "{answer}");
    }
}

/// Whatever else a client does, or does not read.
#[tokio::test]
async fn a_connection_does_not_live_for_ever() {
    let server = server_within(Limits { age: SHORT, ..Limits::USUAL }, &[]).await;
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let request = format!("GET /livez HTTP/1.1\r\nHost: {}\r\n\r\n", server.addr);
    stream.write_all(request.as_bytes()).await.unwrap();
    assert!(until_cut(&mut stream).await.ends_with("ok\n"));
}
