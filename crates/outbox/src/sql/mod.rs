//! Statements with named values, run once per message in one transaction with the inbox.
//!
//! [`Statements`] are read and checked without a database. `Inbox::sql` of each database makes a sink of them.
//!
//! | value | is |
//! | --- | --- |
//! | `:id` `:type` `:key` `:correlation_id` | text of the message; not every message has a key |
//! | `:time` | when it happened |
//! | `:attempts` | attempts that were spent before this one |
//! | `:header.NAME` | a header |
//! | `:payload` | the whole payload, as text |
//! | `:payload.customer.email` | what stands there in a JSON payload; `:payload."odd name"` for odd names |
//!
//! A message that lacks a value is refused with [`code::UNFIT`](crate::code::UNFIT), unless the value is written with a
//! question mark (`:payload.note?`), which makes it NULL. Values are bound: none ever becomes part of a statement.
//!
//! | what happens | outcome |
//! | --- | --- |
//! | every statement ran, and the id is recorded | delivered |
//! | the id is known already | delivered, and nothing runs |
//! | a value is missing, or cannot be what a column holds | refused, `UNFIT` |
//! | a constraint or a trigger objects | rejected, `REFUSED` |
//! | a lock or a statement takes longer than the server allows | rejected, `REFUSED` |
//! | a deadlock, or a conflict of serializable transactions | tried again at once, a few times; then unavailable |
//! | the table or a column is missing, a grant, the connection, the space | unavailable: it would meet every message |

mod fault;
mod look;
mod scan;
mod sink;
mod value;

use std::time::Duration;

pub(crate) use fault::Fault;
pub(crate) use look::{finding, unprepared};
pub(crate) use sink::Again;
pub(crate) use value::{Bound, Value, text_of};

use crate::error::{Error, ErrorKind, Result};
use crate::inbox::Failure;
use crate::view::View;
use scan::{Piece, Scan};

/// Whose SQL it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// PostgreSQL.
    Postgres,
    /// MariaDB and MySQL.
    MySql,
    /// SQLite.
    Sqlite,
}

/// Statements that are run for a message, in order.
#[derive(Debug, Clone)]
pub struct Statements {
    pub(crate) kind: Kind,
    pub(crate) all: Vec<Statement>,
    pub(crate) timeout: Option<Duration>,
}

impl Statements {
    /// Reads statements, one per text. A mistake is told with its place.
    pub fn parse<T: AsRef<str>>(kind: Kind, texts: &[T]) -> Result<Self> {
        if texts.is_empty() {
            return Err(Error::new(ErrorKind::Config, "there is no statement; write at least one"));
        }
        let all = texts.iter().zip(1..).map(|(text, number)| Statement::parse(kind, text.as_ref(), number));
        Ok(Self { kind, all: all.collect::<Result<_>>()?, timeout: None })
    }

    /// Sets how long the statements may take for one message, instead of the inbox's own limit.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Whether they are for this database.
    pub(crate) fn check(&self, kind: Kind) -> Result<()> {
        if self.kind == kind {
            return Ok(());
        }
        let why = format!("the statements are for {:?}, the inbox is in {kind:?}", self.kind);
        Err(Error::new(ErrorKind::Config, why))
    }
}

/// One statement.
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    /// Its place among the others, from 1.
    pub(crate) number: usize,
    pieces: Vec<Piece>,
    pub(crate) values: Vec<Value>,
}

impl Statement {
    fn parse(kind: Kind, text: &str, number: usize) -> Result<Self> {
        check_transaction(text, number)?;
        let scanned = Scan::new(kind, text).run().map_err(|mistake| {
            let (line, column) = mistake.place(text);
            let why = format!("statement {number}, line {line}, character {column}: {}", mistake.what);
            Error::new(ErrorKind::Config, why)
        })?;
        let values = scanned.iter().filter_map(|piece| match piece {
            Piece::Value(value) => Some(value.clone()),
            Piece::Text(_) => None,
        });
        Ok(Self { number, values: values.collect(), pieces: scanned })
    }

    /// The text, with what stands for the value at each place, from 0.
    pub(crate) fn text(&self, placeholder: impl Fn(usize) -> String) -> String {
        let (mut text, mut place) = (String::new(), 0);
        for piece in &self.pieces {
            match piece {
                Piece::Text(part) => text.push_str(part),
                Piece::Value(_) => {
                    text.push_str(&placeholder(place));
                    place += 1;
                }
            }
        }
        text
    }

    /// The values of a message, in order; the message is refused if one is missing.
    pub(crate) fn bind(&self, view: &View<'_>) -> Result<Vec<Bound>, Failure> {
        self.values.iter().map(|value| value.of(view)).collect()
    }

    /// What it says of itself where it is not known which value is at fault.
    pub(crate) fn about(&self) -> String {
        let names: Vec<String> = self.values.iter().map(ToString::to_string).collect();
        format!("statement {} with {}", self.number, names.join(", "))
    }
}

/// The transaction is the inbox's; a statement that ended it would part the effects from the id.
fn check_transaction(text: &str, number: usize) -> Result<()> {
    const WORDS: [&str; 7] = ["begin", "start", "commit", "rollback", "savepoint", "release", "end"];
    let word: String = text.trim_start().chars().take_while(|c| c.is_alphabetic()).collect();
    if WORDS.contains(&word.to_ascii_lowercase().as_str()) {
        let why = format!(
            "statement {number}: '{word}' is left to the inbox, which opens and commits the transaction"
        );
        return Err(Error::new(ErrorKind::Config, why));
    }
    Ok(())
}

#[cfg(test)]
#[path = "sql_tests.rs"]
mod tests;
