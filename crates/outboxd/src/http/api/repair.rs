//! What can be done, by operators. With `dry_run` nothing changes.

use std::sync::Arc;

use axum::extract::State;
use outbox::admin::Repair;

use super::asked::{At, Body};
use super::{Answered, Refused, to_the_end};
use crate::http::Shared;
use crate::http::person::{Operator, Person};
use crate::ops;
use crate::ops::purge::PurgeRequest;
use crate::ops::repair::{Changed, RepairRequest};
use crate::ops::replay::{ReplayRequest, Replayed};
use crate::ops::send::{SendRequest, Sent};

/// Tries messages that are set aside again, at once and with all attempts.
#[utoipa::path(post, path = "/messages/retry", tag = "repair", request_body = RepairRequest, responses(
    (status = 200, description = "How many", body = Changed),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn retry(
    State(shared): State<Arc<Shared>>,
    operator: Operator,
    Body(request): Body<RepairRequest>,
) -> Answered<Changed> {
    repair(shared, operator, Repair::Retry, request).await
}

/// Lets messages that are set aside go; their keys go on.
#[utoipa::path(post, path = "/messages/skip", tag = "repair", request_body = RepairRequest, responses(
    (status = 200, description = "How many", body = Changed),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn skip(
    State(shared): State<Arc<Shared>>,
    operator: Operator,
    Body(request): Body<RepairRequest>,
) -> Answered<Changed> {
    repair(shared, operator, Repair::Skip, request).await
}

async fn repair(
    shared: Arc<Shared>,
    Operator(person): Operator,
    deed: Repair,
    request: RepairRequest,
) -> Answered<Changed> {
    request.is_meant()?;
    let office = shared.office.clone();
    let deed = async move {
        let done = ops::repair::repair(&office, deed, &request, &person.name).await?;
        log(&person, done.remark.as_deref());
        Ok(done)
    };
    to_the_end(&shared.office, deed).await
}

/// An answer has no place for a remark, and somebody should read it.
fn log(person: &Person, remark: Option<&str>) {
    if let Some(remark) = remark {
        tracing::warn!(by = person.name, "{remark}");
    }
}

/// Writes a message into an outbox.
#[utoipa::path(post, path = "/outboxes/{source}/messages", tag = "repair", request_body = SendRequest, params(
    ("source" = String, Path, description = "The name of the source"),
), responses(
    (status = 200, description = "It is written", body = Sent),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn send(
    State(shared): State<Arc<Shared>>,
    Operator(person): Operator,
    At(source): At<String>,
    Body(request): Body<SendRequest>,
) -> Answered<Sent> {
    let message = request.into_message()?;
    let office = shared.office.clone();
    to_the_end(
        &shared.office,
        async move { ops::send::send_by(&office, &source, message, &person.name).await },
    )
    .await
}

/// Moves a pipe back, so that messages come again.
#[utoipa::path(post, path = "/pipes/{pipe}/replay", tag = "repair", request_body = ReplayRequest, params(
    ("pipe" = String, Path, description = "The name of the pipe"),
), responses(
    (status = 200, description = "How many come again", body = Replayed),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn replay(
    State(shared): State<Arc<Shared>>,
    Operator(person): Operator,
    At(pipe): At<String>,
    Body(request): Body<ReplayRequest>,
) -> Answered<Replayed> {
    let office = shared.office.clone();
    let deed = async move {
        let done = ops::replay::replay(&office, &pipe, &request, &person.name).await?;
        log(&person, done.remark.as_deref());
        Ok(done)
    };
    to_the_end(&shared.office, deed).await
}

/// Removes what every pipe has done.
#[utoipa::path(post, path = "/outboxes/{source}/purge", tag = "repair", request_body = PurgeRequest, params(
    ("source" = String, Path, description = "The name of the source"),
), responses(
    (status = 200, description = "How many", body = Changed),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn purge(
    State(shared): State<Arc<Shared>>,
    Operator(person): Operator,
    At(source): At<String>,
    Body(request): Body<PurgeRequest>,
) -> Answered<Changed> {
    let office = shared.office.clone();
    let deed = async move {
        let done = ops::purge::purge(&office, Some(&source), &request, &person.name, &|_| ()).await?;
        log(&person, done.remark.as_deref());
        Ok(done)
    };
    to_the_end(&shared.office, deed).await
}
