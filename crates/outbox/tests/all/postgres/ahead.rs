//! More is read of the log than is claimed at a time: that must never be seen, but in how little is asked for.

use std::time::Duration;

use outbox::conformance::source::SourceFixture;
use outbox::postgres::Cursor;
use outbox::{Cause, Claim, Message, Source, Verdict};
use tokio::time::timeout;

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

fn retry() -> Verdict {
    Verdict::Retry { after: Duration::from_secs(3600), attempts: 1, cause: Cause::new("X", "x") }
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
async fn c4_a_key_that_is_set_aside_holds_what_was_read_before_that() {
    let Some((_log, cursor)) = log_of(300, 10).await else { return };
    let first = cursor.claim(2).await.unwrap();
    cursor.settle(&first, &[retry(), Verdict::Done]).await.unwrap();
    let mut next = 2;
    while next < 300 {
        let claim = cursor.claim(50).await.unwrap();
        assert!(!claim.messages.is_empty(), "there are more than {next}");
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

/// Consumes what is read ahead to its end, so that only the page behind it, which was begun before, could be wrong.
#[tokio::test]
async fn c4_a_key_that_is_set_aside_holds_the_page_that_was_begun_before_that() {
    let Some((_log, cursor)) = log_of(300, 10).await else { return };
    let (first, second) = (cursor.claim(50).await.unwrap(), cursor.claim(50).await.unwrap());
    let mut verdicts = vec![Verdict::Done; 50];
    verdicts[0] = retry();
    cursor.settle(&first, &verdicts).await.unwrap();
    settle(&cursor, &second, Verdict::Done).await;
    let third = cursor.claim(50).await.unwrap();
    assert_eq!(numbers(&third), (100..150).collect::<Vec<_>>());
    for (index, number) in numbers(&third).into_iter().enumerate() {
        assert_eq!(third.is_held(index), number.is_multiple_of(2), "message {number}");
    }
}

#[tokio::test]
async fn who_claims_nothing_passes_nothing_over() {
    let Some((_log, cursor)) = log_of(10, 10).await else { return };
    assert_eq!(numbers(&cursor.claim(1).await.unwrap()), [0]);
    assert!(cursor.claim(0).await.unwrap().messages.is_empty());
    assert_eq!(numbers(&cursor.claim(20).await.unwrap()), (1..10).collect::<Vec<_>>());
}

/// Nobody can read the log while it is locked. Whether a page was read before that is a race, so it gets more and more time;
/// were none ever read ahead, no time would be enough.
const WAITS: [u64; 9] = [0, 10, 20, 40, 80, 160, 320, 640, 1_280];

/// Whether the page after the one that begins with `next` is there while the log is locked. If not, it is read afterwards.
async fn is_read_ahead(log: &Log, cursor: &Cursor, next: usize) -> bool {
    let mut tx = log.outbox.pool().begin().await.unwrap();
    sqlx::raw_sql("lock table outbox.messages in access exclusive mode").execute(&mut *tx).await.unwrap();
    let buffered = timeout(Duration::from_secs(30), cursor.claim(50)).await;
    assert_eq!(numbers(&buffered.expect("it is there").unwrap()), (next..next + 50).collect::<Vec<_>>());
    let page = timeout(Duration::from_millis(500), cursor.claim(50)).await;
    tx.rollback().await.unwrap();
    let is_there = page.is_ok();
    let page = match page {
        Ok(page) => page.unwrap(),
        Err(_) => cursor.claim(50).await.unwrap(),
    };
    assert_eq!(numbers(&page), (next + 50..next + 100).collect::<Vec<_>>());
    is_there
}

#[tokio::test]
async fn the_next_page_is_read_while_nobody_asks_for_it() {
    for wait in WAITS {
        let Some((log, cursor)) = log_of(400, 10).await else { return };
        // A page of a hundred, and then one more.
        assert_eq!(numbers(&cursor.claim(50).await.unwrap()), (0..50).collect::<Vec<_>>());
        tokio::time::sleep(Duration::from_millis(wait)).await;
        if is_read_ahead(&log, &cursor, 50).await {
            return;
        }
    }
    panic!("nothing was ever read ahead");
}

/// As in a pipe under load: a claim is open all the time.
#[tokio::test]
async fn reading_ahead_goes_on_when_what_was_set_aside_is_done() {
    for wait in WAITS {
        let Some((log, cursor)) = log_of(600, 10).await else { return };
        let first = cursor.claim(50).await.unwrap();
        let mut verdicts = vec![Verdict::Done; 50];
        verdicts[49] = Verdict::Retry { after: Duration::ZERO, attempts: 1, cause: Cause::new("X", "x") };
        cursor.settle(&first, &verdicts).await.unwrap();
        let aside = cursor.claim(50).await.unwrap();
        assert_eq!(numbers(&aside), [49]);
        let _open = cursor.claim(50).await.unwrap();
        settle(&cursor, &aside, Verdict::Done).await;
        assert_eq!(numbers(&cursor.claim(50).await.unwrap()), (100..150).collect::<Vec<_>>());
        tokio::time::sleep(Duration::from_millis(wait)).await;
        if is_read_ahead(&log, &cursor, 150).await {
            return;
        }
    }
    panic!("nothing was ever read ahead again");
}

#[tokio::test]
async fn a_page_that_could_not_be_read_ahead_is_read_when_it_is_needed() {
    let Some((log, cursor)) = log_of(400, 10).await else { return };
    assert_eq!(numbers(&cursor.claim(10).await.unwrap()), (0..10).collect::<Vec<_>>());
    // From here on what is begun fails.
    let renamed = "alter table outbox.messages rename column payload to gone";
    sqlx::raw_sql(renamed).execute(log.outbox.pool()).await.unwrap();
    let claims = [40, 50].map(|limit| cursor.claim(limit));
    for claim in claims {
        claim.await.unwrap();
    }
    let undone = "select exists (select from pg_stat_activity
        where datname = current_database() and query ilike 'rollback%')";
    let failed = async {
        while !sqlx::query_scalar::<_, bool>(undone).fetch_one(log.outbox.pool()).await.unwrap() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(30), failed).await.expect("what was begun fails");
    let back = "alter table outbox.messages rename column gone to payload";
    sqlx::raw_sql(back).execute(log.outbox.pool()).await.unwrap();
    assert_eq!(numbers(&cursor.claim(10).await.unwrap()), (100..110).collect::<Vec<_>>());
}
