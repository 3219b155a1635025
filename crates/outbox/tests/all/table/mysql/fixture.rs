//! A table with everything in it, in MariaDB, and what the suites need of it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use outbox::conformance::source::SourceFixture;
use outbox::conformance::store::StoreFixture;
use outbox::mysql::Table;
use outbox::table::{Draft, Mapping, Reading};
use outbox::{Message, Source, Store};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{AssertSqlSafe, MySqlConnection, MySqlPool};
use testbed::Database;

/// The tables, one for each cursor of the suite: a mapped table has one progress only.
const CURSORS: [&str; 2] = ["c", "other"];

pub(crate) const DDL: &str = "
    create table `Outbox_NAME` (
        `Seq` bigint not null auto_increment unique,
        `Id` char(36) primary key,
        `Type` varchar(200) not null,
        `Key` varchar(200),
        `Body` longblob,
        `ContentType` varchar(100),
        `Headers` json,
        `OccurredAt` datetime(6) not null,
        `SentAt` datetime(6),
        `Attempts` int not null default 0,
        `Error` varchar(200),
        `State` enum('new', 'sent', 'dead') not null default 'new',
        `ClaimedAt` datetime,
        index (`SentAt`, `Seq`)
    )";

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

/// A database of its own, and one connection to it.
pub(crate) async fn database() -> Option<(Database, MySqlPool)> {
    let database = testbed::mariadb().await?.database().await.expect("a database");
    let pool = MySqlPoolOptions::new().max_connections(1).connect(database.url()).await.expect("it is up");
    Some((database, pool))
}

/// A database with the tables in it.
pub(crate) struct Tables {
    pub(crate) database: Database,
    pub(crate) pool: MySqlPool,
    pub(crate) tables: Vec<Table>,
}

impl Tables {
    pub(crate) async fn new(draft: impl Fn(&str) -> Draft) -> Option<Self> {
        let (database, pool) = database().await?;
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
pub(crate) async fn insert(conn: &mut MySqlConnection, table: &str, message: &Message) {
    let sql = format!(
        "insert into `{table}` (`Id`, `Type`, `Key`, `Body`, `ContentType`, `Headers`, `OccurredAt`)
         values (?, ?, ?, ?, ?, ?, ?)"
    );
    sqlx::query(AssertSqlSafe(sql))
        .bind(message.id.as_str())
        .bind(&message.kind)
        .bind(&message.key)
        .bind(message.payload.to_vec())
        .bind(&message.content_type)
        .bind(serde_json::json!(message.headers).to_string())
        .bind(message.occurred_at.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string())
        .execute(conn)
        .await
        .expect("inserted");
}

/// Ends every session of this database but the one that asks, as the server does with those that fell silent.
pub(crate) async fn end_sessions(pool: &MySqlPool) {
    let ids: Vec<i64> = sqlx::query_scalar(
        "select cast(id as signed) from information_schema.processlist where db = database() and id <> connection_id()",
    )
    .fetch_all(pool)
    .await
    .expect("the sessions");
    for id in ids {
        // One that has just ended by itself is no matter.
        let _ = sqlx::raw_sql(AssertSqlSafe(format!("kill {id}"))).execute(pool).await;
    }
    let alive =
        "select count(*) from information_schema.processlist where db = database() and id <> connection_id()";
    while sqlx::query_scalar::<_, i64>(alive).fetch_one(pool).await.expect("counted") > 0 {
        tokio::task::yield_now().await;
    }
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
        end_sessions(&self.pool).await;
        let sql = format!(
            "update `Outbox_{cursor}` set `ClaimedAt` = utc_timestamp(6) - interval 1 hour where `ClaimedAt` is not null"
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
