//! Statements put together at run time over tables whose columns are known, in any of the three databases.
//!
//! Names come quoted, values are bound. Every cell is read as text or as bytes, so that no type needs a driver's help.

use async_trait::async_trait;
use jiff::Timestamp;
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::schema::{Column, Name, Type};
use crate::sql::Kind;

/// What goes to the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Param {
    Text(Option<String>),
    Int(Option<i64>),
    Bytes(Option<Vec<u8>>),
}

/// A statement with its values.
#[derive(Debug)]
pub(crate) struct Sql {
    kind: Kind,
    pub(crate) text: String,
    pub(crate) params: Vec<Param>,
}

impl Sql {
    pub(crate) fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into(), params: Vec::new() }
    }

    pub(crate) fn push(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Binds a value at this place.
    pub(crate) fn bind(mut self, param: Param) -> Self {
        let given = match param {
            Param::Text(_) => "text",
            Param::Int(_) => "bigint",
            Param::Bytes(_) => "bytea",
        };
        self.params.push(param);
        match self.kind {
            Kind::Postgres => self.text.push_str(&format!("${}::{given}", self.params.len())),
            _ => self.text.push('?'),
        }
        self
    }

    /// Binds a value such that the column takes it, or can be compared with it.
    pub(crate) fn put(self, cell: &Cell, value: &Value) -> Result<Self> {
        let Some(value) = value.fit(cell)? else { return Ok(self.bind(Param::Text(None)).cast(cell)) };
        Ok(match value {
            Fitted::Time(time) => self.put_time(cell, time),
            Fitted::Param(param) => self.bind(param).cast(cell),
        })
    }

    fn cast(self, cell: &Cell) -> Self {
        match self.kind {
            Kind::Postgres => self.push(&format!("::\"{}\"", cell.type_name)),
            _ => self,
        }
    }

    fn put_time(self, cell: &Cell, time: Timestamp) -> Self {
        match (self.kind, &cell.kind) {
            (Kind::Postgres, Type::Time { zoned: false }) => {
                let sql = self.push("(").bind(Param::Text(Some(time.to_string())));
                sql.push("::timestamptz at time zone 'utc')")
            }
            (Kind::MySql, _) => {
                self.bind(Param::Text(Some(time.strftime("%Y-%m-%d %H:%M:%S%.6f").to_string())))
            }
            (Kind::Sqlite, Type::Integer) => self.bind(Param::Int(Some(time.as_millisecond()))),
            (Kind::Sqlite, _) => {
                self.bind(Param::Text(Some(time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())))
            }
            (Kind::Postgres, _) => self.bind(Param::Text(Some(time.to_string()))).cast(cell),
        }
    }
}

/// A column, ready for SQL.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) name: String,
    pub(crate) kind: Type,
    pub(crate) type_name: String,
}

impl Cell {
    /// A column of a table of ours.
    pub(crate) fn ours(database: Kind, name: &str, kind: Type) -> Self {
        let type_name = match kind {
            Type::Uuid => "uuid",
            Type::Json => "jsonb",
            Type::Bytes => "bytea",
            Type::Integer => "int4",
            Type::Time { .. } => "timestamptz",
            _ => "text",
        };
        let name = if database == Kind::MySql { format!("`{name}`") } else { format!("\"{name}\"") };
        Self { name, kind, type_name: type_name.to_owned() }
    }

    /// A column that the catalogue knows.
    pub(crate) fn of(database: Kind, name: &Name, column: &Column) -> Self {
        let name = if database == Kind::MySql { format!("`{}`", name.as_str()) } else { name.standard() };
        Self { name, kind: column.kind.clone(), type_name: column.type_name.clone() }
    }

    /// The column as text, or as bytes if it holds bytes.
    pub(crate) fn read(&self, database: Kind) -> String {
        let name = &self.name;
        match (database, &self.kind) {
            (_, Type::Bytes) => name.clone(),
            (Kind::Postgres, Type::Time { zoned: true }) => {
                format!("to_char({name} at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
            }
            (Kind::Postgres, Type::Time { zoned: false }) => {
                format!("to_char({name}, 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
            }
            (Kind::MySql, Type::Time { .. }) => format!("date_format({name}, '%Y-%m-%dT%H:%i:%s.%fZ')"),
            (Kind::Sqlite, Type::Time { .. }) => {
                format!("coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', {name}), {name})")
            }
            (Kind::Postgres, _) => format!("{name}::text"),
            (Kind::MySql, _) => format!("cast({name} as char)"),
            (Kind::Sqlite, _) => format!("cast({name} as text)"),
        }
    }

    /// What comes before or after a moment, for a comparison with [`Sql::put`].
    pub(crate) fn compare(&self, database: Kind, sql: Sql, operator: &str, time: Timestamp) -> Result<Sql> {
        match (database, &self.kind) {
            // Texts of two forms of one moment differ.
            (Kind::Sqlite, Type::Time { .. } | Type::Text(_)) => Ok(sql
                .push(&format!("julianday({}) {operator} julianday(", self.name))
                .bind(Param::Text(Some(time.to_string())))
                .push(")")),
            _ => sql.push(&format!("{} {operator} ", self.name)).put(self, &Value::Time(time)),
        }
    }
}

/// Now, on the clock of the database.
pub(crate) fn now(database: Kind) -> &'static str {
    match database {
        Kind::Postgres => "clock_timestamp()",
        Kind::MySql => "utc_timestamp(6)",
        Kind::Sqlite => "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
    }
}

/// What is written to a column.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    /// Text that must be kept as it is.
    Text(String),
    /// A sentence, which may be cut to fit.
    Sentence(String),
    Int(i64),
    Bool(bool),
    Time(Timestamp),
    /// JSON as text.
    Json(String),
    Bytes(Vec<u8>),
}

enum Fitted {
    Param(Param),
    Time(Timestamp),
}

impl Value {
    pub(crate) fn text(text: Option<&str>) -> Self {
        text.map_or(Self::Null, |text| Self::Text(text.to_owned()))
    }

    pub(crate) fn sentence(text: Option<&str>) -> Self {
        text.map_or(Self::Null, |text| Self::Sentence(text.to_owned()))
    }

    /// In the form that the column takes.
    fn fit(&self, cell: &Cell) -> Result<Option<Fitted>> {
        let unfit = |what: &str| {
            let why = format!("column {} cannot hold {what}", cell.name);
            Error::new(ErrorKind::Invalid, why)
        };
        let limit = if let Type::Text(limit) = cell.kind { limit } else { None };
        let text = |text: String| Ok(Some(Fitted::Param(Param::Text(Some(text.replace('\0', "\u{fffd}"))))));
        match self {
            Self::Null => Ok(None),
            Self::Time(time) => Ok(Some(Fitted::Time(*time))),
            Self::Int(number) => Ok(Some(Fitted::Param(Param::Int(Some(*number))))),
            // Only PostgreSQL has a type for it.
            Self::Bool(is) if cell.type_name == "bool" => text(is.to_string()),
            Self::Bool(is) => Ok(Some(Fitted::Param(Param::Int(Some(i64::from(*is)))))),
            Self::Sentence(sentence) => {
                let most = limit.map_or(usize::MAX, |limit| limit as usize);
                text(sentence.chars().take(most).collect())
            }
            Self::Text(given) => match (&cell.kind, limit) {
                (Type::Uuid, _) if Uuid::parse_str(given).is_err() => Err(unfit("what is no UUID")),
                (Type::Integer, _) if given.parse::<i64>().is_err() => Err(unfit("what is no number")),
                (_, Some(limit)) if given.chars().count() > limit as usize => {
                    Err(unfit(&format!("more than {limit} characters")))
                }
                _ => text(given.clone()),
            },
            Self::Json(json) => text(json.clone()),
            Self::Bytes(bytes) => Ok(Some(Fitted::Param(match cell.kind {
                Type::Bytes => Param::Bytes(Some(bytes.clone())),
                Type::Json => Param::Text(Some(crate::errors::as_json(bytes))),
                _ => Param::Text(Some(crate::errors::as_text(bytes))),
            }))),
        }
    }
}

/// The cells of a row.
pub(crate) type Row = Vec<Option<Vec<u8>>>;

/// A cell as text.
pub(crate) fn text_at(row: &Row, at: usize) -> Option<String> {
    row.get(at)?.as_ref().map(|cell| String::from_utf8_lossy(cell).into_owned())
}

/// A cell that holds a moment.
pub(crate) fn time_of(text: Option<String>) -> Option<Timestamp> {
    let text = text?;
    // Only SQLite has them in numbers.
    let number = text.parse::<i64>().ok();
    number.map_or_else(|| text.parse().ok(), |number| Timestamp::from_millisecond(number).ok())
}

/// A database, as far as it takes to run such statements.
#[async_trait]
pub(crate) trait Sheet: Send + Sync + 'static {
    /// Whose SQL it speaks.
    const KIND: Kind;

    /// An open transaction.
    type Tx: Send;

    /// Reads, outside of any transaction of ours.
    async fn look(&self, sql: Sql) -> Result<Vec<Row>>;
    async fn begin(&self) -> Result<Self::Tx>;
    async fn fetch(&self, tx: &mut Self::Tx, sql: Sql) -> Result<Vec<Row>>;
    /// Tells how many rows it wrote; none if a unique index has such a row already.
    async fn execute(&self, tx: &mut Self::Tx, sql: Sql) -> Result<u64>;
    async fn commit(&self, tx: Self::Tx) -> Result<()>;
}
