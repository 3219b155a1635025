//! MariaDB: the inbox and the tables that are ours.

mod inbox;

use outbox::mysql::{Inbox, connect, migrate};
use sqlx::{AssertSqlSafe, MySqlPool};

/// A migrated database of its own.
pub(crate) struct Fresh {
    pub(crate) pool: MySqlPool,
}

impl Fresh {
    pub(crate) async fn new() -> Option<Self> {
        let fresh = Self::empty().await?;
        migrate(&fresh.pool).await.expect("it is empty");
        Some(fresh)
    }

    /// The same with nothing in it.
    pub(crate) async fn empty() -> Option<Self> {
        let database = testbed::mariadb().await?.database().await.expect("a database");
        let pool = connect(database.url()).await.expect("it is up");
        Some(Self { pool })
    }

    pub(crate) fn inbox(&self) -> Inbox {
        Inbox::new(self.pool.clone())
    }

    pub(crate) async fn run(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&self.pool).await.expect("it runs");
    }

    pub(crate) async fn count(&self, table: &str) -> i64 {
        let query = sqlx::query_scalar(AssertSqlSafe(format!("select count(*) from {table}")));
        query.fetch_one(&self.pool).await.expect("counted")
    }
}
