//! A mapping written down again: as the keys of the configuration, such that reading them gives the mapping.

use std::fmt;

use super::condition::{Assignment, Condition};
use super::draft::Draft;
use super::mapping::{ClaimBy, Done, Mapping, Origin, Tables};
use super::parser::is_plain_column;
use crate::schema::Name;

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(parts) => joined(f, parts, " AND "),
            Self::Any(parts) => joined(f, parts, " OR "),
            Self::Not(inner) => match &**inner {
                Self::IsNull(column) => write!(f, "{} IS NOT NULL", Column(column)),
                inner => {
                    f.write_str("NOT ")?;
                    nested(f, inner)
                }
            },
            Self::IsNull(column) => write!(f, "{} IS NULL", Column(column)),
            Self::Compare(column, operator, value) => {
                write!(f, "{} {} {value}", Column(column), operator.as_sql())
            }
            Self::OneOf(column, values) => {
                let values: Vec<_> = values.iter().map(ToString::to_string).collect();
                write!(f, "{} IN ({})", Column(column), values.join(", "))
            }
        }
    }
}

fn joined(f: &mut fmt::Formatter<'_>, parts: &[Condition], word: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            f.write_str(word)?;
        }
        nested(f, part)?;
    }
    Ok(())
}

/// In parentheses, where it would fall apart without.
fn nested(f: &mut fmt::Formatter<'_>, condition: &Condition) -> fmt::Result {
    match condition {
        Condition::All(_) | Condition::Any(_) => write!(f, "({condition})"),
        other => write!(f, "{other}"),
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", Column(&self.column), self.value)
    }
}

/// A column in a condition or an assignment: in double quotes where it would be read as something else.
struct Column<'a>(&'a Name);

impl fmt::Display for Column<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_plain_column(self.0.as_str()) { write!(f, "{}", self.0) } else { write!(f, "\"{}\"", self.0) }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(text) => write!(f, "'{text}'"),
            Self::Field(field) => write!(f, "{field}"),
        }
    }
}

fn assignments(set: &[Assignment]) -> String {
    set.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn some<T: ToString>(value: &Option<T>) -> Option<String> {
    value.as_ref().map(ToString::to_string)
}

impl From<&Mapping> for Draft {
    fn from(mapping: &Mapping) -> Self {
        let (schema, table, tables) = match &mapping.tables {
            Tables::Pattern { schema, prefix, suffix } => {
                (some(schema), Some(format!("{prefix}*{suffix}")), Vec::new())
            }
            Tables::Named(named) => {
                let schema = named.first().and_then(|first| some(&first.schema));
                let mut names: Vec<_> = named.iter().map(|one| one.table.to_string()).collect();
                if names.len() == 1 { (schema, names.pop(), names) } else { (schema, None, names) }
            }
        };
        let (stamp, stamp_timeout) = match &mapping.claim {
            ClaimBy::Lock => (None, None),
            ClaimBy::Stamp { column, timeout } => (Some(column.to_string()), Some(*timeout)),
        };
        let done = match &mapping.done {
            Done::Delete => "delete".to_owned(),
            Done::Set(set) => assignments(set),
        };
        let set = |set: &[Assignment]| (!set.is_empty()).then(|| assignments(set));
        let processed = mapping.processed.as_ref();
        Self {
            schema,
            table,
            tables,
            id: Some(mapping.id.to_string()),
            kind: Some(mapping.kind.to_string()),
            key: some(&mapping.key),
            payload: Some(mapping.payload.to_string()),
            content_type: Some(mapping.content_type.to_string()),
            headers: some(&mapping.headers),
            header_columns: mapping
                .header_columns
                .iter()
                .map(|(header, field)| (header.clone(), field.to_string()))
                .collect(),
            occurred_at: some(&mapping.occurred_at),
            order_by: mapping.order_by.iter().map(ToString::to_string).collect(),
            pending: Some(mapping.pending.to_string()),
            done: Some(done),
            failed: set(&mapping.failed),
            dead: set(&mapping.dead),
            attempts: some(&mapping.attempts),
            error: some(&mapping.error),
            due: some(&mapping.due),
            stamp,
            stamp_timeout,
            lock: mapping.lock,
            processed_table: processed.map(|processed| processed.table.table.to_string()),
            processed_id: processed.map(|processed| processed.id.to_string()),
            processed_at: processed.and_then(|processed| some(&processed.at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{preset, presets};

    #[test]
    fn a_condition_that_is_written_down_reads_the_same() {
        for text in [
            "DispatchedAt IS NULL AND Attempts < 5",
            "NOT IsProcessed = true AND (RetryCount < 3 OR Due <= now)",
            "(a = 1 AND b = 2) AND NOT (c = -1.5 OR NOT d IN ('x', 'y'))",
            "\"and\" = 1 OR \"a b\" <> 'z' OR \"2fa\" IS NOT NULL OR \"a-b\" = false",
        ] {
            let read = Condition::parse(text).unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!(Condition::parse(&read.to_string()).unwrap(), read);
        }
        for (text, written) in [("NOT a", "NOT a = true"), ("a not in (1)", "NOT a IN (1)")] {
            let read = Condition::parse(text).unwrap();
            assert_eq!(read.to_string(), written);
            assert_eq!(Condition::parse(written).unwrap(), read);
        }
    }

    #[test]
    fn a_mapping_that_is_written_down_reads_the_same() {
        let drafts = presets().iter().map(|known| preset(known.name).unwrap());
        let stamped = Draft {
            schema: Some("shop".to_owned()),
            tables: vec!["A".to_owned(), "B".to_owned()],
            kind: Some("'order.changed'".to_owned()),
            stamp: Some("ProcessingStartedAt".to_owned()),
            dead: Some("\"not\" = null, Attempts = 5".to_owned()),
            ..preset("ticketflow").unwrap()
        };
        let stamped = Draft { table: None, ..stamped };
        let pattern = Draft { table: Some("Outbox_*_x".to_owned()), ..preset("ticketflow").unwrap() };
        for draft in drafts.chain([stamped, pattern]) {
            let mapping = draft.check().unwrap();
            assert_eq!(Draft::from(&mapping).check().unwrap(), mapping);
        }
    }
}
