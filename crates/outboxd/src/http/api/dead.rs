//! Dead letters: `dlq` as JSON.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::{Asked, Body, carried_out};
use super::may_see_payloads;
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::person::{Operator, Person};
use crate::ops::dead::{self, Act, ActRequest, Acted, Letters, Picked, Shown, Wanted};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(retry))
        .routes(routes!(discard))
}

/// Dead letters of queues and topics, and what outboxes have set aside as dead, oldest first
#[utoipa::path(get, path = "/dlq", tag = "dead letters", params(Picked), responses((status = 200, body = Letters)))]
async fn list(
    _: Person,
    State(shared): State<Arc<Shared>>,
    Asked(picked): Asked<Picked>,
) -> Result<Json<Letters>, Refusal> {
    Ok(Json(dead::list(&shared.options.office, Wanted::new(&[], picked)).await?))
}

/// What else to tell of a letter.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(super) struct Whole {
    /// With the payload, for those who may see it.
    pub(super) payload: bool,
}

/// One dead letter with all that is known of its death
#[utoipa::path(
    get, path = "/dlq/{source}/{id}", tag = "dead letters",
    params(("source" = String, Path, description = "The source"), ("id" = String, Path, description = "The message"), Whole),
    responses((status = 200, body = Shown), (status = 404, description = "There is none"))
)]
async fn show(
    person: Person,
    State(shared): State<Arc<Shared>>,
    Path((source, id)): Path<(String, String)>,
    Asked(whole): Asked<Whole>,
) -> Result<Json<Shown>, Refusal> {
    let with_payload = whole.payload && may_see_payloads(&person)?;
    Ok(Json(dead::show(&shared.options.office, Some(&source), &id, with_payload).await?))
}

/// Sends dead letters back to where they died, to be handled again with all attempts
#[utoipa::path(post, path = "/dlq/retry", tag = "dead letters", request_body = ActRequest, responses((status = 200, body = Acted)))]
async fn retry(
    operator: Operator,
    state: State<Arc<Shared>>,
    Body(request): Body<ActRequest>,
) -> Result<Json<Acted>, Refusal> {
    act(operator, state, Act::Return, request).await
}

/// Removes dead letters for good
#[utoipa::path(post, path = "/dlq/discard", tag = "dead letters", request_body = ActRequest, responses((status = 200, body = Acted)))]
async fn discard(
    operator: Operator,
    state: State<Arc<Shared>>,
    Body(request): Body<ActRequest>,
) -> Result<Json<Acted>, Refusal> {
    act(operator, state, Act::Discard, request).await
}

async fn act(
    Operator(person): Operator,
    State(shared): State<Arc<Shared>>,
    act: Act,
    request: ActRequest,
) -> Result<Json<Acted>, Refusal> {
    let office = shared.options.office.clone();
    carried_out(async move { dead::act(&office, act, request, &person.name, &|_| ()).await }).await
}
