//! In MariaDB.

use std::sync::Arc;

use async_trait::async_trait;
use outbox::sql::{Kind, Statements};
use outbox::{Message, Outcome, Sink, code};
use serde_json::json;
use sqlx::AssertSqlSafe;

use super::{Shop, for_every_database};
use crate::mysql::Fresh;

#[async_trait]
impl Shop for Fresh {
    const KIND: Kind = Kind::MySql;
    async fn new() -> Option<Self> {
        let fresh = Fresh::new().await?;
        fresh
            .run(
                "create table orders (id uuid primary key, qty int not null, doc json, at timestamp(6), note text);
                 create table stock (sku varchar(50) primary key, left_over int);
                 insert into stock values ('a', 1000)",
            )
            .await;
        Some(fresh)
    }
    fn sink(&self, statements: Statements) -> Arc<dyn Sink> {
        Arc::new(self.inbox().sql("c", statements).unwrap())
    }
    async fn run(&self, sql: &str) {
        Fresh::run(self, sql).await;
    }
    async fn text(&self, sql: &str) -> String {
        let sql = format!("select cast(({sql}) as char)");
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&self.pool).await.unwrap()
    }
}

for_every_database!(Fresh, "`qty`");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadlock_is_met_again_at_no_charge() {
    let Some(fresh) = <Fresh as Shop>::new().await else { return };
    fresh.run("insert into stock values ('b', 0); create table weight (n int)").await;
    let step = |value| format!("update stock set left_over = left_over - 1 where sku = :payload.{value}");
    let sink = super::sink(&fresh, &[&step("first"), &step("second")]);
    // The server gives up whoever has changed less: it shall not be this one.
    let mut other = fresh.pool.begin().await.unwrap();
    sqlx::raw_sql(
        "insert into weight select seq from seq_1_to_1000; update stock set left_over = 5 where sku = 'b'",
    )
    .execute(&mut *other)
    .await
    .unwrap();
    let message = Message::json("moved", &json!({ "first": "a", "second": "b" })).unwrap();
    let delivering = tokio::spawn(async move { sink.deliver(&[message]).await });
    let waits = "select count(*) from information_schema.innodb_trx join information_schema.processlist
                 on id = trx_mysql_thread_id where trx_state = 'LOCK WAIT' and db = database()";
    super::until(async || Shop::text(&fresh, waits).await == "1").await;
    let crossing = "update stock set left_over = left_over + 100 where sku = 'a'";
    sqlx::raw_sql(crossing).execute(&mut *other).await.expect("the other one is given up");
    other.commit().await.unwrap();
    assert_eq!(delivering.await.unwrap(), [Outcome::Delivered]);
    let left = "select group_concat(left_over order by sku) from stock";
    assert_eq!(Shop::text(&fresh, left).await, "1099,4");
}

#[tokio::test]
async fn k4_a_lock_that_takes_too_long_is_rejected_alone() {
    let Some(fresh) = <Fresh as Shop>::new().await else { return };
    fresh.run("insert into stock values ('b', 5)").await;
    let sink = super::sink(&fresh, &["set session innodb_lock_wait_timeout = 1", super::STOCK]);
    let mut other = fresh.pool.begin().await.unwrap();
    sqlx::raw_sql("update stock set left_over = 7 where sku = 'a'").execute(&mut *other).await.unwrap();
    let take = |sku| Message::json("taken", &json!({ "sku": sku, "qty": 1 })).unwrap();
    let outcomes = sink.deliver(&[take("b"), take("a"), take("b")]).await;
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Delivered, &Outcome::Delivered), "{outcomes:?}");
    let rejection = super::rejection(&outcomes[1]);
    assert!(!rejection.permanent && rejection.cause.code == code::REFUSED, "{rejection:?}");
    other.rollback().await.unwrap();
    let left = "select group_concat(left_over order by sku) from stock";
    assert_eq!(Shop::text(&fresh, left).await, "1000,3");
}
