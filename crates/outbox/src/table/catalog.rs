//! The mapping against the columns that are really there. Pure: whoever asks the database hands in what it said.

use std::collections::HashMap;
use std::sync::Arc;

use super::condition::{Assignment, Condition, Value};
use super::mapping::{ClaimBy, Done, Mapping, Origin};
use crate::schema::{Column, Dialect, Field, Name, TableName, Type};

/// A table with its mapping, after both were found to fit.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Which column is what.
    pub mapping: Arc<Mapping>,
    /// The table.
    pub table: TableName,
    /// The SQL it speaks.
    pub dialect: Dialect,
    columns: HashMap<String, Column>,
    processed: HashMap<String, Column>,
    /// The index by which rows are found by id, where a statement has to name it.
    pub(super) id_index: Option<Name>,
}

impl Layout {
    /// Checks the mapping against a table and its table of processed ids; every misfit is told.
    pub fn check(
        mapping: Arc<Mapping>,
        dialect: Dialect,
        table: TableName,
        columns: Vec<Column>,
        processed: Vec<Column>,
    ) -> Result<Self, Vec<String>> {
        let by_name =
            |columns: Vec<Column>| columns.into_iter().map(|column| (column.name.clone(), column)).collect();
        let (columns, processed) = (by_name(columns), by_name(processed));
        let layout = Self { mapping, table, dialect, columns, processed, id_index: None };
        let mut check = Check { layout: &layout, misfits: Vec::new() };
        check.all();
        let misfits = check.misfits;
        if misfits.is_empty() { Ok(layout) } else { Err(misfits) }
    }

    /// Names the index by which rows are to be found by id.
    #[cfg(feature = "mysql")]
    pub(crate) fn with_id_index(mut self, name: Option<Name>) -> Self {
        self.id_index = name;
        self
    }

    /// A column of the table; one that was checked is there.
    pub fn column(&self, name: &Name) -> Option<&Column> {
        self.columns.get(name.as_str())
    }

    /// Every column of the table.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.values()
    }

    /// A column of the table of processed ids.
    pub fn processed_column(&self, name: &Name) -> Option<&Column> {
        self.processed.get(name.as_str())
    }
}

struct Check<'a> {
    layout: &'a Layout,
    misfits: Vec<String>,
}

impl Check<'_> {
    fn all(&mut self) {
        let layout = self.layout;
        let mapping = &layout.mapping;
        if layout.columns.is_empty() {
            self.misfits
                .push(format!("there is no table '{}', or it is not visible to this user", layout.table));
            return;
        }
        let id_fits = |kind: &Type| match kind {
            Type::Text(_) | Type::Uuid | Type::Integer => true,
            Type::Bytes => layout.dialect == Dialect::MySql,
            _ => false,
        };
        self.fits("id", &mapping.id, id_fits, "a uuid, a whole number or text");
        if let Origin::Field(field) = &mapping.kind {
            self.text_field("type", field);
        }
        if let Origin::Field(field) = &mapping.content_type {
            self.text_field("content_type", field);
        }
        if let Some(key) = &mapping.key {
            self.key(key);
        }
        if mapping.payload.path.is_empty() {
            let fits = |kind: &Type| matches!(kind, Type::Text(_) | Type::Json | Type::Bytes);
            self.fits("payload", &mapping.payload.column, fits, "text, JSON or bytes");
        } else {
            self.text_field("payload", &mapping.payload);
        }
        if let Some(headers) = &mapping.headers {
            self.text_field("headers", headers);
        }
        for (_, field) in &mapping.header_columns {
            self.exists("header_columns", &field.column);
        }
        for (key, column) in [("occurred_at", &mapping.occurred_at), ("due", &mapping.due)] {
            if let Some(column) = column {
                self.fits(key, column, is_time, "a time");
            }
        }
        if let ClaimBy::Stamp { column, .. } = &mapping.claim {
            self.fits("stamp", column, is_time, "a time");
            self.nullable("stamp", column);
        }
        if let Some(due) = &mapping.due {
            self.nullable("due", due);
        }
        for column in &mapping.order_by {
            self.exists("order_by", column);
        }
        if let Some(attempts) = &mapping.attempts {
            self.fits("attempts", attempts, |kind| *kind == Type::Integer, "a whole number");
        }
        if let Some(error) = &mapping.error {
            self.fits("error", error, |kind| matches!(kind, Type::Text(_)), "text");
        }
        self.condition(&mapping.pending);
        if let Done::Set(set) = &mapping.done {
            self.assignments("done", set);
        }
        self.assignments("failed", &mapping.failed);
        self.assignments("dead", &mapping.dead);
        self.processed();
    }

    fn exists(&mut self, key: &str, name: &Name) -> Option<Column> {
        let found = self.layout.column(name).cloned();
        if found.is_none() {
            let table = &self.layout.table;
            let near = self.layout.columns.keys().find(|other| other.eq_ignore_ascii_case(name.as_str()));
            let hint = match near {
                Some(near) => format!("; it has '{near}', and names are taken as they are written"),
                None => String::new(),
            };
            self.misfits.push(format!("{key}: table '{table}' has no column '{name}'{hint}"));
        }
        found
    }

    fn fits(&mut self, key: &str, name: &Name, fits: impl Fn(&Type) -> bool, wanted: &str) {
        let Some(column) = self.exists(key, name) else { return };
        if !fits(&column.kind) {
            let (table, found) = (&self.layout.table, &column.type_name);
            self.misfits
                .push(format!("{key}: column '{name}' of table '{table}' is {found}, and must be {wanted}"));
        }
    }

    fn nullable(&mut self, key: &str, name: &Name) {
        if self.layout.column(name).is_some_and(|column| !column.nullable) {
            let table = &self.layout.table;
            self.misfits.push(format!("{key}: column '{name}' of table '{table}' must be nullable"));
        }
    }

    /// A text, or a member of JSON that may be kept as text.
    fn text_field(&mut self, key: &str, field: &Field) {
        let member = !field.path.is_empty();
        let fits = |kind: &Type| match kind {
            Type::Text(_) | Type::Json => true,
            Type::Enum(_) | Type::Uuid | Type::Integer => !member,
            _ => false,
        };
        self.fits(key, &field.column, fits, if member { "JSON, or text with JSON in it" } else { "text" });
    }

    fn key(&mut self, key: &Field) {
        if key.path.is_empty() {
            let bytes = self.layout.dialect == Dialect::MySql;
            let fits = |kind: &Type| match kind {
                Type::Text(_) | Type::Uuid | Type::Integer | Type::Enum(_) => true,
                // Many keep a UUID so; it becomes hexadecimal text.
                Type::Bytes => bytes,
                _ => false,
            };
            self.fits("key", &key.column, fits, "text, a uuid or a whole number");
        } else {
            // The database itself must find the member, in every row: text with a mistake in it would end the claim.
            let text_is_json = self.layout.dialect == Dialect::MySql;
            let checked = self.layout.column(&key.column).is_some_and(|column| column.type_name != "json");
            let is_json = |kind: &Type| *kind == Type::Json && (text_is_json || checked);
            let fits = |kind: &Type| is_json(kind) || (text_is_json && matches!(kind, Type::Text(_)));
            self.fits("key", &key.column, fits, "jsonb for a member of it to be the key");
        }
    }

    fn condition(&mut self, condition: &Condition) {
        for (column, values) in condition.columns() {
            let Some(found) = self.exists("pending", column) else { continue };
            for value in values {
                self.value("pending", &found, value);
            }
        }
    }

    fn assignments(&mut self, key: &str, set: &[Assignment]) {
        for Assignment { column, value } in set {
            let Some(found) = self.exists(key, column) else { continue };
            if *value == Value::Null {
                self.nullable(key, column);
            } else {
                self.value(key, &found, value);
            }
        }
    }

    fn value(&mut self, key: &str, column: &Column, value: &Value) {
        let fits = match (&column.kind, value) {
            (_, Value::Null) | (Type::Other, _) => true,
            (Type::Integer, Value::Number(number)) => number.parse::<i128>().is_ok(),
            (Type::Bool, Value::Bool(_))
            | (Type::Text(_), Value::Text(_))
            | (Type::Time { .. }, Value::Now) => true,
            (Type::Integer, Value::Bool(_)) => self.layout.dialect == Dialect::MySql,
            // There a boolean is a number, and many write it so.
            (Type::Bool, Value::Number(number)) => {
                self.layout.dialect == Dialect::MySql && (number == "0" || number == "1")
            }
            (Type::Enum(words), Value::Text(text)) => {
                if !words.contains(text) {
                    let (name, words) = (&column.name, words.join(", "));
                    self.misfits
                        .push(format!("{key}: '{text}' is no value of column '{name}'; it can be {words}"));
                }
                true
            }
            _ => false,
        };
        if !fits {
            let (name, found) = (&column.name, &column.type_name);
            self.misfits.push(format!("{key}: column '{name}' is {found}, which {value} does not fit"));
        }
    }

    fn processed(&mut self) {
        let Some(processed) = &self.layout.mapping.processed else { return };
        let table = &processed.table;
        if self.layout.processed.is_empty() {
            self.misfits
                .push(format!("processed: there is no table '{table}', or it is not visible to this user"));
            return;
        }
        for (key, name) in [("processed.id", Some(&processed.id)), ("processed.at", processed.at.as_ref())] {
            let Some(name) = name else { continue };
            match self.layout.processed_column(name) {
                None => self.misfits.push(format!("{key}: table '{table}' has no column '{name}'")),
                Some(column) if key == "processed.at" && !is_time(&column.kind) => {
                    let found = &column.type_name;
                    self.misfits.push(format!(
                        "{key}: column '{name}' of table '{table}' is {found}, and must be a time"
                    ));
                }
                Some(column) if key == "processed.id" && !column.unique => self.misfits.push(format!(
                    "{key}: column '{name}' of table '{table}' needs a unique index or a primary key"
                )),
                Some(_) => {}
            }
        }
        let is_written = |name: &str| {
            name == processed.id.as_str() || processed.at.as_ref().is_some_and(|at| at.as_str() == name)
        };
        let mut others: Vec<_> = self
            .layout
            .processed
            .values()
            .filter(|column| !column.optional && !is_written(&column.name))
            .collect();
        others.sort_by(|a, b| a.name.cmp(&b.name));
        for column in others {
            self.misfits.push(format!(
                "processed: column '{}' of table '{table}' needs a value that nobody gives",
                column.name
            ));
        }
    }
}

fn is_time(kind: &Type) -> bool {
    matches!(kind, Type::Time { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Draft;

    fn column(name: &str, kind: Type) -> Column {
        Column {
            name: name.into(),
            type_name: format!("{kind:?}"),
            kind,
            nullable: true,
            optional: true,
            unique: false,
        }
    }

    fn mapping(change: impl Fn(&mut Draft)) -> Arc<Mapping> {
        let text = |value: &str| Some(value.to_owned());
        let mut draft = Draft {
            table: text("Outbox"),
            id: text("id"),
            kind: text("type"),
            payload: text("payload"),
            pending: text("status = 'PENDING' AND retries < 5"),
            done: text("status = 'PROCESSED', processedAt = now"),
            attempts: text("retries"),
            ..Draft::default()
        };
        change(&mut draft);
        Arc::new(draft.check().unwrap())
    }

    fn columns() -> Vec<Column> {
        vec![
            column("id", Type::Uuid),
            column("type", Type::Text(None)),
            column("payload", Type::Json),
            column("status", Type::Enum(vec!["PENDING".into(), "PROCESSED".into(), "FAILED".into()])),
            column("retries", Type::Integer),
            column("processedAt", Type::Time { zoned: false }),
        ]
    }

    fn misfits(mapping: Arc<Mapping>, columns: Vec<Column>) -> Vec<String> {
        let table = TableName { schema: None, table: Name::parse("Outbox").unwrap() };
        Layout::check(mapping, Dialect::Postgres, table, columns, Vec::new())
            .map(drop)
            .err()
            .unwrap_or_default()
    }

    #[test]
    fn everything_that_does_not_fit_is_told_at_once() {
        assert_eq!(misfits(mapping(|_| ()), columns()), Vec::<String>::new());
        let wrong = mapping(|draft| {
            draft.id = Some("Id".to_owned());
            draft.pending = Some("status = 'WAITING' AND retries < 5 AND processedAt = 'x'".to_owned());
            draft.due = Some("status".to_owned());
            draft.key = Some("payload->>order".to_owned());
        });
        let told = misfits(wrong, columns());
        assert_eq!(told.len(), 4, "{told:#?}");
        assert!(told[0].contains("has no column 'Id'; it has 'id'"), "{}", told[0]);
        assert!(told[1].starts_with("due: column 'status'"), "{}", told[1]);
        assert!(told[2].contains("'WAITING' is no value of column 'status'"), "{}", told[2]);
        assert!(told[3].contains("processedAt"), "{}", told[3]);
    }

    #[test]
    fn a_table_that_is_not_there_is_one_line() {
        assert_eq!(
            misfits(mapping(|_| ()), Vec::new()),
            ["there is no table 'Outbox', or it is not visible to this user"]
        );
    }

    #[test]
    fn a_key_inside_of_text_is_not_for_the_database_to_find() {
        let mut columns = columns();
        columns[2].kind = Type::Text(None);
        let told = misfits(mapping(|draft| draft.key = Some("payload->>order".to_owned())), columns);
        assert!(told[0].starts_with("key: column 'payload'"), "{told:?}");
    }
}
