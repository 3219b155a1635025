//! Addresses that may not be called, by names that lead there.

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use outbox::http::{Endpoint, EndpointConfig};
use outbox::{ErrorKind, Outcome, Sink, code};

use super::{Server, detail, order, word};

/// A name that is not literally this machine, and leads to it.
fn name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let leads = std::net::ToSocketAddrs::to_socket_addrs(&(name.as_str(), 80))
        .is_ok_and(|mut found| found.next().is_some());
    if !leads || name.is_empty() || name == "localhost" {
        testbed::skip("this machine has no name of its own");
        return None;
    }
    Some(name)
}

async fn everywhere() -> Server {
    Server::start_at("0.0.0.0", |_| std::future::ready(StatusCode::OK.into_response())).await
}

#[tokio::test]
async fn d9_a_name_that_leads_to_a_private_address_is_not_called() {
    let Some(name) = name() else { return };
    let server = everywhere().await;
    let mut config = EndpointConfig::new(format!("http://{name}:{}/", server.port));
    config.plaintext = true;
    let sink = Endpoint::new(config.clone()).unwrap();
    let outcomes = sink.deliver(&[order(1), order(2)]).await;
    assert!(outcomes.iter().all(|outcome| word(outcome) == format!("~{}", code::FORBIDDEN)), "{outcomes:?}");
    assert!(detail(&outcomes[0]).contains("set `private`"), "{outcomes:?}");
    assert_eq!(sink.check().await.unwrap_err().kind(), ErrorKind::Config);
    assert!(server.seen().is_empty());

    config.private = true;
    let sink = Endpoint::new(config).unwrap();
    assert_eq!(sink.deliver(&[order(1)]).await, [Outcome::Delivered]);
    assert!(sink.check().await.is_ok());
}

#[tokio::test]
async fn d9_an_address_that_is_written_down_is_checked_before_anything_is_sent() {
    let server = everywhere().await;
    for host in ["0.0.0.0", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "[::127.0.0.1]"] {
        let mut config = EndpointConfig::new(format!("http://{host}:{}/", server.port));
        config.plaintext = true;
        let error = Endpoint::new(config).map(drop).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Config && error.to_string().contains("`private`"),
            "{host}: {error}"
        );
    }
    for host in ["localhost", "127.0.0.1", "127.1.2.3"] {
        let config = EndpointConfig::new(format!("http://{host}:{}/", server.port));
        assert_eq!(Endpoint::new(config).unwrap().deliver(&[order(1)]).await, [Outcome::Delivered], "{host}");
    }
    assert_eq!(server.seen().len(), 3);
}
