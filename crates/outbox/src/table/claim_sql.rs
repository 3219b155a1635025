//! The statements that claim rows, look at them again, and find what was left.

use std::time::Duration;

use super::catalog::Layout;
use super::condition::Assignment;
use super::mapping::{ClaimBy, Done, Origin};
use super::sql::{Except, Lane, Param, Sql};
use crate::schema::{Column, Dialect, Name, Type};

impl Layout {
    /// What a message is made of; see [`cell`].
    pub(super) fn select(&self) -> String {
        let mapping = &self.mapping;
        let text = |name: Option<&Name>| name.map_or_else(|| "null".to_owned(), |name| self.as_text(name));
        let origin = |origin: &Origin| match origin {
            Origin::Constant(_) => "null".to_owned(),
            Origin::Field(field) => self.as_text(&field.column),
        };
        let payload = match self.column(&mapping.payload.column).map(|column| &column.kind) {
            Some(Type::Bytes) => self.col(&mapping.payload.column),
            _ if self.dialect == Dialect::MySql => {
                format!("cast(convert({} using utf8mb4) as binary)", self.col(&mapping.payload.column))
            }
            _ => self.as_text(&mapping.payload.column),
        };
        let stamp = match &mapping.claim {
            ClaimBy::Lock => None,
            ClaimBy::Stamp { column, .. } => Some(column),
        };
        let mut cells = vec![
            self.as_text(&mapping.id),
            payload,
            origin(&mapping.kind),
            self.key(),
            origin(&mapping.content_type),
            text(mapping.headers.as_ref().map(|field| &field.column)),
            mapping.occurred_at.as_ref().map_or_else(|| "null".to_owned(), |name| self.micros(name)),
            text(mapping.attempts.as_ref()),
            text(stamp),
            self.is_processed(),
        ];
        cells.extend(mapping.header_columns.iter().map(|(_, field)| self.as_text(&field.column)));
        cells.push(self.named_columns());
        cells.join(", ")
    }

    /// Names what is read and what a settle writes, for nothing but its name: a column that was dropped is noticed before
    /// a message is sent, and not after.
    fn named_columns(&self) -> String {
        let mapping = &self.mapping;
        let done: &[Assignment] = match &mapping.done {
            Done::Delete => &[],
            Done::Set(set) => set,
        };
        let set = done.iter().chain(&mapping.failed).chain(&mapping.dead).map(|one| &one.column);
        let names = set
            .chain(&mapping.error)
            .chain(&mapping.due)
            .chain(&mapping.attempts)
            .chain(&mapping.occurred_at);
        let fields = mapping.headers.iter().chain(mapping.header_columns.iter().map(|(_, field)| field));
        let origins = [&mapping.kind, &mapping.content_type].into_iter().filter_map(|origin| match origin {
            Origin::Field(field) => Some(field),
            Origin::Constant(_) => None,
        });
        let fields = fields.chain(origins).chain([&mapping.payload]).map(|field| &field.column);
        let names = names.chain(fields);
        let named: Vec<_> = names.map(|name| format!("{} is null", self.col(name))).collect();
        if named.is_empty() {
            "null".to_owned()
        } else {
            format!("case when false and ({}) then '1' end", named.join(" or "))
        }
    }

    fn is_processed(&self) -> String {
        let Some(processed) = &self.mapping.processed else { return "null".to_owned() };
        let (table, id) = (processed.table.quoted(self.dialect), processed.id.quoted(self.dialect));
        let found = self.processed_column(&processed.id);
        let same = found.map(|column| &column.type_name)
            == self.column(&self.mapping.id).map(|column| &column.type_name);
        let equal = match (same, self.dialect) {
            (true, _) => format!("p.{id} = {}", self.col(&self.mapping.id)),
            (false, Dialect::Postgres) => format!("p.{id}::text = {}", self.as_text(&self.mapping.id)),
            // As the other table has it, so that its index serves.
            (false, Dialect::MySql) => {
                format!("p.{id} = {}", self.like(&self.as_text(&self.mapping.id), found))
            }
        };
        // The column of the time is named for the same reason as in `named_columns`.
        let at =
            processed.at.as_ref().map(|at| format!(" and (p.{} is null or true)", at.quoted(self.dialect)));
        // Without it PostgreSQL may read the whole table of ids into a hash, with every claim anew.
        let one_by_one = if self.dialect == Dialect::Postgres { " offset 0" } else { "" };
        format!(
            "case when exists (select 1 from {table} as p where {equal}{}{one_by_one}) then '1' end",
            at.unwrap_or_default()
        )
    }

    /// A text as a value that compares to a column of MySQL.
    fn like(&self, text: &str, column: Option<&Column>) -> String {
        match column.map(|column| (&column.kind, column)) {
            Some((Type::Bytes, _)) => format!("unhex(replace({text}, '-', ''))"),
            Some((Type::Integer, column)) => {
                format!("cast({text} as {})", if column.is_unsigned() { "unsigned" } else { "signed" })
            }
            Some((_, column)) => match column.collation() {
                Some((charset, collation)) => format!("convert({text} using {charset}) collate {collation}"),
                None => text.to_owned(),
            },
            None => text.to_owned(),
        }
    }

    /// Locks up to `limit` rows that may be claimed, in order.
    #[cfg(feature = "postgres")]
    pub(crate) fn claim(&self, limit: usize, lane: Lane, except: &Except) -> Sql {
        let sql = self.sql().push(&format!(
            "select {} from {} as m where {}{}",
            self.select(),
            self.quoted(),
            self.claimable(),
            self.lane(lane)
        ));
        self.leave_out(sql, except)
            .push(&format!(" order by {} limit ", self.order()))
            .int(limit as u64)
            .push(self.skip_locked())
    }

    /// Id and key of the rows that a claim would have, in order, with nothing locked.
    pub(crate) fn next(&self, limit: usize, lane: Lane, except: &Except) -> Sql {
        let sql = self.sql().push(&format!(
            "select {}, {}, {} from {} as m where {}{}",
            self.as_text(&self.mapping.id),
            self.key(),
            // So that a column that is gone is noticed also while nothing is pending.
            self.named_columns(),
            self.quoted(),
            self.claimable(),
            self.lane(lane)
        ));
        self.leave_out(sql, except).push(&format!(" order by {} limit ", self.order())).int(limit as u64)
    }

    /// Locks given rows, in order, due or not: whoever asks has waited for them.
    pub(crate) fn claim_these(&self, ids: &[String]) -> Sql {
        self.locking(ids).push(&format!(" order by {}", self.order())).push(self.skip_locked())
    }

    /// Locks up to `limit` of given rows, whichever come first to hand: to sort them, it would have to lock them all.
    #[cfg(feature = "mysql")]
    pub(crate) fn claim_some_of(&self, ids: &[String], limit: usize) -> Sql {
        self.locking(ids).push(" limit ").int(limit as u64).push(self.skip_locked())
    }

    fn locking(&self, ids: &[String]) -> Sql {
        let sql = self.sql().push(&format!(
            "select {} from {} where {}{} and ",
            self.select(),
            self.by_id(),
            self.pending(),
            self.unstamped()
        ));
        self.is_one_of(sql, ids)
    }

    /// Stamps what the inner statement locks and gives it back, in one statement.
    #[cfg(feature = "postgres")]
    pub(crate) fn claim_by_stamp(&self, limit: usize, lane: Lane, except: &Except, stamp: &Name) -> Sql {
        let sql = self.sql().push(&format!(
            "with next as (select {} from {} as m where {}{}",
            self.col(&self.mapping.id),
            self.quoted(),
            self.claimable(),
            self.lane(lane)
        ));
        let sql = self.leave_out(sql, except).push(&format!(" order by {} limit ", self.order()));
        self.stamping(sql.int(limit as u64), stamp)
    }

    /// The same for given rows.
    #[cfg(feature = "postgres")]
    pub(crate) fn stamp_these(&self, ids: &[String], stamp: &Name) -> Sql {
        let sql = self.sql().push(&format!(
            "with next as (select {} from {} as m where {} and ",
            self.col(&self.mapping.id),
            self.quoted(),
            self.claimable()
        ));
        self.stamping(self.is_one_of(sql, ids), stamp)
    }

    #[cfg(feature = "postgres")]
    fn stamping(&self, next: Sql, stamp: &Name) -> Sql {
        let (id, table) = (self.mapping.id.quoted(self.dialect), self.quoted());
        next.push(self.skip_locked()).push(&format!(
            "), taken as (update {table} as m set {} = {} from next where m.{id} = next.{id} returning m.*) \
             select {} from taken as m order by {}",
            stamp.quoted(self.dialect),
            self.now(stamp),
            self.select(),
            self.order()
        ))
    }

    fn skip_locked(&self) -> &'static str {
        match self.dialect {
            Dialect::Postgres => " for update of m skip locked",
            Dialect::MySql => " for update skip locked",
        }
    }

    /// Puts a fresh stamp on rows that are locked.
    pub(crate) fn put_stamp(&self, ids: &[String], stamp: &Name) -> Sql {
        let set = format!("{} = {}", stamp.quoted(self.dialect), self.now(stamp));
        self.is_one_of(self.sql().push(&format!("update {} set {set} where ", self.by_id())), ids)
    }

    /// Takes a stamp off, if it is still the same.
    pub(crate) fn take_stamp_off(&self, ids: &[String], stamp: &Name, value: &str) -> Sql {
        let sql = self.sql().push(&format!(
            "update {} set {} = null where ",
            self.by_id(),
            stamp.quoted(self.dialect)
        ));
        self.is_one_of(sql, ids)
            .push(&format!(" and {} = ", self.as_text(stamp)))
            .bind(Param::Text(value.to_owned()))
    }

    /// Id, attempts and stamp of rows that are pending still. Those of a claim by lock come if nobody else has locked
    /// them. A stamp says whose they are, so those are waited for: the claim of another relay locks rows for a moment
    /// that were stamped since its statement began. MySQL waits always: whoever has a row there may only look at it,
    /// or be a session that is about to end.
    pub(crate) fn lock_again(&self, ids: &[String]) -> Sql {
        let text = |name: Option<&Name>| name.map_or_else(|| "null".to_owned(), |name| self.as_text(name));
        let (stamp, lock) = match (&self.mapping.claim, self.dialect) {
            (ClaimBy::Lock, Dialect::Postgres) => (None, self.skip_locked()),
            (ClaimBy::Lock, Dialect::MySql) => (None, " for update"),
            (ClaimBy::Stamp { column, .. }, _) => (Some(column), " for update"),
        };
        let sql = self.sql().push(&format!(
            "select {}, {}, {} from {} where {} and ",
            self.as_text(&self.mapping.id),
            text(self.mapping.attempts.as_ref()),
            text(stamp),
            self.by_id(),
            self.pending()
        ));
        self.is_one_of(sql, ids).push(lock)
    }

    /// Id and attempts of those rows that are pending still, whoever has them.
    pub(crate) fn pending_of(&self, ids: &[String]) -> Sql {
        let attempts =
            self.mapping.attempts.as_ref().map_or_else(|| "null".to_owned(), |name| self.as_text(name));
        let id = format!("{}, {attempts}", self.as_text(&self.mapping.id));
        let sql = self.sql().push(&format!(
            "select {id} from {} as m where {} and ",
            self.quoted(),
            self.pending()
        ));
        self.is_one_of(sql, ids)
    }

    /// The keys of rows that wait for a person.
    pub(crate) fn held_keys(&self, lane: Lane, most: usize) -> Option<Sql> {
        let dead = self.condition(&self.mapping.dead_when()?);
        let key = self.key();
        let distinct = match self.dialect {
            Dialect::Postgres => key.clone(),
            // Bytes: of two keys that differ in case only, one would be lost.
            Dialect::MySql => format!("cast({key} as binary)"),
        };
        Some(
            self.sql()
                .push(&format!(
                    "select distinct {distinct} from {} as m where {dead}{} and {key} is not null limit ",
                    self.quoted(),
                    self.lane(lane)
                ))
                .int(most as u64),
        )
    }

    /// Id, key and microseconds to wait of rows that are pending but not due, or stamped by somebody.
    pub(crate) fn waiting(&self, lane: Lane, most: usize) -> Vec<Sql> {
        let mapping = &self.mapping;
        let mut reasons = Vec::new();
        // Only what has failed holds its key: an application may set the time of a row that is not meant for now.
        if let (Some(due), Some(attempts)) = (&mapping.due, &mapping.attempts) {
            let when = format!("{} > {} and {} > 0", self.col(due), self.now(due), self.col(attempts));
            reasons.push((when, self.difference(due, Duration::ZERO)));
        }
        if let ClaimBy::Stamp { column, timeout } = &mapping.claim {
            let when = format!("{} >= {}", self.col(column), self.earlier(column, *timeout));
            reasons.push((when, self.difference(column, *timeout)));
        }
        let (key, id) = (self.key(), self.as_text(&mapping.id));
        let (table, pending, lane) = (self.quoted(), self.pending(), self.lane(lane));
        let statement = |(when, wait): (String, String)| {
            let text = format!(
                "select {id}, {key}, {wait} from {table} as m \
                 where {pending} and {when}{lane} and {key} is not null limit "
            );
            self.sql().push(&text).int(most as u64)
        };
        reasons.into_iter().map(statement).collect()
    }

    /// Microseconds from now until the column's time and `more`.
    fn difference(&self, name: &Name, more: Duration) -> String {
        let (column, now, more) = (self.col(name), self.now(name), more.as_micros());
        match self.dialect {
            Dialect::Postgres => {
                // 'infinity' is a time there, and far ones are more than a number can hold.
                let wait = format!("least(extract(epoch from {column} - {now}), 1000000000)");
                format!("case when isfinite({column}) then (({wait} * 1000000)::bigint + {more})::text end")
            }
            Dialect::MySql => format!("cast(timestampdiff(microsecond, {now}, {column}) + {more} as char)"),
        }
    }
}
