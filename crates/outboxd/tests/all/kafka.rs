//! A topic of Kafka as a sink of the program; without the feature, that this is said.

use crate::program::Program;

fn config(url: &str, topic: &str, more: &str) -> String {
    format!(
        r#"
[connections]
shop = "sqlite:shop.db"
kafka = "{url}"
[sources.orders]
on = "shop"
[sinks.events]
on = "kafka"
topic = "{topic}"
headers = {{ Type = "{{type}}" }}
compression = "lz4"
timeout = "5s"
{more}
[pipes.relay]
from = "orders"
to = "events"
poll = "20ms"
retry_first = "1h"
retry_most = "1h"
"#
    )
}

#[cfg(not(feature = "kafka"))]
#[test]
fn without_kafka_a_topic_is_valid_and_running_it_says_what_to_do() {
    let program = Program::migrated(&config("kafka://localhost:1", "orders", ""));
    program.ok(&["validate"]);
    program.send("a");
    let ran = program.run(&["run", "--once"]);
    assert_eq!(ran.code, 5, "{ran:#?}");
    let line = "this outboxd was built without Kafka; build it with --features kafka";
    assert!(ran.stderr.contains(line), "{ran:#?}");
}

#[cfg(feature = "kafka")]
mod with_a_broker {
    use serde_json::json;
    use testbed::Kafka;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn from_sqlite_to_kafka() {
        let Some(kafka) = testbed::kafka().await else { return };
        let topic = kafka.topic(3).await.unwrap();
        let program = Program::migrated(&config(&kafka.url(), &topic, ""));
        let ids: Vec<String> = ["a", "b", "a"].iter().map(|key| program.send(key)).collect();
        program.ok(&["run", "--once"]);
        let records = kafka.records(&topic, 3).await.unwrap();
        assert_eq!(records.len(), 3);
        let of_a: Vec<_> = records.iter().filter(|record| record.key.as_deref() == Some(b"a")).collect();
        let ids_of_a: Vec<_> = of_a.iter().map(|record| record.header("ce_id").unwrap()).collect();
        assert_eq!(ids_of_a, [ids[0].clone(), ids[2].clone()], "in order");
        assert_eq!(of_a[0].payload, b"{\"id\":1}");
        assert_eq!(of_a[0].header("Type").as_deref(), Some("order.created"));
        assert_eq!(program.json(&["show", &ids[1]])["pipes"][0]["state"], "done");
    }

    /// B4: what fails says why, in words.
    #[tokio::test(flavor = "multi_thread")]
    async fn b4_a_missing_topic_and_a_large_payload_are_told() {
        let Some(kafka) = testbed::kafka().await else { return };
        if kafka.is_mock() {
            return testbed::skip("this needs an Apache Kafka");
        }
        let topic = Kafka::topic_name();
        let program = Program::migrated(&config(&kafka.url(), &topic, "").replace("lz4", "none"));
        let id = program.send("a");
        program.ok(&["run", "--once"]);
        let shown = program.json(&["show", &id]);
        assert_eq!(shown["pipes"][0]["state"], json!("waiting"), "{shown}");
        assert_eq!(shown["pipes"][0]["cause"]["code"], json!("NO_TOPIC"), "{shown}");
        kafka.create_topic(&topic, 1, &[("max.message.bytes", "2000")]).await.unwrap();
        program.ok(&["retry", &id, "--yes"]);
        let large = "x".repeat(5_000);
        let large = program.ok(&["send", "--type", "t", "--key", "b", "--data", &large]);
        program.ok(&["run", "--once"]);
        assert_eq!(program.json(&["show", &id])["pipes"][0]["state"], "done");
        let shown = program.json(&["show", large.trim()]);
        assert_eq!(shown["pipes"][0]["state"], json!("dead"), "{shown}");
        assert_eq!(shown["pipes"][0]["cause"]["code"], json!("TOO_LARGE"), "{shown}");
    }

    #[test]
    fn certificates_that_cannot_be_read_are_told_before_the_first_message() {
        let program =
            Program::migrated(&config("kafka+ssl://localhost:1", "orders", "ca_file = \"missing.pem\""));
        let ran = program.run(&["run", "--once"]);
        assert_eq!(ran.code, 5, "{ran:#?}");
        assert!(ran.stderr.contains("ssl.ca.location"), "{ran:#?}");
    }

    #[test]
    fn a_broker_that_is_not_there_is_an_outage_and_its_password_stays_secret() {
        let url = "kafka://relay:canary@127.0.0.1:1?sasl=scram-sha-256";
        let program = Program::migrated(&config(url, "orders", "").replace("\"5s\"", "\"500ms\""));
        let id = program.send("a");
        let mut running = program.start(&["-v", "run"]);
        let line = running.wait_for("UNREACHABLE");
        assert!(line.contains("127.0.0.1:1"), "{line}");
        running.signal("TERM");
        let (code, said) = running.end();
        assert_eq!(code, 0, "{said}");
        assert!(!said.contains("canary"), "{said}");
        assert_eq!(program.json(&["show", &id])["pipes"][0]["attempts"], 0);
    }
}
