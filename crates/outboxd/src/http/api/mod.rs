//! What the command line can do, as JSON.

mod asked;
mod dead;
mod doctor;
mod errors;
mod failures;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;

use super::Shared;
use super::answer::Refusal;
use super::person::{Person, Role};

/// Below `/v1`. Who asks is known: the guard has put a [`Person`](super::person::Person) into the request.
pub(super) fn routes() -> Router<Arc<Shared>> {
    let routes = OpenApiRouter::new()
        .merge(dead::routes())
        .merge(errors::routes())
        .merge(failures::routes())
        .merge(doctor::routes());
    routes.into()
}

/// Whether somebody may see payloads; refuses who may not.
fn may_see_payloads(person: &Person) -> Result<bool, Refusal> {
    if person.role >= Role::Operator {
        return Ok(true);
    }
    let what = format!("{} may not see payloads", person.name);
    Err(Refusal::new(
        StatusCode::FORBIDDEN,
        what,
        "ask without payload, or ask somebody with the role operator",
    ))
}
