//! More is read of the log than is claimed at a time: that must never be seen, but in how little is asked for.

use std::time::Duration;

use outbox::conformance::source::SourceFixture;
use outbox::postgres::Cursor;
use outbox::{Cause, Claim, Message, Source, Verdict};
use sqlx::PgPool;

use super::Log;

/// A log with so many messages, of two keys in turns, each with its number as payload and so many bytes more.
async fn log_of(count: usize, bytes: usize) -> Option<(Log, Cursor)> {
    let log = Log::new().await?;
    let filler = "x".repeat(bytes);
    let message = |number: usize| {
        Message::new("t", format!("{number} {filler}")).key(if number.is_multiple_of(2) {
            "even"
        } else {
            "odd"
        })
    };
    log.enqueue((0..count).map(message).collect()).await;
    let cursor = log.outbox.cursor("c");
    Some((log, cursor))
}

fn numbers(claim: &Claim) -> Vec<usize> {
    let number = |message: &Message| {
        let text = std::str::from_utf8(&message.payload).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    claim.messages.iter().map(number).collect()
}

async fn settle(cursor: &Cursor, claim: &Claim, verdict: Verdict) {
    cursor.settle(claim, &vec![verdict; claim.messages.len()]).await.unwrap();
}

async fn assert_all_come_once_in_order(count: usize, bytes: usize, limit: usize) {
    let Some((_log, cursor)) = log_of(count, bytes).await else { return };
    let (mut came, mut open) = (Vec::new(), Vec::new());
    loop {
        let claim = cursor.claim(limit).await.unwrap();
        assert!(claim.messages.len() <= limit);
        if claim.messages.is_empty() {
            break;
        }
        came.extend(numbers(&claim));
        open.push(claim);
        // Some are open all the time, as in a pipe.
        if open.len() > 3 {
            settle(&cursor, &open.remove(0), Verdict::Done).await;
        }
    }
    for claim in open {
        settle(&cursor, &claim, Verdict::Done).await;
    }
    assert_eq!(came, (0..count).collect::<Vec<_>>());
}

#[tokio::test]
async fn pages_that_are_read_ahead_come_once_and_in_order() {
    assert_all_come_once_in_order(1_000, 10, 7).await;
    assert_all_come_once_in_order(1_000, 10, 150).await;
}

/// A page ends by its bytes long before it has the rows that were asked for.
#[tokio::test]
async fn heavy_messages_that_are_read_ahead_come_once_and_in_order() {
    assert_all_come_once_in_order(150, 100_000, 30).await;
}

#[tokio::test]
async fn c2_a_key_that_is_set_aside_holds_what_was_read_before_that() {
    let Some((_log, cursor)) = log_of(300, 10).await else { return };
    let first = cursor.claim(2).await.unwrap();
    let later = Duration::from_secs(3600);
    let retry = Verdict::Retry { after: later, attempts: 1, cause: Cause::new("X", "x") };
    cursor.settle(&first, &[retry, Verdict::Done]).await.unwrap();
    let mut next = 2;
    while next < 300 {
        let claim = cursor.claim(50).await.unwrap();
        for (index, number) in numbers(&claim).into_iter().enumerate() {
            assert_eq!(number, next);
            assert_eq!(claim.is_held(index), number.is_multiple_of(2), "message {number}");
            next += 1;
        }
        let verdict = |index| if claim.is_held(index) { Verdict::Behind } else { Verdict::Done };
        let verdicts: Vec<_> = (0..claim.messages.len()).map(verdict).collect();
        cursor.settle(&claim, &verdicts).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_put_back_comes_before_what_was_read_behind_it() {
    let Some((_log, cursor)) = log_of(300, 10).await else { return };
    for _ in 0..3 {
        let claim = cursor.claim(20).await.unwrap();
        assert_eq!(numbers(&claim), (0..20).collect::<Vec<_>>());
        settle(&cursor, &claim, Verdict::Released).await;
    }
    let claim = cursor.claim(20).await.unwrap();
    let verdicts: Vec<_> =
        (0..20).map(|index| if index < 5 { Verdict::Done } else { Verdict::Released }).collect();
    cursor.settle(&claim, &verdicts).await.unwrap();
    assert_eq!(numbers(&cursor.claim(20).await.unwrap()), (5..25).collect::<Vec<_>>());
}

/// What was read and not claimed is nobody's: who takes over reads it.
#[tokio::test]
async fn what_was_read_ahead_is_not_done() {
    let Some((log, cursor)) = log_of(300, 10).await else { return };
    let claim = cursor.claim(20).await.unwrap();
    settle(&cursor, &claim, Verdict::Done).await;
    cursor.close().await.unwrap();
    let other = log.outbox.cursor("c");
    assert_eq!(numbers(&other.claim(3).await.unwrap()), [20, 21, 22]);
}

#[tokio::test]
async fn many_claims_cost_few_queries() {
    let Some((log, cursor)) = log_of(400, 10).await else { return };
    let mut claims = 0;
    while claims < 400 {
        let claim = cursor.claim(1).await.unwrap();
        assert_eq!(numbers(&claim), [claims]);
        settle(&cursor, &claim, Verdict::Done).await;
        claims += 1;
    }
    // A session that ends tells what it did.
    log.outbox.pool().close().await;
    let pool = PgPool::connect(log.database.url()).await.unwrap();
    let others = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    while sqlx::query_scalar::<_, i64>(others).fetch_one(&pool).await.unwrap() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // A page looks for what is new and for what was in progress.
    let scans = "select seq_scan + coalesce(idx_scan, 0) from pg_stat_user_tables where relname = 'messages'";
    let scans: i64 = sqlx::query_scalar(scans).fetch_one(&pool).await.unwrap();
    assert!((4..100).contains(&scans), "{scans} looks at the log for {claims} claims");
}
