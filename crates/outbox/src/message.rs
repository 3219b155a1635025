//! What travels: a [`Message`], its id, and the header names that every part knows.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};

/// Names of headers that outboxd itself reads or writes.
pub mod header {
    /// The message id, on every message that leaves.
    pub const EVENT_ID: &str = "x-event-id";
    /// What this message belongs to; a message that names none correlates with itself.
    pub const CORRELATION_ID: &str = "x-correlation-id";
    /// The id of the message or command that caused this one.
    pub const CAUSATION_ID: &str = "x-causation-id";
    /// The saga that this message is a step of.
    pub const SAGA_ID: &str = "x-saga-id";
    /// The step of the saga.
    pub const SAGA_STEP: &str = "x-saga-step";
    /// W3C trace context, as it was when the message was written.
    pub const TRACEPARENT: &str = "traceparent";
    /// W3C trace state, as it was when the message was written.
    pub const TRACESTATE: &str = "tracestate";

    /// Whose retries these are: the queue or topic in which attempts were spent. The six below belong to it.
    pub const RETRY_ORIGIN: &str = "x-retry-origin";
    /// Attempts spent so far.
    pub const RETRY_ATTEMPTS: &str = "x-retry-attempts";
    /// The code of the last failure.
    pub const RETRY_CODE: &str = "x-retry-code";
    /// The sentence of the last failure.
    pub const RETRY_ERROR: &str = "x-retry-error";
    /// When it first failed, RFC 3339.
    pub const RETRY_FIRST_AT: &str = "x-retry-first-at";
    /// When it last failed, RFC 3339.
    pub const RETRY_AT: &str = "x-retry-at";
    /// When it is due again, RFC 3339.
    pub const RETRY_DUE: &str = "x-retry-due";

    /// The queue or topic where a dead letter died. The five below belong to it.
    pub const ERROR_ORIGIN: &str = "x-error-origin";
    /// Attempts that were spent on it.
    pub const ERROR_ATTEMPTS: &str = "x-error-attempts";
    /// The code of the last failure.
    pub const ERROR_CODE: &str = "x-error-code";
    /// The sentence of the last failure.
    pub const ERROR_TEXT: &str = "x-error-text";
    /// When it first failed, RFC 3339.
    pub const ERROR_FIRST_AT: &str = "x-error-first-at";
    /// When it was given up, RFC 3339.
    pub const ERROR_AT: &str = "x-error-at";
    /// What is wrong with a message that came to an error log and that nobody could handle: a code and a sentence.
    pub const ERROR_DEFECT: &str = "x-error-defect";

    /// The routing key or topic that a message was first sent to, once a consumer has moved it.
    pub const DESTINATION: &str = "x-first-destination";
    /// When a record of Kafka was first written, RFC 3339, once a consumer has moved it: the copy has a time of its own.
    pub const FIRST_TIME: &str = "x-first-time";

    /// Who sent a dead letter back to where it came from.
    pub const RETURNED_BY: &str = "x-returned-by";
    /// When, RFC 3339.
    pub const RETURNED_AT: &str = "x-returned-at";
    /// In a topic of dead letters: a person has dealt with the record at `partition:offset`.
    pub const SETTLED: &str = "x-settled";
}

/// The identity of a message, constant over retries, replays and brokers.
///
/// Ours are UUIDv7; a table that somebody else made may use anything that can be written as text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(String);

impl MessageId {
    /// A fresh UUIDv7.
    #[expect(clippy::new_without_default, reason = "every call differs, which a default should not")]
    pub fn new() -> Self {
        Uuid::now_v7().into()
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Uuid> for MessageId {
    fn from(id: Uuid) -> Self {
        Self(id.hyphenated().to_string())
    }
}

impl From<&str> for MessageId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

impl From<String> for MessageId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

/// Names and values that travel beside the payload.
pub type Headers = BTreeMap<String, String>;

/// Headers from a JSON object; values that are not strings become their JSON text, and null is no header. Nothing if
/// it is no object.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) fn headers_from_json(json: &str) -> Option<Headers> {
    if json == "{}" {
        return Some(Headers::new());
    }
    if let Ok(headers) = serde_json::from_str(json) {
        return Some(headers);
    }
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).ok()?;
    let text = |value: serde_json::Value| match value {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text),
        other => Some(other.to_string()),
    };
    Some(members.into_iter().filter_map(|(name, value)| Some((name, text(value)?))).collect())
}

/// Headers as a JSON object.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
pub(crate) fn headers_to_json(headers: &Headers) -> String {
    if headers.is_empty() { "{}".to_owned() } else { serde_json::json!(headers).to_string() }
}

/// One event: what happened, to what, and when.
///
/// The payload is bytes and is never parsed, re-encoded or trimmed on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// Constant over retries and replays; the inbox goes by it.
    pub id: MessageId,
    /// The type, as in `order.created`.
    pub kind: String,
    /// Messages of one key keep their order; without a key there is none.
    pub key: Option<String>,
    /// The body, byte for byte as it was written.
    pub payload: Bytes,
    /// The media type of the payload.
    pub content_type: String,
    /// Everything else, see [`header`] for the known names.
    pub headers: Headers,
    /// When it happened, on the clock of whoever wrote it.
    pub occurred_at: Timestamp,
    /// How many attempts were spent on it before this one.
    pub attempts: u32,
}

impl Message {
    /// A message of type `kind` with these bytes as its payload.
    pub fn new(kind: impl Into<String>, payload: impl Into<Bytes>) -> Self {
        Self::known(MessageId::new(), kind, payload, Timestamp::now())
    }

    /// One that was written before, so that it has its id and its time: to make others costs calls to the system.
    pub(crate) fn known(
        id: impl Into<MessageId>,
        kind: impl Into<String>,
        payload: impl Into<Bytes>,
        occurred_at: Timestamp,
    ) -> Self {
        Self {
            id: id.into(),
            kind: kind.into(),
            key: None,
            payload: payload.into(),
            content_type: "application/octet-stream".to_owned(),
            headers: Headers::new(),
            occurred_at,
            attempts: 0,
        }
    }

    /// A message of type `kind` with `body` as JSON.
    pub fn json<T: Serialize + ?Sized>(kind: impl Into<String>, body: &T) -> Result<Self> {
        let payload = serde_json::to_vec(body).map_err(|error| {
            Error::new(ErrorKind::Invalid, "the payload cannot be written as JSON").caused_by(error)
        })?;
        Ok(Self::new(kind, payload).content_type("application/json"))
    }

    /// Sets the id; only needed when it must equal one that exists already.
    #[must_use]
    pub fn id(mut self, id: impl Into<MessageId>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the key within which order is kept, usually the id of the aggregate.
    #[must_use]
    pub fn key(mut self, key: impl fmt::Display) -> Self {
        self.key = Some(key.to_string());
        self
    }

    /// Sets the media type of the payload.
    #[must_use]
    pub fn content_type(mut self, content_type: impl Into<String>) -> Self {
        self.content_type = content_type.into();
        self
    }

    /// Sets when it happened.
    #[must_use]
    pub fn occurred_at(mut self, at: Timestamp) -> Self {
        self.occurred_at = at;
        self
    }

    /// Adds or replaces a header.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets [`header::CORRELATION_ID`].
    #[must_use]
    pub fn correlation(self, id: impl Into<String>) -> Self {
        self.header(header::CORRELATION_ID, id)
    }

    /// Sets [`header::CAUSATION_ID`].
    #[must_use]
    pub fn causation(self, id: impl Into<String>) -> Self {
        self.header(header::CAUSATION_ID, id)
    }

    /// Sets [`header::SAGA_ID`] and [`header::SAGA_STEP`].
    #[must_use]
    pub fn saga(self, id: impl Into<String>, step: impl Into<String>) -> Self {
        self.header(header::SAGA_ID, id).header(header::SAGA_STEP, step)
    }

    /// What this message correlates with: its header, or itself.
    pub fn correlation_id(&self) -> &str {
        self.headers.get(header::CORRELATION_ID).map_or(self.id.as_str(), String::as_str)
    }
}

/// What a message may weigh. Checked at enqueue, inside the caller's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the payload.
    pub payload: usize,
    /// Number of headers.
    pub headers: usize,
    /// Bytes of all header names and values together.
    pub header_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { payload: 1024 * 1024, headers: 64, header_bytes: 16 * 1024 }
    }
}

impl Limits {
    /// Says in one sentence which limit the message breaks, if any.
    pub fn check(&self, message: &Message) -> Result<()> {
        let invalid = |what: String| Err(Error::new(ErrorKind::Invalid, what));
        if message.kind.trim().is_empty() {
            return invalid(format!("message {} has no type", message.id));
        }
        let about = || format!("message {} of type '{}'", message.id, message.kind);
        if message.payload.len() > self.payload {
            let (size, limit) = (message.payload.len(), self.payload);
            return invalid(format!("the payload of {} is {size} bytes, the limit is {limit}", about()));
        }
        if message.headers.len() > self.headers {
            let (count, limit) = (message.headers.len(), self.headers);
            return invalid(format!("{} has {count} headers, the limit is {limit}", about()));
        }
        let bytes: usize = message.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > self.header_bytes {
            let limit = self.header_bytes;
            return invalid(format!("the headers of {} are {bytes} bytes, the limit is {limit}", about()));
        }
        let texts = [&message.kind, &message.content_type].into_iter().chain(&message.key);
        if texts
            .chain(message.headers.iter().flat_map(|(name, value)| [name, value]))
            .any(|text| text.contains('\0'))
        {
            return invalid(format!(
                "{} has a NUL character outside of its payload, which no store takes",
                about()
            ));
        }
        if message.headers.keys().any(|name| name.is_empty()) {
            return invalid(format!("{} has a header without a name", about()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_to_the_byte() {
        let limits = Limits { payload: 4, headers: 1, header_bytes: 4 };
        assert!(limits.check(&Message::new("a", "1234")).is_ok());
        let error = limits.check(&Message::new("a", "12345")).unwrap_err();
        assert!(error.to_string().ends_with("is 5 bytes, the limit is 4"), "{error}");
        assert!(limits.check(&Message::new("a", "").header("ab", "cd")).is_ok());
        assert!(limits.check(&Message::new("a", "").header("ab", "cde")).is_err());
        assert!(limits.check(&Message::new("a", "").header("a", "").header("b", "")).is_err());
        assert!(limits.check(&Message::new("a", "\0")).is_ok(), "a payload may be anything");
        assert!(limits.check(&Message::new("a", "").key("k\0")).unwrap_err().to_string().contains("NUL"));
        assert!(limits.check(&Message::new(" ", "")).unwrap_err().to_string().contains("has no type"));
    }

    #[test]
    #[cfg(any(feature = "postgres", feature = "sqlite"))]
    fn headers_written_by_others_may_hold_any_json() {
        let headers = headers_from_json(r#"{"a": "x", "n": 3, "none": null, "o": {"p": null}}"#).unwrap();
        assert_eq!((&*headers["a"], &*headers["n"], &*headers["o"]), ("x", "3", r#"{"p":null}"#));
        assert_eq!(headers.len(), 3, "null is no header");
        assert_eq!(headers_from_json("[1]"), None);
        assert_eq!(headers_from_json(&headers_to_json(&headers)), Some(headers));
    }

    #[test]
    fn a_message_correlates_with_itself_unless_told() {
        let message = Message::new("a", "");
        assert_eq!(message.correlation_id(), message.id.as_str());
        assert_eq!(message.correlation("c").correlation_id(), "c");
    }
}
