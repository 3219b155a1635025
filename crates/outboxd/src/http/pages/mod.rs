//! The same as pages, for people with a browser.

use std::sync::Arc;

use axum::Router;

use super::Shared;

/// Below `/`. Who asks is known: the guard has put a [`Person`](super::person::Person) into the request.
pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
}
