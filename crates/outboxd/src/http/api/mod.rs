//! What the command line can do, as JSON.

mod pipes;

use std::sync::Arc;

use axum::Router;
use utoipa_axum::router::OpenApiRouter;

use super::Shared;

/// Below `/v1`. Who asks is known: the guard has put a [`Person`](super::person::Person) into the request.
pub(super) fn routes() -> Router<Arc<Shared>> {
    OpenApiRouter::new().merge(pipes::routes()).into()
}
