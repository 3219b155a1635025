//! The log as a source, beyond what the conformance suite asks of every backend.

use std::time::Duration;

use outbox::admin::Admin;
use outbox::sqlite::{Outbox, Start};
use outbox::{ErrorKind, Message, Source, Verdict};
use proptest::prelude::*;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

use super::{Fresh, dead, drain, payloads, retry};

#[tokio::test]
async fn messages_come_in_order_and_once() {
    let fresh = Fresh::new().await;
    fresh.write("a", 0..250).await;
    let cursor = fresh.outbox.cursor("relay");
    let all = drain(&cursor).await;
    assert_eq!(all, (0..250).map(|number| format!("a{number}")).collect::<Vec<_>>());
    assert!(drain(&cursor).await.is_empty());
    assert_eq!(drain(&fresh.outbox.cursor("audit")).await.len(), 250, "each cursor keeps its own pace");
    let late = fresh.outbox.cursor("late").start(Start::Now);
    assert!(drain(&late).await.is_empty());
    fresh.write("a", 250..251).await;
    assert_eq!(drain(&late).await, ["a250"]);
}

#[tokio::test]
async fn a_dead_message_holds_its_key_and_a_retry_comes_first() {
    let fresh = Fresh::new().await;
    fresh.write("a", 0..3).await;
    fresh.write("b", 0..2).await;
    let cursor = fresh.outbox.cursor("relay");
    let claim = cursor.claim(10).await.unwrap();
    let verdicts = [retry(3_600_000), Verdict::Behind, Verdict::Behind, dead(true), Verdict::Behind];
    cursor.settle(&claim, &verdicts).await.unwrap();
    fresh.write("a", 3..4).await;
    fresh.write("b", 2..3).await;
    fresh.write("c", 0..1).await;
    let claim = cursor.claim(10).await.unwrap();
    assert_eq!(payloads(&claim), ["a3", "b2", "c0"]);
    assert_eq!([claim.is_held(0), claim.is_held(1), claim.is_held(2)], [true, true, false]);
    cursor.settle(&claim, &[Verdict::Behind, Verdict::Behind, Verdict::Done]).await.unwrap();
    let sql = "UPDATE outbox_parked SET due = 0 WHERE state = 'waiting'";
    sqlx::query(sql).execute(fresh.outbox.pool()).await.unwrap();
    let due = cursor.claim(10).await.unwrap();
    assert_eq!(payloads(&due), ["a0", "a1", "a2", "a3"]);
    assert_eq!(due.messages[0].attempts, 1);
    let done = [Verdict::Done, Verdict::Done, Verdict::Released, Verdict::Released];
    cursor.settle(&due, &done).await.unwrap();
    assert_eq!(drain(&cursor).await, ["a2", "a3"], "b is held");
}

#[tokio::test]
async fn released_messages_are_read_again_or_set_aside_if_reading_went_on() {
    let fresh = Fresh::new().await;
    fresh.write("a", 0..6).await;
    let cursor = fresh.outbox.cursor("relay");
    let claim = cursor.claim(3).await.unwrap();
    cursor.settle(&claim, &[Verdict::Done, Verdict::Released, Verdict::Released]).await.unwrap();
    let first = cursor.claim(2).await.unwrap();
    assert_eq!(payloads(&first), ["a1", "a2"]);
    let second = cursor.claim(2).await.unwrap();
    assert_eq!(payloads(&second), ["a3", "a4"]);
    cursor.settle(&first, &[Verdict::Released, Verdict::Released]).await.unwrap();
    cursor.settle(&second, &[Verdict::Released, Verdict::Released]).await.unwrap();
    let claim = cursor.claim(10).await.unwrap();
    assert_eq!(payloads(&claim), ["a1", "a2"]);
    assert_eq!(claim.messages[0].attempts, 0);
    cursor.settle(&claim, &[Verdict::Done, Verdict::Done]).await.unwrap();
    assert_eq!(drain(&cursor).await, ["a3", "a4", "a5"]);
}

#[tokio::test]
async fn a_second_relay_takes_over_when_the_lease_ends_and_the_first_has_lost() {
    let fresh = Fresh::new().await;
    fresh.write("a", 0..4).await;
    let first = fresh.outbox.cursor("relay");
    let second = fresh.outbox.cursor("relay").lease(Duration::from_secs(30));
    let claim = first.claim(2).await.unwrap();
    assert_eq!(payloads(&claim), ["a0", "a1"]);
    assert!(second.claim(10).await.unwrap().messages.is_empty(), "it stands by");
    // A pause of the whole relay: its renewal does not run, as after SIGSTOP.
    fresh.expire_lease("relay").await;
    let taken = second.claim(10).await.unwrap();
    assert_eq!(payloads(&taken), ["a0", "a1", "a2", "a3"]);
    let error = first.settle(&claim, &[dead(true), Verdict::Done]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(claim.is_expired());
    second.settle(&taken, &vec![Verdict::Done; 4]).await.unwrap();
    assert!(first.claim(10).await.unwrap().messages.is_empty());
    second.close().await.unwrap();
    fresh.write("a", 4..5).await;
    assert_eq!(
        drain(&first).await,
        ["a4"],
        "a closed cursor is free at once, and nothing of the old claim stuck"
    );
}

#[tokio::test]
async fn the_lease_is_renewed_while_a_claim_is_out_and_ends_with_its_owner() {
    let fresh = Fresh::new().await;
    fresh.write("a", 0..1).await;
    let first = fresh.outbox.cursor("relay").lease(Duration::from_secs(3));
    let second = fresh.outbox.cursor("relay");
    let claim = first.claim(1).await.unwrap();
    let lease_end = async || fresh.outbox.status().await.unwrap()[0].lease_until.unwrap();
    let at_first = lease_end().await;
    let renewed = async {
        while lease_end().await == at_first {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), renewed).await.expect("it is renewed");
    assert!(!claim.is_expired());
    assert!(second.claim(1).await.unwrap().messages.is_empty());
    drop(first);
    assert!(claim.is_expired(), "nobody renews it any more");
    fresh.expire_lease("relay").await;
    let taken = second.claim(1).await.unwrap();
    assert_eq!(payloads(&taken), ["a0"], "a relay that is gone without a word loses nothing");
}

#[tokio::test]
async fn settling_twice_changes_nothing_and_out_of_order_is_lost() {
    let fresh = Fresh::new().await;
    fresh.write("a", 0..6).await;
    let cursor = fresh.outbox.cursor("relay");
    let first = cursor.claim(2).await.unwrap();
    let second = cursor.claim(2).await.unwrap();
    let error = cursor.settle(&second, &[Verdict::Done, Verdict::Done]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "it would pass over the first");
    cursor.settle(&first, &[Verdict::Done, Verdict::Done]).await.unwrap();
    cursor.settle(&first, &[Verdict::Done, dead(true)]).await.unwrap();
    assert_eq!(drain(&cursor).await, ["a2", "a3", "a4", "a5"]);
}

#[tokio::test]
async fn a_claim_that_is_dropped_comes_again() {
    let fresh = Fresh::new().await;
    fresh.write("a", 0..4).await;
    let cursor = fresh.outbox.cursor("relay");
    drop(cursor.claim(2).await.unwrap());
    let later = cursor.claim(2).await.unwrap();
    assert_eq!(payloads(&later), ["a0", "a1"]);
    cursor.settle(&later, &[Verdict::Done, Verdict::Done]).await.unwrap();
    assert_eq!(drain(&cursor).await, ["a2", "a3"]);
}

#[tokio::test]
async fn while_another_writer_hangs_a_settle_is_busy_and_goes_through_when_repeated() {
    let fresh = Fresh::new().await;
    fresh.write("a", 0..4).await;
    let options: SqliteConnectOptions = fresh.url.parse().unwrap();
    let pool = SqlitePool::connect_with(options.busy_timeout(Duration::from_millis(20))).await.unwrap();
    let cursor = Outbox::new(pool).cursor("relay");
    let first = cursor.claim(2).await.unwrap();
    let hanging = fresh.outbox.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
    let error = cursor.settle(&first, &[Verdict::Done, retry(0)]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{}", error.chain());
    let second = cursor.claim(2).await.unwrap();
    assert_eq!(payloads(&second), ["a2", "a3"], "reading does not wait for the writer");
    hanging.rollback().await.unwrap();
    cursor.settle(&first, &[Verdict::Done, retry(0)]).await.unwrap();
    cursor.settle(&second, &[Verdict::Behind, Verdict::Behind]).await.unwrap();
    assert_eq!(drain(&cursor).await, ["a1", "a2", "a3"]);
}

#[tokio::test]
async fn large_payloads_are_claimed_a_few_at_a_time() {
    let fresh = Fresh::new().await;
    let mut tx = fresh.outbox.pool().begin().await.unwrap();
    for _ in 0..12 {
        fresh.outbox.enqueue(&mut tx, Message::new("large", vec![7_u8; 1024 * 1024])).await.unwrap();
    }
    tx.commit().await.unwrap();
    let cursor = fresh.outbox.cursor("relay");
    let claim = cursor.claim(100).await.unwrap();
    assert_eq!(claim.messages.len(), 4);
    drop(claim);
    assert_eq!(drain(&cursor).await.len(), 12);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn whatever_is_written_arrives_byte_for_byte(
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        key in proptest::option::of(any::<String>()),
        header in any::<String>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fresh = Fresh::new().await;
            let mut message = Message::new("any.bytes", payload).header("name", header);
            message.key = key;
            let mut conn = fresh.outbox.pool().acquire().await.unwrap();
            fresh.outbox.enqueue(&mut conn, message.clone()).await.unwrap();
            drop(conn);
            let cursor = fresh.outbox.cursor("relay");
            let claim = cursor.claim(1).await.unwrap();
            assert_eq!(claim.messages, [message.clone()]);
            cursor.settle(&claim, &[retry(0)]).await.unwrap();
            let mut again = cursor.claim(1).await.unwrap();
            assert_eq!(again.messages[0].attempts, 1);
            again.messages[0].attempts = 0;
            assert_eq!(again.messages, [message]);
        });
    }
}

#[tokio::test]
async fn a_probe_finds_its_message_behind_many_of_another_lane() {
    let fresh = Fresh::new().await;
    fresh.write("many", 0..1000).await;
    for key in ["a", "b", "c", "d", "e", "f"] {
        fresh.write(key, 0..1).await;
    }
    for lane in fresh.outbox.cursor("c").lanes(2) {
        assert_eq!(lane.claim(1).await.unwrap().messages.len(), 1);
    }
}

#[tokio::test]
async fn d7_one_dead_message_is_counted_behind_any_number_that_wait() {
    let fresh = Fresh::new().await;
    fresh.write("a", 0..1).await;
    drain(&fresh.outbox.cursor("relay")).await;
    let park = "WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < 10002)
        INSERT INTO outbox_parked (cursor, lane, seq, attempts, due, state)
        SELECT 'relay', 0, seq, 1, 0, iif(seq = 10002, 'dead', 'waiting') FROM n";
    sqlx::query(park).execute(fresh.outbox.pool()).await.unwrap();
    let status = &fresh.outbox.status().await.unwrap()[0];
    assert_eq!((status.waiting, status.behind, status.dead), (10_000, 0, 1));
    assert!(status.lag_seconds.is_some(), "the first that waits is in the log");
}
