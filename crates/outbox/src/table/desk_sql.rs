//! The statements behind what a person sees and does.

use std::time::Duration;

use super::catalog::Layout;
use super::condition::{Assignment, Operator, Value};
use super::mapping::{ClaimBy, Done, Origin};
use super::sql::{Param, Sql, cell};
use crate::admin::{Filter, Stand, TRIED_OFTEN};
use crate::error::{Error, ErrorKind, Result};
use crate::schema::{Column, Dialect, Name, Type};

/// Where things stand in a row of [`Layout::list`], after what a claim has: those of single headers come before.
pub(super) struct Extra {
    pub(super) stand: usize,
    pub(super) due: usize,
    pub(super) error: usize,
}

impl Layout {
    pub(super) fn extra(&self) -> Extra {
        // After the single headers stands what names the columns that are written.
        let first = cell::FIRST_HEADER + self.mapping.header_columns.len() + 1;
        Extra { stand: first, due: first + 1, error: first + 2 }
    }

    /// Rows with so many attempts; none counts as nought.
    fn tried(&self, operator: Operator, attempts: u32) -> Option<String> {
        let column = self.col(self.mapping.attempts.as_ref()?);
        Some(format!("coalesce({column}, 0) {} {attempts}", operator.as_sql()))
    }

    /// Which rows stand so; nothing if the table cannot tell such rows apart.
    pub(super) fn stands(&self, stand: Stand) -> Option<String> {
        let pending = self.pending();
        match stand {
            Stand::Pending => Some(match self.tried(Operator::LessOrEqual, 0) {
                Some(fresh) => format!("({pending} and {fresh})"),
                None => pending,
            }),
            Stand::Waiting => Some(format!("({pending} and {})", self.tried(Operator::Greater, 0)?)),
            Stand::Dead => Some(self.condition(&self.mapping.dead_when()?)),
            Stand::Done => Some(self.condition(&self.mapping.done_when()?)),
            // Which rows those are only the relay knows.
            Stand::Behind => None,
        }
    }

    /// Set aside: failed and to be tried again, or waiting for a person.
    fn set_aside(&self) -> Option<String> {
        let parts: Vec<_> =
            [Stand::Waiting, Stand::Dead].into_iter().filter_map(|stand| self.stands(stand)).collect();
        if parts.is_empty() { None } else { Some(format!("({})", parts.join(" or "))) }
    }

    /// How many rows match, up to a limit.
    pub(super) fn count(&self, condition: &str, most: u64) -> Sql {
        let count = match self.dialect {
            Dialect::Postgres => "count(*)::text",
            Dialect::MySql => "cast(count(*) as char)",
        };
        let sql = self.sql().push(&format!(
            "select {count} from (select 1 from {} as m where {condition} limit ",
            self.quoted()
        ));
        sql.int(most).push(") as counted")
    }

    /// When the first pending row happened.
    pub(super) fn oldest(&self) -> Option<Sql> {
        let at = self.mapping.occurred_at.as_ref()?;
        let (at, table, pending, order) = (self.micros(at), self.quoted(), self.pending(), self.order());
        Some(
            self.sql()
                .push(&format!("select {at} from {table} as m where {pending} order by {order} limit 1")),
        )
    }

    /// Adds what the filter asks for to a statement that ends with a condition.
    pub(super) fn matching(&self, mut sql: Sql, filter: &Filter) -> Result<Sql> {
        if let Some(id) = &filter.id {
            if !self.can_be_id(id.as_str()) {
                return Ok(sql.push(" and 1 = 0"));
            }
            sql = self.is_one_of(sql.push(" and "), &[id.as_str().to_owned()]);
        }
        if let Some(kind) = &filter.kind {
            sql = self.of_kind(sql, kind)?;
        }
        if let Some(key) = &filter.key {
            // In MySQL as bytes: another case is another key.
            let of = match self.dialect {
                Dialect::Postgres => self.key(),
                Dialect::MySql => format!("cast({} as binary)", self.key()),
            };
            sql = sql.push(&format!(" and {of} = ")).bind(Param::Text(key.clone()));
        }
        if let Some(code) = &filter.code {
            let Some(error) = &self.mapping.error else {
                return Err(unable("the mapping has no column for the error"));
            };
            sql = self.begins(sql.push(" and "), &self.col(error), &format!("{code}:"));
        }
        if let Some((name, value)) = &filter.header {
            sql = self.with_header(sql, name, value)?;
        }
        Ok(sql)
    }

    fn of_kind(&self, sql: Sql, kind: &str) -> Result<Sql> {
        let column = match &self.mapping.kind {
            Origin::Field(field) if field.path.is_empty() => self.as_text(&field.column),
            Origin::Constant(constant) => {
                let fits =
                    kind.strip_suffix('*').map_or(constant == kind, |start| constant.starts_with(start));
                return Ok(sql.push(if fits { "" } else { " and 1 = 0" }));
            }
            Origin::Field(_) => return Err(unable("the type is inside of JSON")),
        };
        Ok(match kind.strip_suffix('*') {
            Some(start) => self.begins(sql.push(" and "), &column, start),
            None => sql.push(&format!(" and {column} = ")).bind(Param::Text(kind.to_owned())),
        })
    }

    fn begins(&self, sql: Sql, expression: &str, start: &str) -> Sql {
        let length = start.chars().count();
        sql.push(&format!("left({expression}, {length}) = ")).bind(Param::Text(start.to_owned()))
    }

    fn with_header(&self, sql: Sql, name: &str, value: &str) -> Result<Sql> {
        let mapping = &self.mapping;
        if let Some((_, field)) = mapping.header_columns.iter().find(|(header, _)| header == name)
            && field.path.is_empty()
        {
            let column = self.as_text(&field.column);
            return Ok(sql.push(&format!(" and {column} = ")).bind(Param::Text(value.to_owned())));
        }
        let json = |name: &Name| self.column(name).is_some_and(|column| column.kind == Type::Json);
        match &mapping.headers {
            Some(field)
                if field.path.is_empty() && json(&field.column) && self.dialect == Dialect::Postgres =>
            {
                Ok(sql
                    .push(&format!(" and ({} ->> ", self.col(&field.column)))
                    .bind(Param::Text(name.to_owned()))
                    .push(") = ")
                    .bind(Param::Text(value.to_owned())))
            }
            _ => Err(unable(&format!("the header '{name}' has no column of its own"))),
        }
    }

    /// Whether the text can be an id at all; what cannot would be an error of the database.
    fn can_be_id(&self, id: &str) -> bool {
        let column = self.column(&self.mapping.id);
        match column.map(|column| &column.kind) {
            Some(Type::Uuid) => uuid::Uuid::parse_str(id).is_ok(),
            Some(Type::Integer) if column.is_some_and(Column::is_unsigned) => id.parse::<u64>().is_ok(),
            Some(Type::Integer) => id.parse::<i64>().is_ok(),
            Some(Type::Bytes) => id.len().is_multiple_of(2) && id.chars().all(|c| c.is_ascii_hexdigit()),
            _ => !id.contains('\0'),
        }
    }

    /// Rows that match, in order, with how they stand.
    pub(super) fn list(&self, filter: &Filter, skip: u64, most: u64) -> Result<Sql> {
        let stand =
            |stand: Stand| self.stands(stand).map(|when| format!("when {when} then '{}' ", stand.as_str()));
        // The first that holds: a row that has failed is waiting, and not just pending.
        let whens: String =
            [Stand::Waiting, Stand::Pending, Stand::Dead].into_iter().filter_map(stand).collect();
        let null = || "null".to_owned();
        let due = self.mapping.due.as_ref().map_or_else(null, |name| self.micros(name));
        let error = self.mapping.error.as_ref().map_or_else(null, |name| self.as_text(name));
        let sql = self.sql().push(&format!(
            "select {}, case {whens}else 'done' end, {due}, {error} from {} as m where ",
            self.select(),
            self.quoted()
        ));
        let sql = self.filtered(sql, filter)?;
        let order = if filter.newest_first { self.reverse_order() } else { self.order() };
        Ok(sql.push(&format!(" order by {order} limit ")).int(most).push(" offset ").int(skip))
    }

    /// How many rows match, up to a limit.
    pub(super) fn count_matching(&self, filter: &Filter, most: u64) -> Result<Sql> {
        let sql = self.sql().push(&format!("select 1 from {} as m where ", self.quoted()));
        Ok(self.filtered(sql, filter)?.push(" limit ").int(most))
    }

    fn filtered(&self, sql: Sql, filter: &Filter) -> Result<Sql> {
        let condition = match filter.stand {
            None => "1 = 1".to_owned(),
            Some(stand) => self.stands(stand).unwrap_or_else(|| "1 = 0".to_owned()),
        };
        self.matching(sql.push(&condition), filter)
    }

    /// What is set aside and matches, for a repair; nothing if the table cannot tell.
    fn repairable(&self, sql: Sql, filter: &Filter) -> Result<Option<Sql>> {
        let condition = match filter.stand {
            None => self.set_aside(),
            Some(stand @ (Stand::Waiting | Stand::Dead)) => self.stands(stand),
            Some(_) => None,
        };
        let Some(condition) = condition else { return Ok(None) };
        // What is stamped is on its way; what is locked is waited for.
        self.matching(sql.push(&condition).push(&self.unstamped()), filter).map(Some)
    }

    pub(super) fn count_repairable(&self, filter: &Filter) -> Result<Option<Sql>> {
        let count = match self.dialect {
            Dialect::Postgres => "count(*)::text",
            Dialect::MySql => "cast(count(*) as char)",
        };
        self.repairable(
            self.sql().push(&format!("select {count} from {} as m where ", self.quoted())),
            filter,
        )
    }

    /// Brings rows back to pending, with all their attempts.
    pub(super) fn revive(&self, filter: &Filter) -> Result<Option<Sql>> {
        let mapping = &self.mapping;
        let mut set = mapping.revived();
        let mut put = |column: &Option<Name>, value: Value| {
            if let Some(column) = column
                && !set.iter().any(|one| one.column == *column)
                && (value != Value::Null || self.column(column).is_some_and(|found| found.nullable))
            {
                set.push(Assignment { column: column.clone(), value });
            }
        };
        put(&mapping.attempts, Value::Number("0".to_owned()));
        put(&mapping.error, Value::Null);
        put(&mapping.due, Value::Null);
        if let ClaimBy::Stamp { column, .. } = &mapping.claim {
            put(&Some(column.clone()), Value::Null);
        }
        let mut set = self.assign(&set);
        // The table itself knows what a fresh row has there.
        let fresh = |name: &Name| format!("{} = default", name.quoted(self.dialect));
        set.extend(mapping.without_a_way_back().into_iter().map(fresh));
        let sql = self.sql().push(&format!("update {} as m set {} where ", self.quoted(), set.join(", ")));
        self.repairable(sql, filter)
    }

    /// Marks rows as done, or removes them, without their having been sent.
    pub(super) fn let_go(&self, filter: &Filter) -> Result<Option<Sql>> {
        let table = self.quoted();
        let start = match (&self.mapping.done, self.dialect) {
            (Done::Set(set), _) => format!("update {table} as m set {} where ", self.assign(set).join(", ")),
            (Done::Delete, Dialect::Postgres) => format!("delete from {table} as m where "),
            (Done::Delete, Dialect::MySql) => format!("delete m from {table} as m where "),
        };
        self.repairable(self.sql().push(&start), filter)
    }

    /// The ids of rows that were done longer ago than `age`.
    pub(super) fn old(&self, age: Duration, step: u32) -> Option<Sql> {
        let (done, at) = (self.mapping.done_when()?, self.mapping.done_at()?);
        let (id, column) = (self.as_text(&self.mapping.id), self.col(at));
        let (done, limit) = (self.condition(&done), self.earlier(at, age));
        let table = self.quoted();
        let sql = self
            .sql()
            .push(&format!("select {id} from {table} as m where {done} and {column} < {limit} limit "));
        Some(sql.int(step))
    }

    /// Removes those of the rows that are done, still: a person may have brought one back since.
    pub(super) fn remove(&self, ids: &[String]) -> Sql {
        let table = self.by_id();
        let done = self.mapping.done_when().map(|done| format!(" and {}", self.condition(&done)));
        let start = match self.dialect {
            Dialect::Postgres => format!("delete from {table} where "),
            Dialect::MySql => format!("delete m from {table} where "),
        };
        self.is_one_of(self.sql().push(&start), ids).push(&done.unwrap_or_default())
    }

    pub(super) fn tried_often(&self) -> Option<String> {
        Some(format!("({} and {})", self.pending(), self.tried(Operator::GreaterOrEqual, TRIED_OFTEN)?))
    }

    /// Minutes since 1970 and how many rows were done in each, in the last hour, newest first.
    pub(super) fn by_minute(&self) -> Option<Sql> {
        let (done, at) = (self.mapping.done_when()?, self.mapping.done_at()?);
        let (table, done, column) = (self.quoted(), self.condition(&done), self.col(at));
        let since = self.earlier(at, Duration::from_secs(3_600));
        let (minute, minute_text, count) = match self.dialect {
            Dialect::Postgres => {
                let minute = format!("floor(extract(epoch from {column}) / 60)::bigint");
                (minute.clone(), format!("({minute})::text"), "count(*)::text")
            }
            Dialect::MySql => {
                let minute = format!("timestampdiff(minute, '1970-01-01', {column})");
                (minute.clone(), format!("cast({minute} as char)"), "cast(count(*) as char)")
            }
        };
        Some(self.sql().push(&format!(
            "select {minute_text}, {count} from {table} as m where {done} and {column} > {since} \
             group by {minute} order by {minute} desc"
        )))
    }
}

fn unable(why: &str) -> Error {
    Error::new(ErrorKind::Mapping, format!("this cannot be asked of this table: {why}"))
}
