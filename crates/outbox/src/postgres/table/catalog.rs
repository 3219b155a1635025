//! Which tables and columns there are.

use std::sync::Arc;

use sqlx::postgres::PgPool;
use sqlx::{PgConnection, Row};

use super::driver::classify;
use crate::error::{Error, ErrorKind, Result};
use crate::schema::{Column, Dialect, Name, TableName, Type, Unique};
use crate::table::{Layout, Mapping, Tables};

/// A table with its columns; a domain counts as what it is made of.
const COLUMNS: &str = "
    select a.attname::text as name, b.typname::text as type_name, b.typtype::text as type_kind,
           not a.attnotnull as nullable,
           (not a.attnotnull or a.atthasdef or a.attidentity <> '' or a.attgenerated <> '') as optional,
           a.atttypmod as modifier,
           (select array_agg(e.enumlabel::text order by e.enumsortorder) from pg_enum e where e.enumtypid = b.oid) as labels,
           exists (
               select from pg_index i
               where i.indrelid = a.attrelid and i.indisunique and i.indisvalid and i.indpred is null
                 and i.indnkeyatts = 1 and i.indkey[0] = a.attnum
           ) as is_unique,
           a.attrelid::bigint as oid
    from pg_attribute a
    join pg_type t on t.oid = a.atttypid
    join pg_type b on b.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
    where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped
    order by a.attnum";

/// The columns of each unique index that holds for every row at once, as `on conflict` needs it.
const UNIQUE: &str = "
    select array_agg(a.attname::text) as columns
    from pg_index i join pg_attribute a on a.attrelid = i.indrelid
    where i.indrelid = to_regclass($1) and i.indisunique and i.indisvalid and i.indimmediate
      and i.indpred is null and i.indexprs is null
      and a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1])
    group by i.indexrelid";

/// Tables of a schema whose names begin and end so.
const TABLES: &str = "
    select n.nspname::text as schema, c.relname::text as name
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and n.nspname = coalesce($1, current_schema())
      and starts_with(c.relname::text, $2) and right(c.relname::text, length($3)) = $3
      and length(c.relname::text) > length($2) + length($3)
      -- The rows of a partition are those of its parent.
      and not exists (
          select from pg_inherits i join pg_class p on p.oid = i.inhparent
          where i.inhrelid = c.oid and starts_with(p.relname::text, $2) and right(p.relname::text, length($3)) = $3
            and length(p.relname::text) > length($2) + length($3)
      )
    order by length(c.relname::text), c.relname";

/// Every table that the mapping means, checked; with its number in the catalogue.
pub(super) async fn find(pool: &PgPool, mapping: &Arc<Mapping>) -> Result<Vec<(Arc<Layout>, u32)>> {
    let failed = |error| classify(error, "reading the catalogue");
    let mut tx = pool.begin().await.map_err(failed)?;
    let names = names(&mut tx, &mapping.tables).await?;
    let mut misfits = Vec::new();
    if names.is_empty() {
        misfits.push(format!("there is no table '{}', or none is visible to this user", mapping.tables));
    }
    let processed = match &mapping.processed {
        Some(processed) => columns(&mut tx, &processed.table).await?.0,
        None => Vec::new(),
    };
    let mut tables = Vec::new();
    for name in names {
        let (columns, oid) = columns(&mut tx, &name).await?;
        match Layout::check(mapping.clone(), Dialect::Postgres, name, columns, processed.clone()) {
            Ok(layout) => tables.push((Arc::new(layout), oid)),
            Err(found) => misfits
                .extend(found.into_iter().filter(|misfit| !misfits.contains(misfit)).collect::<Vec<_>>()),
        }
    }
    tx.rollback().await.map_err(failed)?;
    if misfits.is_empty() {
        return Ok(tables);
    }
    Err(Error::new(ErrorKind::Mapping, format!("the mapping does not fit: {}", misfits.join("; "))))
}

pub(super) async fn names(conn: &mut PgConnection, tables: &Tables) -> Result<Vec<TableName>> {
    let (schema, prefix, suffix) = match tables {
        Tables::Named(names) => return Ok(names.clone()),
        Tables::Pattern { schema, prefix, suffix } => (schema, prefix, suffix),
    };
    let rows = sqlx::query(TABLES)
        .bind(schema.as_ref().map(Name::as_str))
        .bind(prefix)
        .bind(suffix)
        .persistent(false)
        .fetch_all(conn)
        .await
        .map_err(|error| classify(error, "looking for tables"))?;
    let name = |row: &sqlx::postgres::PgRow| {
        // One that breaks our grammar cannot be meant by a pattern that keeps it.
        let table = Name::parse(&row.get::<String, _>("name")).ok()?;
        Some(TableName { schema: Some(Name::parse(&row.get::<String, _>("schema")).ok()?), table })
    };
    Ok(rows.iter().filter_map(name).collect())
}

/// A table's columns and unique indexes; nothing if there is no such table.
pub(in crate::postgres) async fn look_at(
    pool: &PgPool,
    table: &TableName,
) -> Result<(Vec<Column>, Vec<Unique>)> {
    let failed = |error| classify(error, format_args!("looking at table '{table}'"));
    let mut tx = pool.begin().await.map_err(failed)?;
    let (columns, _) = columns(&mut tx, table).await?;
    let rows = sqlx::query(UNIQUE).bind(table.quoted(Dialect::Postgres)).persistent(false);
    let rows = rows.fetch_all(&mut *tx).await.map_err(failed)?;
    tx.rollback().await.map_err(failed)?;
    let unique = rows.iter().map(|row| row.get::<Vec<String>, _>("columns").into_iter().collect());
    Ok((columns, unique.collect()))
}

pub(super) async fn columns(conn: &mut PgConnection, table: &TableName) -> Result<(Vec<Column>, u32)> {
    let rows = sqlx::query(COLUMNS)
        .bind(table.quoted(Dialect::Postgres))
        .persistent(false)
        .fetch_all(conn)
        .await
        .map_err(|error| classify(error, format_args!("looking at table '{table}'")))?;
    let oid = rows.first().map_or(0, |row| u32::try_from(row.get::<i64, _>("oid")).unwrap_or(0));
    let column = |row: &sqlx::postgres::PgRow| {
        let type_name: String = row.get("type_name");
        Column {
            name: row.get("name"),
            kind: kind(row, &type_name),
            type_name: with_digits(type_name, row.get("modifier")),
            nullable: row.get("nullable"),
            optional: row.get("optional"),
            unique: row.get("is_unique"),
        }
    };
    Ok((rows.iter().map(column).collect(), oid))
}

/// A time that keeps fewer digits than it could says so.
fn with_digits(type_name: String, modifier: i32) -> String {
    if type_name.starts_with("timestamp") && modifier >= 0 {
        format!("{type_name}({modifier})")
    } else {
        type_name
    }
}

fn kind(row: &sqlx::postgres::PgRow, type_name: &str) -> Type {
    if row.get::<String, _>("type_kind") == "e" {
        return Type::Enum(row.get::<Option<Vec<String>>, _>("labels").unwrap_or_default());
    }
    // The modifier of a text with a limit is the limit and four.
    let limit = u32::try_from(row.get::<i32, _>("modifier") - 4).ok();
    match type_name {
        "uuid" => Type::Uuid,
        "int2" | "int4" | "int8" => Type::Integer,
        "varchar" | "bpchar" => Type::Text(limit),
        "text" | "name" | "citext" => Type::Text(None),
        "json" | "jsonb" => Type::Json,
        "bytea" => Type::Bytes,
        "bool" => Type::Bool,
        "timestamptz" => Type::Time { zoned: true },
        "timestamp" => Type::Time { zoned: false },
        _ => Type::Other,
    }
}
