//! The inbox: ids in a table, in the handler's own transaction.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgPool;
use sqlx::{Postgres, Row, Transaction};

use super::error::classify;
use crate::error::Result;
use crate::inbox::{Failure, Handler, Lent};
use crate::message::{Message, MessageId};

/// With the first savepoint, and with a limit for silence: a consumer that is halted, or whose host is gone, would
/// otherwise keep its ids locked, and whoever takes over would wait for them without end.
const BEGIN: &str = "
    begin; set local idle_in_transaction_session_timeout = '5min'; savepoint outbox_message";

const RECORD: &str = "
    insert into outbox.inbox (consumer, message_id) select $1, unnest($2::text[])
    on conflict do nothing returning message_id";

const FORGET: &str = "delete from outbox.inbox where consumer = $1 and message_id = $2";

const PRUNE: &str = "
    delete from outbox.inbox where (consumer, message_id) in (
        select consumer, message_id from outbox.inbox
        where handled_at < clock_timestamp() - $1::bigint * interval '1 millisecond' order by handled_at limit $2)";

/// The ids that consumers have handled, in PostgreSQL.
#[derive(Debug, Clone)]
pub struct Inbox {
    pool: PgPool,
}

impl Inbox {
    /// The inbox of this database.
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// A sink that runs `function` once per message, in one transaction with the inbox.
    pub fn handler<F, Fut>(&self, consumer: impl Into<String>, function: F) -> Handler<Self, F>
    where
        F: Fn(Lent<Transaction<'static, Postgres>>, Message) -> Fut + Send + Sync,
        Fut: Future<Output = Result<(), Failure>> + Send,
    {
        Handler::new(Arc::new(self.clone()), consumer, function)
    }
}

#[async_trait]
impl crate::Inbox for Inbox {
    type Tx = Transaction<'static, Postgres>;

    async fn begin(&self) -> Result<Self::Tx> {
        self.pool
            .begin_with(BEGIN)
            .await
            .map_err(|error| classify(error, "opening the handler's transaction"))
    }

    async fn record(&self, tx: &mut Self::Tx, consumer: &str, ids: &[&MessageId]) -> Result<Vec<bool>> {
        let texts: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
        let rows = sqlx::query(RECORD).bind(consumer).bind(texts).persistent(false);
        let rows =
            rows.fetch_all(&mut **tx).await.map_err(|error| classify(error, "recording in the inbox"))?;
        let new: std::collections::HashSet<String> = rows.iter().map(|row| row.get("message_id")).collect();
        Ok(ids.iter().map(|id| new.contains(id.as_str())).collect())
    }

    async fn mark(&self, tx: &mut Self::Tx) -> Result<()> {
        // Without the release the older savepoint would live on behind the new one, and cost memory.
        let statements = "release savepoint outbox_message; savepoint outbox_message";
        sqlx::raw_sql(statements)
            .execute(&mut **tx)
            .await
            .map_err(|error| classify(error, "setting a savepoint"))?;
        Ok(())
    }

    async fn undo(&self, tx: &mut Self::Tx, consumer: &str, id: &MessageId) -> Result<()> {
        let failed = |error| classify(error, "undoing what a handler did");
        sqlx::raw_sql("rollback to savepoint outbox_message").execute(&mut **tx).await.map_err(failed)?;
        let forget = sqlx::query(FORGET).bind(consumer).bind(id.as_str()).persistent(false);
        forget.execute(&mut **tx).await.map_err(failed)?;
        Ok(())
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        tx.commit().await.map_err(|error| classify(error, "committing what handlers did"))
    }

    async fn prune(&self, window: Duration, step: u32) -> Result<u64> {
        let failed = |error| classify(error, "pruning the inbox");
        let window = i64::try_from(window.as_millis()).unwrap_or(i64::MAX);
        let mut tx = self.pool.begin().await.map_err(failed)?;
        let pruned = sqlx::query(PRUNE).bind(window).bind(i64::from(step)).persistent(false);
        let pruned = pruned.execute(&mut *tx).await.map_err(failed)?.rows_affected();
        tx.commit().await.map_err(failed)?;
        Ok(pruned)
    }
}
