//! The same as pages, for people with a browser: written on the server, usable without JavaScript, asking no other host.
//!
//! Every action is a form that posts and leads on to a page that tells what was done.

mod assets;
mod audit;
mod carry_out;
mod deed;
mod doctor;
mod edit;
mod failures;
mod frame;
mod given;
mod history;
mod known;
mod lately;
mod live;
mod message;
mod messages;
mod overview;
mod payload;
mod pipes;
mod queues;
mod rates;
mod said;
mod settings;
mod stands;
mod steps;
mod text;
mod truth;

use std::sync::Arc;

use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};
use serde::Deserialize;

pub(super) use assets::address;
pub(super) use frame::{back, theme as chosen_theme};
pub(super) use live::{Board, keep};

use self::given::Filled;
use super::Shared;

/// Below `/`. Who asks is known: the guard has put a [`Person`](super::person::Person) into the request.
pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/", get(overview::overview))
        .route("/pipes", get(pipes::pipes))
        .route("/pipes/{pipe}/pause", post(pipes::pause))
        .route("/pipes/{pipe}/resume", post(pipes::resume))
        .route("/queues", get(queues::page_of_queues))
        .route("/messages", get(messages::messages))
        .route("/messages/{source}/{id}", get(message::message))
        .route("/failures", get(failures::show))
        .route("/failures/letters", get(failures::letters))
        .route("/failures/letters/{source}/{id}", get(failures::letter))
        .route("/failures/errors", get(failures::error_list))
        .route("/failures/errors/{sink}/{id}", get(failures::error))
        .route("/failures/errors/{sink}/{id}/edit", post(edit::edit))
        .route("/failures/preview", get(carry_out::preview))
        .route("/failures/act", post(carry_out::act))
        .route("/doctor", get(doctor::show).post(doctor::look))
        .route("/audit", get(audit::book))
        .route("/config", get(settings::settings))
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
async fn theme(Filled(colours): Filled<Colours>) -> Response {
    frame::themed(frame::back(&colours.back), &colours.theme)
}
