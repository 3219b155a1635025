//! Relays that share a mapped table of PostgreSQL through a hard life.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outbox::table::{Draft, Reading};
use outbox::{Message, Source};
use sqlx::{AssertSqlSafe, Row};

use super::chaos::{Ground, gives_lanes_back, live, seed};
use super::fixture::{Tables, draft, insert, stamped, text};

#[async_trait]
impl Ground for Tables {
    fn sources(&self, reading: &Reading) -> Vec<Arc<dyn Source>> {
        self.tables[0].sources(reading)
    }

    async fn write_one(&self, message: &Message) {
        let mut tx = self.pool.begin().await.unwrap();
        insert(&mut tx, "Outbox_c", message).await;
        tx.commit().await.unwrap();
    }

    async fn pending(&self) -> i64 {
        let sql = r#"select count(*) from "Outbox_c" where "SentAt" is null"#;
        sqlx::query(AssertSqlSafe(sql)).fetch_one(&self.pool).await.unwrap().get(0)
    }

    async fn cut_a_session(&self) {
        let sql = "select pg_terminate_backend(pid) from pg_stat_activity
                   where application_name like 'outboxd%' and datname = current_database()
                   order by random() limit 1";
        sqlx::query(sql).execute(&self.pool).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_order_by_key_holds_through_cut_sessions_by_lock() {
    live(seed(), Tables::new(draft).await, Reading::default(), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_order_by_key_holds_through_cut_sessions_by_stamp() {
    let short = |name: &str| Draft { stamp_timeout: Some(Duration::from_secs(2)), ..stamped(name) };
    live(seed(), Tables::new(short).await, Reading::default(), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_order_by_key_holds_in_lanes_that_change_hands() {
    live(seed(), Tables::new(draft).await, Reading { lanes: 4, ..Reading::default() }, true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_order_by_key_holds_where_the_table_keeps_the_delay() {
    let due = |name: &str| Draft { due: text("ClaimedAt"), ..draft(name) };
    live(seed(), Tables::new(due).await, Reading::default(), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn relays_share_a_table_without_order_and_without_a_double() {
    for mapping in [draft, stamped] {
        let reading = Reading { ordered: false, holds: false, ..Reading::default() };
        let Some((came, messages)) = live(seed(), Tables::new(mapping).await, reading, false).await else {
            return;
        };
        assert_eq!(came, messages, "nobody took anything twice");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c5_lanes_are_shared_without_a_double() {
    let reading = Reading { lanes: 8, ..Reading::default() };
    let Some((came, messages)) = live(seed(), Tables::new(draft).await, reading, false).await else { return };
    assert_eq!(came, messages, "nobody took anything twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_is_never_idle_gives_lanes_back_all_the_same() {
    gives_lanes_back(Tables::new(draft).await).await;
}
