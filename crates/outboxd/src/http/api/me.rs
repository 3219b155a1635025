//! `GET /v1/me`: who asks.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use super::asked::{Nothing, Params};
use super::{Answered, Refused};
use crate::http::person::Person;

/// Who asks.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Me {
    /// As they are called in the audit.
    name: String,
    /// What they may: `viewer` or `operator`.
    role: &'static str,
}

/// Who asks, by their name in the audit, and what they may.
#[utoipa::path(get, path = "/me", tag = "look", responses(
    (status = 200, description = "Who asks", body = Me),
    (status = "default", description = "Why not", body = Refused),
))]
pub(super) async fn me(person: Person, _: Params<Nothing>) -> Answered<Me> {
    Ok(Json(Me { name: person.name, role: person.role.as_str() }))
}
