//! The schema, step by step.

use sqlx::SqlitePool;

use super::{error, sql};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Limits;
use crate::migration::Migration;

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "001_log", sql: include_str!("../../migrations/sqlite/001_log.sql") },
    Migration { version: 2, name: "002_inbox", sql: include_str!("../../migrations/sqlite/002_inbox.sql") },
];

/// The steps of the schema, in order. The trigger that keeps the limits is not among them: its numbers come
/// from the configuration, and [`Outbox::migrate`](super::Outbox::migrate) writes it afresh.
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
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS outbox_migrations (
             version INTEGER PRIMARY KEY,
             name TEXT NOT NULL,
             applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
         )",
    )
    .execute(pool)
    .await
    .map_err(&from)?;
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
async fn apply(pool: &SqlitePool, migration: &Migration) -> sqlx::Result<bool> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    let known: bool = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM outbox_migrations WHERE version = ?)")
        .bind(migration.version)
        .fetch_one(&mut *tx)
        .await?;
    if known {
        return Ok(false);
    }
    sqlx::raw_sql(migration.sql).execute(&mut *tx).await?;
    sqlx::query("INSERT INTO outbox_migrations (version, name) VALUES (?, ?)")
        .bind(migration.version)
        .bind(migration.name)
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(true)
}
