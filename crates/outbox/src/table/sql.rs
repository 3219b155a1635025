//! The statements for a mapped table: the only place where SQL for it is put together.
//!
//! Names come quoted from [`Name`], values of conditions were parsed, everything else is bound.

use std::time::Duration;

use super::catalog::{Column, Layout, Type};
use super::condition::{Assignment, Condition};
use super::mapping::{ClaimBy, Done, Origin};
use super::name::{Dialect, Field, Name};

/// A value that is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Param {
    Int(i64),
    Text(String),
    Texts(Vec<String>),
    Ints(Vec<i64>),
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

    fn unstamped(&self) -> String {
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
            Dialect::Postgres => {
                format!(" and mod(abs(hashtext(coalesce({key}, {id}))::bigint), {of}) = {number}")
            }
            // Bytes: the two may be of collations that cannot be mixed.
            Dialect::MySql => {
                let text = format!("coalesce(cast({key} as binary), cast({id} as binary))");
                format!(" and mod(crc32({text}), {of}) = {number}")
            }
        }
    }

    pub(super) fn order(&self) -> String {
        let mut columns: Vec<_> = self.mapping.order_by.iter().map(|name| self.col(name)).collect();
        let id = self.col(&self.mapping.id);
        if !columns.contains(&id) {
            columns.push(id);
        }
        columns.join(", ")
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

    fn leave_out(&self, mut sql: Sql, except: &Except) -> Sql {
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
        cells.push(self.written_columns());
        cells.join(", ")
    }

    /// Names what a settle writes, for nothing but its name: a column that was dropped is noticed before a message is
    /// sent, and not after.
    fn written_columns(&self) -> String {
        let mapping = &self.mapping;
        let done: &[Assignment] = match &mapping.done {
            Done::Delete => &[],
            Done::Set(set) => set,
        };
        let set = done.iter().chain(&mapping.failed).chain(&mapping.dead).map(|one| &one.column);
        let names = set.chain(&mapping.error).chain(&mapping.due).chain(&mapping.attempts);
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
        // The column of the time is named for the same reason as in `written_columns`.
        let at =
            processed.at.as_ref().map(|at| format!(" and (p.{} is null or true)", at.quoted(self.dialect)));
        format!(
            "case when exists (select 1 from {table} as p where {equal}{}) then '1' end",
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
    #[cfg(feature = "mysql")]
    pub(crate) fn next(&self, limit: usize, lane: Lane, except: &Except) -> Sql {
        let sql = self.sql().push(&format!(
            "select {}, {} from {} as m where {}{}",
            self.as_text(&self.mapping.id),
            self.key(),
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
        let (id, table) = (self.mapping.id.quoted(self.dialect), self.quoted());
        let sql = self.sql().push(&format!(
            "with next as (select {} from {table} as m where {}{}",
            self.col(&self.mapping.id),
            self.claimable(),
            self.lane(lane)
        ));
        self.leave_out(sql, except)
            .push(&format!(" order by {} limit ", self.order()))
            .int(limit as u64)
            .push(self.skip_locked())
            .push(&format!(
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

    pub(super) fn assign(&self, set: &[Assignment]) -> Vec<String> {
        let one = |Assignment { column, value }: &Assignment| {
            format!("{} = {}", column.quoted(self.dialect), value.as_sql(&self.now(column)))
        };
        set.iter().map(one).collect()
    }

    /// Marks or removes what is done.
    pub(crate) fn done(&self, ids: &[String]) -> Sql {
        let table = self.by_id();
        let start = match (&self.mapping.done, self.dialect) {
            (Done::Set(set), _) => format!("update {table} set {} where ", self.assign(set).join(", ")),
            (Done::Delete, Dialect::Postgres) => format!("delete from {table} where "),
            (Done::Delete, Dialect::MySql) => format!("delete m from {table} where "),
        };
        self.is_one_of(self.sql().push(&start), ids)
    }

    /// Writes down that ids were published.
    pub(crate) fn record(&self, ids: &[String]) -> Option<Sql> {
        let processed = self.mapping.processed.as_ref()?;
        let (table, id) = (processed.table.quoted(self.dialect), processed.id.quoted(self.dialect));
        let found = self.processed_column(&processed.id);
        let at = processed.at.as_ref().map(|at| {
            let zoned = matches!(
                self.processed_column(at).map(|column| &column.kind),
                Some(Type::Time { zoned: true })
            );
            (at.quoted(self.dialect), now(self.dialect, zoned))
        });
        let columns = at.as_ref().map_or_else(|| id.clone(), |(at, _)| format!("{id}, {at}"));
        Some(match self.dialect {
            Dialect::Postgres => {
                let type_name = found.map_or("text", |column| column.type_name.as_str());
                let values = at.map_or_else(|| "x.id".to_owned(), |(_, now)| format!("x.id, {now}"));
                self.sql()
                    .push(&format!("insert into {table} ({columns}) select {values} from unnest("))
                    .bind(Param::Texts(ids.to_vec()))
                    .push(&format!("::text[]::{type_name}[]) as x(id) on conflict do nothing"))
            }
            Dialect::MySql => {
                let mut sql = self.sql().push(&format!("insert into {table} ({columns}) values "));
                for (index, value) in ids.iter().enumerate() {
                    sql = sql.push(if index == 0 { "(" } else { ", (" });
                    sql = one(sql, value, found);
                    sql = at.iter().fold(sql, |sql, (_, now)| sql.push(&format!(", {now}"))).push(")");
                }
                // `insert ignore` would ignore more than what is there already.
                sql.push(&format!(" on duplicate key update {id} = {id}"))
            }
        })
    }

    /// Writes down failures: the attempts, why, and when to try again; `more` is set besides.
    pub(crate) fn failed(&self, rows: &[FailedRow], more: &[Assignment], with_due: bool) -> Vec<Sql> {
        match self.dialect {
            Dialect::Postgres => vec![self.failed_at_once(rows, more, with_due)],
            Dialect::MySql => rows.iter().map(|row| self.failed_one(row, more, with_due)).collect(),
        }
    }

    /// What a failure sets, given where its numbers stand; empty when the table has no place for any of it.
    fn failure_set(
        &self,
        more: &[Assignment],
        attempts: &str,
        error: &str,
        due: Option<&str>,
    ) -> Vec<String> {
        let mapping = &self.mapping;
        let mut set = self.assign(more);
        let is_set = |name: &Name| more.iter().any(|one| one.column == *name);
        let mut push = |name: &Name, value: &str| {
            if !is_set(name) {
                set.push(format!("{} = {value}", name.quoted(self.dialect)));
            }
        };
        if let Some(name) = &mapping.attempts {
            push(name, attempts);
        }
        if let Some(name) = &mapping.error {
            push(name, error);
        }
        if let (Some(name), Some(due)) = (&mapping.due, due) {
            push(name, &format!("{} + {due}", self.now(name)));
        }
        if let ClaimBy::Stamp { column, .. } = &mapping.claim {
            push(column, "null");
        }
        set
    }

    fn failed_at_once(&self, rows: &[FailedRow], more: &[Assignment], with_due: bool) -> Sql {
        let due = with_due.then_some("v.delay * interval '1 microsecond'");
        let set = self.failure_set(more, "v.attempts", "v.error", due);
        let id = self.column(&self.mapping.id).map_or("text", |column| column.type_name.as_str());
        let texts = |of: &dyn Fn(&FailedRow) -> String| Param::Texts(rows.iter().map(of).collect());
        let ints = |of: &dyn Fn(&FailedRow) -> i64| Param::Ints(rows.iter().map(of).collect());
        self.sql()
            .push(&format!("update {} as m set {} from unnest(", self.quoted(), set.join(", ")))
            .bind(texts(&|row| row.id.clone()))
            .push(&format!("::text[]::{id}[], "))
            .bind(ints(&|row| i64::from(row.attempts)))
            .push("::bigint[], ")
            .bind(texts(&|row| self.cut_error(&row.error)))
            .push("::text[], ")
            .bind(ints(&|row| micros(row.delay)))
            .push(&format!(
                "::bigint[]) as v(id, attempts, error, delay) where {} = v.id",
                self.col(&self.mapping.id)
            ))
    }

    fn failed_one(&self, row: &FailedRow, more: &[Assignment], with_due: bool) -> Sql {
        // The placeholders stand in the order of the set, so each is bound where it is met.
        let set =
            self.failure_set(more, "\u{1}a", "\u{1}e", with_due.then_some("interval \u{1}d microsecond"));
        let mut sql = self.sql().push(&format!("update {} set ", self.by_id()));
        let set = set.join(", ");
        let mut parts = set.split('\u{1}');
        sql = sql.push(parts.next().unwrap_or_default());
        for part in parts {
            let (mark, rest) = part.split_at(1);
            sql = match mark {
                "a" => sql.int(row.attempts),
                "e" => self.error_text(sql, &row.error),
                _ => sql.int(micros(row.delay)),
            }
            .push(rest);
        }
        self.is_one_of(sql.push(" where "), std::slice::from_ref(&row.id))
    }

    /// What the column's character set does not have becomes a question mark; it would be an error otherwise.
    fn error_text(&self, sql: Sql, error: &str) -> Sql {
        let param = Param::Text(self.cut_error(error));
        let column = self.mapping.error.as_ref().and_then(|name| self.column(name));
        match column.and_then(Column::collation) {
            Some((charset, _)) => sql.push("convert(").bind(param).push(&format!(" using {charset})")),
            None => sql.bind(param),
        }
    }

    /// Whether a failure leaves any trace in the table.
    pub(crate) fn keeps_failures(&self, more: &[Assignment]) -> bool {
        !self.failure_set(more, "", "", Some("")).is_empty()
    }

    fn cut_error(&self, error: &str) -> String {
        let most =
            match self.mapping.error.as_ref().and_then(|name| self.column(name)).map(|column| &column.kind) {
                Some(Type::Text(Some(most))) => *most as usize,
                _ => usize::MAX,
            };
        error.chars().take(most).collect()
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
    pub(crate) fn waiting(&self, lane: Lane, most: usize) -> Option<Sql> {
        let mapping = &self.mapping;
        let (when, wait) = match (&mapping.due, &mapping.claim) {
            (Some(due), _) => {
                (format!("{} > {}", self.col(due), self.now(due)), self.difference(due, Duration::ZERO))
            }
            (None, ClaimBy::Stamp { column, timeout }) => (
                format!("{} >= {}", self.col(column), self.earlier(column, *timeout)),
                self.difference(column, *timeout),
            ),
            (None, ClaimBy::Lock) => return None,
        };
        let (key, id) = (self.key(), self.as_text(&mapping.id));
        let (table, pending, lane) = (self.quoted(), self.pending(), self.lane(lane));
        Some(
            self.sql()
                .push(&format!(
                    "select {id}, {key}, {wait} from {table} as m \
                     where {pending} and {when}{lane} and {key} is not null limit "
                ))
                .int(most as u64),
        )
    }

    /// Microseconds from now until the column's time and `more`.
    fn difference(&self, name: &Name, more: Duration) -> String {
        let (column, now, more) = (self.col(name), self.now(name), more.as_micros());
        match self.dialect {
            Dialect::Postgres => {
                format!("((extract(epoch from {column} - {now}) * 1000000)::bigint + {more})::text")
            }
            Dialect::MySql => format!("cast(timestampdiff(microsecond, {now}, {column}) + {more} as char)"),
        }
    }
}

fn now(dialect: Dialect, zoned: bool) -> String {
    match (dialect, zoned) {
        (Dialect::Postgres, true) => "statement_timestamp()".to_owned(),
        (Dialect::Postgres, false) => "(statement_timestamp() at time zone 'UTC')".to_owned(),
        (Dialect::MySql, _) => "utc_timestamp(6)".to_owned(),
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// `(?, ?, …)`, each as the type of the column needs it.
fn in_list(mut sql: Sql, values: &[String], column: Option<&Column>) -> Sql {
    for (index, value) in values.iter().enumerate() {
        sql = one(sql.push(if index == 0 { "(" } else { ", " }), value, column);
    }
    sql.push(")")
}

/// One value for MySQL. A number compared to a text would be compared as floating point.
fn one(sql: Sql, value: &str, column: Option<&Column>) -> Sql {
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
    fn collation(&self) -> Option<(&str, &str)> {
        let (_, collation) = self.type_name.split_once(" collate ")?;
        Some((collation.split('_').next().unwrap_or(collation), collation))
    }

    /// Whether a number of MySQL has no sign.
    pub(super) fn is_unsigned(&self) -> bool {
        self.type_name.contains("unsigned")
    }
}
