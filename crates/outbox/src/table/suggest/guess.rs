//! The mapping of a table that nobody knows, by the names of its columns and the values in them.

use super::role::{Role, find, normal, role_of};
use super::{NO_ORDER, Seen, Suggestion};
use crate::header;
use crate::table::parser::is_plain_column;
use crate::table::{Column, Draft, Name, STAMP_TIMEOUT, Type};

/// How often a message is tried where the table counts but does not say how far.
const ATTEMPTS: u32 = 5;

const WAITING: &[&str] = &[
    "pending",
    "new",
    "created",
    "ready",
    "queued",
    "waiting",
    "unprocessed",
    "unsent",
    "notsent",
    "scheduled",
    "initial",
];
const DONE: &[&str] = &[
    "processed",
    "sent",
    "published",
    "done",
    "completed",
    "dispatched",
    "delivered",
    "succeeded",
    "success",
];
const DEAD: &[&str] = &["failed", "dead", "deadletter", "deadlettered", "error", "poisoned"];

/// A mapping, with what is only guessed; none if a name breaks our grammar or the mapping could not work.
pub(super) fn guess(table: &Seen) -> Option<Suggestion> {
    let mut guess = Guess { table, draft: Draft::default(), unsure: Vec::new() };
    guess.names()?;
    guess.content();
    guess.progress();
    let (draft, unsure) = (guess.draft, guess.unsure);
    draft.check().ok()?;
    Some(Suggestion { table: table.shown(), preset: None, draft, unsure })
}

struct Guess<'a> {
    table: &'a Seen,
    draft: Draft,
    unsure: Vec<String>,
}

impl<'a> Guess<'a> {
    fn column(&self, role: Role) -> Option<&'a Column> {
        find(&self.table.columns, role)
    }

    fn name(&self, role: Role) -> Option<String> {
        self.column(role).map(|column| column.name.clone())
    }

    fn unsure(&mut self, words: impl Into<String>) {
        self.unsure.push(words.into());
    }

    fn names(&mut self) -> Option<()> {
        self.draft.table = Some(Name::parse(&self.table.name).ok()?.to_string());
        if !self.table.visible {
            self.draft.schema = Some(Name::parse(&self.table.schema).ok()?.to_string());
        }
        Some(())
    }

    /// What a message is made of.
    fn content(&mut self) {
        let fits = |column: &&Column| matches!(column.kind, Type::Uuid | Type::Integer | Type::Text(_));
        let unique = || self.table.columns.iter().filter(fits).find(|column| column.unique);
        let named = self.column(Role::Id).filter(|column| column.unique);
        let id = named.or_else(unique).or_else(|| self.column(Role::Id));
        self.draft.id = id.map(|column| column.name.clone());
        if let Some(id) = id.filter(|column| !column.unique) {
            self.unsure(format!("id: '{}' has no unique index", id.name));
        }
        self.draft.kind = self.name(Role::Type);
        if self.draft.kind.is_none() {
            self.draft.kind = Some(format!("'{}'", self.table.name));
            self.unsure("type: no column names the type of an event; every message gets the same one");
        }
        self.draft.payload = self.name(Role::Payload);
        if self.column(Role::Payload).is_some_and(|column| column.kind == Type::Bytes) {
            self.draft.content_type = Some("'application/octet-stream'".to_owned());
        }
        if let Some(column) = self.name(Role::ContentType) {
            self.draft.content_type = Some(column);
        }
        self.draft.headers = self.name(Role::Headers);
        if let Some(headers) = self.draft.headers.clone() {
            self.unsure(format!("headers: '{headers}' must hold a JSON object of texts"));
        }
        let known = [
            (Role::Correlation, header::CORRELATION_ID),
            (Role::Causation, header::CAUSATION_ID),
            (Role::Trace, header::TRACEPARENT),
            (Role::SagaId, header::SAGA_ID),
            (Role::SagaStep, header::SAGA_STEP),
        ];
        for (role, header) in known {
            if let Some(column) = self.name(role) {
                self.draft.header_columns.insert(header.to_owned(), column);
            }
        }
        for column in self.table.columns.iter().filter(|column| role_of(column) == Some(Role::Header)) {
            self.draft.header_columns.insert(column.name.clone(), column.name.clone());
        }
        self.draft.key = self.name(Role::Key);
        if self.draft.key.is_none() {
            self.unsure("key: no column says what a message is about (an aggregate id), so no order is kept; name one, or a member of the payload such as Data->>orderId");
        }
        self.draft.occurred_at = self.name(Role::Occurred);
        if let Some(sequence) = self.name(Role::Sequence) {
            self.draft.order_by = vec![sequence];
        } else if self.draft.occurred_at.is_none() && id.is_none_or(|id| id.kind != Type::Integer) {
            self.unsure(NO_ORDER);
        }
    }

    /// What says how far a message is, and what is set when that changes.
    fn progress(&mut self) {
        let done_at = self.name(Role::DoneAt);
        let now =
            |column: &Option<String>| column.as_ref().map(|column| format!("{} = now", written(column)));
        let (mut pending, mut done) = (Vec::new(), Vec::new());
        if let Some(status) = self.column(Role::Status) {
            self.status(status, &mut pending, &mut done);
            done.extend(now(&done_at));
        } else if let Some(flag) = self.column(Role::DoneFlag) {
            let column = written(&flag.name);
            pending.push(format!("{column} = false"));
            done.push(format!("{column} = true"));
            done.extend(now(&done_at));
            if flag.nullable {
                self.unsure(format!("pending: rows in which '{}' is null are left out", flag.name));
            }
        } else if let Some(column) = &done_at {
            pending.push(format!("{} IS NULL", written(column)));
            done.extend(now(&done_at));
        } else {
            let id = self.draft.id.clone().unwrap_or_default();
            pending.push(format!("{} IS NOT NULL", written(&id)));
            done.push("delete".to_owned());
            self.unsure("done: no column says that a message was sent, so its row is removed");
        }
        if let Some(dead) = self.name(Role::DeadAt) {
            pending.push(format!("{} IS NULL", written(&dead)));
            let set = format!("{} = now", written(&dead));
            let before = self.draft.dead.take().map(|before| format!("{before}, ")).unwrap_or_default();
            self.draft.dead = Some(before + &set);
        }
        self.draft.attempts = self.name(Role::Attempts);
        match self.draft.attempts.clone() {
            Some(attempts) => {
                pending.push(format!("{} < {ATTEMPTS}", written(&attempts)));
                self.unsure(format!(
                    "attempts: the table does not say how often a message is tried; {ATTEMPTS} is a guess"
                ));
            }
            None if self.draft.dead.is_none() => self.unsure(
                "attempts: no column counts them, so a message that cannot go is tried until it goes",
            ),
            None => self.unsure("attempts: no column counts them, so a restart begins to count anew"),
        }
        self.draft.error = self.name(Role::Error);
        if self.draft.error.is_none() {
            self.unsure("error: no column takes the reason of a failure; it is only in the log");
        }
        self.nullable_times();
        if let Some(until) = self.name(Role::LockedUntil) {
            self.unsure(format!("'{until}' is not used: rows are claimed by locks of the database"));
        }
        self.draft.pending = Some(pending.join(" AND "));
        self.draft.done = Some(done.join(", "));
    }

    fn nullable_times(&mut self) {
        let nullable = |column: &&Column| column.nullable;
        self.draft.due = self.column(Role::Due).filter(nullable).map(|column| column.name.clone());
        if let Some(stamp) = self.column(Role::Stamp).filter(nullable) {
            self.draft.stamp = Some(stamp.name.clone());
            self.draft.stamp_timeout = Some(STAMP_TIMEOUT);
            self.unsure(format!(
                "stamp: '{}' is taken for the time at which a relay claimed a row; a claim counts for 5 minutes",
                stamp.name
            ));
        }
    }

    fn status(&mut self, status: &Column, pending: &mut Vec<String>, done: &mut Vec<String>) {
        let words: Vec<String> = match &status.kind {
            Type::Enum(words) => words.clone(),
            _ => self
                .table
                .values
                .iter()
                .filter(|(column, _)| *column == status.name)
                .map(|(_, value)| value.clone())
                .collect(),
        };
        let find = |known: &[&str]| {
            known.iter().find_map(|word| words.iter().find(|value| normal(value) == *word)).cloned()
        };
        let column = written(&status.name);
        let (waiting, sent, dead) = (find(WAITING), find(DONE), find(DEAD));
        let lower = words.first().is_some_and(|word| *word == word.to_lowercase());
        let cased = |word: &str| if lower { word.to_lowercase() } else { word.to_owned() };
        if waiting.is_none() || sent.is_none() {
            let found = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
            self.unsure(format!(
                "pending, done: which values '{}' takes is a guess; found: {found}",
                status.name
            ));
        }
        let (waiting, sent) =
            (waiting.unwrap_or_else(|| cased("PENDING")), sent.unwrap_or_else(|| cased("PROCESSED")));
        pending.push(format!("{column} = '{waiting}'"));
        done.push(format!("{column} = '{sent}'"));
        self.draft.dead = dead.map(|dead| format!("{column} = '{dead}'"));
        if self.draft.dead.is_none() {
            self.unsure(format!("dead: '{}' has no value for a message that was given up", status.name));
        }
    }
}

/// A column in a condition or an assignment.
fn written(column: &str) -> String {
    if is_plain_column(column) { column.to_owned() } else { format!("\"{column}\"") }
}
