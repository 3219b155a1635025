//! In SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use outbox::conformance::inbox::InboxFixture;
use outbox::sqlite::{Inbox, Outbox};
use outbox::{ErrorKind, InboxTable};
use sqlx::{AssertSqlSafe, Sqlite, Transaction};

use super::table;
use crate::sqlite::Fresh;

struct Mapped(Fresh, Arc<Inbox>);

/// With times as text or as numbers.
async fn fixture(time: &str) -> Option<Mapped> {
    let fresh = Fresh::new().await;
    let ddl = format!(
        "CREATE TABLE Handled (EventId TEXT, Consumer TEXT, HandledAt {time} NOT NULL, UNIQUE (EventId, Consumer));
         CREATE TABLE lines (line TEXT)"
    );
    sqlx::raw_sql(AssertSqlSafe(ddl)).execute(fresh.outbox.pool()).await.unwrap();
    let inbox = Inbox::mapped(fresh.outbox.pool().clone(), table()).await.unwrap();
    Some(Mapped(fresh, Arc::new(inbox)))
}

#[async_trait]
impl InboxFixture for Mapped {
    type Inbox = Inbox;
    fn inbox(&self) -> Arc<Inbox> {
        self.1.clone()
    }
    async fn write(tx: &mut Transaction<'static, Sqlite>, line: &str) {
        <Fresh as InboxFixture>::write(tx, line).await;
    }
    async fn lines(&self) -> Vec<String> {
        InboxFixture::lines(&self.0).await
    }
}

mod suite {
    outbox::inbox_suite!(super::fixture("TEXT"));
}

mod suite_in_numbers {
    outbox::inbox_suite!(super::fixture("INTEGER"));
}

#[tokio::test]
async fn a_table_is_used_as_it_is_without_any_of_ours() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().join("theirs.db").display());
    let outbox = Outbox::connect(&url).await.unwrap();
    let ddl = "CREATE TABLE ProcessedEvents (EventId TEXT PRIMARY KEY, ProcessedAt TEXT NOT NULL);
               CREATE TABLE Bare (EventId TEXT, ProcessedAt TEXT)";
    sqlx::raw_sql(ddl).execute(outbox.pool()).await.unwrap();
    let inbox = Inbox::mapped(outbox.pool().clone(), super::processed()).await.unwrap();
    let sink = inbox.handler("c", |_tx, _message| async { Ok(()) });
    let message = outbox::Message::new("a", "");
    for _ in 0..2 {
        let outcomes = outbox::Sink::deliver(&sink, std::slice::from_ref(&message)).await;
        assert_eq!(outcomes, [outbox::Outcome::Delivered]);
    }
    let history = outbox::Inbox::history(&inbox, &message.id).await.unwrap();
    assert_eq!((history.len(), history[0].consumer.as_str()), (1, "ProcessedEvents"));
    for (table, part) in [("Bare", "no unique index"), ("None", "there is no table 'None'")] {
        let mapped = Inbox::mapped(outbox.pool().clone(), InboxTable::parse(None, table, "EventId").unwrap());
        let error = mapped.await.unwrap_err();
        assert!(error.kind() == ErrorKind::Mapping && error.to_string().contains(part), "{error}");
    }
}
