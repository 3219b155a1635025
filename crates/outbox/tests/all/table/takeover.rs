//! What a relay finds that takes a table over from another.

use std::time::Duration;

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
