//! The same as pages, for people with a browser: written on the server, usable without JavaScript, asking no other host.
//!
//! Every action is a form that posts and leads on to a page that tells what was done.

mod assets;
mod frame;
mod history;
mod live;
mod overview;
mod text;
mod truth;

use std::sync::Arc;

use axum::Router;
use axum::extract::Form;
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;

pub(super) use assets::address;
pub(super) use frame::theme as chosen_theme;
pub(super) use live::{Board, keep};

use super::Shared;

/// Below `/`. Who asks is known: the guard has put a [`Person`](super::person::Person) into the request.
pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/", get(overview::overview))
        .route("/charts.json", get(live::charts))
        .route("/events", get(live::events))
        .route("/theme", post(theme))
        .route("/assets/{*name}", get(assets::asset))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Colours {
    theme: String,
    back: String,
}

/// Chooses the colours.
async fn theme(Form(colours): Form<Colours>) -> Response {
    frame::themed(frame::back(&colours.back), &colours.theme)
}
