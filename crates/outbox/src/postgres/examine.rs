//! A look at a server and at the log in it; nothing is changed. What was read is judged by the functions at the
//! end, which ask nobody.

use std::time::SystemTime;

use sqlx::postgres::{PgConnectOptions, PgRow};
use sqlx::{Connection, PgConnection, PgPool, Postgres, Row, Transaction};

use super::error::classify;
use super::{Outbox, connect, migrations, upkeep};
use crate::admin::Admin;
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::server::{backlog, clock, dead_letters, encryption, is_local, offset};

const SERVER: &str = "
    select current_setting('server_version_num')::integer as number, current_setting('server_version') as version,
           current_user::text as login, current_database()::text as database, pg_is_in_recovery() as is_standby,
           coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as encrypted,
           (select s.version::text from pg_stat_ssl s where pid = pg_backend_pid()) as protocol,
           extract(epoch from clock_timestamp())::float8 as clock";

/// Who sees less than all of it sees its own.
const TRANSACTIONS: &str = "
    select pid, extract(epoch from clock_timestamp() - xact_start)::float8 as seconds, coalesce(state, '') as state,
           coalesce(application_name, '') as application
    from pg_stat_activity
    where xact_start < clock_timestamp() - interval '5 minutes' and datname = current_database()
      and backend_type = 'client backend' and pid <> pg_backend_pid()
    order by xact_start limit 20";

/// What the relay of a log needs; see the grants in the README.
const LOG_GRANTS: &str = "
    select t.name, t.wanted, quote_ident(current_user) as login
    from (values ('outbox.messages', 'select'), ('outbox.messages', 'delete'),
                 ('outbox.cursors', 'select'), ('outbox.cursors', 'insert'), ('outbox.cursors', 'update'),
                 ('outbox.cursors', 'delete'), ('outbox.parked', 'select'), ('outbox.parked', 'insert'),
                 ('outbox.parked', 'update'), ('outbox.parked', 'delete'), ('outbox.relays', 'select'),
                 ('outbox.relays', 'insert'), ('outbox.relays', 'update'), ('outbox.relays', 'delete')) as t(name, wanted)
    where not has_table_privilege(t.name, t.wanted)
    order by t.name, t.wanted";

/// Compares the clock of a server with the one here.
pub async fn examine_clock(pool: &PgPool) -> Finding {
    let before = SystemTime::now();
    let asked = sqlx::query_scalar("select extract(epoch from clock_timestamp())::float8");
    match asked.fetch_one(pool).await {
        Ok(there) => clock(offset(there, before)),
        Err(error) => Finding::error("clock", &classify(error, "asking for the time")),
    }
}

/// A connection for looking, and what is to be told if there is none.
pub(super) async fn connect(url: &str) -> Result<(PgConnectOptions, PgConnection), Finding> {
    let told = |error: Error| Finding::error("connection", &error);
    let options = connect::options(url).map_err(told)?;
    let conn = connect::connection(&options).await.map_err(told)?;
    Ok((options, conn))
}

/// A transaction that can change nothing and keeps nobody waiting.
pub(super) async fn look(conn: &mut PgConnection) -> sqlx::Result<Transaction<'_, Postgres>> {
    let mut tx = conn.begin_with("begin read only").await?;
    sqlx::raw_sql("set local statement_timeout = '10s'; set local lock_timeout = '2s'")
        .execute(&mut *tx)
        .await?;
    Ok(tx)
}

/// What holds for any source on this server; `least` is the version that the source needs.
pub(super) async fn server(
    options: &PgConnectOptions,
    conn: &mut PgConnection,
    least: i32,
) -> Result<Vec<Finding>> {
    let failed = |error| classify(error, "looking at the server");
    let mut tx = look(conn).await.map_err(failed)?;
    let before = SystemTime::now();
    let row = sqlx::query(SERVER).persistent(false).fetch_one(&mut *tx).await.map_err(failed)?;
    let offset = offset(row.get("clock"), before);
    let old = sqlx::query(TRANSACTIONS).persistent(false).fetch_all(&mut *tx).await.map_err(failed)?;
    tx.rollback().await.map_err(failed)?;
    let place = format!("{}:{}", options.get_host(), options.get_port());
    let (login, database): (String, String) = (row.get("login"), row.get("database"));
    let mut findings =
        vec![Finding::ok("connection", format!("'{login}' is in database '{database}' at {place}"))];
    let local = options.get_socket().is_some() || is_local(options.get_host());
    let fix = "add ?sslmode=verify-full to the URL of the connection";
    findings.push(encryption(row.get("encrypted"), row.get("protocol"), local, fix));
    findings.push(version(row.get("number"), &row.get::<String, _>("version"), least));
    if row.get("is_standby") {
        let what = "the server is a standby, on which nothing can be marked";
        findings.push(Finding::failure("writable", what).fix("connect to the primary"));
    }
    findings.push(clock(offset));
    let seen = |row: &PgRow| Running {
        pid: row.get("pid"),
        seconds: row.get("seconds"),
        state: row.get("state"),
        application: row.get("application"),
    };
    findings.push(transactions(&old.iter().map(seen).collect::<Vec<_>>()));
    Ok(findings)
}

impl Outbox {
    /// Looks at a server and at the log in it, and changes nothing.
    pub async fn examine(url: &str) -> Vec<Finding> {
        let (options, mut conn) = match connect(url).await {
            Ok(connected) => connected,
            Err(finding) => return vec![finding],
        };
        let mut findings = match server(&options, &mut conn, 13).await {
            Ok(findings) => findings,
            Err(error) => vec![Finding::error("connection", &error)],
        };
        match log(&mut conn).await {
            Ok((found, is_there)) => {
                findings.extend(found);
                if is_there {
                    findings.extend(upkeep::examine(&mut conn).await);
                    findings.push(session(connect::is_pooled(&options, &mut conn).await));
                    findings.extend(progress(url).await);
                }
            }
            Err(error) => findings.push(Finding::error("tables", &error)),
        }
        findings
    }
}

/// Whether the tables are there and ours to use.
async fn log(conn: &mut PgConnection) -> Result<(Vec<Finding>, bool)> {
    let failed = |error| classify(error, "looking at the log");
    let mut tx = look(conn).await.map_err(failed)?;
    const THERE: &str = "
        select exists (select from pg_namespace where nspname = 'outbox') as schema,
               case when exists (select from pg_namespace where nspname = 'outbox')
                    then has_schema_privilege('outbox', 'usage') end as usage,
               exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
                       where n.nspname = 'outbox' and c.relname = 'messages') as messages,
               quote_ident(current_user) as login";
    let row = sqlx::query(THERE).persistent(false).fetch_one(&mut *tx).await.map_err(failed)?;
    let login: String = row.get("login");
    if !row.get::<bool, _>("schema") || !row.get::<bool, _>("messages") {
        let missing = Finding::failure("tables", "the tables of the log are not there");
        return Ok((vec![missing.fix("outboxd migrate")], false));
    }
    if row.get::<Option<bool>, _>("usage") != Some(true) {
        let closed = Finding::failure("grants", format!("{login} may not use the schema outbox"));
        return Ok((vec![closed.fix(format!("GRANT USAGE ON SCHEMA outbox TO {login};"))], false));
    }
    let mut findings = Vec::new();
    // A relay needs no right to read which steps were taken.
    let readable = "select has_table_privilege('outbox.migrations', 'select')";
    let readable = sqlx::query(readable).persistent(false).fetch_one(&mut *tx).await.map_err(failed)?;
    if readable.get(0) {
        let newest = "select coalesce(max(version), 0) from outbox.migrations";
        let newest: i32 =
            sqlx::query(newest).persistent(false).fetch_one(&mut *tx).await.map_err(failed)?.get(0);
        let wanted = migrations().iter().map(|step| step.version).max().unwrap_or(0);
        let evidence = format!("version {newest} of the tables, this program has {wanted}");
        findings.push(if i64::from(newest) < i64::from(wanted) {
            Finding::failure("tables", evidence).fix("outboxd migrate")
        } else {
            Finding::ok("tables", evidence)
        });
    } else {
        findings.push(Finding::ok("tables", "the tables of the log are there"));
    }
    let rows = sqlx::query(LOG_GRANTS).persistent(false).fetch_all(&mut *tx).await.map_err(failed)?;
    let missing: Vec<(String, String)> =
        rows.iter().map(|row| (row.get("name"), row.get("wanted"))).collect();
    let may_read = !missing.iter().any(|(_, wanted)| wanted == "select");
    findings.push(grants(&login, &missing));
    Ok((findings, may_read))
}

async fn progress(url: &str) -> Vec<Finding> {
    let told = async {
        let outbox = Outbox::connect(url).await?;
        let status = outbox.status().await;
        outbox.pool().close().await;
        status
    };
    match told.await {
        Err(error) => vec![Finding::error("progress", &error)],
        Ok(cursors) if cursors.is_empty() => vec![Finding::ok("progress", "no pipe has read from it yet")],
        Ok(cursors) => {
            let lag = cursors.iter().filter_map(|cursor| cursor.lag_seconds).fold(0.0, f64::max);
            let (pending, dead) =
                (cursors.iter().map(|one| one.pending).sum(), cursors.iter().map(|one| one.dead).sum());
            vec![backlog(pending, (pending > 0).then_some(lag)), dead_letters(dead)]
        }
    }
}

/// A transaction of somebody that has been open for long.
pub(super) struct Running {
    pub(super) pid: i32,
    pub(super) seconds: f64,
    pub(super) state: String,
    pub(super) application: String,
}

/// Versions before 14 get no more repairs.
fn version(number: i32, shown: &str, least: i32) -> Finding {
    let shown = format!("PostgreSQL {shown}");
    if number < least * 10_000 {
        return Finding::failure("version", format!("{shown}, and {least} is needed"))
            .fix("upgrade the server");
    }
    if number < 140_000 {
        return Finding::warning("version", format!("{shown}, which gets no more repairs"))
            .fix("upgrade the server");
    }
    Finding::ok("version", shown)
}

fn transactions(old: &[Running]) -> Finding {
    const WHAT: &str = "long transactions";
    let Some(oldest) = old.first() else {
        return Finding::ok(WHAT, "none that this user can see is open for more than 5 minutes");
    };
    let open: Vec<_> = old
        .iter()
        .map(|one| {
            let minutes = one.seconds / 60.0;
            format!("pid {} ({}, {}) for {minutes:.0} minutes", one.pid, one.application, one.state)
        })
        .collect();
    let evidence = format!("{}: what they wrote is not seen, and nothing is vacuumed", open.join("; "));
    Finding::warning(WHAT, evidence).fix(format!("SELECT pg_terminate_backend({});", oldest.pid))
}

/// A log uses no state of a session, so a pooler is no trouble; but whoever looks for one should know.
fn session(pooled: Result<bool>) -> Finding {
    match pooled {
        Ok(false) => Finding::ok("session", "a connection keeps its session"),
        Ok(true) => Finding::ok(
            "session",
            "a pooler gives every transaction another session, which a log does not mind",
        ),
        Err(error) => Finding::error("session", &error),
    }
}

fn grants(login: &str, missing: &[(String, String)]) -> Finding {
    if missing.is_empty() {
        return Finding::ok("grants", format!("{login} has what a relay needs"));
    }
    let shown: Vec<_> = missing.iter().map(|(table, wanted)| format!("{wanted} on {table}")).collect();
    let mut fix: Vec<String> = Vec::new();
    for (table, _) in missing {
        let wanted: Vec<_> = missing.iter().filter(|one| one.0 == *table).map(|one| one.1.as_str()).collect();
        let grant = format!("GRANT {} ON {table} TO {login};", wanted.join(", ").to_uppercase());
        if !fix.contains(&grant) {
            fix.push(grant);
        }
    }
    Finding::failure("grants", format!("{login} lacks {}", shown.join(", "))).fix(fix.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Level;

    #[test]
    fn a_server_is_judged_by_what_it_says() {
        assert_eq!(version(150_004, "15.4", 12).level, Level::Ok);
        assert_eq!(version(130_004, "13.4", 12).level, Level::Warning);
        assert_eq!(version(110_004, "11.4", 12).level, Level::Failure);
    }

    #[test]
    fn a_long_transaction_is_named_with_the_way_to_end_it() {
        assert_eq!(transactions(&[]).level, Level::Ok);
        let old = |pid| Running {
            pid,
            seconds: 3_600.0,
            state: "idle in transaction".to_owned(),
            application: "report".to_owned(),
        };
        let found = transactions(&[old(7), old(8)]);
        assert_eq!(found.level, Level::Warning);
        assert!(found.evidence.contains("pid 7 (report, idle in transaction) for 60 minutes; pid 8"));
        assert_eq!(found.fix.as_deref(), Some("SELECT pg_terminate_backend(7);"));
    }

    #[test]
    fn the_grants_that_are_missing_are_one_statement_a_table() {
        let missing = |table: &str, wanted: &str| (table.to_owned(), wanted.to_owned());
        let found = grants(
            "app",
            &[
                missing("outbox.cursors", "insert"),
                missing("outbox.cursors", "update"),
                missing("outbox.messages", "select"),
            ],
        );
        assert_eq!(
            found.fix.as_deref(),
            Some("GRANT INSERT, UPDATE ON outbox.cursors TO app; GRANT SELECT ON outbox.messages TO app;")
        );
    }
}
