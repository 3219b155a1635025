//! The inbox: ids in a table, in the handler's own transaction.

mod notes;
mod texts;

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::mysql::MySqlPool;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, Row, Transaction};

use super::error::{classify, classify_ours, number};
use super::table::look_at;
use crate::error::{Error, ErrorKind, Result};
use crate::inbox::{Failed, Failure, Handled, Handler, InboxTable, Lent};
use crate::message::{Message, MessageId};
use texts::Shape;

/// With the first savepoint. At REPEATABLE READ, the default, a look that comes after somebody else's commit would
/// not see what was recorded there, and a record would lock the gaps between ids.
const BEGIN: &str =
    "set transaction isolation level read committed; start transaction; savepoint outbox_message";

/// How many ids a statement has.
const CHUNK: usize = 200;

/// How often somebody else may come in between before we give up for now.
const TRIES: usize = 10;

/// A key that is there already.
const DUPLICATE: u16 = 1062;

/// No such savepoint.
const NO_SAVEPOINT: u16 = 1305;

/// The ids that consumers have handled, in MariaDB or MySQL: in our table, or in one that exists already.
///
/// An id has at most 255 characters here, and does not end with a space, which the server would not tell from one
/// without; a message with another id is refused.
#[derive(Debug, Clone)]
pub struct Inbox {
    pool: MySqlPool,
    shape: Arc<Shape>,
    is_mapped: bool,
}

impl Inbox {
    /// The inbox of this database. [`connect`](super::connect()) makes a pool that is fit for it.
    pub fn new(pool: MySqlPool) -> Self {
        Self { pool, shape: Arc::new(Shape::ours()), is_mapped: false }
    }

    /// An inbox in a table that exists already, checked against the catalogue. Nothing needs to be migrated for it;
    /// failed attempts are noted if `outbox_attempts` happens to be there. Times are UTC.
    pub async fn mapped(pool: MySqlPool, table: InboxTable) -> Result<Self> {
        let (columns, unique) = look_at(&pool, &table.table).await?;
        let keys = table.check(&columns, &unique)?;
        let shape = Arc::new(Shape::mapped(&table, &columns, keys));
        Ok(Self { pool, shape, is_mapped: true })
    }

    /// A sink that runs `function` once per message, in one transaction with the inbox.
    pub fn handler<F, Fut>(&self, consumer: impl Into<String>, function: F) -> Handler<Self, F>
    where
        F: Fn(Lent<Transaction<'static, MySql>>, Message) -> Fut + Send + Sync,
        Fut: Future<Output = Result<(), Failure>> + Send,
    {
        Handler::new(Arc::new(self.clone()), consumer, function)
    }

    fn failed(&self, doing: &'static str) -> impl Fn(sqlx::Error) -> Error + use<> {
        let is_mapped = self.is_mapped;
        move |error| if is_mapped { classify(error, doing) } else { classify_ours(error, doing) }
    }

    /// The id as the column has it.
    fn text(&self, id: &MessageId) -> Result<String> {
        let text = self.shape.keys.id(id)?;
        // Texts are compared as if both were filled up with spaces.
        if text.ends_with(' ') {
            let why = "the id ends with a space, which MySQL does not tell from one without";
            return Err(Error::new(ErrorKind::Invalid, why));
        }
        Ok(text)
    }

    /// Which of the ids are there.
    async fn find(
        &self,
        conn: &mut MySqlConnection,
        consumer: &str,
        ids: &[&str],
    ) -> sqlx::Result<HashSet<String>> {
        let mut query = sqlx::query_scalar::<_, String>(AssertSqlSafe(self.shape.find(ids.len())));
        if self.shape.has_consumer() {
            query = query.bind(consumer);
        }
        for id in ids {
            query = query.bind(*id);
        }
        Ok(query.fetch_all(conn).await?.into_iter().collect())
    }

    async fn insert(&self, conn: &mut MySqlConnection, consumer: &str, ids: &[&str]) -> sqlx::Result<bool> {
        let mut query = sqlx::query(AssertSqlSafe(self.shape.insert(ids.len())));
        for id in ids {
            query = query.bind(*id);
            if self.shape.has_consumer() {
                query = query.bind(consumer);
            }
        }
        match query.execute(conn).await {
            Ok(_) => Ok(true),
            // Only the statement is undone, the transaction lives on.
            Err(error) if number(&error) == Some(DUPLICATE) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Records what is not there; tells what it was. `insert ignore` would say nothing of which, and keep silent
    /// about every other mistake; so we look, insert, and look again if somebody was faster.
    async fn record_chunk(
        &self,
        conn: &mut MySqlConnection,
        consumer: &str,
        ids: &[&str],
    ) -> sqlx::Result<Option<HashSet<String>>> {
        for _ in 0..TRIES {
            let known = self.find(&mut *conn, consumer, ids).await?;
            let rest: Vec<&str> = ids.iter().copied().filter(|id| !known.contains(*id)).collect();
            if rest.is_empty() || self.insert(&mut *conn, consumer, &rest).await? {
                return Ok(Some(rest.into_iter().map(str::to_owned).collect()));
            }
        }
        Ok(None)
    }

    /// The same, where only the column knows which ids are one.
    async fn record_each(
        &self,
        conn: &mut MySqlConnection,
        consumer: &str,
        ids: &[&str],
    ) -> sqlx::Result<HashSet<String>> {
        let mut new = HashSet::new();
        for id in ids {
            if self.insert(&mut *conn, consumer, &[id]).await? {
                new.insert((*id).to_owned());
            }
        }
        Ok(new)
    }

    /// One step of a statement that takes a consumer if it asks for one, a window and a limit; tells how many rows went.
    async fn pruned(
        &self,
        text: String,
        consumer: Option<&str>,
        window: Duration,
        step: u32,
    ) -> sqlx::Result<u64> {
        let window = i64::try_from(window.as_micros()).unwrap_or(i64::MAX);
        let mut query = sqlx::query(AssertSqlSafe(text)).persistent(false);
        if let Some(consumer) = consumer {
            query = query.bind(consumer);
        }
        let query = query.bind(window).bind(step);
        Ok(query.execute(&self.pool).await?.rows_affected())
    }

    /// A mapped inbox needs no tables of ours: without them it keeps no notes.
    fn or_without_notes<T>(&self, told: sqlx::Result<T>, doing: &'static str, without: T) -> Result<T> {
        match told.map_err(|error| classify_ours(error, doing)) {
            Err(error) if self.is_mapped && error.kind() == ErrorKind::NotMigrated => Ok(without),
            told => told,
        }
    }
}

/// A savepoint is gone when the transaction was ended beneath us: by a deadlock that a handler did not pass on, or by
/// a statement that commits, such as one that makes a table. What follows must not be committed on its own.
fn ended(error: sqlx::Error, doing: &'static str) -> Error {
    if number(&error) == Some(NO_SAVEPOINT) {
        let why = "the transaction was ended by what a handler did: a statement that commits, or a deadlock";
        return Error::new(ErrorKind::Unexpected, why).caused_by(error).while_doing(doing);
    }
    classify(error, doing)
}

#[async_trait]
impl crate::Inbox for Inbox {
    type Tx = Transaction<'static, MySql>;

    async fn begin(&self) -> Result<Self::Tx> {
        self.pool.begin_with(BEGIN).await.map_err(self.failed("opening the handler's transaction"))
    }

    async fn record(&self, tx: &mut Self::Tx, consumer: &str, ids: &[&MessageId]) -> Result<Vec<bool>> {
        let failed = self.failed("recording in the inbox");
        self.shape.keys.check_consumer(consumer)?;
        let texts = ids.iter().map(|id| self.text(id)).collect::<Result<Vec<_>>>()?;
        // Whoever records the same ones does so in the same order, and waits instead of forming a deadlock.
        let mut order: Vec<&str> = texts.iter().map(String::as_str).collect();
        order.sort_unstable();
        let mut new = HashSet::new();
        for chunk in order.chunks(CHUNK) {
            let recorded = if self.shape.is_exact {
                self.record_chunk(tx, consumer, chunk).await
            } else {
                self.record_each(tx, consumer, chunk).await.map(Some)
            };
            let Some(recorded) = recorded.map_err(&failed)? else {
                let why = "recording in the inbox: others record the same ids all the time";
                return Err(Error::new(ErrorKind::Busy, why));
            };
            new.extend(recorded);
        }
        Ok(texts.iter().map(|id| new.contains(id)).collect())
    }

    async fn mark(&self, tx: &mut Self::Tx) -> Result<()> {
        // The release is the proof that the transaction is still the one that was opened.
        let statements = "release savepoint outbox_message; savepoint outbox_message";
        let marked = sqlx::raw_sql(statements).execute(&mut **tx).await;
        marked.map(drop).map_err(|error| ended(error, "setting a savepoint"))
    }

    async fn undo(&self, tx: &mut Self::Tx, consumer: &str, id: &MessageId) -> Result<()> {
        let doing = "undoing what a handler did";
        let undone = sqlx::raw_sql("rollback to savepoint outbox_message").execute(&mut **tx).await;
        undone.map_err(|error| ended(error, doing))?;
        let mut query = sqlx::query(AssertSqlSafe(self.shape.forget()));
        if self.shape.has_consumer() {
            query = query.bind(consumer);
        }
        let forgotten = query.bind(self.text(id)?).execute(&mut **tx).await;
        forgotten.map(drop).map_err(self.failed(doing))
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        tx.commit().await.map_err(self.failed("committing what handlers did"))
    }

    async fn known(&self, consumer: &str, ids: &[&MessageId]) -> Result<Vec<bool>> {
        let failed = self.failed("looking into the inbox");
        self.shape.keys.check_consumer(consumer)?;
        let texts: Vec<Option<String>> = ids.iter().map(|id| self.text(id).ok()).collect();
        let asked: Vec<&str> = texts.iter().flatten().map(String::as_str).collect();
        let mut conn = self.pool.acquire().await.map_err(&failed)?;
        let mut known = HashSet::new();
        for chunk in asked.chunks(if self.shape.is_exact { CHUNK } else { 1 }) {
            let found = self.find(&mut conn, consumer, chunk).await.map_err(&failed)?;
            // Of one alone any answer means that it is there, however it is spelt.
            if let ([id], false) = (chunk, found.is_empty()) {
                known.insert((*id).to_owned());
            }
            known.extend(found);
        }
        Ok(texts.iter().map(|id| id.as_ref().is_some_and(|id| known.contains(id))).collect())
    }

    async fn note(&self, consumer: &str, failures: &[Failed<'_>]) -> Result<()> {
        let noted = notes::write(&self.pool, consumer, failures).await;
        self.or_without_notes(noted, "noting failed attempts", ())
    }

    async fn history(&self, id: &MessageId) -> Result<Vec<Handled>> {
        let notes = notes::of(&self.pool, id).await;
        let mut all = self.or_without_notes(notes, "reading the notes of failed attempts", Vec::new())?;
        // What this table cannot keep it has not kept.
        let Ok(text) = self.text(id) else { return Ok(all) };
        let query = sqlx::query(AssertSqlSafe(self.shape.handled())).bind(text).persistent(false);
        let rows = query.fetch_all(&self.pool).await.map_err(self.failed("looking into the inbox"))?;
        all.extend(rows.iter().map(|row| Handled {
            consumer: self.shape.owner.clone().unwrap_or_else(|| row.get("consumer")),
            at: row.get::<Option<i64>, _>("at").and_then(|at| Timestamp::from_microsecond(at).ok()),
            failed: None,
        }));
        Ok(Handled::in_order(all))
    }

    async fn prune(&self, consumer: &str, window: Duration, step: u32) -> Result<u64> {
        let whose = self.shape.has_consumer().then_some(consumer);
        let ids = match self.shape.prune() {
            Some(text) => self.pruned(text, whose, window, step).await,
            None => Ok(0),
        };
        let ids = ids.map_err(self.failed("pruning the inbox"))?;
        let left = step.saturating_sub(u32::try_from(ids).unwrap_or(u32::MAX));
        let notes = self.pruned(notes::PRUNE.to_owned(), Some(consumer), window, left).await;
        Ok(ids + self.or_without_notes(notes, "pruning the notes of failed attempts", 0)?)
    }
}
