//! A mapping as it is written, all of it text: by a person, by a preset, or by a look at a database.

use std::collections::BTreeMap;
use std::time::Duration;

use super::check::Reader;
use super::mapping::Mapping;

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

pub(super) const MISSING: &str = "is missing";

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Condition, Name, parse_assignments};

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
