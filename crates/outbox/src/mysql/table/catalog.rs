//! Which tables and columns there are.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use sqlx::mysql::{MySqlPool, MySqlRow};
use sqlx::{MySqlConnection, Row};

use super::index::Index;
use super::lock::Place;
use crate::error::{Error, ErrorKind, Result};
use crate::mysql::error::classify;
use crate::schema::{Column, Dialect, Name, TableName, Type, Unique};
use crate::table::{Layout, Mapping, Tables};

/// A table's columns; each cell as characters, for their types differ between MariaDB and MySQL.
const COLUMNS: &str = "
    select cast(column_name as char), cast(data_type as char), cast(column_type as char),
           cast(collation_name as char), cast(character_maximum_length as char), cast(is_nullable as char),
           cast(column_default as char), cast(extra as char)
    from information_schema.columns
    where table_schema = coalesce(?, database()) and table_name = ?
    order by ordinal_position";

/// Columns that alone make a unique index.
const UNIQUE: &str = "
    select cast(min(column_name) as char)
    from information_schema.statistics
    where table_schema = coalesce(?, database()) and table_name = ? and non_unique = 0
    group by index_name
    having count(*) = 1 and max(sub_part) is null";

/// The columns of each unique index; none in place of an expression or of a part of a column.
const UNIQUE_SETS: &str = "
    select cast(index_name as char), if(sub_part is null, cast(column_name as char), null)
    from information_schema.statistics
    where table_schema = coalesce(?, database()) and table_name = ? and non_unique = 0";

/// Indexes by which rows can be found, with the column they begin with; the best first.
const INDEXES: &str = "
    select cast(column_name as char), cast(index_name as char)
    from information_schema.statistics
    where table_schema = coalesce(?, database()) and table_name = ?
      and seq_in_index = 1 and sub_part is null and index_type = 'BTREE'
    order by index_name <> 'PRIMARY', non_unique, index_name";

/// Every index by which rows can be found, with its columns in order; nothing in place of an expression.
const ALL_INDEXES: &str = "
    select cast(index_name as char), cast(column_name as char)
    from information_schema.statistics
    where table_schema = coalesce(?, database()) and table_name = ? and index_type = 'BTREE'
    order by index_name <> 'PRIMARY', index_name, seq_in_index";

/// What keeps a table, and where it is.
const ENGINE: &str = "
    select cast(coalesce(engine, table_type) as char), cast(table_schema as char)
    from information_schema.tables
    where table_schema = coalesce(?, database()) and table_name = ?";

/// Tables of a database whose names begin and end so.
const TABLES: &str = "
    select cast(table_schema as char), cast(table_name as char)
    from information_schema.tables
    where table_schema = coalesce(?, database()) and table_type = 'BASE TABLE'
    order by char_length(table_name), table_name";

/// Every table that the mapping means, checked; with its place among the locks.
pub(super) async fn find(pool: &MySqlPool, mapping: &Arc<Mapping>) -> Result<Vec<(Arc<Layout>, Place)>> {
    let mut conn = pool.acquire().await.map_err(|error| classify(error, "reading the catalogue"))?;
    let names = names(&mut conn, &mapping.tables).await?;
    let mut misfits = Vec::new();
    if names.is_empty() {
        misfits.push(format!("there is no table '{}', or none is visible to this user", mapping.tables));
    }
    let processed = match &mapping.processed {
        Some(processed) => {
            misfits.extend(engine(&mut conn, &processed.table).await?.err());
            columns(&mut conn, &processed.table).await?
        }
        None => Vec::new(),
    };
    let mut tables = Vec::new();
    for name in names {
        let database = match engine(&mut conn, &name).await? {
            Ok(database) => database,
            Err(misfit) => {
                misfits.push(misfit);
                continue;
            }
        };
        let columns = columns(&mut conn, &name).await?;
        let index = id_index(&mut conn, &name, &mapping.id).await?;
        if index.is_none() && columns.iter().any(|column| column.name == mapping.id.as_str()) {
            misfits.push(format!(
                "id: table '{name}' has no index that begins with '{}', so one row could not be locked without others; \
                 create one",
                mapping.id
            ));
        }
        let place = Place::new(&database, name.table.as_str());
        match Layout::check(mapping.clone(), Dialect::MySql, name, columns, processed.clone()) {
            Ok(layout) => tables.push((Arc::new(layout.with_id_index(index)), place)),
            Err(found) => misfits
                .extend(found.into_iter().filter(|misfit| !misfits.contains(misfit)).collect::<Vec<_>>()),
        }
    }
    if misfits.is_empty() {
        return Ok(tables);
    }
    Err(Error::new(ErrorKind::Mapping, format!("the mapping does not fit: {}", misfits.join("; "))))
}

/// The database of a table that can be read; if it cannot, why. One that is not there is told with its columns.
async fn engine(conn: &mut MySqlConnection, table: &TableName) -> Result<Result<String, String>> {
    let rows = ask(conn, ENGINE, table).await?;
    let Some(row) = rows.first() else { return Ok(Ok(String::new())) };
    let engine = text(row, 0).unwrap_or_default();
    if engine.eq_ignore_ascii_case("InnoDB") {
        return Ok(Ok(text(row, 1).unwrap_or_default()));
    }
    Ok(Err(format!("table '{table}' is {engine}, which locks no single rows; it must be InnoDB")))
}

/// A table's columns and unique indexes; nothing if there is no such table.
pub(in crate::mysql) async fn look_at(
    pool: &MySqlPool,
    table: &TableName,
) -> Result<(Vec<Column>, Vec<Unique>)> {
    let mut conn = pool.acquire().await.map_err(|error| classify(error, "reading the catalogue"))?;
    if let Err(misfit) = engine(&mut conn, table).await? {
        return Err(Error::new(ErrorKind::Mapping, misfit));
    }
    let columns = columns(&mut conn, table).await?;
    let mut indexes = BTreeMap::<String, Option<Unique>>::new();
    for row in ask(&mut conn, UNIQUE_SETS, table).await? {
        let names = indexes.entry(text(&row, 0).unwrap_or_default()).or_insert_with(|| Some(Unique::new()));
        match (text(&row, 1), &mut *names) {
            (Some(column), Some(columns)) => drop(columns.insert(column)),
            _ => *names = None,
        }
    }
    Ok((columns, indexes.into_values().flatten().collect()))
}

async fn ask(conn: &mut MySqlConnection, query: &'static str, table: &TableName) -> Result<Vec<MySqlRow>> {
    let rows = sqlx::query(query)
        .bind(table.schema.as_ref().map(Name::as_str))
        .bind(table.table.as_str())
        .persistent(false)
        .fetch_all(conn)
        .await;
    rows.map_err(|error| classify(error, format_args!("looking at table '{table}'")))
}

fn text(row: &MySqlRow, at: usize) -> Option<String> {
    row.try_get_unchecked::<Option<String>, _>(at).ok().flatten()
}

async fn names(conn: &mut MySqlConnection, tables: &Tables) -> Result<Vec<TableName>> {
    let (schema, prefix, suffix) = match tables {
        Tables::Named(names) => return Ok(names.clone()),
        Tables::Pattern { schema, prefix, suffix } => (schema, prefix, suffix),
    };
    let rows = sqlx::query(TABLES)
        .bind(schema.as_ref().map(Name::as_str))
        .persistent(false)
        .fetch_all(conn)
        .await
        .map_err(|error| classify(error, "looking for tables"))?;
    let name = |row: &MySqlRow| {
        let found = text(row, 1)?;
        let inner = found.strip_prefix(prefix.as_str())?.strip_suffix(suffix.as_str())?;
        // One that breaks our grammar cannot be meant by a pattern that keeps it.
        let table = Name::parse_table(&found).ok().filter(|_| !inner.is_empty())?;
        Some(TableName { schema: Some(Name::parse(&text(row, 0)?).ok()?), table })
    };
    Ok(rows.iter().filter_map(name).collect())
}

async fn id_index(conn: &mut MySqlConnection, table: &TableName, id: &Name) -> Result<Option<Name>> {
    let rows = ask(conn, INDEXES, table).await?;
    let found = rows.iter().find(|row| text(row, 0).is_some_and(|column| column == id.as_str()));
    Ok(found.and_then(|row| Name::parse(&text(row, 1)?).ok()))
}

/// The indexes of a table.
pub(super) async fn indexes(conn: &mut MySqlConnection, table: &TableName) -> Result<Vec<Index>> {
    let mut indexes: Vec<Index> = Vec::new();
    for row in ask(conn, ALL_INDEXES, table).await? {
        let (name, column) = (text(&row, 0).unwrap_or_default(), text(&row, 1).unwrap_or_default());
        match indexes.last_mut() {
            Some(index) if index.name == name => index.columns.push(column),
            _ => indexes.push(Index { name, columns: vec![column] }),
        }
    }
    Ok(indexes)
}

async fn columns(conn: &mut MySqlConnection, table: &TableName) -> Result<Vec<Column>> {
    let unique: HashSet<String> =
        ask(conn, UNIQUE, table).await?.iter().filter_map(|row| text(row, 0)).collect();
    let column = |row: &MySqlRow| {
        let cell = |at: usize| text(row, at).unwrap_or_default();
        let (name, full, collation) = (cell(0), cell(2), text(row, 3));
        let nullable = cell(5) == "YES";
        let extra = cell(7).to_ascii_lowercase();
        let given = text(row, 6).is_some() || extra.contains("auto_increment") || extra.contains("generated");
        Column {
            kind: kind(&cell(1).to_ascii_lowercase(), &full, text(row, 4)),
            // With its collation: texts of two can be compared only if one of them is told to give way.
            type_name: collation.map_or(full.clone(), |collation| format!("{full} collate {collation}")),
            nullable,
            optional: nullable || given,
            unique: unique.contains(&name),
            name,
        }
    };
    Ok(ask(conn, COLUMNS, table).await?.iter().map(column).collect())
}

/// What a type means to us; `full` is the type as it was declared.
fn kind(name: &str, full: &str, length: Option<String>) -> Type {
    let length = length.and_then(|length| length.parse().ok());
    match name {
        "char" | "varchar" => Type::Text(length),
        // Told in bytes, of which a character may take four.
        "tinytext" | "text" => Type::Text(length.map(|bytes: u32| bytes / 4)),
        "mediumtext" | "longtext" => Type::Text(None),
        "json" => Type::Json,
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Type::Bytes,
        "uuid" => Type::Uuid,
        "tinyint" if full.starts_with("tinyint(1)") => Type::Bool,
        "bit" if full == "bit(1)" => Type::Bool,
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Type::Integer,
        "enum" => Type::Enum(labels(full)),
        // TIMESTAMP is kept in UTC and shown in the session's zone, which is UTC; DATETIME is taken to be UTC.
        "datetime" | "timestamp" => Type::Time { zoned: false },
        _ => Type::Other,
    }
}

/// The words of `enum('a','b')`; a quote inside of one is doubled.
fn labels(full: &str) -> Vec<String> {
    let inner = full.trim_start_matches("enum").trim_start_matches('(').trim_end_matches(')');
    let (mut labels, mut label, mut inside) = (Vec::new(), String::new(), false);
    let mut chars = inner.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\'' if inside && chars.peek() == Some(&'\'') => {
                chars.next();
                label.push('\'');
            }
            '\'' => {
                inside = !inside;
                if !inside {
                    labels.push(std::mem::take(&mut label));
                }
            }
            c if inside => label.push(c),
            _ => {}
        }
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_mean_what_they_hold() {
        let of = |name, full, length: &str| {
            kind(name, full, Some(length.to_owned()).filter(|text| !text.is_empty()))
        };
        assert_eq!(of("varchar", "varchar(200)", "200"), Type::Text(Some(200)));
        assert_eq!(of("tinytext", "tinytext", "255"), Type::Text(Some(63)));
        assert_eq!(of("tinyint", "tinyint(1)", ""), Type::Bool);
        assert_eq!(of("tinyint", "tinyint(3) unsigned", ""), Type::Integer);
        assert_eq!(of("bigint", "bigint(20) unsigned", ""), Type::Integer);
        assert_eq!(of("bit", "bit(8)", ""), Type::Other);
        let words = ["NEW", "it's", "a,b", ""].map(str::to_owned).to_vec();
        assert_eq!(of("enum", "enum('NEW','it''s','a,b','')", ""), Type::Enum(words));
    }
}
