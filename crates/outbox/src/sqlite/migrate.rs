//! The schema, step by step.

use sqlx::{SqliteConnection, SqlitePool};

use super::{error, sql};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Limits;
use crate::migration::Migration;

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "001_log", sql: include_str!("../../migrations/sqlite/001_log.sql") },
    Migration { version: 2, name: "002_inbox", sql: include_str!("../../migrations/sqlite/002_inbox.sql") },
];

/// The steps of the schema, in order, fit to be printed and applied by hand: each notes itself.
///
/// The trigger in the first keeps the default limits; [`Outbox::migrate`](super::Outbox::migrate) puts in those
/// that are set.
pub fn migrations() -> &'static [Migration] {
    MIGRATIONS
}

pub(super) async fn migrate(pool: &SqlitePool, limits: &Limits) -> Result<Vec<String>> {
    let from = error::from(pool);
    let encoding: String = sqlx::query_scalar("PRAGMA encoding").fetch_one(pool).await.map_err(&from)?;
    if encoding != "UTF-8" {
        let why = format!(
            "the database is in {encoding}; payloads written as text must stay what they are, in UTF-8"
        );
        return Err(Error::new(ErrorKind::Config, why));
    }
    let mut applied = Vec::new();
    for migration in MIGRATIONS {
        if apply(pool, migration).await.map_err(&from)? {
            applied.push(migration.name.to_owned());
        }
    }
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.map_err(&from)?;
    sql::put_limit_trigger(&mut tx, limits).await.map_err(&from)?;
    tx.commit().await.map_err(&from)?;
    Ok(applied)
}

/// One step in one transaction, under the write lock: of two who migrate at once, one finds it done.
///
/// The step notes itself in `outbox_migrations`, so that it is known also when a person applied it by hand.
async fn apply(pool: &SqlitePool, migration: &Migration) -> sqlx::Result<bool> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let noted: bool =
        sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'outbox_migrations')")
            .fetch_one(&mut *tx)
            .await?;
    if noted && is_applied(&mut tx, migration.version).await? {
        return Ok(false);
    }
    sqlx::raw_sql(migration.sql).execute(&mut *tx).await?;
    tx.commit().await?;
    Ok(true)
}

async fn is_applied(tx: &mut SqliteConnection, version: u32) -> sqlx::Result<bool> {
    sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM outbox_migrations WHERE version = ?)")
        .bind(version)
        .fetch_one(tx)
        .await
}
