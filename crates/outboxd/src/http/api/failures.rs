//! All that waits for a person, as JSON.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::Params;
use super::{Answered, Refused};
use crate::http::Shared;
use crate::http::person::Person;
use crate::ops::failures::{self, Failures};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(failures))
}

/// A query without anything.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

/// Dead messages of outboxes, dead letters and open errors, grouped by place, cause and type
#[utoipa::path(get, path = "/failures", tag = "failures", responses(
    (status = 200, description = "What is there, or was done", body = Failures),
    (status = "default", description = "Why not", body = Refused),
))]
async fn failures(
    _: Person,
    State(shared): State<Arc<Shared>>,
    Params(Nothing {}): Params<Nothing>,
) -> Answered<Failures> {
    Ok(Json(failures::failures(&shared.office).await))
}
