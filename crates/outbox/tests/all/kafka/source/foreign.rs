//! Records that somebody else wrote, and such as nobody can handle.

use std::time::Duration;

use outbox::memory::Recorder;
use outbox::{Source, Verdict, code, header};
use testbed::{Kafka, Record};

use super::{Running, apache, claim_of, config, group, names, settle, until};

fn record(headers: &[(&str, &[u8])], payload: &[u8]) -> Record {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.to_vec())).collect();
    Record { payload: payload.to_vec(), headers, ..Record::default() }
}

#[tokio::test]
async fn foreign_records_are_handled_and_what_nobody_can_handle_goes_to_the_dead_letters_as_it_is() {
    let Some(kafka) = apache().await else { return };
    let topic = Kafka::topic_name();
    kafka.create_topic(&topic, 1, &[("max.message.bytes", "6000000")]).await.unwrap();
    let large = vec![7; 5_000_000];
    let records = vec![
        record(&[], b"no id"),
        record(&[("x-event-id", &[0xff, 0xfe])], b"an id that is no text"),
        record(&[("x-event-id", b"large"), ("odd", &[0xff])], &large),
        record(
            &[("x-event-id", b"1"), ("x-retry-origin", topic.as_bytes()), ("x-retry-attempts", b"many")],
            b"x",
        ),
        Record {
            key: Some(vec![0xff, 0x00]),
            ..record(&[("x-event-id", b"fine"), ("odd", &[0xfe])], b"fine")
        },
    ];
    kafka.write(&topic, records.clone()).await.unwrap();
    let mut config = config(&topic, &topic);
    config.max_payload = 4_000_000;
    let sink = Recorder::new();
    let running = Running::start(kafka, config, sink.clone());
    let done =
        tokio::time::timeout(super::PATIENCE, sink.wait_for(1)).await.expect("the good one is handled");
    until("the others are dead", async || running.stats.dead() == 4).await;
    running.stop().await;
    assert_eq!((names(&done), done[0].key.as_deref()), (vec!["fine".to_owned()], Some("hex:ff00")));
    let letters = kafka.records(&format!("{topic}.{topic}.dlq"), 4).await.unwrap();
    let codes = [code::NO_ID, code::BAD_HEADER, code::TOO_LARGE, code::BAD_HEADER];
    assert_eq!(letters.len(), 4);
    for ((letter, original), code) in letters.iter().zip(&records).zip(codes) {
        assert_eq!(letter.header(header::ERROR_CODE).as_deref(), Some(code));
        assert_eq!(letter.header(header::ERROR_ATTEMPTS).as_deref(), Some("0"));
        assert!(letter.payload == original.payload, "{code}");
        let own: Vec<_> = original.headers.iter().filter(|(name, _)| !name.starts_with("x-retry")).collect();
        assert!(own.iter().all(|header| letter.headers.contains(header)), "{code}");
    }
    assert!(letters[0].header(header::ERROR_TEXT).unwrap().contains("no id in any of"));
}

#[tokio::test]
async fn an_id_may_be_taken_from_the_content_and_stays_the_same_through_retries() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(1).await.unwrap();
    let write = record(&[("content-type", b"text/plain"), ("n", b"1")], b"anything");
    kafka.write(&topic, vec![write]).await.unwrap();
    let mut config = config(&topic, &topic);
    config.picks.id = vec!["content".parse().unwrap()];
    let source = group(kafka, config);
    let claims = claim_of(&source, 1).await;
    let mut first = claims[0].messages[0].clone();
    assert!(first.id.as_str().starts_with("sha256-") && first.content_type == "text/plain", "{first:?}");
    assert_eq!((first.kind.as_str(), first.key.as_deref(), first.headers.len()), (topic.as_str(), None, 1));
    let cause = outbox::Cause::new(code::HANDLER, "again");
    let after = Duration::from_millis(100);
    settle(&source, &claims, |_| Verdict::Retry { after, attempts: 1, cause: cause.clone() }).await;
    let claims = claim_of(&source, 1).await;
    first.attempts = 1;
    assert_eq!(claims[0].messages, [first], "nothing else has changed");
    settle(&source, &claims, |_| Verdict::Done).await;
    source.close().await.unwrap();
}

#[tokio::test]
async fn a_tombstone_is_a_message_with_an_empty_payload_and_stays_one_when_it_is_moved() {
    let Some(kafka) = apache().await else { return };
    let topic = kafka.topic(1).await.unwrap();
    let tombstone =
        Record { key: Some(b"k".to_vec()), is_tombstone: true, ..record(&[("x-event-id", b"t-1")], b"") };
    kafka.write(&topic, vec![tombstone]).await.unwrap();
    let source = group(kafka, config(&topic, &topic));
    let claims = claim_of(&source, 1).await;
    let message = &claims[0].messages[0];
    assert_eq!((message.id.as_str(), message.key.as_deref(), message.payload.len()), ("t-1", Some("k"), 0));
    let cause = outbox::Cause::new(code::HANDLER, "no");
    settle(&source, &claims, |_| Verdict::Dead { attempts: 1, cause: cause.clone(), holds: false }).await;
    let letters = kafka.records(&format!("{topic}.{topic}.dlq"), 1).await.unwrap();
    assert!(letters[0].is_tombstone, "{letters:?}");
    source.close().await.unwrap();
}
