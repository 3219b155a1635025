//! A look at a mapped table: whether it is as the mapping says, ours to use, and fit for claims. Nothing is changed.
//!
//! Each step stands alone: a mapping that does not fit, or a grant that is missing, does not hide the rest.

use std::sync::Arc;

use serde_json::Value as Json;
use sqlx::{PgConnection, Row};

use super::index::{Look, Reads, judge};
use super::{Table, catalog, driver};
use crate::admin::Admin;
use crate::error::Result;
use crate::finding::{Finding, Level};
use crate::postgres::connect;
use crate::postgres::examine::{self, look};
use crate::server::{backlog, dead_letters};
use crate::table::sql::{Except, Lane};
use crate::table::touched::{read_columns, set_columns};
use crate::table::{ClaimBy, Column, Dialect, Done, Layout, Mapping, Name, Reading, TableName};

/// The rows that a claim is planned for.
const BATCH: usize = 100;

/// Not all of them exist in every version.
const FORCE: &str = "
    select set_config(name, 'off', true) from pg_settings
    where name in ('enable_seqscan', 'enable_sort', 'enable_bitmapscan')";

const SIZE: &str = "
    select sum(case when c.reltuples < 0 then 0 else c.reltuples end)::float8 as rows,
           bool_or(c.reltuples < 0 and c.relkind <> 'p') as unknown,
           coalesce((select relkind = 'p' from pg_class where oid = $1::bigint::oid), false) as partitioned
    from pg_class c
    where c.oid = $1::bigint::oid or c.oid in (select inhrelid from pg_inherits where inhparent = $1::bigint::oid)";

const PARTIAL: &str = "
    select c.relname::text as name from pg_index i join pg_class c on c.oid = i.indexrelid
    where i.indpred is not null and (i.indrelid = $1::bigint::oid
        or i.indrelid in (select inhrelid from pg_inherits where inhparent = $1::bigint::oid))";

const ALLOWED: &str = "
    select quote_ident(current_user) as login, has_table_privilege($1::bigint::oid, 'select') as reads,
           has_table_privilege($1::bigint::oid, 'update') as updates,
           has_any_column_privilege($1::bigint::oid, 'update') as updates_some,
           has_table_privilege($1::bigint::oid, 'delete') as deletes,
           has_table_privilege($1::bigint::oid, 'insert') as inserts,
           array(select c from unnest($2::text[]) as c where not has_column_privilege($1::bigint::oid, c, 'select')) as unread,
           array(select c from unnest($3::text[]) as c where not has_column_privilege($1::bigint::oid, c, 'update')) as unset";

impl Table {
    /// Looks at a server and at the tables of a mapping as a pipe would read them, and changes nothing.
    pub async fn examine(url: &str, mapping: &Mapping, reading: &Reading) -> Vec<Finding> {
        let (options, mut conn) = match examine::connect(url).await {
            Ok(connected) => connected,
            Err(finding) => return vec![finding],
        };
        let mut findings = match examine::server(&options, &mut conn, 12).await {
            Ok(findings) => findings,
            Err(error) => vec![Finding::error("connection", &error)],
        };
        match seen(&mut conn, mapping).await {
            Ok(seen) => findings.extend(tables(&mut conn, &seen, reading).await),
            Err(error) => findings.push(Finding::error("columns", &error)),
        }
        let tables = match &mapping.tables {
            crate::table::Tables::Named(names) => names.len(),
            crate::table::Tables::Pattern { .. } => 2,
        };
        if tables > 1
            || reading.lanes > 1
            || mapping.lock.is_some()
            || (reading.ordered && mapping.key.is_some())
        {
            match connect::is_pooled(&options, &mut conn).await {
                Ok(pooled) => findings.push(session(pooled)),
                Err(error) => findings.push(Finding::error("session", &error)),
            }
        }
        // What does not fit cannot be counted, and was told.
        if !findings.iter().any(|one| one.level == Level::Failure) {
            findings.extend(progress(url, mapping).await);
        }
        findings
    }
}

/// What the catalogue says, before it is judged.
struct Seen {
    mapping: Arc<Mapping>,
    tables: Vec<(TableName, Vec<Column>, u32)>,
    processed: Vec<Column>,
    processed_oid: u32,
    /// Schemas that are there and closed to us, with the name of this user.
    closed: Vec<(String, String)>,
}

async fn seen(conn: &mut PgConnection, mapping: &Mapping) -> Result<Seen> {
    let mapping = Arc::new(mapping.clone());
    let failed = |error| driver::classify(error, "reading the catalogue");
    let mut tx = look(conn).await.map_err(failed)?;
    let names = catalog::names(&mut tx, &mapping.tables).await?;
    let mut seen =
        Seen { mapping, tables: Vec::new(), processed: Vec::new(), processed_oid: 0, closed: Vec::new() };
    let processed = seen.mapping.processed.as_ref().map(|processed| processed.table.clone());
    for name in names.iter().chain(&processed) {
        if let Some(schema) = &name.schema
            && let Some(login) = closed(&mut tx, schema).await?
        {
            let closed = (schema.quoted(Dialect::Postgres), login);
            if !seen.closed.contains(&closed) {
                seen.closed.push(closed);
            }
        }
    }
    if seen.closed.is_empty() {
        for name in names {
            let (columns, oid) = catalog::columns(&mut tx, &name).await?;
            seen.tables.push((name, columns, oid));
        }
        if let Some(processed) = &processed {
            (seen.processed, seen.processed_oid) = catalog::columns(&mut tx, processed).await?;
        }
    }
    tx.rollback().await.map_err(failed)?;
    Ok(seen)
}

/// The name of this user, if it may not use a schema that is there.
async fn closed(conn: &mut PgConnection, schema: &Name) -> Result<Option<String>> {
    const USAGE: &str = "
        select quote_ident(current_user) as login from pg_namespace
        where nspname = $1 and not has_schema_privilege(oid, 'usage')";
    let row = sqlx::query(USAGE).bind(schema.as_str()).persistent(false).fetch_optional(conn).await;
    let row = row.map_err(|error| driver::classify(error, "looking at the schema"))?;
    Ok(row.map(|row| row.get("login")))
}

async fn tables(conn: &mut PgConnection, seen: &Seen, reading: &Reading) -> Vec<Finding> {
    let mapping = &seen.mapping;
    let mut findings = Vec::new();
    for (schema, login) in &seen.closed {
        let evidence = format!("{login} may not use the schema {schema}");
        findings.push(
            Finding::failure("grants", evidence).fix(format!("GRANT USAGE ON SCHEMA {schema} TO {login};")),
        );
    }
    if !seen.closed.is_empty() {
        return findings;
    }
    if seen.tables.is_empty() {
        let evidence = format!("there is no table '{}', or none is visible to this user", mapping.tables);
        findings.push(Finding::failure("columns", evidence).fix(MAPPING_HELP));
    }
    for (name, columns, oid) in &seen.tables {
        let checked = Layout::check(
            mapping.clone(),
            Dialect::Postgres,
            name.clone(),
            columns.clone(),
            seen.processed.clone(),
        );
        match &checked {
            Ok(_) => findings.push(Finding::ok("columns", format!("table '{name}' is as the mapping says"))),
            Err(misfits) => findings
                .extend(misfits.iter().map(|misfit| Finding::failure("columns", misfit).fix(MAPPING_HELP))),
        }
        if *oid == 0 {
            continue;
        }
        let allowed = match grants(conn, mapping, name, columns, *oid).await {
            Ok(finding) => finding,
            Err(error) => Finding::error("grants", &error),
        };
        let may = allowed.level == Level::Ok;
        findings.push(allowed);
        findings.extend(id(name, columns, &mapping.id));
        if let (Ok(layout), true) = (checked, may) {
            findings.push(match claim(conn, &layout, *oid, reading).await {
                Ok(finding) => finding,
                Err(error) => Finding::error("claim index", &error),
            });
        }
    }
    if let (Some(processed), true) = (&mapping.processed, seen.processed_oid != 0) {
        findings.push(match processed_grants(conn, &processed.table, seen.processed_oid).await {
            Ok(finding) => finding,
            Err(error) => Finding::error("grants", &error),
        });
    }
    findings
}

const MAPPING_HELP: &str = "change the mapping in the configuration, or the table";

async fn grants(
    conn: &mut PgConnection,
    mapping: &Mapping,
    name: &TableName,
    columns: &[Column],
    oid: u32,
) -> Result<Finding> {
    let failed = |error| driver::classify(error, "looking at the grants");
    let mut tx = look(conn).await.map_err(failed)?;
    let row = sqlx::query(ALLOWED)
        .bind(i64::from(oid))
        .bind(read_columns(mapping, columns))
        .bind(set_columns(mapping, columns))
        .persistent(false)
        .fetch_one(&mut *tx)
        .await
        .map_err(failed)?;
    tx.rollback().await.map_err(failed)?;
    let mut missing = Vec::new();
    if !row.get::<bool, _>("reads") && !row.get::<Vec<String>, _>("unread").is_empty() {
        missing.push("SELECT");
    }
    // To lock a row takes the right to update some column of it.
    let sets = row.get::<bool, _>("updates_some") && row.get::<Vec<String>, _>("unset").is_empty();
    if !row.get::<bool, _>("updates") && !sets {
        missing.push("UPDATE");
    }
    if mapping.done == Done::Delete && !row.get::<bool, _>("deletes") {
        missing.push("DELETE");
    }
    Ok(granted(&missing, name, &row.get::<String, _>("login")))
}

async fn processed_grants(conn: &mut PgConnection, name: &TableName, oid: u32) -> Result<Finding> {
    let failed = |error| driver::classify(error, "looking at the grants");
    let mut tx = look(conn).await.map_err(failed)?;
    let nothing = Vec::<String>::new();
    let query = sqlx::query(ALLOWED).bind(i64::from(oid)).bind(&nothing).bind(&nothing).persistent(false);
    let row = query.fetch_one(&mut *tx).await.map_err(failed)?;
    tx.rollback().await.map_err(failed)?;
    let missing: Vec<_> = [("SELECT", "reads"), ("INSERT", "inserts")]
        .into_iter()
        .filter(|(_, may)| !row.get::<bool, _>(*may))
        .map(|(word, _)| word)
        .collect();
    Ok(granted(&missing, name, &row.get::<String, _>("login")))
}

fn granted(missing: &[&str], name: &TableName, login: &str) -> Finding {
    if missing.is_empty() {
        return Finding::ok("grants", format!("{login} has what a relay needs on '{name}'"));
    }
    let missing = missing.join(", ");
    Finding::failure("grants", format!("{login} lacks {missing} on '{name}'"))
        .fix(format!("GRANT {missing} ON {} TO {login};", name.quoted(Dialect::Postgres)))
}

fn id(name: &TableName, columns: &[Column], id: &Name) -> Option<Finding> {
    let column = columns.iter().find(|column| column.name == id.as_str())?;
    if column.unique && !column.nullable {
        return Some(Finding::ok("id", format!("'{id}' of '{name}' is unique")));
    }
    let (table, quoted) = (name.quoted(Dialect::Postgres), id.quoted(Dialect::Postgres));
    if column.unique {
        return Some(
            Finding::warning(
                "id",
                format!("'{id}' of '{name}' may be null, and such a row is never carried"),
            )
            .fix(format!("ALTER TABLE {table} ALTER COLUMN {quoted} SET NOT NULL;")),
        );
    }
    let evidence = format!(
        "'{id}' of '{name}' has no unique index: rows with one id would be marked together, and each mark reads all rows"
    );
    Some(
        Finding::warning("id", evidence)
            .fix(format!("CREATE UNIQUE INDEX CONCURRENTLY ON {table} ({quoted});")),
    )
}

/// Whether the claim, the very statement, is served by an index.
async fn claim(conn: &mut PgConnection, layout: &Layout, oid: u32, reading: &Reading) -> Result<Finding> {
    let failed = |error| driver::classify(error, "looking at the plan of the claim");
    let (lane, except) = (Lane { number: 0, of: reading.lanes.max(1) }, Except::default());
    let mut sql = match &layout.mapping.claim {
        ClaimBy::Lock => layout.claim(BATCH, lane, &except),
        ClaimBy::Stamp { column, .. } => layout.claim_by_stamp(BATCH, lane, &except, column),
    };
    sql.text.insert_str(0, "explain (format json) ");
    let mut tx = look(conn).await.map_err(failed)?;
    let size =
        sqlx::query(SIZE).bind(i64::from(oid)).persistent(false).fetch_one(&mut *tx).await.map_err(failed)?;
    let partial = sqlx::query(PARTIAL).bind(i64::from(oid)).persistent(false).fetch_all(&mut *tx).await;
    let partial = partial.map_err(failed)?.iter().map(|row| row.get("name")).collect();
    let liked = plan(&mut tx, &sql).await.map_err(failed)?;
    sqlx::query(FORCE).persistent(false).fetch_all(&mut *tx).await.map_err(failed)?;
    let forced = plan(&mut tx, &sql).await.map_err(failed)?;
    tx.rollback().await.map_err(failed)?;
    let rows = if size.get("unknown") { -1.0 } else { size.get("rows") };
    let partitioned = size.get("partitioned");
    Ok(judge(&Look { layout, rows, partitioned, liked, forced, partial }))
}

async fn plan(conn: &mut PgConnection, sql: &crate::table::sql::Sql) -> sqlx::Result<Reads> {
    let row = driver::query(sql).fetch_one(conn).await?;
    let text = row.try_get_raw(0)?;
    let text = text.as_bytes().map_err(sqlx::Error::Decode)?;
    let plan: Json = serde_json::from_slice(text).map_err(|error| sqlx::Error::Decode(error.into()))?;
    Ok(Reads::of(&plan))
}

fn session(pooled: bool) -> Finding {
    if !pooled {
        return Finding::ok("session", "a connection keeps its session, so an advisory lock holds");
    }
    let evidence = "a pooler gives every transaction another session, and this source needs advisory locks of one that stays";
    Finding::failure("session", evidence)
        .fix("connect to PostgreSQL itself (or a pool in session mode), or set order = \"none\" with one lane, one table and no lock")
}

async fn progress(url: &str, mapping: &Mapping) -> Vec<Finding> {
    let told = async { Table::connect(url, mapping.clone()).await?.status().await };
    match told.await {
        Err(error) => vec![Finding::error("pending", &error)],
        Ok(shards) => {
            let lag = shards.iter().filter_map(|shard| shard.lag_seconds).fold(0.0, f64::max);
            let sum = |count: fn(&crate::admin::CursorStatus) -> u64| shards.iter().map(count).sum::<u64>();
            let pending = sum(|shard| shard.pending);
            vec![backlog(pending, (pending > 0).then_some(lag)), dead_letters(sum(|shard| shard.dead))]
        }
    }
}
