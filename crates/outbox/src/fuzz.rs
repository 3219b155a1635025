//! Doors to private parts for the fuzz targets; only there with `--cfg fuzzing`.

use crate::schema::{Dialect, Name, TableName};
use crate::table::Value;

/// A name as it stands in SQL.
pub fn quoted(name: &Name, dialect: Dialect) -> String {
    name.quoted(dialect)
}

/// The name of a table as it stands in SQL.
pub fn quoted_table(name: &TableName, dialect: Dialect) -> String {
    name.quoted(dialect)
}

/// A value as it stands in SQL.
pub fn value_as_sql(value: &Value) -> String {
    value.as_sql("now()")
}
