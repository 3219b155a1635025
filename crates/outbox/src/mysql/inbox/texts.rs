//! The statements of an inbox, over our table or over one that somebody else made.

use crate::inbox::{InboxTable, Keys};
use crate::schema::{Column, Dialect, Name, Type};

/// The most characters of an id and of a consumer in our table.
pub(super) const MOST: u32 = 255;

/// Which columns the statements are about, each ready for SQL.
#[derive(Debug)]
pub(super) struct Shape {
    table: String,
    id: String,
    consumer: Option<String>,
    at: Option<String>,
    prunes: bool,
    /// Whether ids that differ as texts differ for the column too.
    pub(super) is_exact: bool,
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
            prunes: true,
            is_exact: true,
            keys: Keys { uuid: false, id: Some(MOST), consumer: Some(MOST) },
            owner: None,
        }
    }

    /// A table that was found to fit.
    pub(super) fn mapped(table: &InboxTable, columns: &[Column], keys: Keys) -> Self {
        let quoted = |name: &Name| name.quoted(Dialect::MySql);
        let is_exact = |id: &&Column| id.kind == Type::Uuid || id.type_name.ends_with("_bin");
        Self {
            table: table.table.quoted(Dialect::MySql),
            id: quoted(&table.id),
            consumer: table.consumer.as_ref().map(quoted),
            at: table.at.as_ref().map(quoted),
            prunes: table.prune,
            is_exact: columns
                .iter()
                .find(|column| column.name == table.id.as_str())
                .filter(is_exact)
                .is_some(),
            owner: table.consumer.is_none().then(|| table.table.to_string()),
            keys,
        }
    }

    pub(super) fn has_consumer(&self) -> bool {
        self.consumer.is_some()
    }

    /// The consumer is the first value, where there is such a column.
    fn consumer_and(&self) -> String {
        self.consumer.as_ref().map_or_else(String::new, |name| format!("{name} = ? and "))
    }

    /// Each row is an id and, where there is a column for it, the consumer.
    pub(super) fn insert(&self, rows: usize) -> String {
        let names = [Some(&self.id), self.consumer.as_ref(), self.at.as_ref()];
        let names: Vec<&str> = names.into_iter().flatten().map(String::as_str).collect();
        let consumer = if self.has_consumer() { ", ?" } else { "" };
        let now = if self.at.is_some() { ", utc_timestamp(6)" } else { "" };
        let rows = vec![format!("(?{consumer}{now})"); rows].join(", ");
        format!("insert into {} ({}) values {rows}", self.table, names.join(", "))
    }

    /// Which of so many ids are there; the consumer, if any, comes first.
    pub(super) fn find(&self, ids: usize) -> String {
        let consumer = self.consumer_and();
        let ids = vec!["?"; ids].join(", ");
        let Self { table, id, .. } = self;
        format!("select cast({id} as char) from {table} where {consumer}{id} in ({ids})")
    }

    pub(super) fn forget(&self) -> String {
        let consumer = self.consumer_and();
        format!("delete from {} where {consumer}{} = ?", self.table, self.id)
    }

    /// The values are the consumer, where there is such a column, the window in microseconds and the most rows. None
    /// where nothing may be removed.
    pub(super) fn prune(&self) -> Option<String> {
        let (Self { table, .. }, at) = (self, self.at.as_ref().filter(|_| self.prunes)?);
        let consumer = self.consumer_and();
        Some(format!(
            "delete from {table} where {consumer}{at} < utc_timestamp(6) - interval ? microsecond
             order by {at} limit ?"
        ))
    }

    /// Who has handled the id, and when, in microseconds.
    pub(super) fn handled(&self) -> String {
        let Self { table, id, .. } = self;
        if self.owner.is_none() && table == "outbox_inbox" {
            // There is no index that begins with the id, and consumers are few: each is asked.
            return "
                with recursive consumers (consumer) as (
                    select min(consumer) from outbox_inbox
                    union all
                    select (select min(inbox.consumer) from outbox_inbox as inbox where inbox.consumer > consumers.consumer)
                    from consumers where consumers.consumer is not null)
                select inbox.consumer, timestampdiff(microsecond, '1970-01-01', inbox.handled_at) as at
                from consumers join outbox_inbox as inbox
                  on inbox.consumer = consumers.consumer and inbox.message_id = ?"
                .to_owned();
        }
        let consumer = self.consumer.as_deref().unwrap_or("''");
        let at = self.at.as_deref().unwrap_or("null");
        format!(
            "select cast({consumer} as char) as consumer, timestampdiff(microsecond, '1970-01-01', {at}) as at
             from {table} where {id} = ?"
        )
    }
}
