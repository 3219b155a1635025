//! Making and changing our tables, or printing how.

use sqlx::SqlitePool;

use super::{error, sql};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Limits;
use crate::migration::Migration;

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "log", sql: include_str!("../../migrations/sqlite/001_log.sql") },
    Migration { version: 2, name: "inbox", sql: include_str!("../../migrations/sqlite/002_inbox.sql") },
    Migration { version: 3, name: "attempts", sql: include_str!("../../migrations/sqlite/003_attempts.sql") },
    Migration { version: 4, name: "errors", sql: include_str!("../../migrations/sqlite/004_errors.sql") },
    Migration { version: 5, name: "audit", sql: include_str!("../../migrations/sqlite/005_audit.sql") },
    Migration {
        version: 6,
        name: "by_consumer",
        sql: include_str!("../../migrations/sqlite/006_by_consumer.sql"),
    },
    Migration { version: 7, name: "beats", sql: include_str!("../../migrations/sqlite/007_beats.sql") },
    Migration { version: 8, name: "pauses", sql: include_str!("../../migrations/sqlite/008_pauses.sql") },
    Migration { version: 9, name: "by_state", sql: include_str!("../../migrations/sqlite/009_by_state.sql") },
];

/// What remembers which steps were taken; itself safe to run at any time.
const REMEMBER: &str = "CREATE TABLE IF NOT EXISTS outbox_migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);";

/// Every step so far, in order. The trigger in the first keeps the default limits;
/// [`Outbox::migrate`](super::Outbox::migrate) puts in those that are set.
pub fn migrations() -> &'static [Migration] {
    MIGRATIONS
}

/// All steps as one script for people who run their own migrations; afterwards `migrate` finds nothing to do.
pub fn script() -> String {
    let mut script = format!("BEGIN IMMEDIATE;\n\n{REMEMBER}\n");
    for Migration { version, name, sql } in MIGRATIONS {
        script += &format!(
            "\n{sql}\nINSERT INTO outbox_migrations (version, name) VALUES ({version}, '{name}');\n"
        );
    }
    script + "\nCOMMIT;\n"
}

pub(super) async fn migrate(pool: &SqlitePool, limits: &Limits) -> Result<Vec<String>> {
    let from = error::from(pool);
    let mut done = take_steps(pool).await?;
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.map_err(&from)?;
    let changed = sql::put_limit_trigger(&mut tx, limits).await.map_err(&from)?;
    tx.commit().await.map_err(&from)?;
    if changed {
        let Limits { payload, headers, header_bytes } = limits;
        done.push(format!("limits: payload {payload} bytes, {headers} headers of {header_bytes} bytes"));
    }
    Ok(done)
}

/// The steps alone: the limits stay as they are, or as the first step has them.
pub(super) async fn take_steps(pool: &SqlitePool) -> Result<Vec<String>> {
    let from = error::from(pool);
    let encoding: String = sqlx::query_scalar("PRAGMA encoding").fetch_one(pool).await.map_err(&from)?;
    if encoding != "UTF-8" {
        let why = format!(
            "the database is in {encoding}; payloads written as text must stay what they are, in UTF-8"
        );
        return Err(Error::new(ErrorKind::Config, why));
    }
    let mut done = Vec::new();
    for migration in MIGRATIONS {
        if apply(pool, migration).await.map_err(&from)? {
            done.push(format!("{:03} {}", migration.version, migration.name));
        }
    }
    Ok(done)
}

/// One step in one transaction, under the write lock: of two who migrate at once, one finds it done.
async fn apply(pool: &SqlitePool, migration: &Migration) -> sqlx::Result<bool> {
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::raw_sql(REMEMBER).execute(&mut *tx).await?;
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
