//! A table with everything in it, in PostgreSQL, and what the suites need of it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outbox::conformance::source::SourceFixture;
use outbox::conformance::store::StoreFixture;
use outbox::postgres::Table;
use outbox::table::{Draft, Mapping, Reading};
use outbox::{Message, Source, Store};
use sqlx::{AssertSqlSafe, PgPool};
use testbed::Database;

/// The tables, one for each cursor of the suite: a mapped table has one progress only.
const CURSORS: [&str; 2] = ["c", "other"];

pub(crate) const DDL: &str = r#"
    create table "Outbox_NAME" (
        "Seq" bigint generated always as identity,
        "Id" uuid primary key,
        "Type" text not null,
        "Key" text,
        "Body" bytea,
        "ContentType" varchar(100),
        "Headers" jsonb,
        "OccurredAt" timestamptz not null,
        "SentAt" timestamptz,
        "Attempts" integer not null default 0,
        "Error" varchar(200),
        "State" text not null default 'new',
        "ClaimedAt" timestamptz
    )"#;

pub(crate) fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// The mapping of [`DDL`].
pub(crate) fn draft(name: &str) -> Draft {
    Draft {
        table: Some(format!("Outbox_{name}")),
        id: text("Id"),
        kind: text("Type"),
        key: text("Key"),
        payload: text("Body"),
        content_type: text("ContentType"),
        headers: text("Headers"),
        occurred_at: text("OccurredAt"),
        order_by: vec!["Seq".to_owned()],
        pending: text("SentAt IS NULL AND State <> 'dead'"),
        done: text("SentAt = now, State = 'sent'"),
        dead: text("State = 'dead'"),
        attempts: text("Attempts"),
        error: text("Error"),
        ..Draft::default()
    }
}

pub(crate) fn stamped(name: &str) -> Draft {
    Draft { stamp: text("ClaimedAt"), stamp_timeout: Some(Duration::from_secs(60)), ..draft(name) }
}

pub(crate) fn checked(draft: &Draft) -> Mapping {
    draft.check().expect("a mapping without flaws")
}

/// A database with the tables in it.
pub(crate) struct Tables {
    pub(crate) database: Database,
    pub(crate) pool: PgPool,
    pub(crate) tables: Vec<Table>,
}

impl Tables {
    pub(crate) async fn new(draft: impl Fn(&str) -> Draft) -> Option<Self> {
        let database = testbed::postgres().await?.database().await.expect("a database");
        let pool = PgPool::connect(database.url()).await.expect("it is up");
        let mut tables = Vec::new();
        for cursor in CURSORS {
            sqlx::raw_sql(AssertSqlSafe(DDL.replace("NAME", cursor))).execute(&pool).await.expect("made");
            tables.push(Table::connect(database.url(), checked(&draft(cursor))).await.expect("it fits"));
        }
        Some(Self { database, pool, tables })
    }

    async fn write(&self, messages: &[Message], commit: bool) {
        let mut tx = self.pool.begin().await.expect("a transaction");
        for cursor in CURSORS {
            for message in messages {
                insert(&mut tx, &format!("Outbox_{cursor}"), message).await;
            }
        }
        if commit { tx.commit().await } else { tx.rollback().await }.expect("ended");
    }
}

/// Writes as an application would.
pub(crate) async fn insert(conn: &mut sqlx::PgConnection, table: &str, message: &Message) {
    let sql = format!(
        r#"insert into "{table}" ("Id", "Type", "Key", "Body", "ContentType", "Headers", "OccurredAt")
           values ($1::uuid, $2, $3, $4, $5, $6::jsonb, $7::timestamptz)"#
    );
    sqlx::query(AssertSqlSafe(sql))
        .bind(uuid::Uuid::parse_str(message.id.as_str()).expect("a UUID"))
        .bind(&message.kind)
        .bind(&message.key)
        .bind(message.payload.to_vec())
        .bind(&message.content_type)
        .bind(serde_json::json!(message.headers).to_string())
        .bind(message.occurred_at.to_string())
        .execute(conn)
        .await
        .expect("inserted");
}

#[async_trait]
impl SourceFixture for Tables {
    type Source = Arc<dyn Source>;
    async fn enqueue(&self, messages: Vec<Message>) {
        self.write(&messages, true).await;
    }
    async fn roll_back(&self, messages: Vec<Message>) {
        self.write(&messages, false).await;
    }
    fn source(&self, cursor: &str) -> Arc<dyn Source> {
        let at = CURSORS.iter().position(|name| *name == cursor).expect("a cursor of the suite");
        self.tables[at].sources(&Reading::default()).remove(0)
    }
    async fn expire(&self, cursor: &str) {
        // As if the server had given up on a relay that fell silent, and time had passed.
        sqlx::query(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where application_name like 'outboxd%' and datname = current_database()",
        )
        .execute(&self.pool)
        .await
        .expect("ended");
        let sql = format!(
            r#"update "Outbox_{cursor}" set "ClaimedAt" = now() - interval '1 hour' where "ClaimedAt" is not null"#
        );
        sqlx::query(AssertSqlSafe(sql)).execute(&self.pool).await.expect("expired");
    }
}

impl StoreFixture for Tables {
    fn store(&self) -> Arc<dyn Store> {
        self.tables[0].store(true).expect("it can be written to")
    }
    fn source(&self) -> Arc<dyn Source> {
        self.tables[0].sources(&Reading::default()).remove(0)
    }
}
