//! D10: more workers on a queue, and an outbox in parts.

use std::collections::BTreeSet;
use std::time::Instant;

use super::producer::CREATED;
use super::{Scene, stop};
use crate::broker::{Sender, headers};
use crate::endpoint::Endpoint;
use crate::program::{PATIENCE, Program, delivered};

#[tokio::test(flavor = "multi_thread")]
async fn d10_several_workers_share_a_queue() {
    const EVENTS: usize = 300;
    let Some(scene) = Scene::of("application.toml", &[]).await else { return };
    let application = Endpoint::start().await;
    let mut workers = Vec::new();
    for _ in 0..2 {
        let mut command = scene.program.command(&["run", "--pipe", "notify"]);
        let mut worker = Program::begin(command.env("APPLICATION_URL", &application.url));
        worker.wait_for("started pipe");
        workers.push(worker);
    }
    let consumers = ["list_consumers", "-q", "-p", scene.vhost.name(), "queue_name"];
    let began = Instant::now();
    while testbed::rabbitmq().await.unwrap().ctl(&consumers).await.unwrap().lines().count() < 2 {
        assert!(began.elapsed() < PATIENCE, "both read the queue");
    }
    let sender = Sender::open(scene.vhost.url()).await;
    let ids: BTreeSet<String> = (0..EVENTS).map(|_| uuid::Uuid::new_v4().to_string()).collect();
    for id in &ids {
        sender.publish("tickets", CREATED, headers(&[("x-event-id", id)]), b"{}").await;
    }
    scene.until_processed("notify", EVENTS as i64).await;
    let shares: Vec<u64> = workers.into_iter().map(|worker| delivered(&stop(worker))).collect();
    assert_eq!(shares.iter().sum::<u64>(), EVENTS as u64);
    assert!(shares.iter().all(|share| *share > EVENTS as u64 / 4), "{shares:?}");
    let posted = application.posted();
    assert_eq!(posted.len(), EVENTS);
    assert_eq!(posted.into_iter().map(|one| one.id).collect::<BTreeSet<_>>(), ids);
}

/// The table in parts, one for each month, as PostgreSQL has them; the API goes on writing to "Outbox".
const BY_MONTH: &str = r#"
    drop table "Outbox";
    create table "Outbox" (
        "Id" uuid not null, "Type" text not null, "PayloadJson" text not null, "CorrelationId" text not null,
        "OccurredAt" timestamp with time zone not null, "DispatchedAt" timestamp with time zone
    ) partition by range ("OccurredAt");
    create table "Outbox_past" partition of "Outbox" (primary key ("Id")) for values from (minvalue) to ('2025-10-01');
    create table "Outbox_2025_10" partition of "Outbox" (primary key ("Id")) for values from ('2025-10-01') to ('2025-11-01');
    create table "Outbox_since" partition of "Outbox" (primary key ("Id")) for values from ('2025-11-01') to (maxvalue);"#;

#[tokio::test(flavor = "multi_thread")]
async fn d10_an_outbox_in_parts_by_date_is_dispatched_and_shared_by_relays() {
    let parts = (r#"table = "Outbox""#, r#"table = "Outbox_*""#);
    let Some(scene) = Scene::shared(&[parts]).await else { return };
    scene.execute(BY_MONTH).await;
    let consumer = scene.run(&["count"]);
    scene.until_queue("metrics", 0).await;
    stop(consumer);
    scene
        .execute(
            r#"insert into "Outbox" select gen_random_uuid(), 'ticket.created', '{}', '', at
               from generate_series('2025-09-20'::timestamptz, '2025-11-10', interval '1 hour') at"#,
        )
        .await;
    let total = scene.number(r#"select count(*) from "Outbox""#).await;
    let relays = [scene.run(&["dispatch"]), scene.run(&["dispatch"])];
    scene.until_dispatched().await;
    let shares: u64 = relays.into_iter().map(|relay| delivered(&stop(relay))).sum();
    let arrived = scene.queue("metrics").await.drain().await;
    let ids: BTreeSet<&str> = arrived.iter().map(|one| one.headers["x-event-id"].as_str()).collect();
    assert_eq!((ids.len(), arrived.len() as i64, shares as i64), (total as usize, total, total));
}
