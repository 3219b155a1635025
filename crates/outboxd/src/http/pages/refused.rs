//! What is wrong, as a page with what to do.

use askama::Template;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;

use super::frame::{page_with, theme};
use crate::http::answer::Told;

#[derive(Template)]
#[template(path = "refused.html")]
struct Refused<'a> {
    theme: Option<&'static str>,
    code: u16,
    word: &'a str,
    told: &'a Told,
}

/// Turns every refusal of a page into a page. Its headers stay.
pub(super) async fn as_page(request: Request, next: Next) -> Response {
    let theme = theme(request.headers());
    let response = next.run(request).await;
    let Some(told) = response.extensions().get::<Told>() else { return response };
    let status = response.status();
    let word = status.canonical_reason().unwrap_or("Error");
    let mut shown = page_with(status, false, &Refused { theme, code: status.as_u16(), word, told });
    for (name, value) in response.headers() {
        if name != axum::http::header::CONTENT_TYPE && name != axum::http::header::CONTENT_LENGTH {
            shown.headers_mut().insert(name.clone(), value.clone());
        }
    }
    shown
}
