//! In MariaDB.

use std::sync::Arc;

use async_trait::async_trait;
use outbox::conformance::inbox::InboxFixture;
use outbox::mysql::Inbox;
use outbox::{ErrorKind, Failure, InboxTable, Message, Outcome, Sink};
use sqlx::{MySql, Transaction};

use super::{assert_processed, processed, table};
use crate::mysql::Fresh;

struct Mapped(Fresh, Arc<Inbox>);

/// With a column whose collation tells cases apart, or not.
async fn fixture(collation: &str) -> Option<Mapped> {
    let fresh = Fresh::new().await?;
    let ddl = format!(
        "create table `Handled` (`EventId` varchar(100) collate {collation}, `Consumer` varchar(50), `HandledAt` datetime(6) not null,
             primary key (`EventId`, `Consumer`));
         create table `lines` (n int auto_increment primary key, line varchar(200))"
    );
    fresh.run(&ddl).await;
    let inbox = Inbox::mapped(fresh.pool.clone(), table()).await.expect("it fits");
    Some(Mapped(fresh, Arc::new(inbox)))
}

#[async_trait]
impl InboxFixture for Mapped {
    type Inbox = Inbox;
    fn inbox(&self) -> Arc<Inbox> {
        self.1.clone()
    }
    async fn write(tx: &mut Transaction<'static, MySql>, line: &str) {
        <Fresh as InboxFixture>::write(tx, line).await;
    }
    async fn lines(&self) -> Vec<String> {
        InboxFixture::lines(&self.0).await
    }
}

mod suite {
    outbox::inbox_suite!(super::fixture("utf8mb4_bin"));
}

mod suite_without_case {
    outbox::inbox_suite!(super::fixture("utf8mb4_general_ci"));
}

#[tokio::test]
async fn d3_processed_events_as_the_application_has_it_is_an_inbox() {
    let Some(fresh) = Fresh::empty().await else { return };
    fresh.run("create table `ProcessedEvents` (`EventId` uuid primary key, `ProcessedAt` timestamp(6) not null)").await;
    assert_processed(Inbox::mapped(fresh.pool.clone(), processed()).await.unwrap()).await;
}

#[tokio::test]
async fn what_the_column_takes_for_one_id_is_one() {
    let Some(Mapped(_, inbox)) = fixture("utf8mb4_general_ci").await else { return };
    let sink = inbox.handler("c", |_tx, _message| async { Ok::<(), Failure>(()) });
    let (small, large) = (Message::new("a", "").id("abc"), Message::new("a", "").id("ABC"));
    assert_eq!(sink.deliver(&[small, large.clone()]).await, vec![Outcome::Delivered; 2]);
    assert_eq!(outbox::Inbox::known(&*inbox, "c", &[&large.id]).await.unwrap(), [true]);
}

#[tokio::test]
async fn a_table_that_cannot_keep_two_apart_is_refused() {
    let Some(fresh) = Fresh::empty().await else { return };
    for (columns, part) in [
        ("`EventId` varchar(36)", "no unique index on exactly 'EventId'"),
        ("`EventId` varchar(36), unique (`EventId`(8))", "no unique index on exactly 'EventId'"),
        ("`EventId` binary(16) primary key", "must be a uuid or text"),
        ("`EventId` varchar(36) primary key) engine = MyISAM -- ", "must be InnoDB"),
    ] {
        fresh
            .run(&format!("drop table if exists t; create table t ({columns}\n)").replace("-- \n)", ""))
            .await;
        let mapped = Inbox::mapped(fresh.pool.clone(), InboxTable::parse(None, "t", "EventId").unwrap());
        let error = mapped.await.unwrap_err();
        assert!(error.kind() == ErrorKind::Mapping && error.to_string().contains(part), "{error}");
    }
}
