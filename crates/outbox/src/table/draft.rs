//! A mapping as it is written, all of it text: by a person, by a preset, or by a look at a database.

use std::collections::BTreeMap;
use std::time::Duration;

use super::condition::{Assignment, Condition, parse_assignments};
use super::mapping::{ClaimBy, Done, Mapping, Origin, Processed, Tables};
use super::name::{Field, NAME_HELP, Name, TableName};

/// A mapping before it was checked. What is not set comes from a preset, or has a default, or is a mistake.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of Mapping, under the names of the configuration")]
pub struct Draft {
    pub schema: Option<String>,
    /// A name, or a pattern with one `*` in it.
    pub table: Option<String>,
    /// Several tables of one shape.
    pub tables: Vec<String>,
    pub id: Option<String>,
    /// A field, or a constant in single quotes.
    pub kind: Option<String>,
    pub key: Option<String>,
    pub payload: Option<String>,
    /// A field, or a constant in single quotes.
    pub content_type: Option<String>,
    pub headers: Option<String>,
    /// The name of the header, and its field.
    pub header_columns: BTreeMap<String, String>,
    pub occurred_at: Option<String>,
    pub order_by: Vec<String>,
    pub pending: Option<String>,
    /// Assignments, or `delete`.
    pub done: Option<String>,
    pub failed: Option<String>,
    pub dead: Option<String>,
    pub attempts: Option<String>,
    pub error: Option<String>,
    pub due: Option<String>,
    /// The column of the stamp, for a claim by stamp.
    pub stamp: Option<String>,
    pub stamp_timeout: Option<Duration>,
    pub lock: Option<i64>,
    pub processed_table: Option<String>,
    pub processed_id: Option<String>,
    pub processed_at: Option<String>,
}

/// What is wrong with a draft: the key of the configuration, the rule, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The key.
    pub key: &'static str,
    /// What is wrong; without the key, which stands before it.
    pub what: String,
    /// What to do.
    pub help: String,
}

impl Flaw {
    /// Whether the key is not set, and has to be.
    pub fn is_missing(&self) -> bool {
        self.what == MISSING
    }
}

const MISSING: &str = "is missing";

/// How long a stamp counts if nothing else is said.
pub const STAMP_TIMEOUT: Duration = Duration::from_secs(5 * 60);

impl Draft {
    /// Takes what is not set here from a preset.
    #[must_use]
    pub fn or(self, preset: Self) -> Self {
        // A table that is named replaces those of the preset, however they were named.
        let names_tables = self.table.is_some() || !self.tables.is_empty();
        let (table, tables) =
            if names_tables { (self.table, self.tables) } else { (preset.table, preset.tables) };
        let mut header_columns = preset.header_columns;
        header_columns.extend(self.header_columns);
        Self {
            schema: self.schema.or(preset.schema),
            table,
            tables,
            id: self.id.or(preset.id),
            kind: self.kind.or(preset.kind),
            key: self.key.or(preset.key),
            payload: self.payload.or(preset.payload),
            content_type: self.content_type.or(preset.content_type),
            headers: self.headers.or(preset.headers),
            header_columns,
            occurred_at: self.occurred_at.or(preset.occurred_at),
            order_by: if self.order_by.is_empty() { preset.order_by } else { self.order_by },
            pending: self.pending.or(preset.pending),
            done: self.done.or(preset.done),
            failed: self.failed.or(preset.failed),
            dead: self.dead.or(preset.dead),
            attempts: self.attempts.or(preset.attempts),
            error: self.error.or(preset.error),
            due: self.due.or(preset.due),
            stamp: self.stamp.or(preset.stamp),
            stamp_timeout: self.stamp_timeout.or(preset.stamp_timeout),
            lock: self.lock.or(preset.lock),
            processed_table: self.processed_table.or(preset.processed_table),
            processed_id: self.processed_id.or(preset.processed_id),
            processed_at: self.processed_at.or(preset.processed_at),
        }
    }

    /// Checks the draft; every flaw is told.
    pub fn check(&self) -> Result<Mapping, Vec<Flaw>> {
        let mut reader = Reader { flaws: Vec::new() };
        let mapping = reader.mapping(self);
        match mapping {
            Some(mapping) if reader.flaws.is_empty() => Ok(mapping),
            _ => Err(reader.flaws),
        }
    }
}

struct Reader {
    flaws: Vec<Flaw>,
}

impl Reader {
    fn flaw(&mut self, key: &'static str, what: impl Into<String>, help: impl Into<String>) {
        self.flaws.push(Flaw { key, what: what.into(), help: help.into() });
    }

    fn read<T>(
        &mut self,
        key: &'static str,
        text: Option<&String>,
        parse: impl Fn(&str) -> Result<T, String>,
        help: &str,
    ) -> Option<T> {
        match parse(text?) {
            Ok(value) => Some(value),
            Err(what) => {
                self.flaw(key, what, help);
                None
            }
        }
    }

    /// The same for what must be there.
    fn need<T>(
        &mut self,
        key: &'static str,
        text: Option<&String>,
        parse: impl Fn(&str) -> Result<T, String>,
        help: &str,
    ) -> Option<T> {
        if text.is_none() {
            self.flaw(key, MISSING, help);
        }
        self.read(key, text, parse, help)
    }

    fn name(&mut self, key: &'static str, text: Option<&String>) -> Option<Name> {
        self.read(key, text, Name::parse, NAME_HELP)
    }

    fn table(&mut self, key: &'static str, text: &String) -> Option<Name> {
        self.read(key, Some(text), Name::parse_table, NAME_HELP)
    }

    fn mapping(&mut self, draft: &Draft) -> Option<Mapping> {
        let schema = self.name("schema", draft.schema.as_ref());
        let tables = self.tables(draft, schema.as_ref());
        let id = self.need(
            "id",
            draft.id.as_ref(),
            Name::parse,
            "name the column that tells rows apart: id = \"Id\"",
        );
        let kind = self.need(
            "type",
            draft.kind.as_ref(),
            origin,
            "name a column, or a constant: type = \"'order.changed'\"",
        );
        let key = self.read("key", draft.key.as_ref(), Field::parse, FIELD_HELP);
        let payload = self.need("payload", draft.payload.as_ref(), Field::parse, FIELD_HELP);
        let content_type = match &draft.content_type {
            Some(_) => self.read("content_type", draft.content_type.as_ref(), origin, FIELD_HELP),
            None => Some(Origin::Constant("application/json".to_owned())),
        };
        let headers = self.read("headers", draft.headers.as_ref(), Field::parse, FIELD_HELP);
        let header_columns = self.header_columns(draft);
        let occurred_at = self.name("occurred_at", draft.occurred_at.as_ref());
        let mut order_by: Vec<_> =
            draft.order_by.iter().filter_map(|name| self.name("order_by", Some(name))).collect();
        if order_by.is_empty() {
            order_by.extend(occurred_at.clone());
        }
        let pending = self.need(
            "pending",
            draft.pending.as_ref(),
            Condition::parse,
            "write a condition: pending = \"DispatchedAt IS NULL AND Attempts < 5\"",
        );
        let done = self.need(
            "done",
            draft.done.as_ref(),
            done,
            "write what to set: done = \"DispatchedAt = now\", or done = \"delete\"",
        );
        let mut assignments = |key, text: &Option<String>| {
            self.read(
                key,
                text.as_ref(),
                parse_assignments,
                "write what to set: Status = 'FAILED', FailedAt = now",
            )
            .unwrap_or_default()
        };
        let (failed, dead) = (assignments("failed", &draft.failed), assignments("dead", &draft.dead));
        let attempts = self.name("attempts", draft.attempts.as_ref());
        let error = self.name("error", draft.error.as_ref());
        let due = self.name("due", draft.due.as_ref());
        let claim = match self.name("stamp", draft.stamp.as_ref()) {
            Some(column) => ClaimBy::Stamp { column, timeout: draft.stamp_timeout.unwrap_or(STAMP_TIMEOUT) },
            None => ClaimBy::Lock,
        };
        if draft.stamp.is_none() && draft.stamp_timeout.is_some() {
            self.flaw(
                "stamp_timeout",
                "there is no stamp",
                "name its column with 'stamp', or remove the time-out",
            );
        }
        let processed = self.processed(draft, schema.as_ref());
        let mapping = Mapping {
            tables: tables?,
            id: id?,
            kind: kind?,
            key,
            payload: payload?,
            content_type: content_type?,
            headers,
            header_columns,
            occurred_at,
            order_by,
            pending: pending?,
            done: done?,
            failed,
            dead,
            attempts,
            error,
            due,
            claim,
            lock: draft.lock,
            processed,
        };
        self.cross_check(&mapping);
        Some(mapping)
    }

    fn tables(&mut self, draft: &Draft, schema: Option<&Name>) -> Option<Tables> {
        const HELP: &str = "name one with table = \"OutboxMessages\", several with tables = [\"…\"], or a pattern: table = \"Outbox_*\"";
        let named = |name: Name| TableName { schema: schema.cloned(), table: name };
        match (&draft.table, &draft.tables[..]) {
            (Some(_), [_, ..]) => {
                self.flaw("tables", "stands beside 'table'", "keep one of the two");
                None
            }
            (None, []) => {
                self.flaw("table", MISSING, HELP);
                None
            }
            (None, names) => {
                let tables: Vec<_> =
                    names.iter().filter_map(|name| self.table("tables", name)).map(named).collect();
                if let Some(twice) =
                    tables.iter().enumerate().find(|(at, table)| tables[..*at].contains(table))
                {
                    self.flaw("tables", format!("'{}' is listed twice", twice.1), "list each table once");
                }
                Some(Tables::Named(tables))
            }
            (Some(pattern), []) => match pattern.split_once('*') {
                None => Some(Tables::Named(vec![named(self.table("table", pattern)?)])),
                Some((prefix, suffix)) => {
                    // What remains must be a name; so that nothing else gets into the look at the catalogue.
                    if suffix.contains('*') {
                        self.flaw("table", "has more than one '*'", HELP);
                        return None;
                    }
                    self.name("table", Some(&format!("{prefix}0{suffix}")))?;
                    let (prefix, suffix) = (prefix.to_owned(), suffix.to_owned());
                    Some(Tables::Pattern { schema: schema.cloned(), prefix, suffix })
                }
            },
        }
    }

    fn header_columns(&mut self, draft: &Draft) -> Vec<(String, Field)> {
        let mut columns = Vec::new();
        for (header, field) in &draft.header_columns {
            if header.is_empty() || header.len() > 255 || header.chars().any(char::is_control) {
                self.flaw("header_columns", "a header needs a name of 1 to 255 bytes", FIELD_HELP);
            }
            if let Some(field) = self.read("header_columns", Some(field), Field::parse, FIELD_HELP) {
                columns.push((header.clone(), field));
            }
        }
        columns
    }

    fn processed(&mut self, draft: &Draft, schema: Option<&Name>) -> Option<Processed> {
        let (table, at) = (
            draft.processed_table.as_ref().and_then(|name| self.table("processed_table", name)),
            self.name("processed_at", draft.processed_at.as_ref()),
        );
        let id = self.name("processed_id", draft.processed_id.as_ref());
        if draft.processed_table.is_none() {
            if draft.processed_id.is_some() || draft.processed_at.is_some() {
                self.flaw("processed_table", MISSING, "name the table of the ids that were published");
            }
            return None;
        }
        if draft.processed_id.is_none() {
            self.flaw("processed_id", MISSING, "name the column of 'processed_table' that has the id");
        }
        Some(Processed { table: TableName { schema: schema.cloned(), table: table? }, id: id?, at })
    }

    /// What only shows when all is read.
    fn cross_check(&mut self, mapping: &Mapping) {
        if let Some(error) = &mapping.error
            && mapping.attempts.as_ref() == Some(error)
        {
            self.flaw("error", "is the column of the attempts", "name another, or leave it out");
        }
        if let Done::Set(set) = &mapping.done {
            let pending: Vec<_> = mapping.pending.columns().into_iter().map(|(column, _)| column).collect();
            if !set.iter().any(|one| pending.contains(&&one.column)) {
                let help = "set a column that 'pending' looks at; else every message would be sent for ever";
                self.flaw("done", "changes nothing that 'pending' looks at", help);
            }
        }
        if !mapping.dead.is_empty() {
            let pending: Vec<_> = mapping.pending.columns().into_iter().map(|(column, _)| column).collect();
            if !mapping.dead.iter().any(|one| pending.contains(&&one.column)) {
                let help =
                    "set a column that 'pending' looks at; else a dead message would be tried for ever";
                self.flaw("dead", "changes nothing that 'pending' looks at", help);
            }
        }
        if let Done::Set(done) = &mapping.done
            && !mapping.dead.is_empty()
        {
            let is_done_too = |one: &Assignment| done.contains(one);
            if mapping.dead.iter().all(is_done_too) {
                let help = "let it set a column, or a value, that 'done' does not";
                self.flaw("dead", "a message that is done could not be told from a dead one", help);
            }
        }
        if let Some(key) = &mapping.key
            && !key.path.is_empty()
            && !key.unquoted
        {
            self.flaw(
                "key",
                format!("'{key}' is JSON, and a key is text"),
                "write the last step of the way with ->>",
            );
        }
    }
}

const FIELD_HELP: &str = "name a column, or a member of its JSON: Column->member, Column->>member";

fn origin(text: &str) -> Result<Origin, String> {
    match text.strip_prefix('\'') {
        None => Field::parse(text).map(Origin::Field),
        Some(rest) => match rest.strip_suffix('\'') {
            Some(constant) if !constant.is_empty() && !constant.chars().any(char::is_control) => {
                Ok(Origin::Constant(constant.to_owned()))
            }
            _ => Err(format!("{text} is no constant in single quotes")),
        },
    }
}

fn done(text: &str) -> Result<Done, String> {
    if text.trim().eq_ignore_ascii_case("delete") {
        Ok(Done::Delete)
    } else {
        parse_assignments(text).map(Done::Set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> Option<String> {
        Some(value.to_owned())
    }

    fn ticketflow() -> Draft {
        Draft {
            table: text("OutboxMessages"),
            id: text("Id"),
            kind: text("Type"),
            payload: text("PayloadJson"),
            occurred_at: text("OccurredAt"),
            pending: text("DispatchedAt IS NULL AND Attempts < 5"),
            done: text("DispatchedAt = now"),
            attempts: text("Attempts"),
            error: text("Error"),
            ..Draft::default()
        }
    }

    #[test]
    fn a_mapping_knows_when_a_row_is_done_and_when_it_waits_for_a_person() {
        let mapping = ticketflow().check().unwrap();
        assert_eq!(mapping.attempts_limit(), Some(5));
        assert_eq!(
            mapping.order_by,
            [Name::parse("OccurredAt").unwrap()],
            "in order of time, if nothing is said"
        );
        assert_eq!(
            mapping.dead_when(),
            Some(flat(Condition::parse("Attempts >= 5 AND (DispatchedAt IS NULL)").unwrap()))
        );
        assert_eq!(mapping.done_at().unwrap().as_str(), "DispatchedAt");
        let marked = Draft {
            pending: text("DispatchedAt IS NULL AND FailedAt IS NULL"),
            dead: text("FailedAt = now"),
            ..ticketflow()
        };
        let dead =
            Condition::parse("FailedAt IS NOT NULL AND (DispatchedAt IS NULL OR DispatchedAt IS NULL)");
        let Ok(Condition::All(mut parts)) = dead else { unreachable!() };
        parts[1] = Condition::Any(vec![Condition::parse("DispatchedAt IS NULL").unwrap()]);
        assert_eq!(
            marked.check().unwrap().dead_when(),
            Some(Condition::All(parts)),
            "not if a person let it go"
        );
        let prisma = Draft {
            pending: text("status = 'PENDING' AND retries < 5"),
            done: text("status = 'PROCESSED', processedAt = now"),
            dead: text("status = 'FAILED'"),
            attempts: text("retries"),
            ..ticketflow()
        };
        let mapping = prisma.check().unwrap();
        assert_eq!(
            mapping.dead_when(),
            Some(Condition::All(vec![Condition::parse("status = 'FAILED'").unwrap()]))
        );
        assert_eq!(mapping.revived(), parse_assignments("status = 'PENDING'").unwrap());
    }

    fn flat(condition: Condition) -> Condition {
        match condition {
            Condition::All(mut parts) => {
                let last = parts.pop().unwrap();
                parts.push(Condition::All(vec![last]));
                Condition::All(parts)
            }
            other => other,
        }
    }

    #[test]
    fn every_flaw_is_told_at_once() {
        let draft = Draft {
            table: text("Outbox;Messages"),
            id: None,
            pending: text("DispatchedAt IS NULL; DROP TABLE users"),
            stamp_timeout: Some(Duration::from_secs(1)),
            processed_id: text("EventId"),
            ..ticketflow()
        };
        let flaws = draft.check().unwrap_err();
        let keys: Vec<_> = flaws.iter().map(|flaw| flaw.key).collect();
        assert_eq!(keys, ["table", "id", "pending", "stamp_timeout", "processed_table"], "{flaws:?}");
        assert!(flaws[2].what.contains("';' cannot stand here"));
        assert_eq!(flaws[1].what, "is missing");
        let flaws = Draft { done: text("Error = null"), ..ticketflow() }.check().unwrap_err();
        assert!(flaws[0].what.contains("changes nothing that 'pending' looks at"));
        let same =
            Draft { done: text("DispatchedAt = now"), dead: text("DispatchedAt = now"), ..ticketflow() };
        assert!(same.check().unwrap_err()[0].what.contains("could not be told from a dead one"));
        assert_eq!(Draft::default().check().unwrap_err().len(), 6, "table, id, type, payload, pending, done");
    }

    #[test]
    fn a_pattern_names_tables_and_nothing_else() {
        let of = |pattern: &str| Draft { table: text(pattern), ..ticketflow() }.check();
        assert_eq!(of("OutboxEvents_Partition_*").unwrap().tables.to_string(), "OutboxEvents_Partition_*");
        assert!(of("a*b*").unwrap_err()[0].what.contains("more than one"));
        assert!(of("a%'*").is_err());
    }

    #[test]
    fn what_is_set_wins_over_the_preset() {
        let draft =
            Draft { table: text("Other"), key: text("TicketId"), ..Draft::default() }.or(ticketflow());
        assert_eq!((draft.table.as_deref(), draft.id.as_deref()), (Some("Other"), Some("Id")));
        let several = Draft { tables: vec!["A".to_owned()], ..Draft::default() }.or(ticketflow());
        assert_eq!(several.table, None);
    }
}
