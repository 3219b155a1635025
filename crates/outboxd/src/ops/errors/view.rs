//! How an error is told. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outbox::errors::{ErrorRecord, Resolution};
use outbox::{Cause, MessageId};
use serde::Serialize;
use utoipa::ToSchema;

use crate::ops::messages::Why;
use crate::ops::told::Payload;

/// An error in a table.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct ErrorEntry {
    /// The sink whose table it is in.
    pub sink: String,
    /// Its own id.
    pub id: String,
    /// The message that failed.
    #[schema(value_type = String)]
    pub message_id: MessageId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its key.
    pub key: Option<String>,
    /// The queue or topic where it failed.
    pub origin: String,
    /// Why.
    #[schema(value_type = Why)]
    pub cause: Cause,
    /// Attempts spent.
    pub attempts: u32,
    /// When it first failed.
    #[schema(value_type = String, format = DateTime)]
    pub first_seen: Timestamp,
    /// When it was given up, the last time.
    #[schema(value_type = String, format = DateTime)]
    pub last_seen: Timestamp,
    /// How it stands: `open`, `returned` or `resolved`.
    #[schema(value_type = String)]
    pub state: Resolution,
    /// Who resolved or returned it.
    pub resolved_by: Option<String>,
    /// When.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub resolved_at: Option<Timestamp>,
    /// What they said.
    pub note: Option<String>,
}

/// An error with all that is known of it.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct WholeError {
    /// The error.
    #[serde(flatten)]
    pub entry: ErrorEntry,
    /// The media type of the payload.
    pub content_type: String,
    /// The headers that the message arrived with.
    pub headers: BTreeMap<String, String>,
    /// How long the payload is.
    pub payload_bytes: usize,
    /// Whether the payload was changed.
    pub edited: bool,
    /// The payload as it is now, if it was asked for.
    #[serde(flatten)]
    pub payload: Payload,
    /// The payload as it first was, if it was asked for and has been changed.
    #[serde(flatten)]
    pub original: Original,
}

/// A payload as it was before the first edit: as text if it is UTF-8, else as base64.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Original {
    /// The text.
    #[serde(rename = "original_payload", skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes.
    #[serde(rename = "original_payload_base64", skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl Original {
    /// The bytes again.
    pub fn bytes(&self) -> Vec<u8> {
        Payload { text: self.text.clone(), base64: self.base64.clone() }.bytes()
    }
}

impl ErrorEntry {
    /// Without headers and payload.
    pub fn of(sink: &str, record: &ErrorRecord) -> Self {
        Self {
            sink: sink.to_owned(),
            id: record.id.clone(),
            message_id: record.message_id.clone(),
            kind: record.kind.clone(),
            key: record.key.clone(),
            origin: record.origin.clone(),
            cause: record.cause.clone(),
            attempts: record.attempts,
            first_seen: record.first_seen,
            last_seen: record.last_seen,
            state: record.resolution,
            resolved_by: record.resolved_by.clone(),
            resolved_at: record.resolved_at,
            note: record.note.clone(),
        }
    }

    /// How it stands, by whom and since when.
    pub fn standing(&self) -> String {
        let by = self.resolved_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let at = self.resolved_at.map(|at| format!(", {at:.0}")).unwrap_or_default();
        format!("{}{by}{at}", self.state.as_str())
    }
}

impl WholeError {
    /// With headers, and with the payload if asked for.
    pub fn of(sink: &str, record: &ErrorRecord, with_payload: bool) -> Self {
        let shown =
            |bytes: Option<&[u8]>| bytes.filter(|_| with_payload).map(Payload::of).unwrap_or_default();
        let first = shown(record.original_payload.as_deref());
        Self {
            entry: ErrorEntry::of(sink, record),
            content_type: record.content_type.clone(),
            headers: record.headers.clone(),
            payload_bytes: record.payload.len(),
            edited: record.original_payload.is_some(),
            payload: shown(Some(&record.payload)),
            original: Original { text: first.text, base64: first.base64 },
        }
    }
}
