//! From a draft to a mapping, with every flaw told.

use super::condition::{Assignment, Condition, parse_assignments};
use super::draft::{Draft, Flaw, MISSING, STAMP_TIMEOUT};
use super::mapping::{ClaimBy, Done, Mapping, Origin, Processed, Tables};
use crate::schema::{Field, NAME_HELP, Name, TableName};

/// Reads a draft, field by field.
pub(super) struct Reader {
    pub(super) flaws: Vec<Flaw>,
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

    pub(super) fn mapping(&mut self, draft: &Draft) -> Option<Mapping> {
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
