//! What is in a database that somebody may miss: asked by the verbs that make tables of their own, and remove them.

use outbox::{postgres, sqlite};
use sqlx::AssertSqlSafe;

/// The tables that `migrate` makes in SQLite.
const OURS: [&str; 11] = [
    "outbox_messages",
    "outbox_cursors",
    "outbox_parked",
    "outbox_relays",
    "outbox_inbox",
    "outbox_attempts",
    "outbox_errors",
    "outbox_audit",
    "outbox_beats",
    "outbox_pauses",
    "outbox_migrations",
];

/// What there is, in words; nothing if the database has no table but an outbox in which nothing is.
pub async fn in_sqlite(outbox: &sqlite::Outbox) -> anyhow::Result<Option<String>> {
    let all = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name";
    let all: Vec<String> = sqlx::query_scalar(all).fetch_all(outbox.pool()).await?;
    if let Some(table) = all.iter().find(|table| !OURS.contains(&table.as_str())) {
        return Ok(Some(format!("the table {table}")));
    }
    for table in all.iter().filter(|table| *table != "outbox_migrations") {
        let any = AssertSqlSafe(format!("SELECT EXISTS (SELECT 1 FROM {table})"));
        if sqlx::query_scalar::<_, bool>(any).fetch_one(outbox.pool()).await? {
            return Ok(Some(an_outbox(table)));
        }
    }
    Ok(None)
}

/// The same in PostgreSQL.
pub async fn in_postgres(outbox: &postgres::Outbox) -> anyhow::Result<Option<String>> {
    let others = "select schemaname || '.' || tablename from pg_tables
                  where schemaname not in ('pg_catalog', 'information_schema', 'outbox') order by 1 limit 1";
    if let Some(table) = sqlx::query_scalar::<_, String>(others).fetch_optional(outbox.pool()).await? {
        return Ok(Some(format!("the table {table}")));
    }
    let ours = "select 'outbox.' || quote_ident(tablename) from pg_tables
                where schemaname = 'outbox' and tablename <> 'migrations' order by 1";
    for table in sqlx::query_scalar::<_, String>(ours).fetch_all(outbox.pool()).await? {
        let any = AssertSqlSafe(format!("select exists (select from {table})"));
        if sqlx::query_scalar::<_, bool>(any).fetch_one(outbox.pool()).await? {
            return Ok(Some(an_outbox(&table)));
        }
    }
    Ok(None)
}

fn an_outbox(table: &str) -> String {
    format!("an outbox that was used, with rows in {table}")
}

/// Removes the outbox from a database of SQLite, and no other table.
pub async fn drop_from_sqlite(outbox: &sqlite::Outbox) -> anyhow::Result<()> {
    for table in OURS {
        sqlx::raw_sql(AssertSqlSafe(format!("DROP TABLE IF EXISTS {table}"))).execute(outbox.pool()).await?;
    }
    Ok(())
}
