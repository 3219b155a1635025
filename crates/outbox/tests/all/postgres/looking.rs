//! Looking while others work: a look sees what is pending wherever it lies, and keeps nobody waiting.

use std::time::Duration;

use outbox::admin::{Admin, Filter, Repair, ReplayFrom, Stand};
use outbox::conformance::source::SourceFixture;
use outbox::{Message, Source, Verdict};
use tokio::time::timeout;

use super::Log;

const SOON: Duration = Duration::from_secs(5);

/// A cursor that has read one message.
async fn with_cursor(log: &Log) {
    log.enqueue(vec![Message::new("first", "x")]).await;
    let source = log.source("c");
    let claim = source.claim(10).await.unwrap();
    source.settle(&claim, &[Verdict::Done]).await.unwrap();
    source.close().await.unwrap();
}

#[tokio::test]
async fn a_preview_does_not_wait_for_the_relay_and_the_relay_not_for_it() {
    let Some(log) = Log::new().await else { return };
    with_cursor(&log).await;
    // As a relay does that settles.
    let mut relay = log.outbox.pool().begin().await.unwrap();
    sqlx::raw_sql("select from outbox.cursors for update").execute(&mut *relay).await.unwrap();
    let (outbox, all) = (&log.outbox, Filter::default());
    let previews = async {
        let repaired = outbox.repair(&all, Repair::Retry, true).await.unwrap();
        let replayed = outbox.replay("c", &ReplayFrom::Start, true).await.unwrap();
        (repaired, replayed, outbox.purge(Duration::ZERO, 100, true).await.unwrap())
    };
    assert_eq!(timeout(SOON, previews).await.expect("nobody waits for a lock"), (0, 1, 1));
}

#[tokio::test]
async fn what_began_after_an_open_window_is_pending_also_below_what_is_read_of_it() {
    let Some(log) = Log::new().await else { return };
    with_cursor(&log).await;
    let pool = log.outbox.pool();
    let (mut read, mut late) = (pool.begin().await.unwrap(), pool.begin().await.unwrap());
    // The one with the lower id takes the higher number, and ends first.
    sqlx::raw_sql("select pg_current_xact_id()").execute(&mut *read).await.unwrap();
    let pending = log.outbox.enqueue(&mut late, Message::new("late", "x")).await.unwrap();
    log.outbox.enqueue(&mut read, Message::new("read", "x")).await.unwrap();
    read.commit().await.unwrap();
    let window = "update outbox.cursors set s2 = pg_current_snapshot(), next_floor = floor,\
        pos = (select max(seq) from outbox.messages)";
    sqlx::raw_sql(window).execute(pool).await.unwrap();
    late.commit().await.unwrap();

    assert_eq!(log.outbox.status().await.unwrap()[0].pending, 1);
    let filter = Filter { stand: Some(Stand::Pending), ..Filter::default() };
    let page = log.outbox.page(&filter, Some(100)).await.unwrap();
    assert_eq!(page.entries.iter().map(|entry| &entry.id).collect::<Vec<_>>(), [&pending]);
}

/// Sets messages aside in this state, as a settle does, without the work.
async fn park(log: &Log, state: &str, count: i64) {
    let written = "insert into outbox.messages (id, type, payload)
        select gen_random_uuid(), 'many', '' from generate_series(1, $1)";
    sqlx::query(written).bind(count).execute(log.outbox.pool()).await.unwrap();
    let parked = "insert into outbox.parked (cursor, lane, seq, attempts, state, holds)
        select 'c', 0, seq, 1, $1, false from outbox.messages m
        where type = 'many' and not exists (select from outbox.parked p where p.seq = m.seq)";
    sqlx::query(parked).bind(state).execute(log.outbox.pool()).await.unwrap();
}

#[tokio::test]
async fn d7_one_dead_message_is_counted_behind_any_number_that_wait() {
    let Some(log) = Log::new().await else { return };
    with_cursor(&log).await;
    park(&log, "waiting", 10_001).await;
    park(&log, "dead", 1).await;
    let status = &log.outbox.status().await.unwrap()[0];
    assert_eq!((status.waiting, status.behind, status.dead), (10_000, 0, 1));
    assert!(status.lag_seconds.is_some());
}

#[tokio::test]
async fn m3_more_than_a_step_are_retried_and_each_once() {
    let Some(log) = Log::new().await else { return };
    with_cursor(&log).await;
    park(&log, "dead", 2_500).await;
    let dead = Filter { stand: Some(Stand::Dead), ..Filter::default() };
    assert_eq!(log.outbox.repair(&dead, Repair::Retry, true).await.unwrap(), 2_500);
    assert_eq!(log.outbox.repair(&dead, Repair::Retry, false).await.unwrap(), 2_500);
    let status = &log.outbox.status().await.unwrap()[0];
    assert_eq!((status.waiting, status.dead), (2_500, 0));
    assert_eq!(log.outbox.repair(&Filter::default(), Repair::Skip, false).await.unwrap(), 2_500);
    assert_eq!(log.outbox.status().await.unwrap()[0].waiting, 0);
}
