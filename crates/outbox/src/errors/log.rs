//! The error log over a table, ours or somebody else's, in any of the three databases.

use async_trait::async_trait;
use jiff::Timestamp;

use super::record::rounded;
use super::table::Fields;
use super::{ErrorFilter, ErrorLog, ErrorRecord, Resolution, payload};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Headers, headers_from_json};
use crate::schema::Type;
use crate::sheet::{Cell, Param, Row, Sheet, Sql, Value, text_at, time_of};
use crate::sink::Cause;
use crate::sql::Kind;

/// How often somebody else may write the same failure in between.
const TRIES: usize = 5;

pub(crate) struct TableLog<S> {
    store: S,
    fields: Fields,
}

impl<S: Sheet> TableLog<S> {
    pub(crate) fn new(store: S, fields: Fields) -> Self {
        Self { store, fields }
    }

    fn sql(&self, text: impl Into<String>) -> Sql {
        Sql::new(S::KIND, text)
    }

    /// What tells one failure from another: the message, and where it failed.
    fn identity(&self, sql: Sql, record: &ErrorRecord) -> Result<Sql> {
        let field = if self.fields.cells.contains_key("message_id") { "message_id" } else { "id" };
        let cell = self.fields.need(field)?;
        let id = Value::Text(record.message_id.as_str().to_owned());
        let sql = sql.push(&format!(" where {} = ", cell.name)).put(cell, &id)?;
        match self.fields.cells.get("origin") {
            Some(cell) => {
                sql.push(&format!(" and {} = ", cell.name)).put(cell, &Value::Text(record.origin.clone()))
            }
            None => Ok(sql),
        }
    }

    async fn write_one(&self, tx: &mut S::Tx, record: &ErrorRecord) -> Result<()> {
        for _ in 0..TRIES {
            let id = self.fields.need("id")?;
            let seen =
                self.fields.cells.get("last_seen").map_or("null".to_owned(), |cell| cell.read(S::KIND));
            let text = format!("select {}, {seen} from {}", id.read(S::KIND), self.fields.table);
            let lock = if S::KIND == Kind::Sqlite { "" } else { " for update" };
            let find = self.identity(self.sql(text), record)?.push(lock);
            let found = self.store.fetch(tx, find).await?;
            let Some(row) = found.first() else {
                if self.store.execute(tx, self.insert(record)?).await? > 0 {
                    return Ok(());
                }
                continue;
            };
            let before = time_of(text_at(row, 1));
            let is_newer = before.is_none_or(|before| rounded(before) < record.last_seen);
            if is_newer {
                let again = self.failed_again(record)?;
                self.store.execute(tx, self.identity(again, record)?).await?;
            }
            return Ok(());
        }
        Err(Error::new(ErrorKind::Busy, "others write the same failure all the time"))
    }

    fn insert(&self, record: &ErrorRecord) -> Result<Sql> {
        let Fields { table, cells, numbered } = &self.fields;
        let given: Vec<(&Cell, Value)> = cells
            .iter()
            .filter(|(field, _)| !(*numbered && **field == "id"))
            .map(|(field, cell)| (cell, value(field, cell, record, cells.contains_key("message_id"))))
            .collect();
        let names: Vec<&str> = given.iter().map(|(cell, _)| cell.name.as_str()).collect();
        let mut sql = self.sql(format!("insert into {table} ({}) values (", names.join(", ")));
        for (place, (cell, value)) in given.iter().enumerate() {
            sql = if place > 0 { sql.push(", ") } else { sql };
            sql = sql.put(cell, value)?;
        }
        Ok(sql.push(if S::KIND == Kind::MySql { ")" } else { ") on conflict do nothing" }))
    }

    /// It failed again, whatever a person had done about it.
    fn failed_again(&self, record: &ErrorRecord) -> Result<Sql> {
        let fields = ["attempts", "code", "error", "headers", "last_seen"];
        let mut set: Vec<(&Cell, Value)> = Vec::new();
        for field in fields {
            if let Some(cell) = self.fields.cells.get(field) {
                set.push((cell, value(field, cell, record, true)));
            }
        }
        set.extend(self.stand(Resolution::Open, None, None));
        self.update(&set)
    }

    fn update(&self, set: &[(&Cell, Value)]) -> Result<Sql> {
        let mut sql = self.sql(format!("update {} set ", self.fields.table));
        for (place, (cell, value)) in set.iter().enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            sql = sql.push(&format!("{comma}{} = ", cell.name)).put(cell, value)?;
        }
        Ok(sql)
    }

    /// How a record stands, in whatever columns there are for it.
    fn stand(&self, stand: Resolution, by: Option<&str>, at: Option<Timestamp>) -> Vec<(&Cell, Value)> {
        let time = at.map_or(Value::Null, Value::Time);
        let mut set = Vec::new();
        let mut put = |field: &str, value: Value| {
            if let Some(cell) = self.fields.cells.get(field) {
                set.push((cell, value));
            }
        };
        put("resolution", Value::Text(stand.as_str().to_owned()));
        let resolved = self.fields.cells.get("resolved");
        let is_truth = resolved.is_some_and(is_truth);
        put("resolved", if is_truth { Value::Bool(stand != Resolution::Open) } else { time.clone() });
        put("resolved_by", Value::sentence(by));
        put("resolved_at", time);
        set
    }

    async fn settle(&self, id: &str, stand: Resolution, by: &str, note: Option<&str>) -> Result<()> {
        if !self.fields.cells.contains_key("resolved") {
            self.fields.need("resolution")?;
        }
        let mut set = self.stand(stand, Some(by), Some(Timestamp::now()));
        if let (Some(cell), Some(note)) = (self.fields.cells.get("note"), note) {
            set.push((cell, Value::sentence(Some(note))));
        }
        let mut tx = self.store.begin().await?;
        self.touch(&mut tx, self.update(&set)?, id).await?;
        self.store.commit(tx).await
    }

    /// Changes the record of this id, which must be there.
    async fn touch(&self, tx: &mut S::Tx, sql: Sql, id: &str) -> Result<()> {
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no error with the id '{id}'"));
        let cell = self.fields.need("id")?;
        let sql = sql.push(&format!(" where {} = ", cell.name)).put(cell, &Value::Text(id.to_owned()));
        let changed = self.store.execute(tx, sql.map_err(|_| missing())?).await?;
        if changed == 0 { Err(missing()) } else { Ok(()) }
    }

    fn select(&self, with_payload: bool) -> (Vec<&'static str>, Sql) {
        let is_large = |field: &str| matches!(field, "payload" | "original_payload" | "headers");
        let cells = self.fields.cells.iter().filter(|(field, _)| with_payload || !is_large(field));
        let (names, reads): (Vec<&str>, Vec<String>) =
            cells.map(|(field, cell)| (*field, cell.read(S::KIND))).unzip();
        (names, self.sql(format!("select {} from {}", reads.join(", "), self.fields.table)))
    }

    fn matching(&self, mut sql: Sql, filter: &ErrorFilter) -> Result<Sql> {
        sql = sql.push(" where 1 = 1");
        let message = if self.fields.cells.contains_key("message_id") { "message_id" } else { "id" };
        let id = filter.message_id.as_ref().map(|id| id.as_str().to_owned());
        let equal =
            [(message, &id), ("code", &filter.code), ("key", &filter.key), ("origin", &filter.origin)];
        for (field, wanted) in equal {
            if let Some(wanted) = wanted {
                let cell = self.fields.need(field)?;
                sql = sql.push(&format!(" and {} = ", cell.name)).put(cell, &Value::Text(wanted.clone()))?;
            }
        }
        if let Some(kind) = &filter.kind {
            let cell = self.fields.need("type")?;
            sql = match kind.strip_suffix('*') {
                Some(start) => starts_with(sql, S::KIND, cell, start),
                None => sql.push(&format!(" and {} = ", cell.name)).put(cell, &Value::Text(kind.clone()))?,
            };
        }
        for (operator, time) in [("<", filter.older_than), (">=", filter.newer_than)] {
            if let Some(time) = time {
                let cell = self.fields.need("last_seen").or_else(|_| self.fields.need("first_seen"))?;
                sql = cell.compare(S::KIND, sql.push(" and "), operator, time)?;
            }
        }
        if let Some(stand) = filter.resolution {
            sql = self.standing(sql, stand)?;
        }
        let id = self.fields.need("id")?;
        if let Some(after) = &filter.after {
            sql = sql.push(&format!(" and {} > ", id.name)).put(id, &Value::Text(after.clone()))?;
        }
        let limit = if filter.limit == 0 { 100 } else { filter.limit };
        Ok(sql.push(&format!(" order by {} limit ", id.name)).bind(Param::Int(Some(limit.into()))))
    }

    fn standing(&self, sql: Sql, stand: Resolution) -> Result<Sql> {
        if let Some(cell) = self.fields.cells.get("resolution") {
            let word = Value::Text(stand.as_str().to_owned());
            return sql.push(&format!(" and {} = ", cell.name)).put(cell, &word);
        }
        let cell = self.fields.need("resolved")?;
        let is_open = stand == Resolution::Open;
        if !is_truth(cell) {
            let not = if is_open { "" } else { "not " };
            return Ok(sql.push(&format!(" and {} is {not}null", cell.name)));
        }
        // One that nobody ever touched may be null.
        let or_null = if is_open { format!(" or {} is null", cell.name) } else { String::new() };
        let sql = sql.push(&format!(" and ({} = ", cell.name)).put(cell, &Value::Bool(!is_open))?;
        Ok(sql.push(&or_null).push(")"))
    }
}

/// Whether `resolved` says yes or no, and not when.
fn is_truth(cell: &Cell) -> bool {
    matches!(cell.kind, Type::Bool | Type::Integer)
}

fn starts_with(sql: Sql, database: Kind, cell: &Cell, start: &str) -> Sql {
    let length = if database == Kind::Sqlite { "length" } else { "char_length" };
    let text = || Param::Text(Some(start.to_owned()));
    sql.push(&format!(" and substr({}, 1, {length}(", cell.name)).bind(text()).push(")) = ").bind(text())
}

/// What a field of a record is, for its column.
fn value(field: &str, cell: &Cell, record: &ErrorRecord, has_message_id: bool) -> Value {
    let text = |text: &str| Value::Text(text.to_owned());
    match field {
        "id" if has_message_id => text(&record.id),
        "id" | "message_id" => text(record.message_id.as_str()),
        "type" => text(&record.kind),
        "key" => Value::text(record.key.as_deref()),
        "origin" => text(&record.origin),
        "code" => Value::sentence(Some(&record.cause.code)),
        "error" => Value::sentence(Some(&record.cause.detail)),
        "attempts" => Value::Int(record.attempts.into()),
        "payload" => Value::Bytes(record.payload.to_vec()),
        "content_type" => text(&record.content_type),
        "headers" => Value::Json(serde_json::json!(record.headers).to_string()),
        "first_seen" => Value::Time(record.first_seen),
        "last_seen" => Value::Time(record.last_seen),
        "resolution" => text(Resolution::Open.as_str()),
        "resolved" if is_truth(cell) => Value::Bool(false),
        _ => Value::Null,
    }
}

/// The record of a row with these fields.
fn record(fields: &[&'static str], mut row: Row) -> ErrorRecord {
    let at = |field: &str| fields.iter().position(|known| *known == field);
    let mut cell = |field: &str| at(field).and_then(|at| row.get_mut(at)?.take());
    let mut text = |field: &str| cell(field).map(|cell| String::from_utf8_lossy(&cell).into_owned());
    let id = text("id").unwrap_or_default();
    let resolved = text("resolved");
    let is_resolved =
        resolved.as_ref().is_some_and(|value| !matches!(value.as_str(), "0" | "false" | "f" | "\0"));
    let resolution = match text("resolution").as_deref() {
        Some("returned") => Resolution::Returned,
        Some("resolved") => Resolution::Resolved,
        Some(_) => Resolution::Open,
        None if is_resolved => Resolution::Resolved,
        None => Resolution::Open,
    };
    let first_seen = time_of(text("first_seen"));
    let last_seen = time_of(text("last_seen")).or(first_seen).unwrap_or(Timestamp::UNIX_EPOCH);
    let headers = text("headers").and_then(|json| headers_from_json(&json));
    ErrorRecord {
        message_id: text("message_id").unwrap_or_else(|| id.clone()).into(),
        kind: text("type").unwrap_or_default(),
        key: text("key"),
        origin: text("origin").unwrap_or_else(|| "unknown".to_owned()),
        cause: Cause::new(
            text("code").unwrap_or_else(|| "UNKNOWN".to_owned()),
            text("error").unwrap_or_default(),
        ),
        attempts: text("attempts").and_then(|number| number.parse().ok()).unwrap_or(0),
        content_type: text("content_type").unwrap_or_default(),
        headers: headers.unwrap_or_else(Headers::new),
        first_seen: first_seen.unwrap_or(last_seen),
        last_seen,
        resolution,
        resolved_by: text("resolved_by"),
        resolved_at: time_of(text("resolved_at")).or_else(|| time_of(resolved)),
        note: text("note"),
        payload: cell("payload").map(payload::read).unwrap_or_default(),
        original_payload: cell("original_payload").map(payload::read),
        id,
    }
}

#[async_trait]
impl<S: Sheet> ErrorLog for TableLog<S> {
    async fn write(&self, records: &[ErrorRecord]) -> Result<()> {
        let mut tx = self.store.begin().await?;
        for record in records {
            self.write_one(&mut tx, record).await?;
        }
        self.store.commit(tx).await
    }

    async fn list(&self, filter: &ErrorFilter) -> Result<Vec<ErrorRecord>> {
        let (fields, sql) = self.select(filter.with_payload);
        let sql = self.matching(sql, filter)?;
        let rows = self.store.look(sql).await?;
        Ok(rows.into_iter().map(|row| record(&fields, row)).collect())
    }

    async fn show(&self, id: &str) -> Result<Option<ErrorRecord>> {
        let (fields, sql) = self.select(true);
        let cell = self.fields.need("id")?;
        let sql = sql.push(&format!(" where {} = ", cell.name));
        // What the column cannot hold is not there.
        let Ok(sql) = sql.put(cell, &Value::Text(id.to_owned())) else { return Ok(None) };
        let rows = self.store.look(sql).await?;
        Ok(rows.into_iter().next().map(|row| record(&fields, row)))
    }

    async fn edit(&self, id: &str, payload: &[u8]) -> Result<()> {
        let mut set = Vec::new();
        let now = (self.fields.need("payload")?, Value::Bytes(payload.to_vec()));
        let before = self.show(id).await?;
        if let (Some(cell), Some(before)) = (self.fields.cells.get("original_payload"), before)
            && before.original_payload.is_none()
        {
            set.push((cell, Value::Bytes(before.payload.to_vec())));
        }
        set.push(now);
        let mut tx = self.store.begin().await?;
        self.touch(&mut tx, self.update(&set)?, id).await?;
        self.store.commit(tx).await
    }

    async fn resolve(&self, id: &str, by: &str, note: Option<&str>) -> Result<()> {
        self.settle(id, Resolution::Resolved, by, note).await
    }

    async fn returned(&self, id: &str, by: &str) -> Result<()> {
        self.settle(id, Resolution::Returned, by, None).await
    }
}
