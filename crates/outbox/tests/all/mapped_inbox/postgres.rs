//! In PostgreSQL.

use std::sync::Arc;

use async_trait::async_trait;
use outbox::conformance::inbox::InboxFixture;
use outbox::postgres::Inbox;
use outbox::{ErrorKind, InboxTable};
use sqlx::{AssertSqlSafe, Postgres, Row, Transaction};

use super::{assert_processed, processed, table};
use crate::postgres::Log;

struct Mapped(Log, Arc<Inbox>);

async fn fixture() -> Option<Mapped> {
    let log = Log::new().await?;
    let ddl = "create table \"Handled\" (\"Consumer\" varchar(50), \"EventId\" varchar(100), \"HandledAt\" timestamp not null,
                   \"Note\" text, unique (\"EventId\", \"Consumer\"));
               create table lines (n serial, line text)";
    sqlx::raw_sql(ddl).execute(log.outbox.pool()).await.expect("created");
    let inbox = Inbox::mapped(log.outbox.pool().clone(), table()).await.expect("it fits");
    Some(Mapped(log, Arc::new(inbox)))
}

#[async_trait]
impl InboxFixture for Mapped {
    type Inbox = Inbox;
    fn inbox(&self) -> Arc<Inbox> {
        self.1.clone()
    }
    async fn write(tx: &mut Transaction<'static, Postgres>, line: &str) {
        let insert = sqlx::query("insert into lines (line) values ($1)").bind(line).persistent(false);
        insert.execute(&mut **tx).await.expect("written");
    }
    async fn lines(&self) -> Vec<String> {
        let rows = sqlx::raw_sql("select line from lines order by n").fetch_all(self.0.outbox.pool()).await;
        rows.expect("read").iter().map(|row| row.get(0)).collect()
    }
}

mod suite {
    outbox::inbox_suite!(super::fixture());
}

#[tokio::test]
async fn d3_processed_events_as_the_application_has_it_is_an_inbox() {
    let Some(server) = testbed::postgres().await else { return };
    let database = server.database().await.unwrap();
    let pool = sqlx::PgPool::connect(database.url()).await.unwrap();
    let ddl = "create table \"ProcessedEvents\" (\"EventId\" uuid primary key, \"ProcessedAt\" timestamptz not null)";
    sqlx::raw_sql(ddl).execute(&pool).await.unwrap();
    assert_processed(Inbox::mapped(pool.clone(), processed()).await.unwrap()).await;
}

#[tokio::test]
async fn a_table_that_cannot_keep_two_apart_is_refused() {
    let Some(log) = Log::new().await else { return };
    for (columns, part) in [
        ("\"EventId\" uuid", "no unique index on exactly 'EventId'"),
        ("\"EventId\" uuid, other int, unique (\"EventId\", other)", "no unique index on exactly 'EventId'"),
        ("\"EventId\" uuid unique deferrable", "no unique index on exactly 'EventId'"),
        ("\"EventId\" bytea primary key", "must be a uuid or text"),
        ("\"EventId\" uuid primary key, \"Name\" text not null", "column 'Name' must be filled"),
    ] {
        let ddl = format!("drop table if exists t; create table t ({columns})");
        sqlx::raw_sql(AssertSqlSafe(ddl)).execute(log.outbox.pool()).await.unwrap();
        let mapped =
            Inbox::mapped(log.outbox.pool().clone(), InboxTable::parse(None, "t", "EventId").unwrap());
        let error = mapped.await.unwrap_err();
        assert!(error.kind() == ErrorKind::Mapping && error.to_string().contains(part), "{error}");
    }
}
