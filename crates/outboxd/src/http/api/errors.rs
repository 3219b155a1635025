//! Error tables: `errors` as JSON.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::asked::{At, Body, Params};
use super::dead::Whole;
use super::{Answered, Refused, to_the_end};
use crate::http::Shared;
use crate::http::person::{Operator, Person};
use crate::ops::errors::{
    self, Chosen, EditRequest, Edited, Errors, ResolveRequest, RetryRequest, Settled, Shown,
};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(retry))
        .routes(routes!(resolve))
        .routes(routes!(edit))
}

/// What is in the error tables, by its first failure; what is open unless another state is asked for
#[utoipa::path(get, path = "/errors", tag = "error tables", params(Chosen), responses(
    (status = 200, description = "What is there, or was done", body = Errors),
    (status = "default", description = "Why not", body = Refused),
))]
async fn list(
    _: Person,
    State(shared): State<Arc<Shared>>,
    Params(chosen): Params<Chosen>,
) -> Answered<Errors> {
    Ok(Json(errors::list(&shared.office, Vec::new(), chosen).await?))
}

/// One error, by its own id or by that of its message, with all that is known of it
#[utoipa::path(
    get, path = "/errors/{table}/{id}", tag = "error tables",
    params(("table" = String, Path, description = "The sink of the table"), ("id" = String, Path, description = "The error, or the message"), Whole),
    responses(
    (status = 200, description = "What is there, or was done", body = Shown),
    (status = "default", description = "Why not", body = Refused),
)
)]
async fn show(
    person: Person,
    State(shared): State<Arc<Shared>>,
    At((table, id)): At<(String, String)>,
    Params(whole): Params<Whole>,
) -> Answered<Shown> {
    let with_payload = whole.payload && super::may_ask_for_payload(&shared, &person)?;
    Ok(Json(errors::show(&shared.office, Some(&table), &id, with_payload).await?))
}

/// Sends errors back to where they failed, to be handled again
#[utoipa::path(post, path = "/errors/retry", tag = "error tables", request_body = RetryRequest, responses(
    (status = 200, description = "What is there, or was done", body = Settled),
    (status = "default", description = "Why not", body = Refused),
))]
async fn retry(
    Operator(person): Operator,
    State(shared): State<Arc<Shared>>,
    Body(request): Body<RetryRequest>,
) -> Answered<Settled> {
    request.is_meant()?;
    let office = shared.office.clone();
    to_the_end(&shared.office, async move { errors::retry(&office, request, &person.name, &|_| ()).await })
        .await
}

/// Closes errors: nothing is left to do
#[utoipa::path(post, path = "/errors/resolve", tag = "error tables", request_body = ResolveRequest, responses(
    (status = 200, description = "What is there, or was done", body = Settled),
    (status = "default", description = "Why not", body = Refused),
))]
async fn resolve(
    Operator(person): Operator,
    State(shared): State<Arc<Shared>>,
    Body(request): Body<ResolveRequest>,
) -> Answered<Settled> {
    request.is_meant()?;
    let office = shared.office.clone();
    to_the_end(&shared.office, async move { errors::resolve(&office, request, &person.name, &|_| ()).await })
        .await
}

/// Changes the payload of one error; the first one is kept
#[utoipa::path(post, path = "/errors/edit", tag = "error tables", request_body = EditRequest, responses(
    (status = 200, description = "What is there, or was done", body = Edited),
    (status = "default", description = "Why not", body = Refused),
))]
async fn edit(
    Operator(person): Operator,
    State(shared): State<Arc<Shared>>,
    Body(request): Body<EditRequest>,
) -> Answered<Edited> {
    let office = shared.office.clone();
    to_the_end(&shared.office, async move { errors::edit(&office, request, &person.name).await }).await
}
