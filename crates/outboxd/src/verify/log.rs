//! The database of a run: the log that producers write to, and the effects. Reached directly, past the proxies.

use std::time::Duration;

use anyhow::Context;
use outbox::{Message, postgres, sqlite};
use sqlx::Row;

use super::ledger::{End, Ledger};
use crate::connection::{Connection, Kind};
use crate::emptiness;
use crate::trouble::{Exit, Trouble};

/// How many effects are read at a time.
const PAGE: i64 = 50_000;

/// An open log.
#[derive(Clone)]
pub(super) enum Log {
    Sqlite(sqlite::Outbox),
    Postgres(postgres::Outbox),
}

impl Log {
    pub(super) async fn connect(connection: &Connection) -> Result<Self, Trouble> {
        let url = connection.url.reveal();
        let opened = match connection.kind {
            Kind::Postgres => postgres::Outbox::connect(url).await.map(Self::Postgres),
            _ => sqlite::Outbox::connect(url).await.map(Self::Sqlite),
        };
        opened.map_err(|error| Trouble::at_database("cannot open the database", connection, &error))
    }

    /// Refuses a database in which there is something, unless that may be destroyed.
    pub(super) async fn refuse(&self, connection: &Connection, may_destroy: bool) -> anyhow::Result<()> {
        let found = self.found().await.context("cannot look at the database")?;
        if let Some(found) = found.filter(|_| !may_destroy) {
            let help = "give it a database of its own, or use --yes-destroy: the outbox in it is removed, with all of its \
                        messages, and other tables stay";
            return Err(Trouble::new(
                Exit::Usage,
                format!("the database {connection} is not empty: there is {found}"),
                help,
            )
            .into());
        }
        Ok(())
    }

    /// Makes our tables anew. Nothing in that of the effects forbids a repetition: only the inbox does.
    pub(super) async fn prepare(&self) -> anyhow::Result<()> {
        self.clean_up().await.context("cannot remove the outbox that is there")?;
        match self {
            Self::Sqlite(outbox) => drop(outbox.migrate().await?),
            Self::Postgres(outbox) => drop(outbox.migrate().await?),
        }
        match self {
            Self::Sqlite(outbox) => {
                let table = "CREATE TABLE outboxd_verify_effects (n INTEGER PRIMARY KEY, id TEXT NOT NULL)";
                sqlx::raw_sql(table).execute(outbox.pool()).await?;
            }
            Self::Postgres(outbox) => {
                let table = "create table outboxd_verify_effects (n bigserial primary key, id text not null)";
                sqlx::raw_sql(table).execute(outbox.pool()).await?;
            }
        }
        Ok(())
    }

    /// What is in the database that somebody may miss.
    async fn found(&self) -> anyhow::Result<Option<String>> {
        match self {
            Self::Sqlite(outbox) => emptiness::in_sqlite(outbox).await,
            Self::Postgres(outbox) => emptiness::in_postgres(outbox).await,
        }
    }

    /// Removes our tables, and no others.
    pub(super) async fn clean_up(&self) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(outbox) => {
                let effects = "DROP TABLE IF EXISTS outboxd_verify_effects";
                sqlx::raw_sql(effects).execute(outbox.pool()).await?;
                emptiness::drop_from_sqlite(outbox).await?;
            }
            Self::Postgres(outbox) => {
                let drop =
                    "drop schema if exists outbox cascade; drop table if exists outboxd_verify_effects";
                sqlx::raw_sql(drop).execute(outbox.pool()).await?;
            }
        }
        Ok(())
    }

    /// Writes messages in one transaction, which stays open for so long, and tells how it ended.
    pub(super) async fn write(&self, messages: &[Message], commits: bool, open: Duration) -> End {
        match self {
            Self::Sqlite(outbox) => {
                let Ok(mut tx) = outbox.pool().begin_with("BEGIN IMMEDIATE").await else {
                    return End::RolledBack;
                };
                let written = outbox.enqueue_all(&mut tx, messages).await;
                tokio::time::sleep(open).await;
                match (written, commits) {
                    (Ok(()), true) => committed(tx.commit().await),
                    _ => rolled_back(tx.rollback().await),
                }
            }
            Self::Postgres(outbox) => {
                let Ok(mut tx) = outbox.pool().begin().await else { return End::RolledBack };
                let written = outbox.enqueue_all(&mut tx, messages).await;
                tokio::time::sleep(open).await;
                match (written, commits) {
                    (Ok(()), true) => committed(tx.commit().await),
                    _ => rolled_back(tx.rollback().await),
                }
            }
        }
    }

    /// How many effects there are.
    pub(super) async fn effects(&self) -> anyhow::Result<u64> {
        let count: i64 = match self {
            Self::Sqlite(outbox) => {
                sqlx::query_scalar("SELECT count(*) FROM outboxd_verify_effects")
                    .fetch_one(outbox.pool())
                    .await?
            }
            Self::Postgres(outbox) => {
                sqlx::query_scalar("select count(*) from outboxd_verify_effects")
                    .fetch_one(outbox.pool())
                    .await?
            }
        };
        Ok(count.unsigned_abs())
    }

    /// Notes every effect, a page at a time.
    pub(super) async fn read_effects(&self, ledger: &std::sync::Mutex<Ledger>) -> anyhow::Result<()> {
        super::locked(ledger).forget_effects();
        let mut after = 0_i64;
        loop {
            let page: Vec<(i64, String)> = match self {
                Self::Sqlite(outbox) => {
                    let page = "SELECT n, id FROM outboxd_verify_effects WHERE n > ? ORDER BY n LIMIT ?";
                    let rows = sqlx::query(page).bind(after).bind(PAGE).fetch_all(outbox.pool()).await?;
                    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
                }
                Self::Postgres(outbox) => {
                    let page = "select n, id from outboxd_verify_effects where n > $1 order by n limit $2";
                    let rows = sqlx::query(page).bind(after).bind(PAGE).fetch_all(outbox.pool()).await?;
                    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
                }
            };
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = *last;
            let mut ledger = super::locked(ledger);
            page.iter().for_each(|(_, id)| ledger.effect(id));
        }
    }
}

fn committed<E>(answer: Result<(), E>) -> End {
    if answer.is_ok() { End::Committed } else { End::Unknown }
}

/// A transaction whose end was never asked for cannot commit, whatever the answer is.
fn rolled_back<E>(_: Result<(), E>) -> End {
    End::RolledBack
}
