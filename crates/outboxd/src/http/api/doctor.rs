//! `doctor` as JSON. Nothing is probed: to ask changes nothing.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::Params;
use super::{Answered, Refused};
use crate::http::Shared;
use crate::http::person::Operator;
use crate::ops::doctor::{self, DoctorRequest, Report};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(examine))
}

/// What to look at.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
struct Which {
    /// Only this source.
    source: Option<String>,
    /// Only this sink.
    sink: Option<String>,
}

/// Looks at every source and sink, and at this program: what was found, with the fix to copy
#[utoipa::path(get, path = "/doctor", tag = "doctor", params(Which), responses(
    (status = 200, description = "What is there, or was done", body = Report),
    (status = "default", description = "Why not", body = Refused),
))]
async fn examine(
    _: Operator,
    State(shared): State<Arc<Shared>>,
    Params(Which { source, sink }): Params<Which>,
) -> Answered<Report> {
    let request = DoctorRequest { source, sink, ..DoctorRequest::default() };
    Ok(Json(doctor::doctor(&shared.office, &request).await?))
}
