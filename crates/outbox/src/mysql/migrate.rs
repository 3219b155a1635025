//! Making and changing our tables, or printing how.

use sqlx::{MySqlConnection, MySqlPool};

use super::error::classify;
use crate::error::{Error, ErrorKind, Result};
use crate::migration::Migration;

/// Every step so far, in order. A step that was cut off may be taken again: here a statement that makes a table
/// cannot be undone.
pub fn migrations() -> &'static [Migration] {
    &[
        Migration { version: 1, name: "inbox", sql: include_str!("../../migrations/mysql/001_inbox.sql") },
        Migration { version: 2, name: "errors", sql: include_str!("../../migrations/mysql/002_errors.sql") },
        Migration { version: 3, name: "audit", sql: include_str!("../../migrations/mysql/003_audit.sql") },
        Migration {
            version: 4,
            name: "by_consumer",
            sql: include_str!("../../migrations/mysql/004_by_consumer.sql"),
        },
        Migration { version: 5, name: "beats", sql: include_str!("../../migrations/mysql/005_beats.sql") },
        Migration { version: 6, name: "pauses", sql: include_str!("../../migrations/mysql/006_pauses.sql") },
    ]
}

/// What remembers which steps were taken; itself safe to run at any time.
const REMEMBER: &str = "create table if not exists outbox_migrations (
    version int unsigned not null primary key,
    name varchar(255) not null,
    applied_at datetime(6) not null default current_timestamp(6)
) engine = InnoDB;";

/// Two that migrate at once take turns. A lock belongs to the whole server, so the database is in its name.
const LOCK: &str = "select get_lock(concat('outboxd.migrate.', left(md5(database()), 16)), 30)";
const UNLOCK: &str = "select release_lock(concat('outboxd.migrate.', left(md5(database()), 16)))";

/// Takes the steps that are missing, and tells what was done.
pub async fn migrate(pool: &MySqlPool) -> Result<Vec<String>> {
    let failed = |error| classify(error, "migrating the outbox tables");
    let mut conn = pool.acquire().await.map_err(failed)?;
    let locked: Option<i64> = sqlx::query_scalar(LOCK).fetch_one(&mut *conn).await.map_err(failed)?;
    if locked != Some(1) {
        let why = "migrating the outbox tables: somebody else has been migrating for 30 s";
        return Err(Error::new(ErrorKind::Busy, why));
    }
    let done = take_steps(&mut conn).await.map_err(failed);
    let unlocked = sqlx::query(UNLOCK).execute(&mut *conn).await;
    if unlocked.is_err() {
        conn.close_on_drop();
    }
    done
}

async fn take_steps(conn: &mut MySqlConnection) -> sqlx::Result<Vec<String>> {
    sqlx::raw_sql(REMEMBER).execute(&mut *conn).await?;
    let query = sqlx::query_scalar("select version from outbox_migrations");
    let taken: Vec<u32> = query.fetch_all(&mut *conn).await?;
    let mut done = Vec::new();
    for Migration { version, name, sql } in migrations() {
        if taken.contains(version) {
            continue;
        }
        sqlx::raw_sql(*sql).execute(&mut *conn).await?;
        let remember = sqlx::query("insert into outbox_migrations (version, name) values (?, ?)");
        remember.bind(version).bind(name).execute(&mut *conn).await?;
        done.push(format!("{version:03} {name}"));
    }
    Ok(done)
}

/// All steps as one script for people who run their own migrations; afterwards `migrate` finds nothing to do.
pub fn script() -> String {
    let mut script = format!("{REMEMBER}\n");
    for Migration { version, name, sql } in migrations() {
        script += &format!(
            "\n{sql}\ninsert into outbox_migrations (version, name) values ({version}, '{name}');\n"
        );
    }
    script
}
