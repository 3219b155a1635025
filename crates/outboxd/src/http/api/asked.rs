//! What is asked: the path, the query and the body of a request. What cannot be read is refused like everything else, in
//! JSON and with what to do.

use std::sync::Arc;

use axum::body::to_bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::messages::{BODY_LIMIT, body_of, is_over};
use crate::plan::{Plan, SourcePlan};

/// A payload has at least this much room, also where no source says what its payloads may have.
const LEAST: usize = 1024 * 1024;

const SEE: &str = "see GET /v1/openapi.json for what can be asked here";

/// What stands in the path.
pub struct At<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for At<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(path)) => Ok(Self(path)),
            Err(rejection) => Err(Refusal::bad(told("the path", &rejection.body_text()), SEE)),
        }
    }
}

/// What stands in the query.
pub struct Params<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let wrong = |rejection: QueryRejection| {
            Refusal::bad(told("the query of the address", &rejection.body_text()), SEE)
        };
        Query::try_from_uri(&parts.uri).map(|Query(query)| Self(query)).map_err(wrong)
    }
}

/// For what takes no query: whoever sends one means something that is not there.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// What stands in the body: a JSON object, and then there is no query.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Arc<Shared>> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &Arc<Shared>) -> Result<Self, Refusal> {
        let most = most(&state.office.plan);
        let (mut parts, body) = request.into_parts();
        Params::<Nothing>::from_request_parts(&mut parts, state).await?;
        is_json(&parts.headers)?;
        let length = parts.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if length.is_some_and(|length| length > most) {
            return Err(too_large(most));
        }
        let bytes = match tokio::time::timeout(BODY_LIMIT, to_bytes(body, most)).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) if is_over(&error) => return Err(too_large(most)),
            Ok(Err(_)) => {
                let help = "send as much as Content-Length says";
                return Err(Refusal::bad("the body ended too early", help));
            }
            Err(_) => {
                let error = format!("the body took longer than {BODY_LIMIT:?}");
                return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, error, "send it again"));
            }
        };
        // A list would be read as the members in their order.
        match bytes.trim_ascii_start().first() {
            Some(b'{') => {}
            Some(_) => return Err(Refusal::bad("the body is no JSON object", SEE)),
            None => return Err(Refusal::bad("the body is empty", "send a JSON object, as in {}")),
        }
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| Refusal::bad(told("the body", &error.to_string()), SEE))
    }
}

fn is_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let media = headers.get(header::CONTENT_TYPE).and_then(|media| media.to_str().ok()).unwrap_or_default();
    let media = media.split(';').next().unwrap_or_default().trim();
    if media.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let error = match media {
        "" => "there is no Content-Type".to_owned(),
        other => format!("'{}' cannot be read here", other.chars().take(80).collect::<String>()),
    };
    let help = "send JSON, with Content-Type: application/json";
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error, help))
}

/// A body has at most so many bytes: whatever a source takes as a payload can be sent, and edited where it failed. Pure.
fn most(plan: &Plan) -> usize {
    body_of(plan.sources.values().filter_map(SourcePlan::max_payload).fold(LEAST, usize::max))
}

fn too_large(most: usize) -> Refusal {
    let error = format!("the body is larger than {most} bytes");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, error, "send less at a time")
}

/// One line, without the framework's own words before it, and not as long as what somebody sent.
fn told(what: &str, why: &str) -> String {
    let why = why.strip_prefix("Failed to deserialize query string: ").unwrap_or(why);
    let why: String = why.chars().filter(|c| !c.is_control()).take(300).collect();
    format!("{what} cannot be read: {why}")
}
