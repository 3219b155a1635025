//! The ids that were handled: the [`Inbox`](crate::Inbox).

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::{QueryBuilder, Sqlite, SqlitePool, Transaction};

use super::{error, sql};
use crate::error::Result;
use crate::inbox::{Failure, Handler, Lent};
use crate::message::{Message, MessageId};

/// How long a function may take for one message, unless told otherwise. It has the only write lock of the database:
/// while it hangs nobody else writes, and a lease in the same file (30 s) cannot be renewed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The ids that consumers have handled, in the database in which they handle them.
#[derive(Debug, Clone)]
pub struct Inbox {
    pool: SqlitePool,
}

impl Inbox {
    /// The inbox in the database of this pool.
    pub fn new(pool: SqlitePool) -> Self {
        Self { pool }
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
        let mut new = HashSet::new();
        for chunk in ids.chunks(sql::CHUNK) {
            let mut query =
                QueryBuilder::<Sqlite>::new("INSERT INTO outbox_inbox (consumer, message_id, handled_at) ");
            query.push_values(chunk, |mut row, id| {
                row.push_bind(consumer.to_owned()).push_bind(id.as_str().to_owned());
                row.push("CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)");
            });
            query.push(" ON CONFLICT DO NOTHING RETURNING message_id");
            let recorded = query.build_query_scalar::<String>().fetch_all(&mut **tx).await;
            new.extend(recorded.map_err(error::from(&self.pool))?);
        }
        Ok(ids.iter().map(|id| new.contains(id.as_str())).collect())
    }

    async fn mark(&self, tx: &mut Self::Tx) -> Result<()> {
        let from = error::from(&self.pool);
        sqlx::query("RELEASE outbox_mark").execute(&mut **tx).await.map_err(&from)?;
        sqlx::query("SAVEPOINT outbox_mark").execute(&mut **tx).await.map_err(&from)?;
        Ok(())
    }

    async fn undo(&self, tx: &mut Self::Tx, consumer: &str, id: &MessageId) -> Result<()> {
        let from = error::from(&self.pool);
        sqlx::query("ROLLBACK TO outbox_mark").execute(&mut **tx).await.map_err(&from)?;
        sqlx::query("DELETE FROM outbox_inbox WHERE consumer = ? AND message_id = ?")
            .bind(consumer)
            .bind(id.as_str())
            .execute(&mut **tx)
            .await
            .map_err(&from)?;
        Ok(())
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        tx.commit().await.map_err(error::from(&self.pool))
    }

    async fn prune(&self, window: Duration, step: u32) -> Result<u64> {
        let pruned = sqlx::query(
            "DELETE FROM outbox_inbox WHERE (consumer, message_id) IN (
                 SELECT consumer, message_id FROM outbox_inbox
                 WHERE handled_at < CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER) - ?
                 ORDER BY handled_at LIMIT ?)",
        )
        .bind(i64::try_from(window.as_millis()).unwrap_or(i64::MAX))
        .bind(step)
        .execute(&self.pool)
        .await
        .map_err(error::from(&self.pool))?;
        Ok(pruned.rows_affected())
    }
}
