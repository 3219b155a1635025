//! What is asked, by query or body: whatever is wrong with it is told as everything else is.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::http::answer::Refusal;
use crate::trouble::Trouble;

/// The query of a request.
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Query(asked) =
            Query::from_request_parts(parts, state).await.map_err(|error: QueryRejection| {
                Refusal::bad(error.body_text(), "GET /v1/openapi.json tells which parameters there are")
            })?;
        Ok(Self(asked))
    }
}

/// The body of a request.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let Json(body) = Json::from_request(request, state).await.map_err(|error: JsonRejection| {
            Refusal::new(error.status(), error.body_text(), "GET /v1/openapi.json tells what there is to say")
        })?;
        Ok(Self(body))
    }
}

/// Carries out a deed to its end, also if whoever asked for it has gone: what was begun is written down as done or failed,
/// and not left open.
pub async fn carried_out<T: Serialize + Send + 'static>(
    deed: impl Future<Output = Result<T, Trouble>> + Send + 'static,
) -> Result<Json<T>, Refusal> {
    match tokio::spawn(deed).await {
        Ok(done) => Ok(Json(done?)),
        Err(error) => {
            tracing::error!(%error, "a deed ended by a bug");
            Err(Refusal::later(
                "it ended by a bug",
                "look at the audit and at the log of outboxd for what was done",
            ))
        }
    }
}
