//! Which tables a database has, for whoever looks for the outbox among them. Nothing is changed.

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use super::{Table, catalog, driver};
use crate::error::Result;
use crate::postgres::connect;
use crate::postgres::examine::look;
use crate::table::{Dialect, Name, Seen, TableName, is_status};

/// Tables that we may look at, in schemas that are somebody's; those of our own log are known.
const TABLES: &str = "
    select n.nspname::text as schema, c.relname::text as name, pg_table_is_visible(c.oid) as visible
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and not c.relispartition
      and n.nspname not like 'pg\\_%' and n.nspname <> 'information_schema'
      and has_schema_privilege(n.oid, 'usage')
      and not (n.nspname = 'outbox' and exists (
          select from pg_class k where k.relnamespace = n.oid and k.relname = 'cursors'))
    order by not pg_table_is_visible(c.oid), n.nspname, c.relname
    limit 2000";

/// A text with its type is how a default of a text or an enum is written.
const DEFAULT: &str = "
    select substring(pg_get_expr(d.adbin, d.adrelid) from '^''([^'']*)''') as value
    from pg_attrdef d join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
    where d.adrelid = $1::bigint::oid and a.attname = $2";

impl Table {
    /// Every table that this user can see, with its columns, and the values of columns that look like a status.
    pub async fn discover(url: &str) -> Result<Vec<Seen>> {
        let mut conn = connect::connection(&connect::options(url)?).await?;
        let failed = |error| driver::classify(error, "looking at the tables");
        let mut tx = look(&mut conn).await.map_err(failed)?;
        let rows = sqlx::query(TABLES).persistent(false).fetch_all(&mut *tx).await.map_err(failed)?;
        let mut tables = Vec::new();
        for row in rows {
            let (schema, name): (String, String) = (row.get("schema"), row.get("name"));
            // What our grammar does not take cannot be mapped.
            let (Ok(in_schema), Ok(table)) = (Name::parse(&schema), Name::parse(&name)) else { continue };
            let table = TableName { schema: Some(in_schema), table };
            let (columns, oid) = catalog::columns(&mut tx, &table).await?;
            let seen = Seen { schema, name, visible: row.get("visible"), columns, values: Vec::new() };
            tables.push((seen, table, oid));
        }
        tx.rollback().await.map_err(failed)?;
        let mut found = Vec::new();
        for (mut seen, table, oid) in tables {
            for column in seen.columns.iter().filter(|column| is_status(column)) {
                // A table that we may not read has its columns all the same.
                if let Ok(values) = values(&mut conn, &table, &column.name, oid).await {
                    seen.values.extend(values.into_iter().map(|value| (column.name.clone(), value)));
                }
            }
            found.push(seen);
        }
        let _ = conn.close().await;
        Ok(found)
    }
}

/// The default of a column, and what stands in some rows.
async fn values(
    conn: &mut PgConnection,
    table: &TableName,
    column: &str,
    oid: u32,
) -> sqlx::Result<Vec<String>> {
    let Ok(name) = Name::parse(column) else { return Ok(Vec::new()) };
    let mut tx = look(conn).await?;
    let default = sqlx::query(DEFAULT).bind(i64::from(oid)).bind(column).persistent(false);
    let default = default.fetch_optional(&mut *tx).await?;
    let mut values: Vec<String> = default.and_then(|row| row.get("value")).into_iter().collect();
    let (table, name) = (table.quoted(Dialect::Postgres), name.quoted(Dialect::Postgres));
    let sql = format!(
        "select distinct v from (select {name}::text as v from {table} limit 1000) as some where v is not null limit 20"
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).persistent(false).fetch_all(&mut *tx).await;
    tx.rollback().await?;
    for row in rows.unwrap_or_default() {
        let value: String = row.get("v");
        if !values.contains(&value) {
            values.push(value);
        }
    }
    Ok(values)
}
