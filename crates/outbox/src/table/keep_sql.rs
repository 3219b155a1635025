//! The statements of a publisher that keeps its messages in a mapped table.

use super::catalog::Layout;
use super::condition::{Assignment, Condition};
use super::mapping::{ClaimBy, Origin};
use super::sql::{Param, Sql, in_list, one};
use crate::message::{Message, headers_to_json};
use crate::schema::{Dialect, Name, Type};

/// What is written into a column.
enum Cell<'m> {
    Text(&'m str),
    Owned(String),
    Bytes(&'m [u8]),
    Micros(i64),
    /// The same in every row, as SQL.
    Fixed(String),
    Null,
}

impl Layout {
    /// Every column that is written, in order, with how; the first that has a claim on a column has it.
    fn cells<'m>(&self, message: &'m Message) -> Vec<(Name, Cell<'m>)> {
        let mapping = &self.mapping;
        let mut cells: Vec<(Name, Cell<'m>)> = Vec::new();
        let mut put = |name: &Name, cell| {
            if !cells.iter().any(|(other, _)| other == name) {
                cells.push((name.clone(), cell));
            }
        };
        put(&mapping.id, Cell::Text(message.id.as_str()));
        for column in self.kept_at() {
            put(column, Cell::Fixed(self.now(column)));
        }
        put(&mapping.payload.column, Cell::Bytes(&message.payload));
        if let Origin::Field(field) = &mapping.kind {
            put(&field.column, Cell::Text(&message.kind));
        }
        if let Some(field) = &mapping.key {
            put(&field.column, message.key.as_deref().map_or(Cell::Null, Cell::Text));
        }
        if let Origin::Field(field) = &mapping.content_type {
            put(&field.column, Cell::Text(&message.content_type));
        }
        if let Some(field) = &mapping.headers {
            put(&field.column, Cell::Owned(headers_to_json(&message.headers)));
        }
        for (header, field) in &mapping.header_columns {
            put(&field.column, message.headers.get(header).map_or(Cell::Null, |value| Cell::Text(value)));
        }
        if let Some(column) = &mapping.occurred_at {
            put(column, Cell::Micros(message.occurred_at.as_microsecond()));
        }
        if let Some(column) = &mapping.attempts {
            put(column, Cell::Fixed("0".to_owned()));
        }
        for Assignment { column, value } in mapping.fresh() {
            put(&column, Cell::Fixed(value.as_sql(&self.now(&column))));
        }
        cells
    }

    /// The columns that an insert names; whichever message it is.
    pub(super) fn written(&self) -> Vec<String> {
        let any = Message::new("", "");
        self.cells(&any).into_iter().map(|(name, _)| name.as_str().to_owned()).collect()
    }

    /// Writes messages as rows, in this order.
    pub(super) fn insert(&self, messages: &[&Message]) -> Sql {
        let names: Vec<String> = messages.first().map_or_else(Vec::new, |message| {
            self.cells(message).iter().map(|(name, _)| name.quoted(self.dialect)).collect()
        });
        let mut sql =
            self.sql().push(&format!("insert into {} ({}) values ", self.quoted(), names.join(", ")));
        for (row, message) in messages.iter().enumerate() {
            sql = sql.push(if row == 0 { "(" } else { ", (" });
            for (at, (name, cell)) in self.cells(message).into_iter().enumerate() {
                sql = self.value(sql.push(if at == 0 { "" } else { ", " }), &name, cell);
            }
            sql = sql.push(")");
        }
        sql
    }

    fn value(&self, sql: Sql, name: &Name, cell: Cell<'_>) -> Sql {
        let column = self.column(name);
        let zoned = matches!(column.map(|column| &column.kind), Some(Type::Time { zoned: true }));
        match cell {
            Cell::Null => sql.push("null"),
            Cell::Fixed(fixed) => sql.push(&fixed),
            Cell::Text(text) => self.text(sql, name, text),
            Cell::Owned(text) => self.text(sql, name, &text),
            Cell::Bytes(bytes) => match column.map(|column| &column.kind) {
                Some(Type::Bytes) => sql.bind(Param::Bytes(bytes.to_vec())),
                // It was admitted, so it is text.
                _ => self.text(sql, name, &String::from_utf8_lossy(bytes)),
            },
            Cell::Micros(micros) => match self.dialect {
                Dialect::Postgres => {
                    let kind = if zoned { "timestamptz" } else { "timestamp" };
                    sql.push(&format!("'1970-01-01 00:00+00'::{kind} + interval '1 microsecond' * "))
                        .int(micros)
                }
                Dialect::MySql => {
                    sql.push("timestamp('1970-01-01') + interval ").int(micros).push(" microsecond")
                }
            },
        }
    }

    /// A text, as the type of the column needs it.
    fn text(&self, sql: Sql, name: &Name, text: &str) -> Sql {
        let column = self.column(name);
        match self.dialect {
            Dialect::MySql => one(sql, text, column),
            Dialect::Postgres => {
                let cast = match column.map(|column| &column.kind) {
                    Some(Type::Uuid) => "::text::uuid",
                    Some(Type::Integer) => "::text::bigint",
                    Some(Type::Json) if column.is_some_and(|column| column.type_name == "json") => {
                        "::text::json"
                    }
                    Some(Type::Json) => "::text::jsonb",
                    _ => "::text",
                };
                sql.bind(Param::Text(text.to_owned())).push(cast)
            }
        }
    }

    /// Those of the ids that are there.
    pub(super) fn known(&self, ids: &[String]) -> Sql {
        let id = self.as_text(&self.mapping.id);
        self.is_one_of(self.sql().push(&format!("select {id} from {} where ", self.by_id())), ids)
    }

    /// Those of the keys of which a row is not settled for good; nothing if the table has no keys. Pending is also what
    /// is in flight: a row stays so until its settle. One that waits for a person counts if it `holds` its key.
    pub(super) fn has_kept(&self, keys: &[&str], holds: bool) -> Option<Sql> {
        self.mapping.key.as_ref()?;
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let mut sql = self.of_keys(self.sql(), &keys, self.undone().as_ref());
        if holds && let Some(dead) = self.mapping.dead_when() {
            sql = self.of_keys(sql.push(" union "), &keys, Some(&dead));
        }
        Some(sql)
    }

    /// The pending condition without the stamp, if it speaks of that: a stamped row is in flight.
    fn undone(&self) -> Option<Condition> {
        match &self.mapping.claim {
            ClaimBy::Lock => Some(self.mapping.pending.clone()),
            ClaimBy::Stamp { column, .. } => self.mapping.pending.without(column),
        }
    }

    /// The keys of these rows; each part by itself, so that each can go by its own index.
    fn of_keys(&self, sql: Sql, keys: &[String], condition: Option<&Condition>) -> Sql {
        let (key, table) = (self.key(), self.quoted());
        let condition = condition.map_or_else(|| "1 = 1".to_owned(), |condition| self.condition(condition));
        let sql = sql.push(&format!("select {key} from {table} as m where {condition} and "));
        match self.dialect {
            Dialect::Postgres => {
                sql.push(&format!("{key} = any(")).bind(Param::Texts(keys.to_vec())).push("::text[])")
            }
            Dialect::MySql => {
                let name = self.mapping.key.as_ref().map(|field| &field.column);
                let is_text = |name: &&Name| {
                    matches!(self.column(name).map(|column| &column.kind), Some(Type::Text(_)))
                };
                let sql = match name.filter(is_text) {
                    // For the index; a collation may take more for equal than is.
                    Some(name) => {
                        in_list(sql.push(&format!("{} in ", self.col(name))), keys, None).push(" and ")
                    }
                    None => sql,
                };
                // Bytes: two keys that differ in case only are two keys.
                in_list(sql.push(&format!("cast({key} as binary) in ")), keys, None)
            }
        }
    }
}
