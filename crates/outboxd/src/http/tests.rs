//! The server over TCP, with a broker in memory.

use std::time::{Duration, Instant};

use outbox::memory::{Outbox, Recorder};
use outbox::{Cause, Outcome, Source, code};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

pub(super) const TOKEN: &str = "0123456789abcdef";

pub(super) struct Server {
    pub(super) addr: SocketAddr,
    broker: Recorder,
    outbox: Outbox,
    health: Arc<Health>,
    stop: CancellationToken,
    serving: Serving,
}

fn plan() -> crate::plan::Plan {
    let text = "[connections]\nshop = \"sqlite:shop.db\"\n[sources.orders]\non = \"shop\"\n[sinks.screen]\nstdout = true\n\
        [pipes.relay]\nfrom = \"orders\"\nto = \"screen\"\n";
    let checked = crate::plan::Plan::parse(std::path::Path::new("/srv/outboxd.toml"), text, &|_| None);
    checked.expect("it is valid").plan
}

fn health() -> Health {
    let plan = plan();
    Health::new("here:1", &plan, &plan.pipes.values().collect::<Vec<_>>())
}

pub(super) fn options(listen: &str) -> HttpOptions {
    let tokens = vec![Secret::new(TOKEN), Secret::new("the-token-before")];
    let figures = Figures::install([("tested_seconds", &[1.0, 2.0][..])]).unwrap();
    let access = AccessOptions::default();
    let office = Arc::new(Office::serving(Arc::new(plan()), Arc::default()));
    let health = Arc::new(health());
    HttpOptions { listen: listen.parse().unwrap(), tokens, access, figures, health, office }
}

/// A server with publishers of these names, of which `late` is not ready and `broken` never will be.
async fn server(names: &[&str]) -> Server {
    server_within(Limits::USUAL, names).await
}

pub(super) async fn server_within(limits: Limits, names: &[&str]) -> Server {
    let (broker, outbox, stop) = (Recorder::new(), Outbox::new(), CancellationToken::new());
    let slot = |name: &&str| {
        let slot = Slot::default();
        let publisher = Publisher::new(Arc::new(broker.clone()), Arc::new(outbox.store("later")));
        let _ = match *name {
            "late" => Ok(()),
            "broken" => slot.set(Err("no such table".to_owned())).map_err(drop),
            _ => slot.set(Ok(publisher.timeout(Duration::from_secs(5)))).map_err(drop),
        };
        ((*name).to_owned(), slot)
    };
    let publishers = names.iter().map(slot).collect();
    let options = options("127.0.0.1:0");
    let health = options.health.clone();
    let serving = serve_within(limits, options, publishers, stop.clone()).await.unwrap();
    Server { addr: serving.addr, broker, outbox, health, stop, serving }
}

/// Status, head and body of an answer.
pub(super) async fn ask(addr: SocketAddr, head: &str, body: &[u8]) -> (u16, String, String) {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let length = if head.contains("ontent-Length") {
        String::new()
    } else {
        format!("Content-Length: {}\r\n", body.len())
    };
    let head = format!("{head}\r\nHost: {addr}\r\nConnection: close\r\n{length}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // It may answer before it has read everything.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), head.to_ascii_lowercase(), body.to_owned())
}

async fn post(addr: SocketAddr, query: &str, more: &str, body: &str) -> (u16, Value) {
    let head = format!("POST /v1/messages{query} HTTP/1.1\r\nAuthorization: Bearer {TOKEN}{more}");
    let (status, _, body) = ask(addr, &head, body.as_bytes()).await;
    (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("{body}")))
}

pub(super) const JSON: &str = "\r\nContent-Type: application/json";

#[tokio::test]
async fn e4_a_message_is_confirmed_or_kept() {
    let server = server(&["products"]).await;
    let body = r#"{"type":"product.created","key":"p-1","payload":{"n": 1.50},"id":"one"}"#;
    let (status, answer) = post(server.addr, "", JSON, body).await;
    assert_eq!((status, answer.to_string()), (200, r#"{"id":"one","state":"confirmed"}"#.to_owned()));
    assert_eq!(server.broker.received()[0].payload, r#"{"n": 1.50}"#);
    server.broker.go_down();
    let (status, answer) = post(server.addr, "?publisher=products", JSON, &body.replace("one", "two")).await;
    assert_eq!((status, &answer["state"]), (202, &Value::from("kept")));
    assert_eq!(answer["why"], "UNREACHABLE: told to be down");
    let more =
        "\r\nce-type: product.renamed\r\nce-id: three\r\nce-partitionkey: p-1\r\nContent-Type: text/plain";
    let (status, answer) = post(server.addr, "", more, "as it is").await;
    assert_eq!((status, &answer["id"]), (202, &Value::from("three")));
    let (_, _, figures) = ask(server.addr, "GET /metrics HTTP/1.1", b"").await;
    for state in ["confirmed", "kept"] {
        let line = format!("outboxd_published_total{{publisher=\"products\",state=\"{state}\"}}");
        assert!(figures.contains(&line), "{line} in {figures}");
    }
    server.stop.cancel();
    server.serving.ended().await;
    assert!(TcpStream::connect(server.addr).await.is_err(), "it has gone");
}

#[tokio::test]
async fn d8_a_pipe_that_stopped_for_good_is_named_and_nobody_is_ready() {
    let server = server(&[]).await;
    let look = async |path: &str| {
        let (status, _, body) = ask(server.addr, &format!("GET {path} HTTP/1.1"), b"").await;
        (status, serde_json::from_str::<Value>(&body).unwrap_or_else(|_| panic!("{body}")))
    };
    assert_eq!(look("/readyz").await, (200, serde_json::json!({ "ready": true, "not_ready": [] })));
    let (status, body) = look("/health").await;
    assert_eq!((status, &body["status"], &body["instance"]), (200, &"ok".into(), &"here:1".into()));
    assert_eq!(body["pipes"][0]["state"], "starting", "{body}");
    server.health.pipe("relay").unwrap().ended(Some("no table".to_owned()));
    let (status, body) = look("/readyz").await;
    let expected = serde_json::json!([{ "pipe": "relay", "reason": "stopped", "detail": "it has stopped for good: no table" }]);
    assert_eq!((status, &body["not_ready"]), (503, &expected));
    let (status, body) = look("/health").await;
    assert_eq!(
        (status, &body["status"], &body["pipes"][0]["cause"]),
        (503, &"failing".into(), &"no table".into())
    );
}

#[tokio::test]
async fn nobody_publishes_without_a_token() {
    let server = server(&["products"]).await;
    for (authorization, challenge) in [
        ("", "www-authenticate: bearer realm=\"outboxd\"\r"),
        ("\r\nAuthorization: Bearer wrong", "error=\"invalid_token\""),
        ("\r\nAuthorization: Basic 0123456789abcdef", "www-authenticate: bearer realm=\"outboxd\"\r"),
    ] {
        for path in ["/v1/messages", "/v1/other"] {
            let head = format!("POST {path} HTTP/1.1{authorization}{JSON}");
            let (status, head, body) = ask(server.addr, &head, b"{}").await;
            assert!(status == 401 && head.contains(challenge), "{head}");
            assert!(body.contains("\"help\"") && !body.contains(TOKEN), "{body}");
        }
    }
    for token in [TOKEN, "the-token-before"] {
        let head = format!("POST /v1/messages HTTP/1.1\r\nauthorization: bearer {token}{JSON}");
        let (status, ..) = ask(server.addr, &head, br#"{"type":"a","payload":1}"#).await;
        assert_eq!(status, 200, "each of the tokens is good");
    }
    assert_eq!(server.broker.received().len(), 2);
}

#[tokio::test]
async fn what_cannot_be_done_is_told_with_what_to_do() {
    let server = server(&["broken", "late", "products"]).await;
    let fine = r#"{"type":"a","payload":1}"#;
    let named = "?publisher=products";
    server.broker.judge_by(|message| match message.kind.as_str() {
        "unfit" => Outcome::refused(Cause::new(code::UNFIT, "no routing key can be made of it")),
        _ => Outcome::Delivered,
    });
    let heavy = format!(r#"{{"type":"a","payload":"{}"}}"#, "x".repeat(1024 * 1024));
    for (query, more, body, status, error, help) in [
        ("", JSON, fine, 400, "there are several publishers", "there are broken, late, products"),
        (
            "?publisher=product",
            JSON,
            fine,
            404,
            "there is no publisher 'product'",
            "did you mean 'products'?",
        ),
        ("?publsher=products", JSON, fine, 400, "there is no parameter 'publsher'", "publisher=NAME"),
        ("?publisher=late", JSON, fine, 503, "is not ready", "again"),
        ("?publisher=broken", JSON, fine, 503, "cannot work: no such table", "log"),
        (named, JSON, "{", 400, "the body cannot be read: EOF", "payload"),
        (named, JSON, r#"{"type":" ","payload":1}"#, 400, "has no type", "change the message"),
        (
            named,
            JSON,
            r#"{"type":"unfit","payload":1}"#,
            400,
            "refused for good: UNFIT: no routing key",
            "change",
        ),
        (named, JSON, &heavy, 413, "the payload is larger than 1048576 bytes", "max_payload"),
        (named, "\r\nContent-Type: text/xml", "<a/>", 415, "'text/xml' cannot be read", "application/json"),
    ] {
        let (found, answer) = post(server.addr, query, more, body).await;
        let told = |member: &str| answer[member].as_str().unwrap_or_default().to_owned();
        assert!(found == status && told("error").contains(error), "{found} {answer}");
        assert!(told("help").contains(help), "{answer}");
    }
    let authorized = format!("Authorization: Bearer {TOKEN}");
    for (head, status) in [
        ("DELETE /v1/messages HTTP/1.1", 405),
        ("PUT /v1/messages HTTP/1.1", 405),
        ("POST /metrics HTTP/1.1", 405),
        ("POST /v1/message HTTP/1.1", 403),
        ("GET /nowhere HTTP/1.1", 404),
    ] {
        let (found, _, body) = ask(server.addr, &format!("{head}\r\n{authorized}"), b"").await;
        let told: Value = serde_json::from_str(&body).unwrap();
        assert!(
            found == status && told["error"].is_string() && told["help"].is_string(),
            "{head}: {found} {body}"
        );
    }
    let head = format!("POST /v1/messages?publisher=late HTTP/1.1\r\n{authorized}{JSON}");
    assert!(ask(server.addr, &head, b"{}").await.1.contains("retry-after: 2"));
    assert_eq!(server.broker.received(), []);
    let claimed = server.outbox.cursor("later").claim(1).await.unwrap();
    assert!(claimed.messages.is_empty(), "nothing was kept either");
}

/// A body is not read that says how large it is, nor more of one than there may be.
#[tokio::test]
async fn a_body_without_end_is_cut_off() {
    let server = server(&["products"]).await;
    let head = format!("POST /v1/messages HTTP/1.1\r\nAuthorization: Bearer {TOKEN}{JSON}");
    let told = format!("{head}\r\nContent-Length: 99999999999");
    assert_eq!(ask(server.addr, &told, b"{").await.0, 413);
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    let head = format!("{head}\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\n", server.addr);
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let mut written = 0;
    while stream.write_all(chunk.as_bytes()).await.is_ok() && written < 64 {
        written += 1;
    }
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn figures_and_a_sign_of_life_are_for_who_comes_by_address() {
    let server = server(&[]).await;
    metrics::histogram!("tested_seconds").record(1.5);
    let (status, head, body) = ask(server.addr, "GET /metrics HTTP/1.1", b"").await;
    assert!(status == 200 && head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert!(body.contains("tested_seconds_bucket{le=\"2\"} 1"), "{body}");
    assert_eq!(ask(server.addr, "GET /livez HTTP/1.1", b"").await.2, "ok\n");
    let mut stream = TcpStream::connect(server.addr).await.unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403") && !answer.contains("tested_seconds"), "{answer}");
    let (status, answer) = post(server.addr, "", JSON, "{}").await;
    assert_eq!((status, &answer["error"]), (404, &Value::from("there is no publisher")));
}

#[tokio::test]
async fn an_address_in_use_is_told_at_once() {
    let server = server(&[]).await;
    let again = serve(options(&server.addr.to_string()), BTreeMap::new(), CancellationToken::new()).await;
    let error = format!("{:#}", again.map(|serving| serving.addr).unwrap_err());
    assert!(error.contains(&format!("cannot listen on {}", server.addr)), "{error}");
    assert!(error.to_lowercase().contains("in use"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_lets_finish_what_is_under_way() {
    let server = server(&["products"]).await;
    let begun = Arc::new(tokio::sync::Notify::new());
    let told = begun.clone();
    server.broker.judge_by(move |_| {
        told.notify_one();
        std::thread::sleep(Duration::from_millis(300));
        Outcome::Delivered
    });
    let addr = server.addr;
    let asked = tokio::spawn(async move { post(addr, "", JSON, r#"{"type":"a","payload":1}"#).await });
    begun.notified().await;
    let stopped = Instant::now();
    server.stop.cancel();
    server.serving.ended().await;
    assert!(stopped.elapsed() < Limits::USUAL.finish, "it ends as soon as nothing is under way");
    assert_eq!(asked.await.unwrap().0, 200);
}
