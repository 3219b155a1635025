//! A table that somebody else made, as an outbox: which column is what. Plain values, checked by the grammar;
//! whether the columns exist is asked of the database ([`super::catalog`]).

use std::fmt;
use std::time::Duration;

use super::condition::{Assignment, Condition, Operator, Value};
use crate::schema::{Field, Name, TableName};

/// Which tables are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tables {
    /// These.
    Named(Vec<TableName>),
    /// All of a schema whose names begin and end so: `OutboxEvents_Partition_*`.
    Pattern {
        /// The schema (a database, in MySQL).
        schema: Option<Name>,
        /// What stands before the `*`.
        prefix: String,
        /// What stands after the `*`.
        suffix: String,
    },
}

impl fmt::Display for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(tables) => {
                let names: Vec<_> = tables.iter().map(ToString::to_string).collect();
                f.write_str(&names.join(", "))
            }
            Self::Pattern { schema: Some(schema), prefix, suffix } => write!(f, "{schema}.{prefix}*{suffix}"),
            Self::Pattern { schema: None, prefix, suffix } => write!(f, "{prefix}*{suffix}"),
        }
    }
}

/// Where a text of a message comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The same for every message.
    Constant(String),
    /// A column, or a member of it.
    Field(Field),
}

/// What happens to a row whose message is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    /// It is removed.
    Delete,
    /// It is marked.
    Set(Vec<Assignment>),
}

/// How rows become ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimBy {
    /// Locked (`FOR UPDATE SKIP LOCKED`) in a transaction that the settle ends.
    Lock,
    /// Stamped with the time in one statement; a stamp that is older than the time-out counts no more.
    Stamp {
        /// The column of the stamp.
        column: Name,
        /// When a stamp counts no more.
        timeout: Duration,
    },
}

/// A table of the ids that were published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processed {
    /// The table.
    pub table: TableName,
    /// The column of the id.
    pub id: Name,
    /// The column of the time, if it has one.
    pub at: Option<Name>,
}

/// Which column of a table is what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The table, or several of one shape.
    pub tables: Tables,
    /// The id: unique, never null.
    pub id: Name,
    /// The type.
    pub kind: Origin,
    /// The key, within which order is kept.
    pub key: Option<Field>,
    /// The payload.
    pub payload: Field,
    /// What the payload is.
    pub content_type: Origin,
    /// A JSON object of headers.
    pub headers: Option<Field>,
    /// Single headers, each with its own column.
    pub header_columns: Vec<(String, Field)>,
    /// When it happened.
    pub occurred_at: Option<Name>,
    /// The order in which rows come; the id comes last by itself.
    pub order_by: Vec<Name>,
    /// Which rows are still to be carried.
    pub pending: Condition,
    /// What happens to a row that is done.
    pub done: Done,
    /// What else is set when an attempt failed.
    pub failed: Vec<Assignment>,
    /// What is set when a message is set aside until a person decides.
    pub dead: Vec<Assignment>,
    /// Counts the attempts.
    pub attempts: Option<Name>,
    /// Says why the last attempt failed.
    pub error: Option<Name>,
    /// Says when it is due again.
    pub due: Option<Name>,
    /// How rows become ours.
    pub claim: ClaimBy,
    /// One active relay at a time, by the advisory lock of this number.
    pub lock: Option<i64>,
    /// Ids that were published already.
    pub processed: Option<Processed>,
}

impl Mapping {
    /// The attempts at which a row is not pending any more, if the condition says so.
    pub fn attempts_limit(&self) -> Option<u32> {
        self.pending.limit_of(self.attempts.as_ref()?)
    }

    /// Whether the table has a place for "until a person decides".
    pub fn can_be_dead(&self) -> bool {
        !self.dead.is_empty() || self.attempts_limit().is_some()
    }

    /// Which rows wait for a person, if the table can tell.
    pub fn dead_when(&self) -> Option<Condition> {
        if !self.dead.is_empty() {
            let mut parts: Vec<_> = self.dead.iter().map(holds_after).collect();
            // One that a person let go keeps the mark of its failure.
            parts.extend(self.not_done());
            return Some(Condition::All(parts));
        }
        let (attempts, limit) = (self.attempts.clone()?, self.attempts_limit()?);
        let mut parts = vec![Condition::Compare(
            attempts.clone(),
            Operator::GreaterOrEqual,
            Value::Number(limit.to_string()),
        )];
        // What is pending but for its attempts.
        parts.extend(self.pending.without(&attempts));
        Some(Condition::All(parts))
    }

    /// Which rows are done; none when they are removed.
    pub fn done_when(&self) -> Option<Condition> {
        match &self.done {
            Done::Delete => None,
            Done::Set(set) => {
                let mut parts: Vec<_> = set.iter().map(holds_after).collect();
                // Where a dead row has all the marks of one that is done, and more, it is not done for that.
                if !self.dead.is_empty() && set.iter().all(|one| self.dead.contains(one)) {
                    let more = self.dead.iter().filter(|one| !set.contains(one));
                    parts.push(Condition::Any(more.map(fails_before).collect()));
                }
                Some(Condition::All(parts))
            }
        }
    }

    /// Which rows are not done, unless the marks of the dead say so by themselves.
    fn not_done(&self) -> Option<Condition> {
        let Done::Set(set) = &self.done else { return None };
        let contradicts = |one: &Assignment| {
            self.dead.iter().any(|dead| dead.column == one.column && dead.value != one.value)
        };
        let told: Vec<_> = set.iter().filter(|one| !self.dead.contains(one)).collect();
        if told.is_empty() || told.iter().any(|one| contradicts(one)) {
            return None;
        }
        Some(Condition::Any(told.into_iter().map(fails_before).collect()))
    }

    /// The column that says when a row was done.
    pub fn done_at(&self) -> Option<&Name> {
        match &self.done {
            Done::Delete => None,
            Done::Set(set) => set.iter().find(|one| one.value == Value::Now).map(|one| &one.column),
        }
    }

    /// What brings a row that waits for a person back to pending, besides its attempts.
    pub fn revived(&self) -> Vec<Assignment> {
        let changed = |column: &Name| self.dead.iter().any(|one| one.column == *column);
        equalities(&self.pending).into_iter().filter(|one| changed(&one.column)).collect()
    }

    /// What the pending condition asks of a fresh row, where it says so outright.
    pub(super) fn fresh(&self) -> Vec<Assignment> {
        equalities(&self.pending).into_iter().filter(|one| one.value != Value::Now).collect()
    }

    /// Columns that say that a row is dead, and of which `pending` does not say what they are otherwise.
    pub fn without_a_way_back(&self) -> Vec<&Name> {
        let back = self.revived();
        let pending = self.pending.columns();
        let is_asked = |column: &Name| pending.iter().any(|(asked, _)| *asked == column);
        let has_way = |column: &Name| back.iter().any(|one| one.column == *column);
        self.dead
            .iter()
            .map(|one| &one.column)
            .filter(|column| is_asked(column) && !has_way(column))
            .collect()
    }
}

/// What is true of a row once the assignment was made.
fn holds_after(assignment: &Assignment) -> Condition {
    let column = assignment.column.clone();
    match &assignment.value {
        Value::Null => Condition::IsNull(column),
        Value::Now => Condition::Not(Box::new(Condition::IsNull(column))),
        value => Condition::Compare(column, Operator::Equal, value.clone()),
    }
}

/// The contrary, also of a column that is null.
fn fails_before(assignment: &Assignment) -> Condition {
    let column = assignment.column.clone();
    match &assignment.value {
        Value::Null => Condition::Not(Box::new(Condition::IsNull(column))),
        Value::Now => Condition::IsNull(column),
        value => {
            let other = Condition::Compare(column.clone(), Operator::Unequal, value.clone());
            Condition::Any(vec![other, Condition::IsNull(column)])
        }
    }
}

/// What a condition asks to be equal, as assignments that make it so.
fn equalities(condition: &Condition) -> Vec<Assignment> {
    match condition {
        Condition::All(parts) => parts.iter().flat_map(equalities).collect(),
        Condition::IsNull(column) => vec![Assignment { column: column.clone(), value: Value::Null }],
        Condition::Compare(column, Operator::Equal, value) => {
            vec![Assignment { column: column.clone(), value: value.clone() }]
        }
        Condition::OneOf(column, values) => values
            .first()
            .map(|value| Assignment { column: column.clone(), value: value.clone() })
            .into_iter()
            .collect(),
        Condition::Not(inner) => match &**inner {
            Condition::Compare(column, Operator::Equal, Value::Bool(value)) => {
                vec![Assignment { column: column.clone(), value: Value::Bool(!value) }]
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}
