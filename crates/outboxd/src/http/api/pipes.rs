//! The pipes: how they are, and whether they stand still.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::person::{Operator, Person};
use crate::ops::{self, PauseAnswer, PauseRequest, PipesAnswer};

/// Below `/v1`.
pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(pause)).routes(routes!(resume))
}

/// The pipes of the configuration, and how every instance is with them.
#[utoipa::path(get, path = "/pipes", tag = "pipes", responses(
    (status = 200, description = "Every pipe of the configuration", body = PipesAnswer),
))]
async fn list(_: Person, State(shared): State<Arc<Shared>>) -> Json<PipesAnswer> {
    Json(ops::pipes(&shared.options.office, &shared.options.health).await)
}

/// Lets a pipe stand still, in all instances, until it is resumed.
#[utoipa::path(post, path = "/pipes/{pipe}/pause", tag = "pipes",
    params(("pipe" = String, Path, description = "The name of the pipe")),
    request_body = Option<PauseRequest>,
    responses(
        (status = 200, description = "It is paused; `changed` tells whether that is new", body = PauseAnswer),
        (status = 404, description = "There is no such pipe"),
    ))]
async fn pause(
    Operator(person): Operator,
    State(shared): State<Arc<Shared>>,
    Path(pipe): Path<String>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<PauseAnswer>, Refusal> {
    let PauseRequest { note } = read(body)?;
    let answers = ops::pause(&shared.options.office, &[pipe], note.as_deref(), &person.name).await?;
    only(answers)
}

/// Lets a paused pipe go on, in all instances.
#[utoipa::path(post, path = "/pipes/{pipe}/resume", tag = "pipes",
    params(("pipe" = String, Path, description = "The name of the pipe")),
    responses(
        (status = 200, description = "It is not paused; `changed` tells whether that is new", body = PauseAnswer),
        (status = 404, description = "There is no such pipe"),
    ))]
async fn resume(
    Operator(person): Operator,
    State(shared): State<Arc<Shared>>,
    Path(pipe): Path<String>,
) -> Result<Json<PauseAnswer>, Refusal> {
    only(ops::resume(&shared.options.office, &[pipe], &person.name).await?)
}

/// Nothing at all means: without a note.
fn read(body: Result<Bytes, BytesRejection>) -> Result<PauseRequest, Refusal> {
    let body = body.map_err(|rejection| {
        Refusal::new(rejection.status(), "the body cannot be read", "send JSON, or nothing")
    })?;
    if body.is_empty() {
        return Ok(PauseRequest::default());
    }
    let help = "send {\"note\": \"why\"}, or nothing";
    serde_json::from_slice(&body)
        .map_err(|error| Refusal::bad(format!("the body is not as it should be: {error}"), help))
}

/// Of one pipe there is one answer.
fn only(answers: Vec<PauseAnswer>) -> Result<Json<PauseAnswer>, Refusal> {
    let none = || Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "nothing came of it", "look at the log");
    answers.into_iter().next().map(Json).ok_or_else(none)
}
