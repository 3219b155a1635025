//! Messages that nobody can handle, and messages that were not made by us.

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};
use outbox::broker::Picks;
use outbox::rabbitmq::WorkQueue;
use outbox::{code, header};

use super::super::{Scene, text as header_of};
use super::{Hands, QUEUE, Running, config, with_id};

pub(super) fn headers(name: &str, value: AMQPValue) -> FieldTable {
    let mut table = FieldTable::default();
    table.insert(name.into(), value);
    table
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_handled_is_a_dead_letter_with_its_cause_and_the_queue_goes_on() {
    let Some(scene) = Scene::shared().await else { return };
    let config = config(&[60_000]);
    WorkQueue::new(&scene.url, config.clone()).unwrap().check().await.unwrap();
    let table = headers("inner", AMQPValue::Boolean(true));
    let wrong_type = headers(header::EVENT_ID, AMQPValue::FieldTable(table));
    let mut attempts = headers(header::RETRY_ATTEMPTS, AMQPValue::LongString("many".into()));
    attempts.insert(header::RETRY_ORIGIN.into(), AMQPValue::LongString(QUEUE.into()));
    scene.put(QUEUE, b"no id", BasicProperties::default()).await;
    scene.put(QUEUE, b"wrong type", with_id("1").with_headers(wrong_type)).await;
    scene.put(QUEUE, b"attempts", with_id("2").with_headers(attempts)).await;
    scene.put(QUEUE, &vec![b'x'; 20 << 20], with_id("3")).await;
    scene.put(QUEUE, b"", with_id("empty is fine")).await;
    scene.put(QUEUE, b"good", with_id("4")).await;
    let hands = Hands::default();
    let running = Running::start(&scene.url, &config, &hands);
    hands.until(2).await;
    scene.until_count("work.dlq", 4).await;
    running.stop().await;
    assert_eq!(hands.names().await, ["#0", "good#0"]);
    let dead = scene.drain("work.dlq").await;
    let codes: Vec<_> = dead.iter().map(|dead| header_of(dead, header::ERROR_CODE)).collect();
    let expected = [code::NO_ID, code::BAD_HEADER, code::BAD_HEADER, code::TOO_LARGE];
    assert_eq!(codes, expected.map(|code| Some(code.to_owned())));
    assert_eq!(dead[3].data.len(), 20 << 20, "it is kept as it came");
    let why = header_of(&dead[0], header::ERROR_TEXT).unwrap();
    assert!(why.contains("no id in any of header.x-event-id"), "{why}");
    assert_eq!(scene.count(QUEUE).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_messages_are_handled_with_the_id_that_is_told() {
    let Some(scene) = Scene::shared().await else { return };
    let mut config = config(&[100]);
    config.picks = Picks {
        id: vec!["payload.meta.id".parse().unwrap(), "content".parse().unwrap()],
        ..Picks::default()
    };
    WorkQueue::new(&scene.url, config.clone()).unwrap().check().await.unwrap();
    let number = headers("tries", AMQPValue::LongInt(3));
    scene.put(QUEUE, br#"{"meta":{"id":7}}"#, BasicProperties::default().with_headers(number)).await;
    scene.put(QUEUE, br#"{"a":1}"#, BasicProperties::default()).await;
    let hands = Hands::default();
    hands.fail(r#"{"a":1}"#, 1).await;
    let running = Running::start(&scene.url, &config, &hands);
    hands.until(3).await;
    running.stop().await;
    let calls = hands.calls().await;
    assert_eq!((calls[0].id.as_str(), &*calls[0].headers["tries"]), ("7", "3"));
    assert_eq!(calls[0].kind, QUEUE, "the routing key, for want of anything better");
    assert_eq!(calls[1].id, calls[2].id, "the same after a retry: {:?}", hands.names().await);
    assert_eq!((&calls[1].kind, calls[2].attempts), (&calls[2].kind, 1));
}
