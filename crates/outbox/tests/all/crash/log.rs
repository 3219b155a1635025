//! The log as the parent uses it: to write to it, and to see what is settled.

use outbox::{postgres, sqlite};
use sqlx::Row;

use super::ledger::Ledger;

/// The log that a test writes to.
pub(super) enum Log {
    Sqlite(sqlite::Outbox),
    Postgres(postgres::Outbox),
}

/// What the rows of the cursor say.
#[derive(Debug, Clone, Default)]
pub(super) struct Stand {
    /// Messages settled as done. Every settle adds to it what it settles, so a message counts once or is lost.
    pub(super) delivered: u64,
    /// How often the cursor was taken.
    pub(super) taken: u64,
    pub(super) owner: Option<String>,
}

impl Log {
    /// Writes two transactions, of which some are rolled back, and notes what is committed.
    pub(super) async fn write(&self, ledger: &mut Ledger) {
        let drafts = ledger.drafts();
        match self {
            Self::Sqlite(outbox) => {
                for draft in &drafts {
                    let mut tx = outbox.pool().begin_with("BEGIN IMMEDIATE").await.unwrap();
                    outbox.enqueue_all(&mut tx, &draft.messages).await.unwrap();
                    if draft.commits {
                        tx.commit().await.unwrap();
                        ledger.note(draft);
                    } else {
                        tx.rollback().await.unwrap();
                    }
                }
            }
            Self::Postgres(outbox) => {
                // The first to write is the last to commit: its numbers are below what may be read by then.
                let mut open = Vec::new();
                for draft in &drafts {
                    let mut tx = outbox.pool().begin().await.unwrap();
                    outbox.enqueue_all(&mut tx, &draft.messages).await.unwrap();
                    open.push((tx, draft));
                }
                while let Some((tx, draft)) = open.pop() {
                    if draft.commits {
                        tx.commit().await.unwrap();
                        ledger.note(draft);
                    } else {
                        tx.rollback().await.unwrap();
                    }
                }
            }
        }
    }

    pub(super) async fn stand(&self) -> Stand {
        let (delivered, taken, owner): (i64, i64, Option<String>) = match self {
            Self::Sqlite(outbox) => {
                let sql =
                    "select sum(delivered), sum(epoch), max(owner) from outbox_cursors having count(*) > 0";
                let row = sqlx::query(sql).fetch_optional(outbox.pool()).await.unwrap();
                row.map(|row| (row.get(0), row.get(1), row.get(2))).unwrap_or_default()
            }
            Self::Postgres(outbox) => {
                let sql = "select sum(delivered)::bigint, sum(epoch)::bigint, max(owner) from outbox.cursors
                           having count(*) > 0";
                let row = sqlx::query(sql).fetch_optional(outbox.pool()).await.unwrap();
                row.map(|row| (row.get(0), row.get(1), row.get(2))).unwrap_or_default()
            }
        };
        Stand { delivered: delivered.cast_unsigned(), taken: taken.cast_unsigned(), owner }
    }

    /// Makes the table in which handlers leave their effects. It forbids nothing: a second effect must show.
    pub(super) async fn prepare_effects(&self) {
        match self {
            Self::Sqlite(outbox) => {
                let sql = "create table effects (n integer primary key autoincrement, id text)";
                sqlx::query(sql).execute(outbox.pool()).await.unwrap();
            }
            Self::Postgres(outbox) => {
                let sql = "create table effects (n bigserial primary key, id text)";
                sqlx::query(sql).execute(outbox.pool()).await.unwrap();
            }
        }
    }

    /// The ids of the messages that had an effect, in order.
    pub(super) async fn effects(&self) -> Vec<String> {
        let sql = "select id from effects order by n";
        match self {
            Self::Sqlite(outbox) => sqlx::query_scalar(sql).fetch_all(outbox.pool()).await.unwrap(),
            Self::Postgres(outbox) => sqlx::query_scalar(sql).fetch_all(outbox.pool()).await.unwrap(),
        }
    }
}
