//! What travels beside the payload, from a row that any language wrote to whoever takes it out of the queue.

use std::collections::BTreeMap;

use outbox::admin::{Admin, Filter, Stand};
use outbox::{Message, Pipe, header};
use sqlx::Row;
use tokio_util::sync::CancellationToken;

use super::{CURSOR, Log, Scene, until};
use crate::rabbitmq::{id, text};

/// Carries everything that is in the log.
async fn carry(log: &Log, scene: &Scene) {
    let stop = CancellationToken::new();
    let pipe = tokio::spawn(Pipe::new(log.outbox.cursor(CURSOR), scene.sink()).run(stop.clone()));
    until("everything to be done", async || {
        log.outbox.status().await.unwrap().first().is_some_and(|status| status.pending == 0)
    })
    .await;
    stop.cancel();
    pipe.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_saga_id_and_step_reach_the_consumer_and_can_be_searched() {
    let (Some(log), Some(scene)) = (Log::new().await, Scene::shared().await) else { return };
    let scene = scene.with_orders().await;
    let mut tx = log.outbox.pool().begin().await.unwrap();
    for (saga, step) in [("s-1", "reserve"), ("s-2", "reserve"), ("s-1", "pay")] {
        log.outbox.enqueue(&mut tx, Message::new("order.step", "").saga(saga, step)).await.unwrap();
    }
    let plain = "select outbox.enqueue('order.step', null, '{}'::jsonb,
                     '{\"x-saga-id\": \"s-1\", \"x-saga-step\": \"ship\"}')";
    sqlx::raw_sql(plain).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let search = async |name: &str, value: &str| {
        let filter = Filter { header: Some((name.to_owned(), value.to_owned())), ..Filter::default() };
        log.outbox.list(&filter).await.unwrap()
    };
    assert_eq!(search(header::SAGA_ID, "s-1").await.len(), 3, "also before any pipe runs");
    carry(&log, &scene).await;

    let arrived: BTreeMap<_, _> = scene
        .drain("orders")
        .await
        .iter()
        .map(|got| (id(got), (text(got, header::SAGA_ID).unwrap(), text(got, header::SAGA_STEP).unwrap())))
        .collect();
    assert_eq!(arrived.len(), 4);
    let found = search(header::SAGA_ID, "s-1").await;
    assert!(found.iter().all(|entry| entry.stand == Stand::Done));
    let steps: Vec<_> = found.iter().map(|entry| arrived[entry.id.as_str()].clone()).collect();
    let step = |name: &str| ("s-1".to_owned(), name.to_owned());
    assert_eq!(steps, [step("reserve"), step("pay"), step("ship")], "in the order of the saga");
    assert_eq!(search(header::SAGA_STEP, "reserve").await.len(), 2);
    assert!(search(header::SAGA_ID, "s-3").await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d2_every_message_bears_event_id_and_correlation_id_also_when_its_row_had_no_headers() {
    let (Some(log), Some(scene)) = (Log::new().await, Scene::shared().await) else { return };
    let scene = scene.with_orders().await;
    let correlated =
        "select outbox.enqueue('order.created', 'k', '{}'::jsonb, '{\"x-correlation-id\": \"c-1\"}')";
    for sql in [
        "select outbox.enqueue('order.created', 'k', '{}'::jsonb)",
        "insert into outbox.messages (type, payload) values ('order.created', 'plain')",
        correlated,
    ] {
        sqlx::raw_sql(sql).execute(log.outbox.pool()).await.unwrap();
    }
    carry(&log, &scene).await;
    let rows = sqlx::raw_sql("select id::text from outbox.messages order by seq");
    let rows = rows.fetch_all(log.outbox.pool()).await.unwrap();
    let ids: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let arrived: BTreeMap<_, _> = scene
        .drain("orders")
        .await
        .iter()
        .map(|got| (text(got, "x-event-id").unwrap(), text(got, "x-correlation-id").unwrap()))
        .collect();
    let expected = [ids[0].clone(), ids[1].clone(), "c-1".to_owned()];
    assert_eq!(arrived, ids.into_iter().zip(expected).collect());
}
