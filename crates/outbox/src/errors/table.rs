//! Which column of an error table is what. Pure: whoever asks the catalogue hands in what it said.

use std::collections::BTreeMap;

use crate::error::{Error, ErrorKind, Result};
use crate::schema::{Column, Dialect, NAME_HELP, Name, TableName, Type};
use crate::sheet::Cell;
use crate::sql::Kind;

/// What a column of an error table may be, in the words of [`ErrorTable::parse`].
pub const FIELDS: [&str; 19] = [
    "id",
    "message_id",
    "type",
    "key",
    "origin",
    "code",
    "error",
    "attempts",
    "payload",
    "original_payload",
    "content_type",
    "headers",
    "first_seen",
    "last_seen",
    "resolution",
    "resolved",
    "resolved_by",
    "resolved_at",
    "note",
];

/// An existing table of errors, such as `ErrorLogs`, and which of its columns is what.
///
/// `id`, `error` and `payload` are needed. With `message_id` the id is the record's own; without it, it is the
/// message's. How a record stands is in `resolution` (`open`, `returned`, `resolved`), or in `resolved`, a boolean or a
/// time; there a message that was returned counts as resolved. What has no column is not kept.
///
/// A unique index on the message's id (and the origin, where there is a column for it) keeps two writers from writing
/// one failure twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorTable {
    pub(crate) table: TableName,
    columns: BTreeMap<&'static str, Name>,
}

impl ErrorTable {
    /// A table, in a schema or where the connection looks first, and its columns by what they are.
    pub fn parse<'a>(
        schema: Option<&str>,
        table: &str,
        columns: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self> {
        let wrong = |what: &str, why: String| Error::new(ErrorKind::Config, format!("{what}: {why}"));
        let name = |what: &str, read: Result<Name, String>| {
            read.map_err(|why| wrong(what, format!("{why}; {NAME_HELP}")))
        };
        let schema = schema.map(|schema| name("schema", Name::parse(schema))).transpose()?;
        let table = TableName { schema, table: name("table", Name::parse_table(table))? };
        let mut read = BTreeMap::new();
        for (field, column) in columns {
            let known = FIELDS.iter().find(|known| **known == field).copied();
            let field = known.ok_or_else(|| {
                wrong(field, format!("is nothing of an error; there are {}", FIELDS.join(", ")))
            })?;
            read.insert(field, name(field, Name::parse(column))?);
        }
        if let Some(missing) = ["id", "error", "payload"].iter().find(|field| !read.contains_key(**field)) {
            return Err(wrong(missing, "is missing; name the column that has it".to_owned()));
        }
        Ok(Self { table, columns: read })
    }

    /// Checks it against the columns that are there; every misfit is told.
    pub(crate) fn check(&self, database: Kind, columns: &[Column]) -> Result<Fields> {
        let table = &self.table;
        if columns.is_empty() {
            let why = format!("there is no table '{table}', or it is not visible to this user");
            return Err(Error::new(ErrorKind::Mapping, why));
        }
        let (mut cells, mut misfits) = (BTreeMap::new(), Vec::new());
        for (field, name) in &self.columns {
            let Some(column) = columns.iter().find(|column| column.name == name.as_str()) else {
                misfits.push(format!("{field}: there is no column '{name}'"));
                continue;
            };
            match misfit(field, column, database) {
                Some(wanted) => {
                    misfits.push(format!("{field}: '{name}' is {}, and must be {wanted}", column.type_name))
                }
                None => drop(cells.insert(*field, cell(database, field, name, column))),
            }
        }
        let is_ours = |column: &Column| self.columns.values().any(|name| name.as_str() == column.name);
        misfits.extend(columns.iter().filter(|column| !column.optional && !is_ours(column)).map(|column| {
            format!(
                "column '{}' must be filled, and nothing here can do so; map it or give it a default",
                column.name
            )
        }));
        let id = columns.iter().find(|column| column.name == self.columns["id"].as_str());
        if let Some(id) = id.filter(|id| id.kind == Type::Integer && !id.optional)
            && self.columns.contains_key("message_id")
        {
            misfits.push(format!("id: '{}' is a number that the database does not give by itself", id.name));
        }
        if !misfits.is_empty() {
            let why = format!("table '{table}' cannot be an error log: {}", misfits.join("; "));
            return Err(Error::new(ErrorKind::Mapping, why));
        }
        // A number that the database gives; of ours it would take none.
        let numbered = cells.contains_key("message_id") && cells["id"].kind == Type::Integer;
        let dialect = if database == Kind::MySql { Dialect::MySql } else { Dialect::Postgres };
        Ok(Fields { table: quoted(table, dialect), cells, numbered })
    }
}

/// A text that holds times is read as such.
fn cell(database: Kind, field: &str, name: &Name, column: &Column) -> Cell {
    let mut cell = Cell::of(database, name, column);
    let is_time = matches!(field, "first_seen" | "last_seen" | "resolved_at" | "resolved");
    if is_time && matches!(cell.kind, Type::Text(_)) {
        cell.kind = Type::Time { zoned: false };
    }
    cell
}

fn quoted(table: &TableName, dialect: Dialect) -> String {
    let mark = |name: &Name| match dialect {
        Dialect::Postgres => name.standard(),
        Dialect::MySql => format!("`{}`", name.as_str()),
    };
    match &table.schema {
        Some(schema) => format!("{}.{}", mark(schema), mark(&table.table)),
        None => mark(&table.table),
    }
}

/// What the column should be, if it is something else.
fn misfit(field: &str, column: &Column, database: Kind) -> Option<&'static str> {
    use Type::{Bool, Bytes, Enum, Integer, Json, Text, Time, Uuid};
    // There is no type for times or truths in SQLite.
    let loose = database == Kind::Sqlite;
    let kind = &column.kind;
    let is_time = matches!(kind, Time { .. }) || (loose && matches!(kind, Text(_) | Integer));
    let (fits, wanted) = match field {
        "id" => (matches!(kind, Uuid | Text(_) | Integer), "a uuid, text or a whole number"),
        "message_id" => (matches!(kind, Uuid | Text(_)), "a uuid or text"),
        "attempts" => (matches!(kind, Integer), "a whole number"),
        "payload" | "original_payload" => (matches!(kind, Text(_) | Json | Bytes), "text, JSON or bytes"),
        "headers" => (matches!(kind, Text(_) | Json), "text or JSON"),
        "first_seen" | "last_seen" | "resolved_at" => (is_time, "a time"),
        "resolved" => (matches!(kind, Bool) || is_time, "a boolean or a time"),
        "resolution" => match kind {
            Enum(words) => (
                ["open", "returned", "resolved"].iter().all(|word| words.iter().any(|label| label == word)),
                "text, or an enum with open, returned and resolved",
            ),
            kind => (matches!(kind, Text(_)), "text"),
        },
        _ => (matches!(kind, Text(_)), "text"),
    };
    (!fits).then_some(wanted)
}

/// An error table that was found to fit.
#[derive(Debug)]
pub(crate) struct Fields {
    /// The table, ready for SQL.
    pub(crate) table: String,
    pub(super) cells: BTreeMap<&'static str, Cell>,
    /// Whether the database gives the ids.
    pub(super) numbered: bool,
}

impl Fields {
    /// Our own table.
    pub(crate) fn ours(database: Kind) -> Self {
        let short = if database == Kind::MySql { Some(255) } else { None };
        let kind = |field: &str| match field {
            "id" if database == Kind::Postgres => Type::Uuid,
            "message_id" | "origin" | "type" | "code" | "content_type" | "resolved_by" => Type::Text(short),
            "attempts" => Type::Integer,
            "payload" | "original_payload" => Type::Bytes,
            "headers" if database == Kind::Postgres => Type::Json,
            "first_seen" | "last_seen" | "resolved_at" => Type::Time { zoned: true },
            _ => Type::Text(None),
        };
        let fields = FIELDS.into_iter().filter(|field| *field != "resolved");
        let cells = fields.map(|field| (field, Cell::ours(database, field, kind(field)))).collect();
        let table = if database == Kind::Postgres { "outbox.errors" } else { "outbox_errors" };
        Self { table: table.to_owned(), cells, numbered: false }
    }

    /// The column of a field that something is asked of.
    pub(super) fn need(&self, field: &str) -> Result<&Cell> {
        self.cells.get(field).ok_or_else(|| {
            let why = format!("table {} has no column for '{field}'; map one", self.table);
            Error::new(ErrorKind::Mapping, why)
        })
    }
}
