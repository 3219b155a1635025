//! `/config`: what really holds, with secrets masked.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::frame::{Frame, page};
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::person::Operator;
use crate::show::{effective, to_toml};

#[derive(Template)]
#[template(path = "config.html")]
struct Settings {
    frame: Frame,
    text: String,
}

/// The effective configuration.
pub(super) async fn settings(
    State(shared): State<Arc<Shared>>,
    _: Operator,
    frame: Frame,
) -> Result<Response, Refusal> {
    let text = to_toml(&effective(&shared.options.office.plan)).map_err(|error| {
        let what = format!("the configuration cannot be written as TOML: {error}");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, what, "see `outboxd config show --format json`")
    })?;
    Ok(page(&frame.clone(), &Settings { frame, text }))
}
