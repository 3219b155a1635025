//! All that waits for a person, as JSON.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::Shared;
use crate::http::person::Person;
use crate::ops::failures::{self, Failures};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(failures))
}

/// Dead messages of outboxes, dead letters and open errors, grouped by place, cause and type
#[utoipa::path(get, path = "/failures", tag = "failures", responses((status = 200, body = Failures)))]
async fn failures(_: Person, State(shared): State<Arc<Shared>>) -> Json<Failures> {
    Json(failures::failures(&shared.options.office).await)
}
