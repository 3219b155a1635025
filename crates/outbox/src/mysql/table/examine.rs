//! A look at a server and at a mapped table in it; nothing is changed.

use std::sync::Arc;
use std::time::SystemTime;

use sqlx::{AssertSqlSafe, Connection, Executor, MySqlConnection, Row};

use super::{Table, catalog, index};
use crate::admin::{Admin, CursorStatus};
use crate::error::Result;
use crate::finding::{Finding, Level};
use crate::mysql::connect;
use crate::mysql::error::{classify, number};
use crate::schema::{Dialect, TableName};
use crate::server::{self, backlog, dead_letters};
use crate::table::touched::{read_columns, set_columns};
use crate::table::{Done, Layout, Mapping};

/// Each cell as characters, for their types differ between MariaDB and MySQL.
const SERVER: &str = "
    select cast(version() as char), cast(current_user() as char), cast(database() as char),
           cast(unix_timestamp(now(6)) as char), cast(@@global.read_only as char)";

const SSL: &str = "show session status like 'Ssl_version'";

impl Table {
    /// Looks at a server and at the tables of a mapping, and changes nothing.
    pub async fn examine(url: &str, mapping: &Mapping) -> Vec<Finding> {
        let opened = async {
            let options = connect::options(url)?;
            let conn = connect::connection(&options).await?;
            Ok((options, conn))
        };
        let (options, mut conn) = match opened.await {
            Ok(opened) => opened,
            Err(error) => return vec![Finding::error("connection", &error)],
        };
        let place = format!("{}:{}", options.get_host(), options.get_port());
        let local = options.get_socket().is_some() || server::is_local(options.get_host());
        let (mut findings, login) = match look(&mut conn, &place, local).await {
            Ok(looked) => looked,
            Err(error) => return vec![Finding::error("connection", &error)],
        };
        let table = match Self::connect(url, mapping.clone()).await {
            Ok(table) => table,
            Err(error) => {
                findings.push(Finding::error("columns", &error));
                return findings;
            }
        };
        for layout in table.layouts() {
            findings.extend(of_table(&mut conn, layout, &login).await);
        }
        if let Some(processed) = &mapping.processed {
            findings.push(processed_grants(&mut conn, &processed.table, &login).await);
        }
        let _ = conn.close().await;
        if !findings.iter().any(|one| one.level == Level::Failure) {
            findings.extend(progress(&table).await);
        }
        findings
    }
}

/// What holds for any table on this server, and who we are there, as a grant names it.
async fn look(conn: &mut MySqlConnection, place: &str, local: bool) -> Result<(Vec<Finding>, String)> {
    let failed = |error| classify(error, "looking at the server");
    let before = SystemTime::now();
    let row = conn.fetch_one(SERVER).await.map_err(failed)?;
    let text = |at: usize| row.try_get_unchecked::<Option<String>, _>(at).ok().flatten().unwrap_or_default();
    let offset = server::offset(text(3).parse().unwrap_or_default(), before);
    let ssl = conn.fetch_optional(SSL).await.map_err(failed)?;
    let ssl = ssl.and_then(|row| row.try_get_unchecked::<String, _>(1).ok()).filter(|ssl| !ssl.is_empty());
    let login = as_granted(&text(1));
    let mut findings =
        vec![Finding::ok("connection", format!("{login} is in database '{}' at {place}", text(2)))];
    let fix = "add ?ssl-mode=VERIFY_IDENTITY to the URL of the connection";
    findings.push(server::encryption(ssl.is_some(), ssl, local, fix));
    findings.push(Finding::ok("version", text(0)));
    findings.push(server::clock(offset));
    if text(4) != "0" && !text(4).eq_ignore_ascii_case("off") {
        let what = "the server is read-only, as a replica is: nothing can be marked";
        findings.push(Finding::failure("writable", what).fix("connect to the primary"));
    }
    Ok((findings, login))
}

/// `app@%` as a grant needs it.
fn as_granted(login: &str) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    match login.rsplit_once('@') {
        Some((user, host)) => format!("{}@{}", quoted(user), quoted(host)),
        None => quoted(login),
    }
}

async fn of_table(conn: &mut MySqlConnection, layout: &Arc<Layout>, login: &str) -> Vec<Finding> {
    let (mapping, name) = (&layout.mapping, &layout.table);
    let mut findings = vec![Finding::ok("columns", format!("table '{name}' is as the mapping says"))];
    let quoted = |names: Vec<String>| names.into_iter().map(|name| format!("`{}`", name.replace('`', "``")));
    let table = name.quoted(Dialect::MySql);
    let columns: Vec<_> = layout.columns().cloned().collect();
    let read = quoted(read_columns(mapping, &columns)).collect::<Vec<_>>().join(", ");
    let mut wanted = vec![("SELECT", format!("select {read} from {table} where 1 = 0"))];
    let set = quoted(set_columns(mapping, &columns)).map(|name| format!("{name} = {name}"));
    let set = set.collect::<Vec<_>>().join(", ");
    if !set.is_empty() {
        wanted.push(("UPDATE", format!("update {table} set {set} where 1 = 0")));
    }
    if mapping.done == Done::Delete {
        wanted.push(("DELETE", format!("delete from {table} where 1 = 0")));
    }
    findings.push(grants(conn, name, login, &wanted).await);
    findings.push(match catalog::indexes(conn, name).await {
        Ok(indexes) => index::judge(layout, &indexes),
        Err(error) => Finding::error("claim index", &error),
    });
    findings
}

async fn processed_grants(conn: &mut MySqlConnection, name: &TableName, login: &str) -> Finding {
    let table = name.quoted(Dialect::MySql);
    let wanted = [
        ("SELECT", format!("select * from {table} where 1 = 0")),
        ("INSERT", format!("insert into {table} select * from {table} where 1 = 0")),
    ];
    grants(conn, name, login, &wanted).await
}

/// Whether each statement may be run: to explain one takes the rights of running it, whoever gave them.
async fn grants(
    conn: &mut MySqlConnection,
    name: &TableName,
    login: &str,
    wanted: &[(&str, String)],
) -> Finding {
    let mut missing = Vec::new();
    for (right, sql) in wanted {
        let asked = sqlx::raw_sql(AssertSqlSafe(format!("explain {sql}"))).execute(&mut *conn).await;
        match asked {
            Ok(_) => {}
            // The command, or a column of it, is denied.
            Err(error) if matches!(number(&error), Some(1142 | 1143)) => missing.push(*right),
            Err(error) => return Finding::error("grants", &classify(error, "looking at the grants")),
        }
    }
    if missing.is_empty() {
        return Finding::ok("grants", format!("{login} has what a relay needs on '{name}'"));
    }
    let missing = missing.join(", ");
    Finding::failure("grants", format!("{login} lacks {missing} on '{name}'"))
        .fix(format!("GRANT {missing} ON {} TO {login};", name.quoted(Dialect::MySql)))
}

async fn progress(table: &Table) -> Vec<Finding> {
    match table.status().await {
        Err(error) => vec![Finding::error("pending", &error)],
        Ok(shards) => {
            let lag = shards.iter().filter_map(|shard| shard.lag_seconds).fold(0.0, f64::max);
            let sum = |count: fn(&CursorStatus) -> u64| shards.iter().map(count).sum::<u64>();
            let pending = sum(|shard| shard.pending);
            vec![backlog(pending, (pending > 0).then_some(lag)), dead_letters(sum(|shard| shard.dead))]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_as_a_grant_needs_it() {
        assert_eq!(as_granted("app@%"), "'app'@'%'");
        assert_eq!(as_granted("a@b@localhost"), "'a@b'@'localhost'");
    }
}
