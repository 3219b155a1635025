//! SQLite: a file of its own for every run.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use outbox::admin::Admin;
use outbox::sqlite::Outbox;
use outbox::{Failure, Message, Pipe};
use sqlx::{AssertSqlSafe, Connection as _, Row, SqliteConnection};
use tokio_util::sync::CancellationToken;

use super::super::load::{Load, TYPE};
use super::super::relay::PIPE;
use super::{Act, BATCH, message};

/// What an application and a handler write to.
const TABLES: &str = "
    CREATE TABLE bench_orders (id INTEGER PRIMARY KEY, note TEXT NOT NULL);
    CREATE TABLE bench_plain (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, key TEXT,
        content_type TEXT NOT NULL, headers TEXT NOT NULL, occurred_at TEXT NOT NULL, payload BLOB NOT NULL);
    CREATE TABLE bench_effects (id TEXT NOT NULL, n INTEGER NOT NULL);";

/// Messages that are written by one statement.
const STEP: u64 = 100_000;

/// A folder for databases.
pub(crate) struct Sqlite {
    folder: PathBuf,
    made: AtomicU32,
}

/// One database.
pub(crate) struct Log {
    outbox: Outbox,
    pub(super) url: String,
}

/// A session of an application.
pub(crate) struct Writer {
    outbox: Outbox,
    connection: SqliteConnection,
}

impl Sqlite {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, made: AtomicU32::new(0) }
    }

    pub(super) async fn version(&self) -> anyhow::Result<String> {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await?;
        let version: String = sqlx::query("SELECT sqlite_version()").fetch_one(&mut connection).await?.get(0);
        Ok(format!("SQLite {version}"))
    }

    pub(super) async fn fresh(&self) -> anyhow::Result<Log> {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        if let Some(before) = number.checked_sub(1) {
            for suffix in ["", "-wal", "-shm"] {
                let _ = std::fs::remove_file(self.folder.join(format!("bench-{before}.db{suffix}")));
            }
        }
        let url = format!("sqlite:{}", self.folder.join(format!("bench-{number}.db")).display());
        let outbox = Outbox::connect(&url).await?;
        outbox.migrate().await?;
        sqlx::raw_sql(TABLES).execute(outbox.pool()).await?;
        Ok(Log { outbox, url })
    }
}

impl Log {
    pub(super) async fn fill(&self, load: Load, from: u64) -> anyhow::Result<()> {
        let payload =
            load.payload_sql(|times| format!("replace(hex(zeroblob({})), '0', 'x')", times.div_ceil(2)));
        let insert = format!(
            "WITH RECURSIVE numbers(n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < ?2)
             INSERT INTO outbox_messages (type, key, payload) SELECT '{TYPE}', {}, {payload} FROM numbers",
            load.key_sql()
        );
        let end = from + load.messages;
        let mut next = from;
        while next < end {
            let until = end.min(next + STEP);
            let insert = sqlx::query(AssertSqlSafe(insert.clone()));
            insert.bind(i64::try_from(next)?).bind(i64::try_from(until)?).execute(self.outbox.pool()).await?;
            next = until;
        }
        Ok(())
    }

    pub(super) async fn delivered(&self) -> anyhow::Result<u64> {
        self.number("SELECT coalesce(sum(delivered), 0) FROM outbox_cursors").await
    }

    pub(super) async fn effects(&self) -> anyhow::Result<u64> {
        self.number("SELECT coalesce(max(rowid), 0) FROM bench_effects").await
    }

    pub(super) async fn all_effects(&self) -> anyhow::Result<u64> {
        self.number("SELECT count(*) FROM bench_effects").await
    }

    async fn number(&self, query: &'static str) -> anyhow::Result<u64> {
        let number: i64 = sqlx::query(query).fetch_one(self.outbox.pool()).await?.get(0);
        Ok(number.unsigned_abs())
    }

    pub(super) async fn two_statements(&self, messages: &[Message]) -> anyhow::Result<()> {
        let mut connection = self.connection().await?;
        for batch in messages.chunks(usize::try_from(BATCH)?) {
            let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
            for (number, message) in batch.iter().enumerate() {
                sqlx::query("INSERT INTO outbox_inbox (consumer, message_id, handled_at) VALUES (?, ?, ?)")
                    .bind(PIPE)
                    .bind(message.id.as_str())
                    .bind(message.occurred_at.as_millisecond())
                    .execute(&mut *tx)
                    .await?;
                sqlx::query("INSERT INTO bench_effects (id, n) VALUES (?, ?)")
                    .bind(message.id.as_str())
                    .bind(i64::try_from(number)?)
                    .execute(&mut *tx)
                    .await?;
            }
            tx.commit().await?;
        }
        Ok(())
    }

    pub(super) async fn function(&self, count: u64) -> anyhow::Result<()> {
        let handler = self.outbox.inbox().handler("function", |mut tx, message: Message| async move {
            sqlx::query("INSERT INTO bench_effects (id, n) VALUES (?, ?)")
                .bind(message.id.as_str())
                .bind(i64::try_from(message.payload.len())?)
                .execute(&mut *tx)
                .await?;
            Ok::<(), Failure>(())
        });
        let pipe = Pipe::new(self.outbox.cursor("function"), handler).batch(usize::try_from(BATCH)?);
        let (stats, stop) = (pipe.stats(), CancellationToken::new());
        let running = tokio::spawn(pipe.concurrency(1).run(stop.clone()));
        while stats.delivered() < count && !running.is_finished() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.cancel();
        Ok(running.await??)
    }

    pub(super) async fn purge(&self) -> anyhow::Result<()> {
        while self.outbox.purge(Duration::ZERO, 10_000, false).await? > 0 {}
        Ok(())
    }

    pub(super) async fn writer(&self) -> anyhow::Result<Writer> {
        Ok(Writer { outbox: self.outbox.clone(), connection: self.connection().await? })
    }

    async fn connection(&self) -> anyhow::Result<SqliteConnection> {
        Ok(SqliteConnection::connect_with(&self.outbox.pool().connect_options()).await?)
    }
}

impl Writer {
    pub(super) async fn write(&mut self, act: Act, load: Load, number: u64) -> anyhow::Result<()> {
        let mut tx = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        if act.has_order() {
            sqlx::query("INSERT INTO bench_orders (note) VALUES (?)")
                .bind("an order of somebody, with a few words to it")
                .execute(&mut *tx)
                .await?;
        }
        match act {
            Act::Order => {}
            Act::OrderAndRow => {
                let message = message(load, number);
                sqlx::query(
                    "INSERT INTO bench_plain (id, type, key, content_type, headers, occurred_at, payload)
                     VALUES (?, ?, ?, ?, '{}', ?, ?)",
                )
                .bind(message.id.as_str())
                .bind(&message.kind)
                .bind(&message.key)
                .bind(&message.content_type)
                .bind(message.occurred_at.to_string())
                .bind(&message.payload[..])
                .execute(&mut *tx)
                .await?;
            }
            Act::Event | Act::OrderAndEvent => {
                self.outbox.enqueue(&mut tx, message(load, number)).await?;
            }
        }
        Ok(tx.commit().await?)
    }

    pub(super) async fn write_many(&mut self, load: Load, numbers: Range<u64>) -> anyhow::Result<()> {
        let mut tx = self.connection.begin_with("BEGIN IMMEDIATE").await?;
        for number in numbers {
            self.outbox.enqueue(&mut tx, message(load, number)).await?;
        }
        Ok(tx.commit().await?)
    }
}
