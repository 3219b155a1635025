//! The statements of an inbox, over our table or over one that somebody else made.

use super::NOW;
use crate::inbox::{InboxTable, Keys};
use crate::schema::{Column, Name, Type};

/// What a time is written as, in a column that holds text.
const NOW_TEXT: &str = "strftime('%Y-%m-%d %H:%M:%f', 'now')";

/// Which columns the statements are about, each ready for SQL.
#[derive(Debug)]
pub(super) struct Shape {
    table: String,
    pub(super) id: String,
    consumer: Option<String>,
    at: Option<String>,
    /// Whether a time is a number, of milliseconds since 1970.
    in_numbers: bool,
    prunes: bool,
    pub(super) keys: Keys,
    /// Told as the consumer where the table has no column for it.
    pub(super) owner: Option<String>,
}

impl Shape {
    /// The inbox that `migrate` makes.
    pub(super) fn ours() -> Self {
        Self {
            table: "outbox_inbox".to_owned(),
            id: "message_id".to_owned(),
            consumer: Some("consumer".to_owned()),
            at: Some("handled_at".to_owned()),
            in_numbers: true,
            prunes: true,
            keys: Keys { uuid: false, id: None, consumer: None },
            owner: None,
        }
    }

    /// A table that was found to fit.
    pub(super) fn mapped(table: &InboxTable, columns: &[Column], keys: Keys) -> Self {
        let is_number = |at: &Name| {
            columns.iter().any(|column| column.name == at.as_str() && column.kind == Type::Integer)
        };
        Self {
            table: table.table.standard(),
            id: table.id.standard(),
            consumer: table.consumer.as_ref().map(Name::standard),
            at: table.at.as_ref().map(Name::standard),
            in_numbers: table.at.as_ref().is_some_and(is_number),
            prunes: table.prune,
            owner: table.consumer.is_none().then(|| table.table.to_string()),
            keys,
        }
    }

    /// The second value is the consumer, where there is such a column.
    fn and_consumer(&self) -> String {
        self.consumer.as_ref().map_or_else(String::new, |consumer| format!(" AND {consumer} = ?"))
    }

    pub(super) fn has_consumer(&self) -> bool {
        self.consumer.is_some()
    }

    /// The names of what is recorded, in order: the id, the consumer, the time.
    pub(super) fn insert(&self) -> String {
        let names = [Some(&self.id), self.consumer.as_ref(), self.at.as_ref()];
        let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
        format!("INSERT INTO {} ({}) ", self.table, names.join(", "))
    }

    /// The clock, where there is a column for it.
    pub(super) fn now(&self) -> Option<&'static str> {
        self.at.as_ref().map(|_| if self.in_numbers { NOW } else { NOW_TEXT })
    }

    pub(super) fn forget(&self) -> String {
        format!("DELETE FROM {} WHERE {} = ?{}", self.table, self.id, self.and_consumer())
    }

    pub(super) fn is_known(&self) -> String {
        format!("SELECT EXISTS (SELECT 1 FROM {} WHERE {} = ?{})", self.table, self.id, self.and_consumer())
    }

    /// The values are the window in milliseconds, the consumer where there is such a column, and the most rows. None
    /// where nothing may be removed.
    pub(super) fn prune(&self) -> Option<String> {
        let (Self { table, id, .. }, at) = (self, self.at.as_ref().filter(|_| self.prunes)?);
        let row = self.consumer.as_ref().map_or_else(|| id.clone(), |consumer| format!("{consumer}, {id}"));
        let is_old = if self.in_numbers {
            format!("{at} < {NOW} - ?")
        } else {
            // Whoever else writes here may write a T between day and time, or a zone behind it.
            format!("julianday({at}) < julianday('now') - ? / 86400000.0")
        };
        Some(format!(
            "DELETE FROM {table} WHERE ({row}) IN (
                 SELECT {row} FROM {table} WHERE {is_old}{} ORDER BY {at} LIMIT ?)",
            self.and_consumer()
        ))
    }

    /// Who has handled the id, and when, in milliseconds.
    pub(super) fn handled(&self) -> String {
        let Self { table, id, .. } = self;
        if table == "outbox_inbox" && self.owner.is_none() {
            // There is no index that begins with the id, and consumers are few: each is asked.
            return "
                WITH RECURSIVE consumers (consumer) AS (
                    SELECT min(consumer) FROM outbox_inbox
                    UNION ALL
                    SELECT (SELECT min(inbox.consumer) FROM outbox_inbox AS inbox WHERE inbox.consumer > consumers.consumer)
                    FROM consumers WHERE consumers.consumer IS NOT NULL)
                SELECT inbox.consumer AS consumer, inbox.handled_at AS at
                FROM consumers JOIN outbox_inbox AS inbox
                  ON inbox.consumer = consumers.consumer AND inbox.message_id = ?"
                .to_owned();
        }
        let consumer = self.consumer.as_deref().unwrap_or("NULL");
        let at = match &self.at {
            Some(at) if self.in_numbers => at.clone(),
            Some(at) => format!("CAST(round((julianday({at}) - 2440587.5) * 86400000) AS INTEGER)"),
            None => "NULL".to_owned(),
        };
        format!("SELECT {consumer} AS consumer, {at} AS at FROM {table} WHERE {id} = ?")
    }
}
