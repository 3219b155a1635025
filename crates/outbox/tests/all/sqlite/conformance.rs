//! SQLite against the suites.

use std::sync::Arc;

use async_trait::async_trait;
use outbox::conformance::admin::AdminFixture;
use outbox::conformance::inbox::InboxFixture;
use outbox::conformance::source::SourceFixture;
use outbox::conformance::store::StoreFixture;
use outbox::sqlite::{Cursor, Inbox, Outbox};
use outbox::{Message, Source, Store};
use sqlx::{Sqlite, Transaction};

use super::Fresh;

#[async_trait]
impl SourceFixture for Fresh {
    type Source = Cursor;
    async fn enqueue(&self, messages: Vec<Message>) {
        let mut tx = self.outbox.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
        self.outbox.enqueue_all(&mut tx, &messages).await.unwrap();
        tx.commit().await.unwrap();
    }
    async fn roll_back(&self, messages: Vec<Message>) {
        let mut tx = self.outbox.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
        self.outbox.enqueue_all(&mut tx, &messages).await.unwrap();
        tx.rollback().await.unwrap();
    }
    fn source(&self, cursor: &str) -> Cursor {
        self.outbox.cursor(cursor)
    }
    async fn expire(&self, cursor: &str) {
        self.expire_lease(cursor).await;
    }
}

impl AdminFixture for Fresh {
    type Admin = Outbox;
    fn admin(&self) -> &Outbox {
        &self.outbox
    }
}

impl StoreFixture for Fresh {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.outbox.store("c"))
    }
    fn source(&self) -> Arc<dyn Source> {
        Arc::new(self.outbox.cursor("c"))
    }
}

#[async_trait]
impl InboxFixture for Fresh {
    type Inbox = Inbox;
    fn inbox(&self) -> Arc<Inbox> {
        Arc::new(self.outbox.inbox())
    }
    async fn write(tx: &mut Transaction<'static, Sqlite>, line: &str) {
        sqlx::query("INSERT INTO lines (line) VALUES (?)").bind(line).execute(&mut **tx).await.unwrap();
    }
    async fn lines(&self) -> Vec<String> {
        sqlx::query_scalar("SELECT line FROM lines ORDER BY rowid")
            .fetch_all(self.outbox.pool())
            .await
            .unwrap()
    }
}

async fn fixture() -> Option<Fresh> {
    let fresh = Fresh::new().await;
    sqlx::query("CREATE TABLE lines (line TEXT)").execute(fresh.outbox.pool()).await.unwrap();
    Some(fresh)
}

mod source {
    outbox::source_suite!(super::fixture());
}

mod store {
    outbox::store_suite!(super::fixture());
}

mod inbox {
    outbox::inbox_suite!(super::fixture());
}

mod admin {
    outbox::admin_suite!(super::fixture());
}
