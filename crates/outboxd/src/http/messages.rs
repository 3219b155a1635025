//! `POST /v1/messages`: publishes one message.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use bytes::Bytes;
use outbox::{ErrorKind, Published, Publisher};

use super::answer::{self, Refusal};
use super::api::Refused;
use super::figures::PUBLISHED;
use super::request::Given;
use super::{Shared, request};
use crate::mistake::did_you_mean;

/// What a body may weigh beyond its payload: the other fields, and the headers.
const ENVELOPE: usize = 64 * 1024;

/// How long a client may take to send its body.
pub(super) const BODY_LIMIT: Duration = Duration::from_secs(30);

type Parameters = Query<BTreeMap<String, String>>;

/// Publishes a message at once, or keeps it until the broker takes it. The token is that of `[http]`.
#[utoipa::path(post, path = "/messages", tag = "publish", params(
    ("publisher" = Option<String>, Query, description = "The name of the publisher, where there are several"),
), request_body(
    description = "Or a CloudEvent, in the structured or in the binary form",
    content((Given = "application/json"), (serde_json::Value = "application/cloudevents+json")),
), responses(
    (status = 200, description = "The broker has it", body = serde_json::Value),
    (status = 202, description = "It is kept, and will be sent", body = serde_json::Value),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn publish(
    State(shared): State<Arc<Shared>>,
    parameters: Result<Parameters, QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let Ok(Query(parameters)) = parameters else {
        return Err(Refusal::bad("the query of the address cannot be read", "there is one: publisher=NAME"));
    };
    let (name, publisher) = choose(&shared, &parameters)?;
    let limit = publisher.limits().payload;
    let body = read(&headers, body, limit).await?;
    let message = request::read(&headers, body)?;
    if message.payload.len() > limit {
        return Err(too_large(limit));
    }
    let message = publisher.check(message)?;
    let id = message.id.clone();
    let published = publisher.publish(message).await;
    let state = match &published {
        Ok(Published::Confirmed) => "confirmed",
        Ok(Published::Kept(_)) => "kept",
        Err(error) if error.kind() == ErrorKind::Invalid => "refused",
        Err(_) => "failed",
    };
    metrics::counter!(PUBLISHED, "publisher" => name.to_owned(), "state" => state).increment(1);
    match published {
        Ok(published) => Ok(answer::published(&id, &published)),
        Err(error) => {
            if state == "failed" {
                tracing::warn!(
                    publisher = name,
                    error = error.chain(),
                    "a message was neither sent nor kept"
                );
            }
            Err(error.into())
        }
    }
}

/// The publisher that is meant.
fn choose<'s>(
    shared: &'s Shared,
    parameters: &BTreeMap<String, String>,
) -> Result<(&'s str, &'s Publisher), Refusal> {
    let known = || shared.publishers.keys().map(String::as_str);
    if let Some(other) = parameters.keys().find(|name| *name != "publisher") {
        let shown: String = other.chars().take(80).collect();
        return Err(Refusal::bad(format!("there is no parameter '{shown}'"), "there is one: publisher=NAME"));
    }
    let mut only = shared.publishers.iter();
    let (name, slot) = match (parameters.get("publisher"), only.next(), only.next()) {
        (_, None, _) => {
            let help = "add one to the configuration: [publishers.NAME]";
            return Err(Refusal::new(StatusCode::NOT_FOUND, "there is no publisher", help));
        }
        (None, Some(found), None) => found,
        (None, Some(_), Some(_)) => {
            let names: Vec<_> = known().collect();
            let help = format!("add ?publisher=NAME; there are {}", names.join(", "));
            return Err(Refusal::bad("there are several publishers, and none is named", help));
        }
        (Some(name), ..) => shared.publishers.get_key_value(name).ok_or_else(|| {
            let shown: String = name.chars().take(80).collect();
            let error = format!("there is no publisher '{shown}'");
            Refusal::new(StatusCode::NOT_FOUND, error, did_you_mean(name, known()))
        })?,
    };
    match slot.get() {
        Some(Ok(publisher)) => Ok((name, publisher)),
        Some(Err(why)) => {
            Err(Refusal::later(format!("publisher '{name}' cannot work: {why}"), "see the log"))
        }
        None => {
            let error = format!("publisher '{name}' is not ready: its store cannot be reached yet");
            Err(Refusal::later(error, "send it again in a while"))
        }
    }
}

/// The body, within its limits.
async fn read(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, Refusal> {
    let most = body_of(limit);
    let told = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if told.is_some_and(|told: usize| told > most) {
        return Err(too_large(limit));
    }
    match tokio::time::timeout(BODY_LIMIT, to_bytes(body, most)).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(error)) if is_over(&error) => Err(too_large(limit)),
        Ok(Err(_)) => Err(Refusal::bad("the body ended too early", "send as much as Content-Length says")),
        Err(_) => {
            let error = format!("the body took longer than {BODY_LIMIT:?}");
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, error, "send it again"))
        }
    }
}

/// So many bytes has a body with a payload of so many: written as base64 it takes a third more. Pure.
pub(super) const fn body_of(payload: usize) -> usize {
    payload.saturating_add(payload.div_ceil(3)).saturating_add(ENVELOPE)
}

/// Whether it is the limit that ended the reading, and not the client.
pub(super) fn is_over(error: &axum::Error) -> bool {
    let source = std::error::Error::source(error);
    source.is_some_and(|source| source.to_string().contains("length limit"))
}

fn too_large(limit: usize) -> Refusal {
    let error = format!("the payload is larger than {limit} bytes");
    let help =
        "send less, or a reference to it; the limit is 'max_payload' of the source that keeps messages";
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error, help)
}
