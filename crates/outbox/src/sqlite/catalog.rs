//! What a table that somebody else made looks like.

use std::collections::BTreeSet;

use sqlx::{Row, SqlitePool};

use super::error;
use crate::error::Result;
use crate::schema::{Column, Name, TableName, Type, Unique};

const COLUMNS: &str = "
    SELECT name, upper(type) AS type, \"notnull\" AS required, dflt_value IS NOT NULL AS given, pk
    FROM pragma_table_info(?, coalesce(?, 'main'))";

const UNIQUE: &str = "
    SELECT list.name AS \"index\", info.name AS name
    FROM pragma_index_list(?1, coalesce(?2, 'main')) AS list, pragma_index_info(list.name, coalesce(?2, 'main')) AS info
    WHERE list.\"unique\" AND NOT list.partial";

/// A table's columns and unique indexes; nothing if there is no such table.
pub(super) async fn look_at(pool: &SqlitePool, table: &TableName) -> Result<(Vec<Column>, Vec<Unique>)> {
    let from = error::from(pool);
    let schema = table.schema.as_ref().map(Name::as_str);
    let rows = sqlx::query(COLUMNS).bind(table.table.as_str()).bind(schema).fetch_all(pool).await;
    let rows = rows.map_err(&from)?;
    let key: Unique =
        rows.iter().filter(|row| row.get::<i64, _>("pk") > 0).map(|row| row.get("name")).collect();
    let column = |row: &sqlx::sqlite::SqliteRow| {
        let (name, declared): (String, String) = (row.get("name"), row.get("type"));
        let kind = kind(&declared);
        // The key that is the row's number is given by the database.
        let is_number = kind == Type::Integer && key.len() == 1 && key.contains(&name);
        let nullable = !row.get::<bool, _>("required");
        let optional = nullable || row.get::<bool, _>("given") || is_number;
        let unique = key.len() == 1 && key.contains(&name);
        Column { name, kind, type_name: declared.to_lowercase(), nullable, optional, unique }
    };
    let columns = rows.iter().map(column).collect();
    let rows = sqlx::query(UNIQUE).bind(table.table.as_str()).bind(schema).fetch_all(pool).await;
    let mut indexes = std::collections::BTreeMap::<String, BTreeSet<Option<String>>>::new();
    for row in rows.map_err(&from)? {
        indexes.entry(row.get("index")).or_default().insert(row.get("name"));
    }
    // A part without a name is an expression.
    let mut unique: Vec<Unique> =
        indexes.into_values().filter_map(|names| names.into_iter().collect()).collect();
    if !key.is_empty() {
        unique.push(key);
    }
    Ok((columns, unique))
}

/// What a declared type means to us. SQLite keeps to it loosely, so text and times are told apart by their name only.
fn kind(declared: &str) -> Type {
    let has = |part: &str| declared.contains(part);
    if has("BOOL") {
        Type::Bool
    } else if has("DATE") || has("TIME") {
        Type::Time { zoned: false }
    } else if has("INT") {
        Type::Integer
    } else if has("JSON") {
        Type::Json
    } else if has("CHAR")
        || has("CLOB")
        || has("TEXT")
        || has("UUID")
        || has("GUID")
        || has("UNIQUEIDENTIFIER")
    {
        Type::Text(None)
    } else if has("BLOB") {
        Type::Bytes
    } else {
        Type::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declared_type_says_what_is_meant() {
        for (declared, expected) in [
            ("TEXT", Type::Text(None)),
            ("VARCHAR(36)", Type::Text(None)),
            ("GUID", Type::Text(None)),
            ("DATETIME", Type::Time { zoned: false }),
            ("TIMESTAMP", Type::Time { zoned: false }),
            ("INTEGER", Type::Integer),
            ("BOOLEAN", Type::Bool),
            ("BLOB", Type::Bytes),
            ("", Type::Other),
        ] {
            assert_eq!(kind(declared), expected, "{declared}");
        }
    }
}
