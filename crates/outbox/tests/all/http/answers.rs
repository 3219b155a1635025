//! What the answer of an endpoint means, down to answers that are none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::{LOCATION, RETRY_AFTER};
use axum::response::{IntoResponse as _, Response};
use outbox::http::{Endpoint, EndpointConfig, NO_ANSWER};
use outbox::{Message, Outcome, Sink, code};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{PATIENCE, Seen, Server, detail, order, word, words};

/// Answers with the status that the payload names.
fn obey(seen: &Seen) -> StatusCode {
    String::from_utf8_lossy(&seen.body).parse().unwrap()
}

#[tokio::test]
async fn d9_the_status_decides_and_each_message_has_its_own() {
    let server = Server::start(obey).await;
    let expected = [
        ("200", "delivered"),
        ("503", "HTTP_503"),
        ("201", "delivered"),
        ("404", "HTTP_404!"),
        ("408", "HTTP_408"),
        ("425", "HTTP_425"),
        ("429", "HTTP_429"),
        ("500", "HTTP_500"),
        ("410", "HTTP_410!"),
        ("400", "HTTP_400!"),
        ("401", "HTTP_401!"),
        ("204", "delivered"),
        ("502", "HTTP_502"),
        ("304", "HTTP_304!"),
        ("202", "delivered"),
    ];
    let messages: Vec<_> = expected.iter().map(|(status, _)| Message::new("a", *status)).collect();
    let outcomes = server.sink().deliver(&messages).await;
    assert_eq!(words(&outcomes), expected.map(|(_, word)| word));
    assert_eq!(server.seen().len(), expected.len(), "each was posted once");
}

#[tokio::test]
async fn d9_retry_after_reaches_the_pipe() {
    let server =
        Server::start(|_| (StatusCode::TOO_MANY_REQUESTS, [(RETRY_AFTER, "7")], "slow down\nplease")).await;
    let outcomes = server.sink().deliver(&[order(1)]).await;
    let [Outcome::Rejected(rejection)] = outcomes.as_slice() else { panic!("{outcomes:?}") };
    assert_eq!(rejection.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(rejection.cause.detail, format!("http://127.0.0.1:{} answered 429: slow down", server.port));
}

#[tokio::test]
async fn d9_a_redirect_is_refused_and_not_followed() {
    let target = Server::ok().await;
    let to = target.url();
    let server = Server::start(move |seen| {
        let status = if &seen.body[..] == b"308" { 308 } else { 302 };
        (StatusCode::from_u16(status).unwrap(), [(LOCATION, to.clone())])
    })
    .await;
    let outcomes = server.sink().deliver(&[Message::new("a", "302"), Message::new("a", "308")]).await;
    assert_eq!(words(&outcomes), ["HTTP_302!", "HTTP_308!"]);
    assert!(detail(&outcomes[0]).contains("(to 127.0.0.1); redirects are not followed"), "{outcomes:?}");
    assert!(target.seen().is_empty());
}

#[tokio::test]
async fn d9_an_answer_that_is_too_late_is_tried_again_later() {
    let server = Server::start_at("127.0.0.1", |seen: Seen| async move {
        if &seen.body[..] == b"slow" {
            std::future::pending::<()>().await;
        }
        StatusCode::OK.into_response()
    })
    .await;
    let mut config = server.config();
    (config.timeout, config.connect_timeout) = (Duration::from_millis(300), Duration::from_millis(200));
    let sink = Endpoint::new(config).unwrap();
    let began = Instant::now();
    let outcomes = sink.deliver(&[Message::new("a", "slow"), Message::new("a", "quick")]).await;
    assert_eq!(words(&outcomes), [code::TIMEOUT, "delivered"]);
    assert!(began.elapsed() >= Duration::from_millis(300) && began.elapsed() < PATIENCE);
}

#[tokio::test]
async fn of_a_large_answer_only_the_beginning_is_read() {
    let server = Server::start(|_| (StatusCode::INTERNAL_SERVER_ERROR, "x".repeat(70 * 1024))).await;
    let outcomes = server.sink().deliver(&[order(1), order(2)]).await;
    assert_eq!(words(&outcomes), ["HTTP_500", "HTTP_500"]);
    assert_eq!(detail(&outcomes[0]).matches('x').count(), 200);
    let server = Server::start(|_| (StatusCode::OK, "x".repeat(70 * 1024))).await;
    assert_eq!(server.sink().deliver(&[order(1)]).await, [Outcome::Delivered]);
}

#[tokio::test]
async fn d9_messages_of_a_call_are_on_their_way_together_but_not_too_many() {
    let (most, now) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // Nobody is answered until three are here, and never may a fourth be.
    let (gate, counted) = (Arc::new(Semaphore::new(0)), most.clone());
    let answer = move |_: Seen| -> std::pin::Pin<Box<dyn Future<Output = Response> + Send>> {
        let (most, now, gate) = (counted.clone(), now.clone(), gate.clone());
        Box::pin(async move {
            let here = now.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(here, Ordering::SeqCst);
            if here == 3 {
                gate.add_permits(1_000);
            }
            let _ = gate.acquire().await;
            now.fetch_sub(1, Ordering::SeqCst);
            StatusCode::OK.into_response()
        })
    };
    let server = Server::start_at("127.0.0.1", answer).await;
    let mut config = server.config();
    config.concurrency = 3;
    let messages: Vec<_> = (0..9).map(order).collect();
    let outcomes = Endpoint::new(config).unwrap().deliver(&messages).await;
    assert_eq!(outcomes, vec![Outcome::Delivered; 9]);
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

/// A server that reads a request, says these words and closes; tells how many it has read.
async fn speaks(words: &'static [u8]) -> (EndpointConfig, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let read = count.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\"n\":1}") {
                if stream.read_buf(&mut request).await.unwrap() == 0 {
                    break;
                }
            }
            read.fetch_add(1, Ordering::SeqCst);
            stream.write_all(words).await.unwrap();
        }
    });
    (EndpointConfig::new(url), count)
}

#[tokio::test]
async fn d9_an_answer_that_is_cut_counts_once_its_status_is_there() {
    for (words, expected) in [
        (&b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"[..], "delivered"),
        (b"HTTP/1.1 500 Oops\r\ncontent-length: 100\r\n\r\nhalf", "HTTP_500"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz", "delivered"),
    ] {
        let (config, count) = speaks(words).await;
        assert_eq!(word(&Endpoint::new(config).unwrap().deliver(&[order(1)]).await[0]), expected);
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn d9_no_answer_is_looked_at_twice_and_then_is_the_fault_of_the_message() {
    for words in [&b""[..], b"HTTP/1.1 200 OK\r\ncontent-le", b"220 mail.example ESMTP\r\n"] {
        let (config, count) = speaks(words).await;
        let outcome = &Endpoint::new(config).unwrap().deliver(&[order(1)]).await[0];
        assert_eq!(word(outcome), NO_ANSWER, "{outcome:?}");
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }
}

#[tokio::test]
async fn d9_nobody_there_is_an_outage_and_is_looked_at_once_for_a_call() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let sink = Endpoint::new(EndpointConfig::new(url)).unwrap();
    let messages: Vec<_> = (0..100).map(order).collect();
    let outcomes = sink.deliver(&messages).await;
    assert!(outcomes.iter().all(|outcome| word(outcome) == "~UNREACHABLE"), "{outcomes:?}");
    assert!(detail(&outcomes[0]).contains("refused"), "{outcomes:?}");
    assert_eq!(sink.check().await.unwrap_err().kind(), outbox::ErrorKind::Unreachable);
    let sink = Endpoint::new(EndpointConfig::new("https://no-such-host.invalid/")).unwrap();
    assert_eq!(word(&sink.deliver(&[order(1)]).await[0]), "~UNREACHABLE");
    assert!(Server::ok().await.sink().check().await.is_ok());
}
