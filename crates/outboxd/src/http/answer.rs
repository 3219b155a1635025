//! What is answered: JSON, and for what is wrong one line with what to do about it.

use std::sync::Arc;

use askama::Template;
use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{AppendHeaders, Html, IntoResponse, Response};
use outbox::{Error, ErrorKind, MessageId, Published};
use serde_json::json;

use super::guard::wants_page;
use super::pages::chosen_theme;
use crate::trouble::{Exit, Fault, Trouble};

/// What is asked by programs, besides `/v1`.
const FOR_PROGRAMS: [&str; 4] = ["/metrics", "/livez", "/readyz", "/health"];

/// When a client may come again, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("2");

/// A request that is not carried out: why, and what to do.
#[derive(Debug, Clone)]
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

    /// Its status.
    pub fn status(&self) -> StatusCode {
        self.status
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
    /// As JSON. The refusal itself goes along, so that [`as_page`] can show it to a browser.
    fn into_response(self) -> Response {
        let body = Json(json!({ "error": self.error, "help": self.help }));
        let mut response = (self.status, AppendHeaders(self.headers.clone()), body).into_response();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// A refusal as a page.
#[derive(Template)]
#[template(path = "refusal.html")]
struct RefusalPage<'a> {
    theme: Option<&'static str>,
    status: u16,
    error: &'a str,
    help: &'a str,
}

/// Shows a refusal as a page to somebody with a browser, except where programs ask.
pub(super) async fn as_page(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let for_programs = path == "/v1" || path.starts_with("/v1/") || FOR_PROGRAMS.contains(&path);
    let wanted = !for_programs && wants_page(request.headers());
    let theme = chosen_theme(request.headers());
    let response = next.run(request).await;
    let Some(refusal) = response.extensions().get::<Arc<Refusal>>().filter(|_| wanted) else {
        return response;
    };
    let status = refusal.status.as_u16();
    let page = RefusalPage { theme, status, error: &refusal.error, help: &refusal.help };
    match page.render() {
        Ok(html) => (refusal.status, AppendHeaders(refusal.headers.clone()), Html(html)).into_response(),
        Err(_) => response,
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
