//! What can be seen.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value;

use super::asked::{At, Nothing, Params};
use super::{Answered, Refused};
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::person::{Operator, Person, may_see_payloads};
use crate::ops::audit::{AuditRequest, Entries, audit as read_audit};
use crate::ops::messages::{ListRequest, Listing, list};
use crate::ops::queues::Queues;
use crate::ops::show::{ShowRequest, Shown, show};
use crate::ops::status::{Status, StatusRequest, status as read_status};

/// How every pipe stands, and who runs it.
#[utoipa::path(get, path = "/status", tag = "look", params(StatusRequest), responses(
    (status = 200, description = "How every pipe stands", body = Status),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn status(
    State(shared): State<Arc<Shared>>,
    _: Person,
    Params(request): Params<StatusRequest>,
) -> Answered<Status> {
    Ok(Json(read_status(&shared.office, &request).await?))
}

/// The queues and topics of the sources on brokers: how much lies where, and who reads it.
#[utoipa::path(get, path = "/queues", tag = "look", responses(
    (status = 200, description = "Every source on a broker", body = Queues),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn queues(
    State(shared): State<Arc<Shared>>,
    _: Person,
    _: Params<Nothing>,
) -> Answered<Queues> {
    Ok(Json((*shared.board.queues(&shared.office).await).clone()))
}

/// Messages that match, oldest first.
#[utoipa::path(get, path = "/messages", tag = "look", params(ListRequest), responses(
    (status = 200, description = "A page of messages", body = Listing),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn messages(
    State(shared): State<Arc<Shared>>,
    _: Person,
    Params(request): Params<ListRequest>,
) -> Answered<Listing> {
    Ok(Json(list(&shared.office, &request).await?))
}

/// A message and its whole life.
#[utoipa::path(get, path = "/messages/{id}", tag = "look", params(
    ("id" = String, Path, description = "The id of the message"),
    ShowRequest,
), responses(
    (status = 200, description = "All that is known of it", body = Shown),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn message(
    State(shared): State<Arc<Shared>>,
    person: Person,
    At(id): At<String>,
    Params(request): Params<ShowRequest>,
) -> Answered<Shown> {
    if request.payload && !may_see_payloads(&person, shared.options.access.payloads) {
        let error = format!("{} may not see payloads", person.name);
        let help = "ask without payload, or somebody who may";
        return Err(Refusal::new(StatusCode::FORBIDDEN, error, help));
    }
    Ok(Json(show(&shared.office, &id, &request).await?))
}

/// Who did what, the newest first.
#[utoipa::path(get, path = "/audit", tag = "look", params(AuditRequest), responses(
    (status = 200, description = "A page of the book", body = Entries),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn audit(
    State(shared): State<Arc<Shared>>,
    _: Person,
    Params(request): Params<AuditRequest>,
) -> Answered<Entries> {
    Ok(Json(read_audit(&shared.office, &request).await?))
}

/// The effective configuration, secrets masked.
#[utoipa::path(get, path = "/config", tag = "look", responses(
    (status = 200, description = "The configuration, as the file would have it", body = serde_json::Value),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn config(
    State(shared): State<Arc<Shared>>,
    _: Operator,
    _: Params<Nothing>,
) -> Answered<Value> {
    Ok(Json(shared.office.config()))
}
