//! The ids that were handled: the [`Inbox`](crate::Inbox).

mod notes;
mod texts;

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, QueryBuilder, Row, Sqlite, SqlitePool, Transaction};

use super::{catalog, error, sql};
use crate::error::{Error, ErrorKind, Result};
use crate::inbox::{Failed, Failure, Handled, Handler, InboxTable, Lent};
use crate::message::{Message, MessageId};
use crate::schema::Type;
use texts::Shape;

/// How long a function may take for one message, unless told otherwise. It has the only write lock of the database:
/// while it hangs nobody else writes, and a lease in the same file (30 s) cannot be renewed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The database's clock, in milliseconds.
const NOW: &str = "CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)";

/// The ids that consumers have handled, in the database in which they handle them: in our table, or in one that
/// exists already.
#[derive(Debug, Clone)]
pub struct Inbox {
    pool: SqlitePool,
    shape: Arc<Shape>,
    is_mapped: bool,
}

impl Inbox {
    /// The inbox in the database of this pool.
    pub fn new(pool: SqlitePool) -> Self {
        Self { pool, shape: Arc::new(Shape::ours()), is_mapped: false }
    }

    /// An inbox in a table that exists already, checked against the catalogue. Nothing needs to be migrated for it;
    /// failed attempts are noted if `outbox_attempts` happens to be there.
    ///
    /// A time is written as text in UTC, or as milliseconds since 1970 where the column holds integers.
    pub async fn mapped(pool: SqlitePool, table: InboxTable) -> Result<Self> {
        let (columns, unique) = catalog::look_at(&pool, &table.table).await?;
        let mut seen = columns.clone();
        for column in &mut seen {
            let is_at = table.at.as_ref().is_some_and(|at| at.as_str() == column.name);
            if is_at && matches!(column.kind, Type::Text(_) | Type::Integer) {
                // There is no type for times here.
                column.kind = Type::Time { zoned: false };
            }
        }
        let keys = table.check(&seen, &unique)?;
        let shape = Arc::new(Shape::mapped(&table, &columns, keys));
        Ok(Self { pool, shape, is_mapped: true })
    }

    /// A sink that runs `function` once per message, in one transaction with the inbox; with a time limit of 10 s
    /// per message, because nobody else can write meanwhile.
    pub fn handler<F, Fut>(&self, consumer: impl Into<String>, function: F) -> Handler<Self, F>
    where
        F: Fn(Lent<Transaction<'static, Sqlite>>, Message) -> Fut + Send + Sync,
        Fut: Future<Output = Result<(), Failure>> + Send,
    {
        Handler::new(Arc::new(self.clone()), consumer, function).timeout(TIMEOUT)
    }

    /// A statement about an id, and about the consumer where there is a column for it.
    fn about<'q>(&self, text: String, id: String, consumer: &'q str) -> Query<'q, Sqlite, SqliteArguments> {
        let query = sqlx::query(AssertSqlSafe(text)).bind(id);
        if self.shape.has_consumer() { query.bind(consumer) } else { query }
    }

    /// One step of a statement that takes a window, a consumer if it asks for one, and a limit; tells how many rows went.
    async fn pruned(&self, text: String, window: Duration, consumer: Option<&str>, step: u32) -> Result<u64> {
        let window = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
        let mut query = sqlx::query(AssertSqlSafe(text)).bind(window);
        if let Some(consumer) = consumer {
            query = query.bind(consumer);
        }
        let pruned = query.bind(step).execute(&self.pool).await.map_err(error::from(&self.pool))?;
        Ok(pruned.rows_affected())
    }

    /// A mapped inbox needs no tables of ours: without them it keeps no notes.
    fn or_without_notes<T>(&self, told: Result<T>, without: T) -> Result<T> {
        match told {
            Err(error) if self.is_mapped && error.kind() == ErrorKind::NotMigrated => Ok(without),
            told => told,
        }
    }

    /// What the driver said of a statement on the table of ids; a mapped one cannot be migrated.
    fn failed(&self, error: sqlx::Error) -> Error {
        let error = error::classify(&self.pool, error);
        if self.is_mapped && error.kind() == ErrorKind::NotMigrated {
            return Error::new(ErrorKind::Mapping, "the table is not as the mapping says").caused_by(error);
        }
        error
    }
}

#[async_trait]
impl crate::Inbox for Inbox {
    type Tx = Transaction<'static, Sqlite>;

    /// Takes the write lock at once: two that read first and wrote later would both fail.
    ///
    /// The mark is set from the start, so that there always is one to release. If it is gone, the transaction
    /// was rolled back beneath us (a full disk does that), and what follows must not be committed on its own.
    async fn begin(&self) -> Result<Self::Tx> {
        let from = error::from(&self.pool);
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(&from)?;
        sqlx::query("SAVEPOINT outbox_mark").execute(&mut *tx).await.map_err(&from)?;
        Ok(tx)
    }

    async fn record(&self, tx: &mut Self::Tx, consumer: &str, ids: &[&MessageId]) -> Result<Vec<bool>> {
        let (shape, mut new) = (&self.shape, HashSet::new());
        shape.keys.check_consumer(consumer)?;
        let texts = ids.iter().map(|id| shape.keys.id(id)).collect::<Result<Vec<_>>>()?;
        for chunk in texts.chunks(sql::CHUNK) {
            let mut query = QueryBuilder::<Sqlite>::new(shape.insert());
            query.push_values(chunk, |mut row, id| {
                row.push_bind(id.clone());
                if shape.has_consumer() {
                    row.push_bind(consumer.to_owned());
                }
                if let Some(now) = shape.now() {
                    row.push(now);
                }
            });
            query.push(" ON CONFLICT DO NOTHING RETURNING ").push(&shape.id);
            let recorded = query.build_query_scalar::<String>().fetch_all(&mut **tx).await;
            new.extend(recorded.map_err(|error| self.failed(error))?);
        }
        Ok(texts.iter().map(|id| new.contains(id)).collect())
    }

    /// In one request: it comes before every message, and costs as much as the statement of a short handler.
    async fn mark(&self, tx: &mut Self::Tx) -> Result<()> {
        let marked = sqlx::query("RELEASE outbox_mark; SAVEPOINT outbox_mark").execute(&mut **tx).await;
        marked.map(drop).map_err(error::from(&self.pool))
    }

    async fn undo(&self, tx: &mut Self::Tx, consumer: &str, id: &MessageId) -> Result<()> {
        let failed = |error| self.failed(error);
        sqlx::query("ROLLBACK TO outbox_mark").execute(&mut **tx).await.map_err(failed)?;
        let id = self.shape.keys.id(id)?;
        let forgotten = self.about(self.shape.forget(), id, consumer).execute(&mut **tx).await;
        forgotten.map(drop).map_err(failed)
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        tx.commit().await.map_err(error::from(&self.pool))
    }

    async fn known(&self, consumer: &str, ids: &[&MessageId]) -> Result<Vec<bool>> {
        let mut conn = self.pool.acquire().await.map_err(error::from(&self.pool))?;
        let mut known = Vec::with_capacity(ids.len());
        for id in ids {
            let Ok(id) = self.shape.keys.id(id) else {
                known.push(false);
                continue;
            };
            let found = self.about(self.shape.is_known(), id, consumer).fetch_one(&mut *conn).await;
            known.push(found.map_err(|error| self.failed(error))?.get(0));
        }
        Ok(known)
    }

    async fn note(&self, consumer: &str, failures: &[Failed<'_>]) -> Result<()> {
        let noted = notes::write(&self.pool, consumer, failures).await;
        self.or_without_notes(noted.map_err(error::from(&self.pool)), ())
    }

    async fn history(&self, id: &MessageId) -> Result<Vec<Handled>> {
        let notes = notes::of(&self.pool, id).await.map_err(error::from(&self.pool));
        let mut all = self.or_without_notes(notes, Vec::new())?;
        // What this table cannot keep it has not kept.
        let Ok(text) = self.shape.keys.id(id) else { return Ok(all) };
        let rows = sqlx::query(AssertSqlSafe(self.shape.handled())).bind(text).fetch_all(&self.pool).await;
        all.extend(rows.map_err(|error| self.failed(error))?.iter().map(|row| Handled {
            consumer: self.shape.owner.clone().unwrap_or_else(|| row.get("consumer")),
            at: row.get::<Option<i64>, _>("at").and_then(|at| Timestamp::from_millisecond(at).ok()),
            failed: None,
        }));
        Ok(Handled::in_order(all))
    }

    async fn prune(&self, consumer: &str, window: Duration, step: u32) -> Result<u64> {
        let whose = self.shape.has_consumer().then_some(consumer);
        let ids = match self.shape.prune() {
            Some(text) => self.pruned(text, window, whose, step).await?,
            None => 0,
        };
        let left = step.saturating_sub(u32::try_from(ids).unwrap_or(u32::MAX));
        let notes = self.pruned(notes::PRUNE.to_owned(), window, Some(consumer), left).await;
        Ok(ids + self.or_without_notes(notes, 0)?)
    }
}
