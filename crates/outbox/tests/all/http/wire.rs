//! What an endpoint sees of a message.

use std::io::Write as _;
use std::process::{Command, Stdio};

use axum::http::StatusCode;
use outbox::http::{Endpoint, Secret};
use outbox::{Message, Outcome, Sink, Template};

use super::{Server, order};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// The same, as openssl wants it.
const HEX: &str = "31f290f6bf06298aab4f08d43c3f082cf648a362da2da4b0";

#[tokio::test]
async fn d9_an_endpoint_gets_the_payload_and_what_is_known_of_it() {
    let server = Server::ok().await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let message = Message::new("order.created", every_byte.clone())
        .key("k 1")
        .content_type("application/x-anything")
        .occurred_at("2024-02-29T12:34:56Z".parse().unwrap())
        .correlation("c-1")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let mut config = server.config();
    config.source = "/shop".into();
    config.headers = vec![("X-Type".into(), Template::parse("{type}").unwrap())];
    let outcomes = Endpoint::new(config).unwrap().deliver(std::slice::from_ref(&message)).await;
    assert_eq!(outcomes, [Outcome::Delivered]);
    let [seen] = server.seen().try_into().unwrap();
    assert_eq!(
        (seen.method.as_str(), seen.path.as_str(), &seen.body[..]),
        ("POST", "/events", &every_byte[..])
    );
    for (name, value) in [
        ("ce-specversion", "1.0"),
        ("ce-id", message.id.as_str()),
        ("ce-type", "order.created"),
        ("ce-source", "/shop"),
        ("ce-time", "2024-02-29T12:34:56Z"),
        ("ce-partitionkey", "k%201"),
        ("content-type", "application/x-anything"),
        ("idempotency-key", message.id.as_str()),
        ("x-event-id", message.id.as_str()),
        ("x-correlation-id", "c-1"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("x-type", "order.created"),
        ("content-length", "256"),
    ] {
        assert_eq!(seen.header(name).as_deref(), Some(value), "{name}");
    }
    assert!(seen.header("user-agent").unwrap().starts_with("outboxd/"));
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature", "authorization", "cookie", "referer"]
    {
        assert_eq!(seen.header(name), None, "{name}");
    }
}

/// The signature as openssl makes it.
fn openssl(signed: &[u8]) -> Option<String> {
    let mut command = Command::new("openssl");
    command.args(["dgst", "-sha256", "-mac", "HMAC", "-macopt", &format!("hexkey:{HEX}"), "-binary"]);
    let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        testbed::skip("openssl is not installed");
        return None;
    };
    child.stdin.take().unwrap().write_all(signed).unwrap();
    let mac = child.wait_with_output().unwrap().stdout;
    assert_eq!(mac.len(), 32);
    Some(base64(&mac))
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[tokio::test]
async fn d9_the_signature_can_be_checked_with_openssl_and_the_id_stays_over_retries() {
    let server = Server::start(|_| StatusCode::SERVICE_UNAVAILABLE).await;
    let mut config = server.config();
    config.secrets =
        vec![Secret::parse(&format!("whsec_{}", base64(&[9; 32]))).unwrap(), Secret::parse(SECRET).unwrap()];
    let sink = Endpoint::new(config).unwrap();
    let message = order(1);
    for _ in 0..2 {
        sink.deliver(std::slice::from_ref(&message)).await;
    }
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    for seen in seen {
        assert_eq!(seen.header("webhook-id").as_deref(), Some(message.id.as_str()));
        let timestamp = seen.header("webhook-timestamp").unwrap();
        let age = jiff::Timestamp::now().as_second() - timestamp.parse::<i64>().unwrap();
        assert!((0..60).contains(&age), "{age}");
        let signed = [format!("{}.{timestamp}.", message.id).as_bytes(), &seen.body].concat();
        let Some(mac) = openssl(&signed) else { return };
        let signature = seen.header("webhook-signature").unwrap();
        let signatures: Vec<_> = signature.split(' ').collect();
        assert!(signatures.len() == 2 && signatures[1] == format!("v1,{mac}"), "{signature} {mac}");
    }
}

#[tokio::test]
async fn d9_a_login_is_sent_and_never_shown() {
    let server = Server::start(|_| (StatusCode::FORBIDDEN, "no")).await;
    let mut config = server.config();
    config.url = format!("http://us%40er:can%3Aary@127.0.0.1:{}/canary?canary=1", server.port);
    let sink = Endpoint::new(config).unwrap();
    let outcome = &sink.deliver(&[order(1)]).await[0];
    let sent = server.seen()[0].header("authorization").unwrap();
    assert_eq!(sent, format!("Basic {}", base64(b"us@er:can:ary")));
    let shown = format!("{outcome:?} {sink:?}");
    assert!(shown.contains("127.0.0.1") && !shown.contains("ary"), "{shown}");
}

#[tokio::test]
async fn d9_a_large_message_arrives_whole() {
    let server = Server::ok().await;
    let payload: Vec<u8> = (0..20 * 1024 * 1024u32).map(|n| (n % 251) as u8).collect();
    let outcomes = server.sink().deliver(&[Message::new("a", payload.clone()), Message::new("a", "")]).await;
    assert_eq!(outcomes, vec![Outcome::Delivered; 2]);
    let mut bodies: Vec<_> = server.seen().into_iter().map(|seen| seen.body).collect();
    bodies.sort_by_key(|body| body.len());
    assert!(bodies[0].is_empty() && bodies[1] == payload);
}
