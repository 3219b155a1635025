//! What is answered: JSON, and for what is wrong one line with what to do about it.

use axum::Json;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use outbox::{Error, ErrorKind, MessageId, Published};
use serde_json::json;

use crate::trouble::{Exit, Fault, Trouble};

/// When a client may come again, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("2");

/// A request that is not carried out: why, and what to do.
#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    error: String,
    help: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    /// Why, and what to do.
    pub fn new(status: StatusCode, error: impl Into<String>, help: impl Into<String>) -> Self {
        Self { status, error: error.into(), help: help.into(), headers: Vec::new() }
    }

    /// The request is wrong.
    pub fn bad(error: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, help)
    }

    /// It cannot be carried out now.
    pub fn later(error: impl Into<String>, help: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, error, help).with(header::RETRY_AFTER, RETRY_AFTER)
    }

    /// With a header.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    #[cfg(test)]
    pub fn told(&self) -> (u16, &str) {
        (self.status.as_u16(), &self.error)
    }
}

impl From<Error> for Refusal {
    /// What is the message's own fault is for the client to mend; everything else may be better in a while.
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Invalid => Self::bad(error.chain(), "change the message, and send it again"),
            _ => Self::later(error.chain(), "send it again in a while, under the same id"),
        }
    }
}

impl From<Trouble> for Refusal {
    /// What is the client's fault is never told as ours, and what may be better in a while says so.
    fn from(trouble: Trouble) -> Self {
        let (error, help) = (trouble.to_string(), trouble.help().to_owned());
        match (trouble.fault(), trouble.exit) {
            (Fault::Unknown, _) => Self::new(StatusCode::NOT_FOUND, error, help),
            (Fault::Asked, _) => Self::bad(error, help),
            (Fault::Ours, Exit::Source | Exit::Sink) => Self::later(error, help),
            // There is no place for it: somebody has to change the configuration first.
            (Fault::Ours, Exit::Config) => Self::new(StatusCode::CONFLICT, error, help),
            (Fault::Ours, _) => Self::new(StatusCode::INTERNAL_SERVER_ERROR, error, help),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = Json(json!({ "error": self.error, "help": self.help }));
        (self.status, AppendHeaders(self.headers), body).into_response()
    }
}

/// What became of a message.
pub fn published(id: &MessageId, published: &Published) -> Response {
    match published {
        Published::Confirmed => Json(json!({ "id": id, "state": "confirmed" })).into_response(),
        Published::Kept(why) => {
            let body = json!({ "id": id, "state": "kept", "why": why.to_string() });
            (StatusCode::ACCEPTED, Json(body)).into_response()
        }
    }
}
