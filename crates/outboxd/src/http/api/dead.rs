//! Dead letters: `dlq` as JSON.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::{At, Body, Params};
use super::{Answered, Refused, to_the_end};
use crate::http::Shared;
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
#[utoipa::path(get, path = "/dlq", tag = "dead letters", params(Picked), responses(
    (status = 200, description = "What is there, or was done", body = Letters),
    (status = "default", description = "Why not", body = Refused),
))]
async fn list(
    _: Person,
    State(shared): State<Arc<Shared>>,
    Params(picked): Params<Picked>,
) -> Answered<Letters> {
    Ok(Json(dead::list(&shared.office, Wanted::new(&[], picked)).await?))
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
    responses(
    (status = 200, description = "What is there, or was done", body = Shown),
    (status = "default", description = "Why not", body = Refused),
)
)]
async fn show(
    person: Person,
    State(shared): State<Arc<Shared>>,
    At((source, id)): At<(String, String)>,
    Params(whole): Params<Whole>,
) -> Answered<Shown> {
    let with_payload = whole.payload && super::may_ask_for_payload(&shared, &person)?;
    Ok(Json(dead::show(&shared.office, Some(&source), &id, with_payload).await?))
}

/// Sends dead letters back to where they died, to be handled again with all attempts
#[utoipa::path(post, path = "/dlq/retry", tag = "dead letters", request_body = ActRequest, responses(
    (status = 200, description = "What is there, or was done", body = Acted),
    (status = "default", description = "Why not", body = Refused),
))]
async fn retry(
    operator: Operator,
    state: State<Arc<Shared>>,
    Body(request): Body<ActRequest>,
) -> Answered<Acted> {
    act(operator, state, Act::Return, request).await
}

/// Removes dead letters for good
#[utoipa::path(post, path = "/dlq/discard", tag = "dead letters", request_body = ActRequest, responses(
    (status = 200, description = "What is there, or was done", body = Acted),
    (status = "default", description = "Why not", body = Refused),
))]
async fn discard(
    operator: Operator,
    state: State<Arc<Shared>>,
    Body(request): Body<ActRequest>,
) -> Answered<Acted> {
    act(operator, state, Act::Discard, request).await
}

async fn act(
    Operator(person): Operator,
    State(shared): State<Arc<Shared>>,
    act: Act,
    request: ActRequest,
) -> Answered<Acted> {
    request.is_meant()?;
    let office = shared.office.clone();
    to_the_end(&shared.office, async move { dead::act(&office, act, request, &person.name, &|_| ()).await })
        .await
}
