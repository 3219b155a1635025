//! What a statement takes from a message.

use std::fmt;

use bytes::Bytes;
use jiff::Timestamp;

use crate::inbox::Failure;
use crate::sink::code;
use crate::view::{Path, View};

/// A named value.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    pub(crate) source: Source,
    /// NULL when it is missing.
    pub(crate) optional: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Source {
    Id,
    Type,
    Key,
    Correlation,
    Time,
    Attempts,
    Header(String),
    Payload,
    Path(Path),
}

/// What is bound for it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Bound {
    Null,
    Text(String),
    Int(i64),
    Time(Timestamp),
    /// A member of the payload; never null.
    Json(serde_json::Value),
    /// The payload itself.
    Payload(Bytes),
}

impl Value {
    /// The value of a message.
    pub(crate) fn of(&self, view: &View<'_>) -> Result<Bound, Failure> {
        let message = view.message();
        let text = |text: Option<&str>| text.map(|text| Bound::Text(text.to_owned()));
        let found = match &self.source {
            Source::Id => text(Some(message.id.as_str())),
            Source::Type => text(Some(&message.kind)),
            Source::Key => text(message.key.as_deref()),
            Source::Correlation => text(Some(message.correlation_id())),
            Source::Time => Some(Bound::Time(message.occurred_at)),
            Source::Attempts => Some(Bound::Int(message.attempts.into())),
            Source::Header(name) => text(message.headers.get(name).map(String::as_str)),
            Source::Payload => {
                let is_missing = self.optional && message.payload.is_empty();
                (!is_missing).then(|| Bound::Payload(message.payload.clone()))
            }
            // An empty payload, or one that is no JSON, is a mistake also where a member may be missing.
            Source::Path(path) => {
                let found = view.find(path).map_err(|error| self.unfit(error))?;
                found.map(|value| Bound::Json(value.clone()))
            }
        };
        match found {
            Some(found) => Ok(found),
            None if self.optional => Ok(Bound::Null),
            None => Err(self.unfit("the message has none; write a ? behind it if it may be missing")),
        }
    }

    /// The message cannot be handled, because of this value: it is not even sent.
    pub(crate) fn unfit(&self, why: impl fmt::Display) -> Failure {
        Failure::defect(format_args!("{self}: {why}")).code(code::UNFIT)
    }

    /// The message cannot be handled, because the database does not take this value. If it takes none any more, that
    /// is no fault of the messages.
    #[cfg(feature = "postgres")]
    pub(crate) fn unread(&self, why: impl fmt::Display) -> Failure {
        Failure::dead(format_args!("{self}: {why}")).code(code::UNFIT)
    }
}

/// The payload as text.
pub(crate) fn text_of(payload: &Bytes) -> Result<&str, &'static str> {
    std::str::from_utf8(payload).map_err(|_| "the payload is no text in UTF-8")
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Id => f.write_str(":id"),
            Source::Type => f.write_str(":type"),
            Source::Key => f.write_str(":key"),
            Source::Correlation => f.write_str(":correlation_id"),
            Source::Time => f.write_str(":time"),
            Source::Attempts => f.write_str(":attempts"),
            Source::Header(name) => write!(f, ":header.{name}"),
            Source::Payload => f.write_str(":payload"),
            Source::Path(path) => write!(f, ":payload.{path}"),
        }
    }
}
