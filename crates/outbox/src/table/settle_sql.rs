//! The statements that write down what became of rows.

use super::catalog::Layout;
use super::condition::Assignment;
use super::mapping::{ClaimBy, Done};
use super::sql::{FailedRow, Param, Sql, micros, now, one};
use crate::schema::{Column, Dialect, Name, Type};

impl Layout {
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
}
