//! What a relay finds that takes a table over from another.

use std::time::Duration;

use outbox::policy::Verdict;
use outbox::table::{Draft, Reading};
use outbox::{Message, Source};
use sqlx::AssertSqlSafe;

use super::fixture::{Tables, stamped};

fn brief(name: &str) -> Draft {
    Draft { stamp_timeout: Some(Duration::from_secs(1)), ..stamped(name) }
}

async fn ids(source: &dyn Source) -> Vec<String> {
    let claim = source.claim(10).await.expect("claimed");
    claim.messages.iter().map(|message| message.id.to_string()).collect()
}

/// A relay gives its claims back one after the other, and may be killed in between.
#[tokio::test]
async fn a_stamp_that_a_dead_relay_left_lets_no_row_overtake_an_earlier_one() {
    let Some(tables) = Tables::new(brief).await else { return };
    let messages: Vec<Message> = (0..3).map(|n| Message::new("t", format!("{n}")).key("k")).collect();
    let all: Vec<String> = messages.iter().map(|message| message.id.to_string()).collect();
    let mut connection = tables.pool.acquire().await.expect("a connection");
    for message in &messages {
        super::fixture::insert(&mut connection, "Outbox_c", message).await;
    }
    for stamped in [1, 0] {
        let sql = format!(
            r#"update "Outbox_c" set "ClaimedAt" = case when "Id" = '{}' then clock_timestamp() end"#,
            all[stamped]
        );
        sqlx::query(AssertSqlSafe(sql)).execute(&tables.pool).await.expect("stamped");
        let source = tables.tables[0].sources(&Reading::default()).remove(0);
        assert!(ids(&*source).await.is_empty(), "the key waits for the stamp to run out");
        source.wait(Duration::from_secs(5)).await;
        let mut found = ids(&*source).await;
        while found.is_empty() {
            source.wait(Duration::from_millis(10)).await;
            found = ids(&*source).await;
        }
        assert_eq!(found, all, "row {stamped} was stamped");
        source.close().await.expect("given back");
    }
}

/// The claim of another relay locks rows for a moment that were stamped since its statement began, and finds only then
/// that they are not to be had.
#[tokio::test]
async fn a_settle_waits_for_whoever_has_its_rows_locked_for_a_moment() {
    let Some(tables) = Tables::new(stamped).await else { return };
    let messages: Vec<Message> = (0..3).map(|n| Message::new("t", format!("{n}"))).collect();
    let mut connection = tables.pool.acquire().await.expect("a connection");
    for message in &messages {
        super::fixture::insert(&mut connection, "Outbox_c", message).await;
    }
    let source = tables.tables[0].sources(&Reading { ordered: false, ..Reading::default() }).remove(0);
    let claim = source.claim(10).await.expect("claimed");
    assert_eq!(claim.messages.len(), 3);
    let mut other = tables.pool.begin().await.expect("a transaction");
    sqlx::query(r#"select from "Outbox_c" for update"#).execute(&mut *other).await.expect("locked");
    let settle = tokio::spawn(async move { source.settle(&claim, &[const { Verdict::Done }; 3]).await });
    let waits = "select exists (select from pg_stat_activity where wait_event_type = 'Lock' \
                 and datname = current_database())";
    while !settle.is_finished()
        && !sqlx::query_scalar::<_, bool>(waits).fetch_one(&tables.pool).await.expect("asked")
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    other.rollback().await.expect("ended");
    settle.await.expect("no panic").expect("settled");
    let sent: i64 = sqlx::query_scalar(r#"select count(*) from "Outbox_c" where "SentAt" is not null"#)
        .fetch_one(&tables.pool)
        .await
        .expect("counted");
    assert_eq!(sent, 3);
}
