//! TLS, logins and permissions, by a real broker that has them.

use std::path::PathBuf;
use std::time::Duration;

use outbox::kafka::Topic;
use outbox::{ErrorKind, Sink};
use testbed::{Kafka, PASSWORD, STRANGER, USER};

use super::{config, detail, orders, words};

/// `s3cret/p@ss` as it stands in a URL.
fn encoded() -> String {
    PASSWORD.replace('/', "%2F").replace('@', "%40")
}

fn sink(url: &str, topic: &str, ca_file: Option<PathBuf>) -> Topic {
    let mut config = config(topic);
    config.timeout = Duration::from_secs(4);
    config.ca_file = ca_file;
    Topic::new(url, config).unwrap()
}

#[tokio::test]
async fn a_login_is_used_and_its_failures_are_told_apart() {
    let Some(kafka) = testbed::available(Kafka::start_guarded().await) else { return };
    let topic = kafka.topic(1).await.unwrap();
    let (port, ca) = (kafka.guarded_port().unwrap(), kafka.ca_file());
    let url = |user: &str, password: &str, more: &str| {
        format!("kafka+ssl://{user}:{password}@127.0.0.1:{port}{more}")
    };
    for more in ["", "?sasl=plain", "?sasl=scram-sha-256", "?sasl=scram-sha-512"] {
        let outcomes = sink(&url(USER, &encoded(), more), &topic, ca.clone()).deliver(&orders(2)).await;
        assert_eq!(words(&outcomes), ["delivered"; 2], "{more}: {}", detail(&outcomes[0]));
    }
    assert_eq!(kafka.records(&topic, 8).await.unwrap().len(), 8);

    for more in ["", "?sasl=scram-sha-256"] {
        let sink = sink(&url(USER, "canary", more), &topic, ca.clone());
        let outcomes = sink.deliver(&orders(2)).await;
        assert_eq!(words(&outcomes), ["~FORBIDDEN"; 2], "{}", detail(&outcomes[0]));
        assert!(!format!("{outcomes:?}").contains("canary"), "{outcomes:?}");
        assert_eq!(sink.check().await.unwrap_err().kind(), ErrorKind::Denied);
    }

    // Logged in, and allowed nothing.
    let outcomes = sink(&url(STRANGER, &encoded(), ""), &topic, ca.clone()).deliver(&orders(2)).await;
    assert_eq!(words(&outcomes), ["FORBIDDEN"; 2], "{}", detail(&outcomes[0]));
    assert!(detail(&outcomes[0]).contains("may not write to this topic"), "{}", detail(&outcomes[0]));

    // The certificate is known to nobody but us, so without the file it is not believed.
    let outcomes = sink(&url(USER, &encoded(), ""), &topic, None).deliver(&orders(1)).await;
    assert_eq!(words(&outcomes), ["~UNREACHABLE"]);
    assert!(detail(&outcomes[0]).contains("certificate"), "{}", detail(&outcomes[0]));
    // And it is for 127.0.0.1 and localhost, not for any name that leads there.
    let elsewhere = format!("kafka+ssl://{USER}:{}@127.1:{port}", encoded());
    let outcomes = sink(&elsewhere, &topic, ca).deliver(&orders(1)).await;
    assert_eq!(words(&outcomes), ["~UNREACHABLE"], "{}", detail(&outcomes[0]));
    assert!(detail(&outcomes[0]).contains("certificate"), "{}", detail(&outcomes[0]));
}
