//! From an error queue to an error log.

use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::AMQPValue;
use outbox::errors::{ErrorFilter, ErrorSink};
use outbox::rabbitmq::{WorkQueue, WorkQueueConfig};
use outbox::sqlite::error_log;
use outbox::{Pipe, code, header};
use tokio_util::sync::CancellationToken;

use super::super::Scene;
use super::bad_input::headers;
use super::{Hands, QUEUE, Running, config, policy, with_id};
use crate::sqlite::Fresh;

/// What is broken belongs into the error log: it must not die once more on the way there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e3_what_cannot_be_handled_reaches_the_error_log() {
    let Some(scene) = Scene::shared().await else { return };
    let config = config(&[]);
    WorkQueue::new(&scene.url, config.clone()).unwrap().check().await.unwrap();
    let inner = headers("inner", AMQPValue::Boolean(true));
    let mut wrong_type = headers(header::EVENT_ID, AMQPValue::FieldTable(inner));
    wrong_type.insert("team".into(), AMQPValue::LongString("b".into()));
    scene.put(QUEUE, b"wrong type", with_id("1").with_headers(wrong_type)).await;
    let consumer = Running::start(&scene.url, &config, &Hands::default());
    scene.until_count("work.dlq", 1).await;
    consumer.stop().await;
    // And one that somebody put there without a word.
    scene.put("work.dlq", b"no id", BasicProperties::default()).await;
    let fresh = Fresh::new().await;
    let log = error_log(fresh.outbox.pool().clone());
    let failed = WorkQueueConfig::new("work.dlq");
    let stop = CancellationToken::new();
    let sink = ErrorSink::new(log.clone());
    let pipe = Pipe::new(WorkQueue::new(&scene.url, failed.clone()).unwrap(), sink).policy(policy(&failed));
    let stats = pipe.stats();
    let running = tokio::spawn(pipe.run(stop.clone()));
    let filter = ErrorFilter { with_payload: true, ..ErrorFilter::default() };
    let written = async {
        loop {
            let records = log.list(&filter).await.unwrap();
            if records.len() == 2 || stats.dead() > 0 {
                return records;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let mut records = tokio::time::timeout(Duration::from_secs(30), written).await.expect("they are written");
    stop.cancel();
    running.await.unwrap().unwrap();
    assert_eq!((stats.dead(), scene.count("work.dlq.dlq").await), (0, 0));
    records.sort_by_key(|record| record.payload.clone());
    let [silent, odd] = &records[..] else { panic!("{records:?}") };
    assert_eq!(
        (&*odd.payload, &*odd.origin, &*odd.cause.code),
        (&b"wrong type"[..], QUEUE, code::BAD_HEADER)
    );
    assert_eq!((&*odd.headers["team"], &*odd.kind), ("b", "order.created"));
    assert!(odd.headers[header::ERROR_DEFECT].starts_with("BAD_HEADER: the header 'x-event-id'"));
    assert_eq!((&*silent.payload, &*silent.cause.code), (&b"no id"[..], code::NO_ID));
    let back = odd.returned("ann", jiff::Timestamp::now());
    assert!(!back.headers.contains_key(header::ERROR_DEFECT), "{:?}", back.headers);
}
