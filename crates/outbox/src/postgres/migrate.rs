//! Making and changing our tables, or printing how.

use sqlx::{PgConnection, Row};

use super::Outbox;
use super::error::classify;
use crate::error::Result;
use crate::message::Limits;
use crate::migration::Migration;

/// Every step so far, in order.
pub fn migrations() -> &'static [Migration] {
    &[
        Migration { version: 1, name: "log", sql: include_str!("../../migrations/postgres/001_log.sql") },
        Migration {
            version: 2,
            name: "attempts",
            sql: include_str!("../../migrations/postgres/002_attempts.sql"),
        },
        Migration {
            version: 3,
            name: "errors",
            sql: include_str!("../../migrations/postgres/003_errors.sql"),
        },
        Migration { version: 4, name: "audit", sql: include_str!("../../migrations/postgres/004_audit.sql") },
        Migration {
            version: 5,
            name: "by_consumer",
            sql: include_str!("../../migrations/postgres/005_by_consumer.sql"),
        },
        Migration { version: 6, name: "beats", sql: include_str!("../../migrations/postgres/006_beats.sql") },
        Migration {
            version: 7,
            name: "pauses",
            sql: include_str!("../../migrations/postgres/007_pauses.sql"),
        },
        Migration {
            version: 8,
            name: "by_state",
            sql: include_str!("../../migrations/postgres/008_by_state.sql"),
        },
    ]
}

/// What remembers which steps were taken; itself safe to run at any time.
const REMEMBER: &str = "
    create schema if not exists outbox;
    create table if not exists outbox.migrations (
        version integer primary key, name text not null, applied_at timestamptz not null default clock_timestamp());";

const LIMITS_NOW: &str = "
    select pg_get_constraintdef(oid) as definition from pg_constraint
    where conrelid = 'outbox.messages'::regclass and conname in ('outbox_payload_limit', 'outbox_headers_limit')
    order by conname";

impl Outbox {
    /// Takes the steps that are missing, puts the limits into the table, and tells what was done.
    pub async fn migrate(&self) -> Result<Vec<String>> {
        let failed = |error| classify(error, "migrating the outbox");
        let mut tx = self.pool.begin().await.map_err(failed)?;
        let mut done = take_steps(&mut tx).await.map_err(failed)?;
        done.extend(self.put_limits(&mut tx).await.map_err(failed)?);
        done.extend(self.put_trigger(&mut tx).await.map_err(failed)?);
        tx.commit().await.map_err(failed)?;
        Ok(done)
    }

    /// Takes the steps that are missing, and leaves the limits and the trigger of the log as they are: for a database
    /// that is used for its inbox, and whose log may be somebody else's.
    pub async fn migrate_tables(&self) -> Result<Vec<String>> {
        let failed = |error| classify(error, "migrating the tables");
        let mut tx = self.pool.begin().await.map_err(failed)?;
        let done = take_steps(&mut tx).await.map_err(failed)?;
        tx.commit().await.map_err(failed)?;
        Ok(done)
    }

    /// Writers in other languages meet the same limits: they are constraints of the table.
    async fn put_limits(&self, tx: &mut PgConnection) -> sqlx::Result<Option<String>> {
        let rows = sqlx::query(LIMITS_NOW).persistent(false).fetch_all(&mut *tx).await?;
        let now: Vec<String> = rows.iter().map(|row| row.get("definition")).collect();
        let limits = &self.limits;
        let wanted =
            [format!("{}, {})", limits.headers, limits.header_bytes), format!("<= {})", limits.payload)];
        let has = |index: usize| now.get(index).is_some_and(|definition| definition.contains(&wanted[index]));
        if has(0) && has(1) {
            return Ok(None);
        }
        // Numbers only, so nothing in it needs quoting. Not valid: what is written already is not looked at.
        let sql = format!(
            "alter table outbox.messages
                drop constraint if exists outbox_payload_limit, drop constraint if exists outbox_headers_limit,
                add constraint outbox_payload_limit check (octet_length(payload) <= {}) not valid,
                add constraint outbox_headers_limit check (outbox.headers_fit(headers, {}, {})) not valid",
            limits.payload, limits.headers, limits.header_bytes
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(tx).await?;
        let Limits { payload, headers, header_bytes } = limits;
        Ok(Some(format!("limits: payload {payload} bytes, {headers} headers of {header_bytes} bytes")))
    }

    async fn put_trigger(&self, tx: &mut PgConnection) -> sqlx::Result<Option<String>> {
        let there = sqlx::query("select exists (select from pg_trigger where tgname = 'outbox_wake')")
            .persistent(false);
        let there: bool = there.fetch_one(&mut *tx).await?.get(0);
        let (sql, done) = match (self.wake.is_some(), there) {
            (true, false) => (
                "create trigger outbox_wake after insert on outbox.messages
                 for each statement execute function outbox.wake()",
                "trigger: writers notify readers",
            ),
            (false, true) => ("drop trigger outbox_wake on outbox.messages", "trigger removed: readers poll"),
            _ => return Ok(None),
        };
        sqlx::raw_sql(sql).execute(tx).await?;
        Ok(Some(done.to_owned()))
    }
}

async fn take_steps(tx: &mut PgConnection) -> sqlx::Result<Vec<String>> {
    // A role that finds everything done needs no right to make a schema.
    let there = sqlx::query("select to_regclass('outbox.migrations') is not null").persistent(false);
    if !there.fetch_one(&mut *tx).await?.get::<bool, _>(0) {
        sqlx::raw_sql(REMEMBER).execute(&mut *tx).await?;
    }
    // Two that migrate at once take turns.
    let lock = "lock table outbox.migrations in share row exclusive mode";
    sqlx::raw_sql(lock).execute(&mut *tx).await?;
    let rows = sqlx::query("select version from outbox.migrations").persistent(false);
    let rows = rows.fetch_all(&mut *tx).await?;
    let taken: Vec<i32> = rows.iter().map(|row| row.get("version")).collect();
    let mut done = Vec::new();
    for step in migrations() {
        let version = i32::try_from(step.version).unwrap_or(i32::MAX);
        if taken.contains(&version) {
            continue;
        }
        sqlx::raw_sql(step.sql).execute(&mut *tx).await?;
        let remember = sqlx::query("insert into outbox.migrations (version, name) values ($1, $2)");
        let remember = remember.bind(version).bind(step.name).persistent(false);
        remember.execute(&mut *tx).await?;
        done.push(format!("{:03} {}", step.version, step.name));
    }
    Ok(done)
}

/// All steps as one script for people who run their own migrations; afterwards `migrate` finds nothing to do.
pub fn script() -> String {
    let mut script = format!("begin;\n{REMEMBER}\n");
    for Migration { version, name, sql } in migrations() {
        script += &format!(
            "\n{sql}\ninsert into outbox.migrations (version, name) values ({version}, '{name}');\n"
        );
    }
    script + "commit;\n"
}
