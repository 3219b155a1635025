//! Who did what to which message, and when: the contract of an [`Audit`].
//!
//! `postgres::audit`, `mysql::audit` and `sqlite::audit` keep it beside the other tables.

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

use crate::error::Result;
use crate::message::MessageId;
use crate::schema::Type;
use crate::sheet::{Cell, Param, Row, Sheet, Sql, Value, text_at, time_of};
use crate::sql::Kind;

/// A book of what people did.
///
/// - **U1** What is written is listed as it was given, the newest first; several are written all or none.
/// - **U2** `list` gives what matches, in pages, and changes nothing.
#[async_trait]
pub trait Audit: Send + Sync {
    /// Writes down what was done.
    async fn write(&self, entries: &[Entry]) -> Result<()>;

    /// What was done, the newest first.
    async fn list(&self, filter: &Filter) -> Result<Vec<Entry>>;
}

/// One thing that somebody did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Its place in the book; 0 until it is written.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub who: String,
    /// What, in a word: `retry`, `discard`, `edit`.
    pub action: String,
    /// To what: the name of a queue, topic, source or table.
    pub target: String,
    /// To which message; none if it was about many.
    pub message_id: Option<MessageId>,
    /// What else there is to say, without payload.
    pub detail: Option<String>,
}

impl Entry {
    /// Somebody did something, now.
    pub fn new(who: impl Into<String>, action: impl Into<String>, target: impl Into<String>) -> Self {
        Self {
            seq: 0,
            at: Timestamp::now(),
            who: who.into(),
            action: action.into(),
            target: target.into(),
            message_id: None,
            detail: None,
        }
    }

    /// Sets the message that it was done to.
    #[must_use]
    pub fn message(mut self, id: &MessageId) -> Self {
        self.message_id = Some(id.clone());
        self
    }

    /// Sets what else there is to say.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

/// Which entries are meant; what is not set matches everything.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// By this person.
    pub who: Option<String>,
    /// This action.
    pub action: Option<String>,
    /// To this queue, topic, source or table.
    pub target: Option<String>,
    /// To this message.
    pub message_id: Option<MessageId>,
    /// Before this time.
    pub older_than: Option<Timestamp>,
    /// At this time or later.
    pub newer_than: Option<Timestamp>,
    /// Only before this place; that of the last entry of a page.
    pub before: Option<u64>,
    /// At most so many; 0 means 100.
    pub limit: u32,
}

/// The columns, after the number.
const COLUMNS: [&str; 6] = ["at", "who", "action", "target", "message_id", "detail"];

pub(crate) struct TableAudit<S> {
    store: S,
}

impl<S: Sheet> TableAudit<S> {
    pub(crate) fn new(store: S) -> Self {
        Self { store }
    }

    fn table() -> &'static str {
        if S::KIND == Kind::Postgres { "outbox.audit" } else { "outbox_audit" }
    }

    fn cell(name: &str) -> Cell {
        let short = if S::KIND == Kind::MySql { Some(255) } else { None };
        let kind = match name {
            "at" => Type::Time { zoned: true },
            "detail" => Type::Text(None),
            _ => Type::Text(short),
        };
        Cell::ours(S::KIND, name, kind)
    }

    fn insert(entry: &Entry) -> Result<Sql> {
        let names: Vec<String> = COLUMNS.iter().map(|name| Self::cell(name).name).collect();
        let mut sql =
            Sql::new(S::KIND, format!("insert into {} ({}) values (", Self::table(), names.join(", ")));
        let values = [
            Value::Time(entry.at),
            Value::sentence(Some(&entry.who)),
            Value::sentence(Some(&entry.action)),
            Value::sentence(Some(&entry.target)),
            Value::sentence(entry.message_id.as_ref().map(MessageId::as_str)),
            Value::sentence(entry.detail.as_deref()),
        ];
        for (place, (name, value)) in COLUMNS.iter().zip(values).enumerate() {
            sql = if place > 0 { sql.push(", ") } else { sql };
            sql = sql.put(&Self::cell(name), &value)?;
        }
        Ok(sql.push(")"))
    }

    fn matching(filter: &Filter) -> Result<Sql> {
        let number = Cell::ours(S::KIND, "seq", Type::Integer);
        let cells = std::iter::once(number.clone()).chain(COLUMNS.iter().map(|name| Self::cell(name)));
        let reads: Vec<String> = cells.map(|cell| cell.read(S::KIND)).collect();
        let mut sql =
            Sql::new(S::KIND, format!("select {} from {} where 1 = 1", reads.join(", "), Self::table()));
        let id = filter.message_id.as_ref().map(|id| id.as_str().to_owned());
        let equal = [
            ("who", &filter.who),
            ("action", &filter.action),
            ("target", &filter.target),
            ("message_id", &id),
        ];
        for (name, wanted) in equal {
            if let Some(wanted) = wanted {
                let cell = Self::cell(name);
                sql = sql.push(&format!(" and {} = ", cell.name)).put(&cell, &Value::Text(wanted.clone()))?;
            }
        }
        for (operator, time) in [("<", filter.older_than), (">=", filter.newer_than)] {
            if let Some(time) = time {
                sql = Self::cell("at").compare(S::KIND, sql.push(" and "), operator, time)?;
            }
        }
        if let Some(before) = filter.before {
            let before = i64::try_from(before).unwrap_or(i64::MAX);
            sql = sql.push(&format!(" and {} < ", number.name)).bind(Param::Int(Some(before)));
        }
        let limit = if filter.limit == 0 { 100 } else { filter.limit };
        Ok(sql.push(&format!(" order by {} desc limit ", number.name)).bind(Param::Int(Some(limit.into()))))
    }
}

fn entry(row: &Row) -> Entry {
    let text = |at| text_at(row, at);
    Entry {
        seq: text(0).and_then(|number| number.parse().ok()).unwrap_or(0),
        at: time_of(text(1)).unwrap_or(Timestamp::UNIX_EPOCH),
        who: text(2).unwrap_or_default(),
        action: text(3).unwrap_or_default(),
        target: text(4).unwrap_or_default(),
        message_id: text(5).map(MessageId::from),
        detail: text(6),
    }
}

#[async_trait]
impl<S: Sheet> Audit for TableAudit<S> {
    async fn write(&self, entries: &[Entry]) -> Result<()> {
        let mut tx = self.store.begin().await?;
        for entry in entries {
            self.store.execute(&mut tx, Self::insert(entry)?).await?;
        }
        self.store.commit(tx).await
    }

    async fn list(&self, filter: &Filter) -> Result<Vec<Entry>> {
        let rows = self.store.look(Self::matching(filter)?).await?;
        Ok(rows.iter().map(entry).collect())
    }
}
