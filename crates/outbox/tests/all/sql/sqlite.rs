//! In SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use outbox::Sink;
use outbox::sql::{Kind, Statements};
use sqlx::AssertSqlSafe;

use super::{Shop, for_every_database};
use crate::sqlite::Fresh;

#[async_trait]
impl Shop for Fresh {
    const KIND: Kind = Kind::Sqlite;
    async fn new() -> Option<Self> {
        let fresh = Fresh::new().await;
        let ddl = "CREATE TABLE orders (id TEXT PRIMARY KEY, qty INTEGER NOT NULL, doc TEXT, at TEXT, note TEXT) STRICT;
                   CREATE TABLE stock (sku TEXT PRIMARY KEY, left_over INTEGER) STRICT;
                   INSERT INTO stock VALUES ('a', 1000)";
        sqlx::raw_sql(ddl).execute(fresh.outbox.pool()).await.unwrap();
        Some(fresh)
    }
    fn sink(&self, statements: Statements) -> Arc<dyn Sink> {
        Arc::new(self.outbox.inbox().sql("c", statements).unwrap())
    }
    async fn run(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(self.outbox.pool()).await.unwrap();
    }
    async fn text(&self, sql: &str) -> String {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(self.outbox.pool()).await.unwrap()
    }
}

for_every_database!(Fresh, "INTEGER column orders.qty");
