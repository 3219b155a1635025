//! The inbox: ids in a table, in the handler's own transaction.

mod notes;
mod texts;

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgPool};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres, Row, Transaction};

use super::row::At;
use super::table::{self, classify};
use crate::error::{ErrorKind, Result};
use crate::inbox::{Failed, Failure, Handled, Handler, InboxTable, Lent};
use crate::message::{Message, MessageId};
use texts::Shape;

/// With the first savepoint, and with a limit for silence: a consumer that is halted, or whose host is gone, would
/// otherwise keep its ids locked, and whoever takes over would wait for them without end.
const BEGIN: &str = "
    begin; set local idle_in_transaction_session_timeout = '5min'; savepoint outbox_message";

/// The ids that consumers have handled, in PostgreSQL: in our table, or in one that exists already.
#[derive(Debug, Clone)]
pub struct Inbox {
    pool: PgPool,
    shape: Arc<Shape>,
    is_mapped: bool,
}

impl Inbox {
    /// The inbox of this database.
    pub fn new(pool: PgPool) -> Self {
        Self { pool, shape: Arc::new(Shape::ours()), is_mapped: false }
    }

    /// An inbox in a table that exists already, checked against the catalogue. Nothing needs to be migrated for it;
    /// failed attempts are noted if `outbox.attempts` happens to be there.
    pub async fn mapped(pool: PgPool, table: InboxTable) -> Result<Self> {
        let (columns, unique) = table::look_at(&pool, &table.table).await?;
        let keys = table.check(&columns, &unique)?;
        let shape = Arc::new(Shape::mapped(&table, &columns, keys));
        Ok(Self { pool, shape, is_mapped: true })
    }

    /// A sink that runs `function` once per message, in one transaction with the inbox.
    pub fn handler<F, Fut>(&self, consumer: impl Into<String>, function: F) -> Handler<Self, F>
    where
        F: Fn(Lent<Transaction<'static, Postgres>>, Message) -> Fut + Send + Sync,
        Fut: Future<Output = Result<(), Failure>> + Send,
    {
        Handler::new(Arc::new(self.clone()), consumer, function)
    }

    pub(super) fn pool(&self) -> &PgPool {
        &self.pool
    }

    fn failed(&self, doing: &'static str) -> impl Fn(sqlx::Error) -> crate::Error + use<> {
        let is_mapped = self.is_mapped;
        move |error| if is_mapped { classify(error, doing) } else { super::error::classify(error, doing) }
    }

    /// A statement whose second value is the consumer, where there is a column for it.
    fn query<'q, T>(&self, text: String, first: T, consumer: &'q str) -> Query<'q, Postgres, PgArguments>
    where
        T: 'q + sqlx::Encode<'q, Postgres> + sqlx::Type<Postgres>,
    {
        let query = sqlx::query(AssertSqlSafe(text)).persistent(false).bind(first);
        if self.shape.has_consumer() { query.bind(consumer) } else { query }
    }
}

#[async_trait]
impl crate::Inbox for Inbox {
    type Tx = Transaction<'static, Postgres>;

    async fn begin(&self) -> Result<Self::Tx> {
        let failed = self.failed("opening the handler's transaction");
        self.pool.begin_with(BEGIN).await.map_err(failed)
    }

    async fn record(&self, tx: &mut Self::Tx, consumer: &str, ids: &[&MessageId]) -> Result<Vec<bool>> {
        self.shape.keys.check_consumer(consumer)?;
        let texts = ids.iter().map(|id| self.shape.keys.id(id)).collect::<Result<Vec<_>>>()?;
        let rows = self.query(self.shape.record(), texts.clone(), consumer).fetch_all(&mut **tx).await;
        let rows = rows.map_err(self.failed("recording in the inbox"))?;
        let new: HashSet<String> = rows.iter().map(|row| row.get("id")).collect();
        Ok(texts.iter().map(|id| new.contains(id)).collect())
    }

    async fn mark(&self, tx: &mut Self::Tx) -> Result<()> {
        // Without the release the older savepoint would live on behind the new one, and cost memory.
        let statements = "release savepoint outbox_message; savepoint outbox_message";
        let marked = sqlx::raw_sql(statements).execute(&mut **tx).await;
        marked.map(drop).map_err(self.failed("setting a savepoint"))
    }

    async fn undo(&self, tx: &mut Self::Tx, consumer: &str, id: &MessageId) -> Result<()> {
        let failed = self.failed("undoing what a handler did");
        sqlx::raw_sql("rollback to savepoint outbox_message").execute(&mut **tx).await.map_err(&failed)?;
        let id = self.shape.keys.id(id)?;
        let forgotten = self.query(self.shape.forget(), id, consumer).execute(&mut **tx).await;
        forgotten.map(drop).map_err(failed)
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        tx.commit().await.map_err(self.failed("committing what handlers did"))
    }

    async fn known(&self, consumer: &str, ids: &[&MessageId]) -> Result<Vec<bool>> {
        let failed = self.failed("looking into the inbox");
        self.shape.keys.check_consumer(consumer)?;
        let texts: Vec<Option<String>> = ids.iter().map(|id| self.shape.keys.id(id).ok()).collect();
        let mut tx = self.pool.begin().await.map_err(&failed)?;
        let rows = self.query(self.shape.known(), texts, consumer).fetch_all(&mut *tx).await;
        let known = rows.map_err(&failed)?.iter().map(|row| row.get("known")).collect();
        tx.rollback().await.map_err(failed)?;
        Ok(known)
    }

    async fn note(&self, consumer: &str, failures: &[Failed<'_>]) -> Result<()> {
        let noted = notes::write(&self.pool, consumer, failures).await;
        self.or_without_notes(noted, ())
    }

    async fn history(&self, id: &MessageId) -> Result<Vec<Handled>> {
        let mut all = self.or_without_notes(notes::of(&self.pool, id).await, Vec::new())?;
        // What this table cannot keep it has not kept.
        let Ok(text) = self.shape.keys.id(id) else { return Ok(all) };
        let failed = self.failed("looking into the inbox");
        let mut tx = self.pool.begin().await.map_err(&failed)?;
        let query = sqlx::query(AssertSqlSafe(self.shape.handled())).persistent(false).bind(text);
        let rows = query.fetch_all(&mut *tx).await.map_err(&failed)?;
        tx.rollback().await.map_err(failed)?;
        all.extend(rows.iter().map(|row| Handled {
            consumer: self.shape.owner.clone().unwrap_or_else(|| row.get("consumer")),
            at: row.get::<Option<At>, _>("at").map(|at| at.0),
            failed: None,
        }));
        Ok(Handled::in_order(all))
    }

    async fn prune(&self, consumer: &str, window: Duration, step: u32) -> Result<u64> {
        let whose = self.shape.has_consumer().then_some(consumer);
        let ids = match self.shape.prune() {
            Some(text) => notes::prune(&self.pool, text, window, whose, step).await,
            None => Ok(0),
        };
        let ids = ids.map_err(self.failed("pruning the inbox"))?;
        let left = step.saturating_sub(u32::try_from(ids).unwrap_or(u32::MAX));
        let notes = notes::prune(&self.pool, notes::PRUNE.to_owned(), window, Some(consumer), left).await;
        let notes =
            notes.map_err(|error| super::error::classify(error, "pruning the notes of failed attempts"));
        Ok(ids + self.or_without_notes(notes, 0)?)
    }
}

impl Inbox {
    /// A mapped inbox needs no tables of ours: without them it keeps no notes.
    fn or_without_notes<T>(&self, told: Result<T>, without: T) -> Result<T> {
        match told {
            Err(error) if self.is_mapped && error.kind() == ErrorKind::NotMigrated => Ok(without),
            told => told,
        }
    }
}
