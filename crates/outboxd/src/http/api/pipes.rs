//! The pipes: how they are, and whether they stand still.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;

use super::asked::{At, Body};
use super::{Answered, Refused, to_the_end};
use crate::http::Shared;
use crate::http::person::{Operator, Person};
use crate::ops;
use crate::ops::pause::{PauseAnswer, PauseRequest};
use crate::ops::pipes::PipesAnswer;

/// The pipes of the configuration, and how every instance is with them.
#[utoipa::path(get, path = "/pipes", tag = "look", responses(
    (status = 200, description = "Every pipe of the configuration", body = PipesAnswer),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn pipes(State(shared): State<Arc<Shared>>, _: Person) -> Answered<PipesAnswer> {
    Ok(Json(ops::pipes::pipes(&shared.office, &shared.options.health).await))
}

/// Lets a pipe stand still, in all instances, until it is resumed.
#[utoipa::path(post, path = "/pipes/{pipe}/pause", tag = "repair", request_body = PauseRequest, params(
    ("pipe" = String, Path, description = "The name of the pipe"),
), responses(
    (status = 200, description = "It is paused; `changed` tells whether that is new", body = PauseAnswer),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn pause(
    State(shared): State<Arc<Shared>>,
    Operator(person): Operator,
    At(pipe): At<String>,
    Body(request): Body<PauseRequest>,
) -> Answered<PauseAnswer> {
    let office = shared.office.clone();
    to_the_end(&shared.office, async move {
        ops::pause::pause_one(&office, &pipe, request.note.as_deref(), &person.name).await
    })
    .await
}

/// Lets a paused pipe go on, in all instances.
#[utoipa::path(post, path = "/pipes/{pipe}/resume", tag = "repair", params(
    ("pipe" = String, Path, description = "The name of the pipe"),
), responses(
    (status = 200, description = "It is not paused; `changed` tells whether that is new", body = PauseAnswer),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn resume(
    State(shared): State<Arc<Shared>>,
    Operator(person): Operator,
    At(pipe): At<String>,
) -> Answered<PauseAnswer> {
    let office = shared.office.clone();
    to_the_end(&shared.office, async move { ops::pause::resume_one(&office, &pipe, &person.name).await })
        .await
}
