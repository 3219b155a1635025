//! What arrived in an error queue, written to a table where people find it: the contract of an [`ErrorLog`].
//!
//! `postgres::error_log`, `mysql::error_log` and `sqlite::error_log` give the one in our own table; with
//! `mapped_error_log` it is a table that exists already, by an [`ErrorTable`]. [`ErrorSink`] writes to it.

mod log;
mod payload;
mod record;
mod sink;
mod table;

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use serde::Serialize;

pub(crate) use log::TableLog;
pub(crate) use payload::{as_json, as_text};
pub use sink::ErrorSink;
pub(crate) use table::Fields;
pub use table::{ErrorTable, FIELDS};

use crate::error::Result;
use crate::message::{Headers, MessageId};
use crate::sink::Cause;

/// A table of messages that failed for good, and the desk to work on it.
///
/// - **L1** What is written is shown as it was given.
/// - **L2** One message that failed at one origin is one record, however often it is written: a newer failure renews
///   attempts, cause and last seen, an older or repeated one changes nothing.
/// - **L3** A failure that is newer than what a person did reopens the record.
/// - **L4** A message that failed at two origins has two records.
/// - **L5** `list` gives what matches, in order of the ids, in pages; `list` and `show` change nothing.
/// - **L6** An edit changes the payload and keeps the first one.
/// - **L7** What a person did is kept with who did it and when. Of an id that is not there nothing is done:
///   [`ErrorKind::NotFound`](crate::ErrorKind::NotFound).
/// - **L8** Records are written all or none.
#[async_trait]
pub trait ErrorLog: Send + Sync {
    /// Writes failures.
    async fn write(&self, records: &[ErrorRecord]) -> Result<()>;

    /// Records that match, after `filter.after`.
    async fn list(&self, filter: &ErrorFilter) -> Result<Vec<ErrorRecord>>;

    /// One record, with its payload.
    async fn show(&self, id: &str) -> Result<Option<ErrorRecord>>;

    /// Changes the payload.
    async fn edit(&self, id: &str, payload: &[u8]) -> Result<()>;

    /// Closes the record: nothing is left to do.
    async fn resolve(&self, id: &str, by: &str, note: Option<&str>) -> Result<()>;

    /// Marks that the message was sent back to where it came from.
    async fn returned(&self, id: &str, by: &str) -> Result<()>;
}

/// How a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Resolution {
    /// Somebody should look at it.
    Open,
    /// Sent back to where it came from.
    Returned,
    /// Nothing is left to do.
    Resolved,
}

impl Resolution {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Returned => "returned",
            Self::Resolved => "resolved",
        }
    }
}

/// A message that failed for good.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorRecord {
    /// The record's own id; of a table that keeps none, the message's.
    pub id: String,
    /// The message.
    pub message_id: MessageId,
    /// Its type.
    pub kind: String,
    /// Its key.
    pub key: Option<String>,
    /// The queue or topic where it failed.
    pub origin: String,
    /// Why.
    pub cause: Cause,
    /// Attempts that were spent on it.
    pub attempts: u32,
    /// The payload, as it is now; empty in a list unless asked for.
    pub payload: Bytes,
    /// The payload as it was before the first edit.
    pub original_payload: Option<Bytes>,
    /// The media type of the payload.
    pub content_type: String,
    /// The headers that it arrived with.
    pub headers: Headers,
    /// When it first failed.
    pub first_seen: Timestamp,
    /// When it was given up, the last time.
    pub last_seen: Timestamp,
    /// How it stands.
    pub resolution: Resolution,
    /// Who resolved or returned it.
    pub resolved_by: Option<String>,
    /// When.
    pub resolved_at: Option<Timestamp>,
    /// What they said.
    pub note: Option<String>,
}

/// Which records are meant; what is not set matches everything.
#[derive(Debug, Clone, Default)]
pub struct ErrorFilter {
    /// Of this message.
    pub message_id: Option<MessageId>,
    /// Of this type; a trailing `*` matches any ending.
    pub kind: Option<String>,
    /// With this cause code.
    pub code: Option<String>,
    /// Of this key.
    pub key: Option<String>,
    /// From this queue or topic.
    pub origin: Option<String>,
    /// Last seen before this time.
    pub older_than: Option<Timestamp>,
    /// Last seen at this time or later.
    pub newer_than: Option<Timestamp>,
    /// Standing like this.
    pub resolution: Option<Resolution>,
    /// Only after this id; that of the last record of a page.
    pub after: Option<String>,
    /// At most so many; 0 means 100.
    pub limit: u32,
    /// With payloads and headers, which may be large.
    pub with_payload: bool,
}
