//! `GET /v1/me`: who asks.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::person::Person;

/// Who asks.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::http) struct Me {
    /// As they are called in the audit.
    name: String,
    /// What they may: `viewer` or `operator`.
    role: &'static str,
}

/// Tells who asks.
pub(in crate::http) async fn me(person: Person) -> Json<Me> {
    Json(Me { name: person.name, role: person.role.as_str() })
}
