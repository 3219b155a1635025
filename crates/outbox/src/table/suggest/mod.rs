//! Which table of a database looks like an outbox, and how it would be mapped. Pure: whoever asks the database hands
//! in what it said ([`Seen`]).
//!
//! A layout that is known is recognised by its columns; anything else is guessed by names (`role.rs`), and what is
//! only a guess is told.

mod guess;
mod role;

use std::sync::Arc;

use super::catalog::Layout;
use super::draft::Draft;
use super::preset::{preset, presets};
use crate::schema::{Column, Dialect, Name, TableName};
use guess::guess;
use role::{Role, normal, role_of};

/// A table as the catalogue has it.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Whether it is found without its schema.
    pub visible: bool,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Values that some columns have: by default, or in some rows. The column, and a value.
    pub values: Vec<(String, String)>,
}

impl Seen {
    fn shown(&self) -> String {
        if self.visible { self.name.clone() } else { format!("{}.{}", self.schema, self.name) }
    }
}

/// A mapping that may be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// The table, for people.
    pub table: String,
    /// The preset whose layout it has.
    pub preset: Option<&'static str>,
    /// The mapping; with a preset only what differs from it.
    pub draft: Draft,
    /// What a person should look at.
    pub unsure: Vec<String>,
}

/// The mapping of the table that looks most like an outbox, if any does.
pub fn suggest(tables: &[Seen]) -> Option<Suggestion> {
    let mut candidates: Vec<(u32, &Seen)> =
        tables.iter().filter_map(|table| Some((score(table)?, table))).collect();
    // The first of equals stays the first.
    candidates.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    let known = candidates.iter().find_map(|(_, table)| Some((*table, recognise(table, tables)?)));
    let (table, mut suggestion) = match known {
        Some(known) => known,
        None => candidates.iter().find_map(|(_, table)| Some((*table, guess(table)?)))?,
    };
    let siblings = siblings(table, &candidates);
    if let Some((prefix, count)) = &siblings {
        suggestion.draft.table = Some(format!("{prefix}*"));
        suggestion.table = format!("{prefix}*");
        suggestion.unsure.push(format!("{count} tables of one shape are taken for parts of one outbox"));
    }
    let is_other = |other: &Seen| {
        other.name != table.name
            && !siblings.as_ref().is_some_and(|(prefix, _)| other.name.starts_with(prefix.as_str()))
    };
    let others: Vec<_> =
        candidates.iter().filter(|(_, other)| is_other(other)).map(|(_, other)| other.shown()).collect();
    if !others.is_empty() {
        suggestion.unsure.push(format!("other tables look like an outbox too: {}", others.join(", ")));
    }
    Some(suggestion)
}

/// Whether the values of a column say how far a message is.
#[cfg(feature = "postgres")]
pub(crate) fn is_status(column: &Column) -> bool {
    role_of(column) == Some(Role::Status)
}

/// How much a table looks like an outbox; none if it does not.
fn score(table: &Seen) -> Option<u32> {
    let name = normal(&table.name);
    // The other side of the pattern, or what is left of it.
    if ["inbox", "received", "processedevent", "processedmessage", "errorlog", "history", "archive"]
        .iter()
        .any(|word| name.contains(word))
    {
        return None;
    }
    let has = |role: Role| table.columns.iter().any(|column| role_of(column) == Some(role));
    let id = has(Role::Id) || table.columns.iter().any(|column| column.unique);
    if !id || !has(Role::Payload) {
        return None;
    }
    let named: u32 = [("outbox", 6), ("published", 4), ("event", 2), ("message", 2)]
        .iter()
        .filter(|(word, _)| name.contains(word))
        .map(|(_, score)| score)
        .sum();
    let marked = has(Role::DoneAt) || has(Role::DoneFlag) || has(Role::Status);
    let shape = [(has(Role::Type), 3), (marked, 3), (has(Role::Attempts), 2)]
        .into_iter()
        .chain([Role::Error, Role::Occurred, Role::Key, Role::Stamp].map(|role| (has(role), 1)))
        .filter(|(has, _)| *has)
        .map(|(_, score)| score)
        .sum::<u32>();
    // A name alone is not enough, nor is a shape that any table of things to do has.
    let enough = if named >= 4 {
        3
    } else if named > 0 {
        6
    } else {
        9
    };
    (shape >= enough).then_some(named + shape)
}

/// The preset whose layout the table has; one whose other columns keep a state that the preset does not know has not.
fn recognise(table: &Seen, tables: &[Seen]) -> Option<Suggestion> {
    presets().iter().find_map(|known| {
        let whole = preset(known.name)?;
        let mut draft = differing(table, &whole)?;
        let mapping = Arc::new(draft.clone().or(whole.clone()).check().ok()?);
        let processed = match &mapping.processed {
            Some(processed) => {
                let same = |other: &&Seen| {
                    other.name == processed.table.table.as_str() && other.schema == table.schema
                };
                tables.iter().find(same)?.columns.clone()
            }
            None => Vec::new(),
        };
        let name = TableName { schema: None, table: Name::parse(&table.name).ok()? };
        let columns = table.columns.clone();
        Layout::check(mapping, Dialect::Postgres, name, columns, processed).ok()?;
        let used = used(&whole);
        let rest: Vec<_> = table.columns.iter().filter(|column| !used.contains(&column.name)).collect();
        let keeps_state = |column: &&&Column| {
            use Role::{Attempts, DoneAt, DoneFlag, Due, Stamp, Status};
            matches!(role_of(column), Some(Attempts | DoneAt | DoneFlag | Due | Stamp | Status))
        };
        if rest.iter().any(|column| keeps_state(&column)) {
            return None;
        }
        let mut unsure = warnings(known.name);
        let time = rest.iter().find(|column| role_of(column) == Some(Role::Occurred));
        if whole.occurred_at.is_none() && whole.order_by.is_empty() {
            match time {
                Some(column) => draft.occurred_at = Some(column.name.clone()),
                None => unsure.push(NO_ORDER.to_owned()),
            }
        }
        Some(Suggestion { table: table.shown(), preset: Some(known.name), draft, unsure })
    })
}

const NO_ORDER: &str = "no column says in which order rows were written; they come in order of their id, \
    which is no order unless it grows with time";

/// What has to be said besides the preset: the table's name and schema, where they are other ones.
fn differing(table: &Seen, preset: &Draft) -> Option<Draft> {
    let mut draft = Draft::default();
    if preset.table.as_deref() != Some(&table.name) {
        Name::parse(&table.name).ok()?;
        draft.table = Some(table.name.clone());
    }
    match &preset.schema {
        Some(schema) if *schema == table.schema => {}
        None if table.visible => {}
        _ => draft.schema = Some(Name::parse(&table.schema).ok()?.to_string()),
    }
    Some(draft)
}

/// The columns that a mapping names.
fn used(draft: &Draft) -> Vec<String> {
    let Ok(mapping) = draft.check() else { return Vec::new() };
    let column = |text: &String| text.split("->").next().unwrap_or_default().to_owned();
    let written = Draft::from(&mapping);
    let single = [
        &written.id,
        &written.kind,
        &written.key,
        &written.payload,
        &written.content_type,
        &written.headers,
        &written.occurred_at,
        &written.attempts,
        &written.error,
        &written.due,
        &written.stamp,
    ];
    let mut used: Vec<_> = single.into_iter().flatten().map(column).collect();
    used.extend(written.order_by);
    used.extend(written.header_columns.values().map(column));
    used.extend(mapping.pending.columns().into_iter().map(|(name, _)| name.to_string()));
    let done: &[super::Assignment] = match &mapping.done {
        super::Done::Delete => &[],
        super::Done::Set(set) => set,
    };
    let set = done.iter().chain(&mapping.failed).chain(&mapping.dead);
    used.extend(set.map(|one| one.column.to_string()));
    used
}

/// What whoever has this layout should know.
fn warnings(preset: &str) -> Vec<String> {
    let told: &[&str] = match preset {
        "debezium" => &[
            "rows are removed when they were sent; an application that deletes them itself at once leaves nothing to send",
            "the table has no place for attempts: a message that cannot go is tried until it goes",
        ],
        "cap" => &[
            "CAP sends by itself too, and cannot be told not to: every message would go out twice while it runs",
        ],
        "masstransit" => &[
            "MassTransit sends by itself too: set DisableDeliveryService in every instance, or messages go out twice",
            "the table has no place for attempts: a message that cannot go is tried until it goes",
        ],
        "efcore" => &["the table has no place for attempts: a message that cannot go is tried until it goes"],
        _ => &[],
    };
    told.iter().map(|one| (*one).to_owned()).collect()
}

/// Tables of one shape whose names differ in a number at their end: their prefix, and how many they are.
fn siblings(table: &Seen, candidates: &[(u32, &Seen)]) -> Option<(String, usize)> {
    let prefix = |name: &str| name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
    let ours = prefix(&table.name);
    let alike = |other: &Seen| {
        other.schema == table.schema
            && prefix(&other.name) == ours
            && other.name.len() > ours.len()
            && other.columns == table.columns
    };
    let count = candidates.iter().filter(|(_, other)| alike(other)).count();
    (alike(table) && count > 1).then_some((ours, count))
}

#[cfg(test)]
mod tests;
