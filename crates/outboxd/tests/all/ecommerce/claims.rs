//! C8: claims by stamp.

use super::producer::Outbox;
use super::{QUICK, Shop, assert_each_once, running};

/// Kills a relay that has 150 events in flight, and lets another one take them.
async fn after_a_death(more: &str) {
    let Some(shop) = Shop::open().await else { return };
    let (proxy, url) = shop.proxy().await;
    let quick = format!("{}\n{more}", QUICK.1);
    let changes = [(QUICK.0, quick.as_str()), ("stamp_timeout = \"1m\"", "stamp_timeout = \"20s\"")];
    let mut first = running(&shop.program_at(&url, "outboxd.toml", &changes));
    let mut ids = shop.write(Outbox::Single, 1, 1).await;
    shop.until(r#""IsProcessed""#, 1).await;
    // From here on nothing gets through, and nothing is refused.
    proxy.block();
    ids.extend(shop.write(Outbox::Single, 150, 1).await);
    let claimed = r#"not "IsProcessed" and "ProcessingStartedAt" > now() - interval '20 seconds'"#;
    shop.until(claimed, 150).await;
    let sizes: Vec<i64> = sqlx::query_scalar(
        r#"select count(*) from "OutboxEvents" where not "IsProcessed" group by "ProcessingStartedAt" order by 1"#,
    )
    .fetch_all(&shop.pool)
    .await
    .unwrap();
    assert_eq!(sizes, [50, 100], "one statement stamps all rows of a claim with one time");
    first.kill();
    assert_eq!(shop.count(claimed).await, 150, "the stamps stay");
    // Fifteen seconds later.
    sqlx::raw_sql(
        r#"update "OutboxEvents" set "ProcessingStartedAt" = "ProcessingStartedAt" - interval '15 seconds'
           where not "IsProcessed";
           create table "Before" as select "Id", "ProcessingStartedAt" as "At" from "OutboxEvents"
           where not "IsProcessed""#,
    )
    .execute(&shop.pool)
    .await
    .unwrap();
    let _second = running(&shop.program("outboxd.toml", &changes));
    ids.extend(shop.write(Outbox::Single, 1, 1).await);
    shop.until(r#""IsProcessed" and "Id" not in (select "Id" from "Before")"#, 2).await;
    shop.until(r#""IsProcessed""#, 152).await;
    let waited = r#"select count(*) from "Before" b join "OutboxEvents" e using ("Id")
        where e."ProcessingStartedAt" - b."At" between interval '20 seconds' and interval '30 seconds'"#;
    assert_eq!(shop.number(waited).await, 150, "taken again after the time-out, and not before");
    assert_eq!(shop.count(r#""RetryCount" > 0"#).await, 0);
    assert_each_once(&shop.audit().await.drain().await, &ids);
}

#[tokio::test(flavor = "multi_thread")]
async fn c8_a_claim_that_a_dead_relay_left_is_taken_again_after_the_time_out() {
    after_a_death("").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c8_the_same_holds_without_order() {
    after_a_death("order = \"none\"").await;
}
