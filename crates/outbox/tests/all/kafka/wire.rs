//! What is in a record, and where it goes.

use std::time::{Duration, Instant};

use outbox::kafka::{Compression, Topic};
use outbox::{Message, Sink, Template, header};

use super::{config, ids, order, orders, sink, words};

const LIMIT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_record_bears_key_headers_and_cloudevents_attributes() {
    let Some(kafka) = testbed::kafka().await else { return };
    let topic = kafka.topic(1).await.unwrap();
    let mut config = config(&topic);
    config.source = "shop".into();
    config.headers.push(("Type".into(), Template::parse("{type}").unwrap()));
    config.headers.push(("Timestamp".into(), Template::parse("{time.unix}").unwrap()));
    let sink = Topic::new(&kafka.url(), config).unwrap();
    let message = Message::new("order.created", "{}")
        .id("id-1")
        .key("k-1")
        .content_type("application/json")
        .occurred_at("2024-02-29T12:34:56Z".parse().unwrap())
        .header("x-tenant", "acme")
        .header(header::TRACEPARENT, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    assert_eq!(words(&sink.deliver(&[message, Message::new("bare", "")]).await), ["delivered"; 2]);
    let records = kafka.records(&topic, 2).await.unwrap();
    assert_eq!(records[0].key.as_deref(), Some(b"k-1".as_slice()));
    assert_eq!(records[0].payload, b"{}");
    for (name, value) in [
        ("ce_specversion", "1.0"),
        ("ce_id", "id-1"),
        ("ce_source", "shop"),
        ("ce_type", "order.created"),
        ("ce_time", "2024-02-29T12:34:56Z"),
        ("ce_partitionkey", "k-1"),
        ("ce_traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("content-type", "application/json"),
        ("x-event-id", "id-1"),
        ("x-correlation-id", "id-1"),
        ("x-tenant", "acme"),
        ("Type", "order.created"),
        ("Timestamp", "1709210096"),
    ] {
        assert_eq!(records[0].header(name).as_deref(), Some(value), "{name}");
    }
    assert_eq!((records[1].key.as_deref(), records[1].payload.as_slice()), (None, [].as_slice()));
}

#[tokio::test]
async fn the_topic_comes_from_the_template() {
    let Some(kafka) = testbed::kafka().await else { return };
    let topic = kafka.topic(1).await.unwrap();
    let other = format!("{topic}-other");
    kafka.create_topic(&other, 1, &[]).await.unwrap();
    let sink = sink(kafka, "{type}", LIMIT);
    let messages = [Message::new(&topic, "1"), Message::new(&other, "2"), Message::new("no topic", "3")];
    assert_eq!(words(&sink.deliver(&messages).await), ["delivered", "delivered", "UNFIT!"]);
    assert_eq!(kafka.records(&topic, 1).await.unwrap()[0].payload, b"1");
    assert_eq!(kafka.records(&other, 1).await.unwrap()[0].payload, b"2");
}

#[tokio::test]
async fn c4_the_messages_of_a_key_stay_in_order_and_in_one_partition() {
    let Some(kafka) = testbed::kafka().await else { return };
    let topic = kafka.topic(4).await.unwrap();
    let sink = sink(kafka, &topic, LIMIT);
    for round in 0..20 {
        let event = |key: usize| Message::new("counted", format!("{round}")).key(format!("k{key}"));
        let messages: Vec<Message> = (0..50).map(event).collect();
        assert_eq!(words(&sink.deliver(&messages).await), ["delivered"; 50]);
    }
    let records = kafka.records(&topic, 1_000).await.unwrap();
    assert_eq!(records.len(), 1_000);
    for key in 0..50 {
        let key = format!("k{key}").into_bytes();
        let of_key: Vec<_> = records.iter().filter(|record| record.key.as_ref() == Some(&key)).collect();
        assert!(of_key.iter().all(|record| record.partition == of_key[0].partition));
        let rounds: Vec<usize> =
            of_key.iter().map(|r| String::from_utf8(r.payload.clone()).unwrap().parse().unwrap()).collect();
        assert_eq!(rounds, (0..20).collect::<Vec<_>>());
    }
}

/// A topic that applications in Java write to as well keeps one partition per key.
#[tokio::test]
async fn a_key_has_the_partition_that_clients_in_java_give_it() {
    let Some(kafka) = testbed::kafka().await else { return };
    let topic = kafka.topic(7).await.unwrap();
    let sink = sink(kafka, &topic, LIMIT);
    // The hashes are those of the tests of Apache Kafka.
    let hashes = [("21", -973_932_308), ("foobar", -790_332_482), ("a-little-bit-long-string", -985_981_536)];
    let messages: Vec<Message> = hashes.iter().map(|(key, _)| Message::new("t", "").key(*key)).collect();
    assert_eq!(words(&sink.deliver(&messages).await), ["delivered"; 3]);
    let records = kafka.records(&topic, 3).await.unwrap();
    for (key, hash) in hashes {
        let record = records.iter().find(|record| record.key.as_deref() == Some(key.as_bytes())).unwrap();
        assert_eq!(record.partition, (hash & 0x7fff_ffff) % 7, "{key}");
    }
}

#[tokio::test]
async fn every_compression_can_be_read() {
    let Some(kafka) = testbed::kafka().await else { return };
    for (word, compression) in Compression::WORDS {
        let topic = kafka.topic(1).await.unwrap();
        let mut config = config(&topic);
        config.compression = compression;
        let sink = Topic::new(&kafka.url(), config).unwrap();
        let messages: Vec<Message> = (0..10).map(|_| Message::new("t", vec![b'x'; 10_000])).collect();
        assert_eq!(words(&sink.deliver(&messages).await), ["delivered"; 10], "{word}");
        let records = kafka.records(&topic, 10).await.unwrap();
        assert!(records.iter().all(|record| record.payload == vec![b'x'; 10_000]), "{word}");
    }
}

/// The client takes only so many at a time; the rest waits for room.
#[tokio::test]
async fn a_full_client_delays_and_rejects_nothing() {
    let Some(kafka) = testbed::kafka().await else { return };
    let topic = kafka.topic(2).await.unwrap();
    let mut config = config(&topic);
    config.buffer = 7;
    let sink = Topic::new(&kafka.url(), config).unwrap();
    let (one, two) = (orders(300), orders(300));
    let (first, second) = tokio::join!(sink.deliver(&one), sink.deliver(&two));
    assert_eq!(words(&first), ["delivered"; 300]);
    assert_eq!(words(&second), ["delivered"; 300]);
    let ids = ids(&kafka.records(&topic, 600).await.unwrap());
    assert_eq!((ids.len(), ids.values().sum::<usize>()), (600, 600), "each once");
}

#[tokio::test]
async fn a_call_that_is_dropped_halfway_harms_no_other() {
    let Some(kafka) = testbed::kafka().await else { return };
    let topic = kafka.topic(1).await.unwrap();
    let sink = sink(kafka, &topic, LIMIT);
    for n in 0..20 {
        let dropped = orders(200);
        let _ = tokio::time::timeout(Duration::from_millis(n % 7), sink.deliver(&dropped)).await;
        assert_eq!(words(&sink.deliver(&[order(0)]).await), ["delivered"]);
    }
}

#[tokio::test]
async fn a_sink_that_is_dropped_keeps_nobody_waiting() {
    // Nobody listens there, and what was sent is still in the client.
    let sink = Topic::new("127.0.0.1:1", config("orders")).unwrap();
    let messages = orders(10);
    let _ = tokio::time::timeout(Duration::from_millis(200), sink.deliver(&messages)).await;
    let started = Instant::now();
    drop(sink);
    assert!(started.elapsed() < Duration::from_millis(500), "{:?}", started.elapsed());
}
