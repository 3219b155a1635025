//! The statements of an inbox, over our table or over one that somebody else made.

use crate::inbox::{InboxTable, Keys};
use crate::schema::{Column, Dialect, Name, Type};

/// Which columns the statements are about, each ready for SQL.
#[derive(Debug)]
pub(super) struct Shape {
    table: String,
    id: String,
    /// The type that an id is cast to, such that an index on the column is used.
    id_type: String,
    consumer: Option<String>,
    at: Option<String>,
    /// The clock in the type of `at`, and `at` as an instant.
    now: &'static str,
    instant: String,
    prunes: bool,
    pub(super) keys: Keys,
    /// Told as the consumer where the table has no column for it.
    pub(super) owner: Option<String>,
}

impl Shape {
    /// The inbox that `migrate` makes.
    pub(super) fn ours() -> Self {
        Self {
            table: "outbox.inbox".to_owned(),
            id: "message_id".to_owned(),
            id_type: "text".to_owned(),
            consumer: Some("consumer".to_owned()),
            at: Some("handled_at".to_owned()),
            now: "clock_timestamp()",
            instant: "handled_at".to_owned(),
            prunes: true,
            keys: Keys { uuid: false, id: None, consumer: None },
            owner: None,
        }
    }

    /// A table that was found to fit.
    pub(super) fn mapped(table: &InboxTable, columns: &[Column], keys: Keys) -> Self {
        let column = |name: &Name| columns.iter().find(|column| column.name == name.as_str());
        let quoted = |name: &Name| name.quoted(Dialect::Postgres);
        let at = table.at.as_ref().map(quoted);
        let zoned =
            table.at.as_ref().and_then(column).is_some_and(|at| at.kind == Type::Time { zoned: true });
        let plain = at.clone().unwrap_or_else(|| "null::timestamptz".to_owned());
        Self {
            table: table.table.quoted(Dialect::Postgres),
            id: quoted(&table.id),
            id_type: column(&table.id)
                .map_or_else(|| "text".to_owned(), |id| format!("\"{}\"", id.type_name)),
            consumer: table.consumer.as_ref().map(quoted),
            instant: if zoned || at.is_none() { plain } else { format!("{plain} at time zone 'utc'") },
            now: if zoned { "clock_timestamp()" } else { "(clock_timestamp() at time zone 'utc')" },
            at,
            prunes: table.prune,
            owner: table.consumer.is_none().then(|| table.table.to_string()),
            keys,
        }
    }

    /// `$2` is the consumer, where there is such a column.
    fn and_consumer(&self, of: &str) -> String {
        self.consumer.as_ref().map_or_else(String::new, |consumer| format!(" and {of}{consumer} = $2"))
    }

    pub(super) fn has_consumer(&self) -> bool {
        self.consumer.is_some()
    }

    pub(super) fn record(&self) -> String {
        let Self { table, id, id_type, now, .. } = self;
        let (mut names, mut values) = (id.clone(), format!("given.id::{id_type}"));
        if let Some(consumer) = &self.consumer {
            names += &format!(", {consumer}");
            values += ", $2";
        }
        if let Some(at) = &self.at {
            names += &format!(", {at}");
            values += &format!(", {now}");
        }
        format!(
            "insert into {table} ({names}) select {values} from unnest($1::text[]) as given (id)
             on conflict do nothing returning {id}::text as id"
        )
    }

    pub(super) fn forget(&self) -> String {
        let Self { table, id, id_type, .. } = self;
        format!("delete from {table} where {id} = $1::text::{id_type}{}", self.and_consumer(""))
    }

    pub(super) fn known(&self) -> String {
        let Self { table, id, id_type, .. } = self;
        format!(
            "select exists (select from {table} as known where known.{id} = given.id::{id_type}{}) as known
             from unnest($1::text[]) with ordinality as given (id, place) order by place",
            self.and_consumer("known.")
        )
    }

    /// `$1` is the window in milliseconds, `$2` the consumer where there is such a column, and last come the most
    /// rows. None where nothing may be removed. The clock is asked once, so that an index serves.
    pub(super) fn prune(&self) -> Option<String> {
        let (Self { table, id, now, .. }, at) = (self, self.at.as_ref().filter(|_| self.prunes)?);
        let row = self.consumer.as_ref().map_or_else(|| id.clone(), |consumer| format!("{consumer}, {id}"));
        Some(format!(
            "delete from {table} where ({row}) in (
                 select {row} from {table}
                 where {at} < (select {now} - $1::bigint * interval '1 millisecond'){}
                 order by {at} limit {})",
            self.and_consumer(""),
            if self.has_consumer() { "$3" } else { "$2" }
        ))
    }

    /// Who has handled the id in `$1`, and when.
    pub(super) fn handled(&self) -> String {
        let Self { table, id, id_type, instant, .. } = self;
        if self.owner.is_none() && table == "outbox.inbox" {
            // There is no index that begins with the id, and consumers are few: each is asked.
            return "
                with recursive consumers (consumer) as (
                    (select consumer from outbox.inbox order by consumer limit 1)
                    union all
                    select (select inbox.consumer from outbox.inbox as inbox where inbox.consumer > consumers.consumer
                            order by inbox.consumer limit 1)
                    from consumers where consumers.consumer is not null)
                select inbox.consumer, inbox.handled_at as at
                from consumers join outbox.inbox as inbox
                  on inbox.consumer = consumers.consumer and inbox.message_id = $1"
                .to_owned();
        }
        let consumer = self.consumer.as_deref().unwrap_or("null");
        format!(
            "select {consumer}::text as consumer, {instant} as at from {table} where {id} = $1::text::{id_type}"
        )
    }
}
