//! PostgreSQL: the suites, directly and through a pooler, and what only this backend promises.

mod ahead;
mod failover;
mod looking;
mod reading;
mod sharing;
mod writing;

use std::sync::Arc;

use async_trait::async_trait;
use outbox::conformance::admin::AdminFixture;
use outbox::conformance::inbox::InboxFixture;
use outbox::conformance::source::SourceFixture;
use outbox::conformance::store::StoreFixture;
use outbox::postgres::{Cursor, Inbox, Outbox};
use outbox::{Message, Source, Store};
use sqlx::{Postgres, Row, Transaction};
use testbed::{Database, PgBouncer};

/// A migrated outbox in a database of its own.
pub(crate) struct Log {
    pub(crate) outbox: Outbox,
    pub(crate) database: Database,
    _pooler: Option<PgBouncer>,
}

impl Log {
    pub(crate) async fn new() -> Option<Self> {
        let database = testbed::postgres().await?.database().await.expect("a database");
        let outbox = Outbox::connect(database.url()).await.expect("it is up");
        outbox.migrate().await.expect("it is empty");
        Some(Self { outbox, database, _pooler: None })
    }

    /// The same through pgbouncer in transaction mode.
    pub(crate) async fn pooled() -> Option<Self> {
        let server = testbed::postgres().await?;
        let Log { database, .. } = Self::new().await?;
        let pooler = testbed::available(PgBouncer::start(server).await)?;
        let outbox = Outbox::connect(&pooler.url(database.name())).await.expect("the pooler is up");
        Some(Self { outbox, database, _pooler: Some(pooler) })
    }
}

#[async_trait]
impl SourceFixture for Log {
    type Source = Cursor;
    async fn enqueue(&self, messages: Vec<Message>) {
        let mut tx = self.outbox.pool().begin().await.expect("a transaction");
        self.outbox.enqueue_all(&mut tx, &messages).await.expect("enqueued");
        tx.commit().await.expect("committed");
    }
    async fn roll_back(&self, messages: Vec<Message>) {
        let mut tx = self.outbox.pool().begin().await.expect("a transaction");
        self.outbox.enqueue_all(&mut tx, &messages).await.expect("enqueued");
        tx.rollback().await.expect("rolled back");
    }
    fn source(&self, cursor: &str) -> Cursor {
        self.outbox.cursor(cursor)
    }
    async fn expire(&self, cursor: &str) {
        let mut tx = self.outbox.pool().begin().await.expect("a transaction");
        sqlx::query("update outbox.cursors set lease_until = now() - interval '1 second' where name = $1")
            .bind(cursor)
            .persistent(false)
            .execute(&mut *tx)
            .await
            .expect("expired");
        tx.commit().await.expect("committed");
    }
}

impl AdminFixture for Log {
    type Admin = Outbox;
    fn admin(&self) -> &Outbox {
        &self.outbox
    }
}

impl StoreFixture for Log {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.outbox.store("c"))
    }
    fn source(&self) -> Arc<dyn Source> {
        Arc::new(self.outbox.cursor("c"))
    }
}

struct Handled(Log);

impl Handled {
    async fn new(log: Option<Log>) -> Option<Self> {
        let log = log?;
        let mut tx = log.outbox.pool().begin().await.expect("a transaction");
        sqlx::raw_sql("create table lines (n serial, line text)").execute(&mut *tx).await.expect("created");
        tx.commit().await.expect("committed");
        Some(Self(log))
    }
}

#[async_trait]
impl InboxFixture for Handled {
    type Inbox = Inbox;
    fn inbox(&self) -> Arc<Inbox> {
        Arc::new(self.0.outbox.inbox())
    }
    async fn write(tx: &mut Transaction<'static, Postgres>, line: &str) {
        let insert = sqlx::query("insert into lines (line) values ($1)").bind(line).persistent(false);
        insert.execute(&mut **tx).await.expect("written");
    }
    async fn lines(&self) -> Vec<String> {
        let mut tx = self.0.outbox.pool().begin().await.expect("a transaction");
        let rows =
            sqlx::raw_sql("select line from lines order by n").fetch_all(&mut *tx).await.expect("read");
        rows.iter().map(|row| row.get(0)).collect()
    }
}

mod source {
    outbox::source_suite!(super::Log::new());
}

mod admin {
    outbox::admin_suite!(super::Log::new());
}

mod store {
    outbox::store_suite!(super::Log::new());
}

mod inbox {
    outbox::inbox_suite!(super::Handled::new(super::Log::new().await));
}

mod pooled {
    mod source {
        outbox::source_suite!(super::super::Log::pooled());
    }
    mod admin {
        outbox::admin_suite!(super::super::Log::pooled());
    }
    mod store {
        outbox::store_suite!(super::super::Log::pooled());
    }
    mod inbox {
        outbox::inbox_suite!(super::super::Handled::new(super::super::Log::pooled().await));
    }
}
