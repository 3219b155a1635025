//! The statements for a mapped table: the only place where SQL for it is put together.
//!
//! Names come quoted from [`Name`], values of conditions were parsed, everything else is bound.

use std::time::Duration;

use super::catalog::Layout;
use super::condition::Condition;
use super::mapping::ClaimBy;
use crate::schema::{Column, Dialect, Field, Name, Type};

/// A value that is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Param {
    Int(i64),
    Text(String),
    Texts(Vec<String>),
    Ints(Vec<i64>),
    Bytes(Vec<u8>),
}

/// A statement with what is bound to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sql {
    pub(crate) text: String,
    pub(crate) params: Vec<Param>,
    dialect: Dialect,
}

impl Sql {
    pub(crate) fn new(dialect: Dialect) -> Self {
        Self { text: String::new(), params: Vec::new(), dialect }
    }

    pub(crate) fn push(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    pub(crate) fn bind(mut self, param: Param) -> Self {
        self.params.push(param);
        match self.dialect {
            Dialect::Postgres => self.text.push_str(&format!("${}", self.params.len())),
            Dialect::MySql => self.text.push('?'),
        }
        self
    }

    pub(crate) fn int(self, value: impl TryInto<i64>) -> Self {
        self.bind(Param::Int(value.try_into().unwrap_or(i64::MAX)))
    }
}

/// The cells of a row, in the order of the statement.
pub(crate) type Cells = Vec<Option<Vec<u8>>>;

/// Where things stand in a row of [`Layout::select`]; single headers follow.
pub(crate) mod cell {
    pub(crate) const ID: usize = 0;
    pub(crate) const PAYLOAD: usize = 1;
    pub(crate) const KIND: usize = 2;
    pub(crate) const KEY: usize = 3;
    pub(crate) const CONTENT_TYPE: usize = 4;
    pub(crate) const HEADERS: usize = 5;
    pub(crate) const OCCURRED: usize = 6;
    pub(crate) const ATTEMPTS: usize = 7;
    pub(crate) const STAMP: usize = 8;
    pub(crate) const PROCESSED: usize = 9;
    pub(crate) const FIRST_HEADER: usize = 10;
}

/// Which part of a table: one of so many lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) number: u32,
    pub(crate) of: u32,
}

/// Which rows a claim leaves alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Except {
    pub(crate) ids: Vec<String>,
    pub(crate) keys: Vec<String>,
}

/// A row of which an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FailedRow {
    pub(crate) id: String,
    pub(crate) attempts: u32,
    pub(crate) error: String,
    pub(crate) delay: Duration,
}

/// The statements of one table.
impl Layout {
    pub(crate) fn sql(&self) -> Sql {
        Sql::new(self.dialect)
    }

    pub(super) fn quoted(&self) -> String {
        self.table.quoted(self.dialect)
    }

    /// The table, to be read by ids. MySQL locks what it looks at, not what it finds: whatever it thinks of a scan, it
    /// must go by the index.
    pub(super) fn by_id(&self) -> String {
        let hint =
            self.id_index.as_ref().map(|index| format!(" force index ({})", index.quoted(self.dialect)));
        format!("{} as m{}", self.quoted(), hint.unwrap_or_default())
    }

    pub(crate) fn col(&self, name: &Name) -> String {
        format!("m.{}", name.quoted(self.dialect))
    }

    pub(crate) fn as_text(&self, name: &Name) -> String {
        let column = self.col(name);
        match (self.dialect, self.column(name).map(|column| &column.kind)) {
            (Dialect::Postgres, _) => format!("{column}::text"),
            (Dialect::MySql, Some(Type::Bytes)) => format!("lower(hex({column}))"),
            // A bit as characters would be the character of that number.
            (Dialect::MySql, Some(Type::Bool)) => format!("cast({column} + 0 as char)"),
            (Dialect::MySql, _) => format!("cast({column} as char)"),
        }
    }

    /// The key as text, or null.
    pub(crate) fn key(&self) -> String {
        match &self.mapping.key {
            None => "null".to_owned(),
            Some(key) if key.path.is_empty() => self.as_text(&key.column),
            Some(Field { column, path, .. }) => match self.dialect {
                Dialect::Postgres => format!("({} #>> '{{{}}}')", self.col(column), path.join(",")),
                Dialect::MySql => {
                    let path: String = path.iter().map(|member| format!(".\"{member}\"")).collect();
                    let column = self.col(column);
                    let member = format!("json_extract({column}, '${path}')");
                    // Text that is no JSON would end the claim, and null would be the word for it.
                    format!(
                        "(case when json_valid({column}) then \
                         case when json_type({member}) <> 'NULL' then json_unquote({member}) end end)"
                    )
                }
            },
        }
    }

    /// The database's own time, as the column keeps it. Of the statement: a transaction may have begun long ago.
    pub(crate) fn now(&self, name: &Name) -> String {
        let zoned = matches!(self.column(name).map(|column| &column.kind), Some(Type::Time { zoned: true }));
        now(self.dialect, zoned)
    }

    /// Microseconds since 1970, as text.
    pub(crate) fn micros(&self, name: &Name) -> String {
        let column = self.col(name);
        match self.dialect {
            // 'infinity' is a time there, and no number.
            Dialect::Postgres => {
                format!(
                    "case when isfinite({column}) then (extract(epoch from {column}) * 1000000)::bigint::text end"
                )
            }
            Dialect::MySql => format!("cast(timestampdiff(microsecond, '1970-01-01', {column}) as char)"),
        }
    }

    pub(crate) fn condition(&self, condition: &Condition) -> String {
        let list = |parts: &[Condition], word: &str| {
            let parts: Vec<_> = parts.iter().map(|part| self.condition(part)).collect();
            format!("({})", parts.join(word))
        };
        match condition {
            Condition::All(parts) => list(parts, " and "),
            Condition::Any(parts) => list(parts, " or "),
            Condition::Not(inner) => format!("(not {})", self.condition(inner)),
            Condition::IsNull(column) => format!("{} is null", self.col(column)),
            Condition::Compare(column, operator, value) => {
                format!("{} {} {}", self.col(column), operator.as_sql(), value.as_sql(&self.now(column)))
            }
            Condition::OneOf(column, values) => {
                let values: Vec<_> = values.iter().map(|value| value.as_sql(&self.now(column))).collect();
                format!("{} in ({})", self.col(column), values.join(", "))
            }
        }
    }

    pub(crate) fn pending(&self) -> String {
        self.condition(&self.mapping.pending)
    }

    /// Pending, and due, and not stamped by somebody.
    pub(crate) fn claimable(&self) -> String {
        let mut all = self.pending();
        if let Some(due) = &self.mapping.due {
            let column = self.col(due);
            all.push_str(&format!(" and ({column} is null or {column} <= {})", self.now(due)));
        }
        all + &self.unstamped()
    }

    pub(super) fn unstamped(&self) -> String {
        let ClaimBy::Stamp { column, timeout } = &self.mapping.claim else { return String::new() };
        let (column, oldest) = (self.col(column), self.earlier(column, *timeout));
        format!(" and ({column} is null or {column} < {oldest})")
    }

    pub(super) fn earlier(&self, name: &Name, ago: Duration) -> String {
        let micros = ago.as_micros();
        match self.dialect {
            Dialect::Postgres => format!("{} - interval '{micros} microseconds'", self.now(name)),
            Dialect::MySql => format!("{} - interval {micros} microsecond", self.now(name)),
        }
    }

    pub(crate) fn lane(&self, lane: Lane) -> String {
        if lane.of <= 1 {
            return String::new();
        }
        let (key, id) = (self.key(), self.as_text(&self.mapping.id));
        let Lane { number, of } = lane;
        match self.dialect {
            // Not `=`, of which the planner thinks that one row in 200 meets it: it would rather sort the whole table.
            Dialect::Postgres => {
                format!(" and int8eq(mod(abs(hashtext(coalesce({key}, {id}))::bigint), {of}), {number})")
            }
            // Bytes: the two may be of collations that cannot be mixed.
            Dialect::MySql => {
                let text = format!("coalesce(cast({key} as binary), cast({id} as binary))");
                format!(" and mod(crc32({text}), {of}) = {number}")
            }
        }
    }

    pub(super) fn order(&self) -> String {
        self.ordering().join(", ")
    }

    /// The same, from the end.
    pub(super) fn reverse_order(&self) -> String {
        let columns = self.ordering().into_iter().map(|column| format!("{column} desc"));
        columns.collect::<Vec<_>>().join(", ")
    }

    fn ordering(&self) -> Vec<String> {
        let mut columns: Vec<_> = self.mapping.order_by.iter().map(|name| self.col(name)).collect();
        let id = self.col(&self.mapping.id);
        if !columns.contains(&id) {
            columns.push(id);
        }
        columns
    }

    /// `id is one of these`.
    pub(crate) fn is_one_of(&self, sql: Sql, ids: &[String]) -> Sql {
        let column = self.col(&self.mapping.id);
        let found = self.column(&self.mapping.id);
        let type_name = found.map_or("text", |column| column.type_name.as_str());
        match self.dialect {
            Dialect::Postgres => sql
                .push(&format!("{column} = any("))
                .bind(Param::Texts(ids.to_vec()))
                .push(&format!("::text[]::{type_name}[])")),
            Dialect::MySql => in_list(sql.push(&column).push(" in "), ids, found),
        }
    }

    pub(super) fn leave_out(&self, mut sql: Sql, except: &Except) -> Sql {
        if !except.ids.is_empty() {
            sql = self.is_one_of(sql.push(" and not ("), &except.ids).push(")");
        }
        if !except.keys.is_empty() {
            let key = self.key();
            sql = match self.dialect {
                Dialect::Postgres => sql
                    .push(&format!(" and ({key} is null or not ({key} = any("))
                    .bind(Param::Texts(except.keys.clone()))
                    .push("::text[])))"),
                // Bytes: two keys that differ in case only are two keys.
                Dialect::MySql => in_list(
                    sql.push(&format!(" and ({key} is null or cast({key} as binary) not in ")),
                    &except.keys,
                    None,
                )
                .push(")"),
            };
        }
        sql
    }
}

pub(super) fn now(dialect: Dialect, zoned: bool) -> String {
    match (dialect, zoned) {
        (Dialect::Postgres, true) => "statement_timestamp()".to_owned(),
        (Dialect::Postgres, false) => "(statement_timestamp() at time zone 'UTC')".to_owned(),
        (Dialect::MySql, _) => "utc_timestamp(6)".to_owned(),
    }
}

pub(super) fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// `(?, ?, …)`, each as the type of the column needs it.
pub(super) fn in_list(mut sql: Sql, values: &[String], column: Option<&Column>) -> Sql {
    for (index, value) in values.iter().enumerate() {
        sql = one(sql.push(if index == 0 { "(" } else { ", " }), value, column);
    }
    sql.push(")")
}

/// One value for MySQL. A number compared to a text would be compared as floating point.
pub(super) fn one(sql: Sql, value: &str, column: Option<&Column>) -> Sql {
    let param = Param::Text(value.to_owned());
    match column.map(|column| (&column.kind, column)) {
        Some((Type::Integer, column)) if column.is_unsigned() => {
            sql.push("cast(").bind(param).push(" as unsigned)")
        }
        Some((Type::Integer, _)) => sql.push("cast(").bind(param).push(" as signed)"),
        // A UUID may come with its dashes, where another table keeps it as text.
        Some((Type::Bytes, _)) => sql.push("unhex(replace(").bind(param).push(", '-', ''))"),
        _ => sql.bind(param),
    }
}

impl Column {
    /// Character set and collation of a text in MySQL.
    pub(super) fn collation(&self) -> Option<(&str, &str)> {
        let (_, collation) = self.type_name.split_once(" collate ")?;
        Some((collation.split('_').next().unwrap_or(collation), collation))
    }

    /// Whether a number of MySQL has no sign.
    pub(super) fn is_unsigned(&self) -> bool {
        self.type_name.contains("unsigned")
    }
}
