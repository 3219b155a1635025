//! Styles and scripts, built into the program. Their address bears a hash of what they are, so that a browser may keep them
//! for ever and still gets those of a newer program.

use std::fmt::Write as _;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use rust_embed::RustEmbed;

use super::given::At;
use crate::http::answer::Refusal;

#[derive(RustEmbed)]
#[folder = "assets/web/"]
struct Assets;

const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// The address of an asset, for templates.
pub fn address(name: &str) -> String {
    let mut address = format!("/assets/{name}?v=");
    if let Some(file) = Assets::get(name) {
        for byte in &file.metadata.sha256_hash()[..6] {
            let _ = write!(address, "{byte:02x}");
        }
    }
    address
}

/// `GET /assets/{name}`, whoever asks: there is nothing of anybody in them, and the page to sign in needs them.
pub(super) async fn asset(At(name): At<String>) -> Response {
    let Some(file) = Assets::get(&name) else {
        let help = "reload the page: a newer program may run here";
        return Refusal::new(StatusCode::NOT_FOUND, "there is no such file", help).into_response();
    };
    let headers = [(header::CONTENT_TYPE, content_type(&name)), (header::CACHE_CONTROL, FOR_EVER)];
    (headers, file.data.into_owned()).into_response()
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_asset_of_a_template_is_there_with_its_type() {
        for (name, kind) in [
            ("app.css", "text/css; charset=utf-8"),
            ("app.js", "text/javascript; charset=utf-8"),
            ("icon.svg", "image/svg+xml"),
            ("vendor/htmx.min.js", "text/javascript; charset=utf-8"),
            ("vendor/uplot.min.js", "text/javascript; charset=utf-8"),
            ("vendor/uplot.min.css", "text/css; charset=utf-8"),
            ("vendor/LICENSE-uplot", "text/plain; charset=utf-8"),
        ] {
            let address = address(name);
            let (path, hash) = address.split_once("?v=").expect("it has a version");
            assert_eq!((path, hash.len()), (format!("/assets/{name}").as_str(), 12), "{name} is there");
            assert_eq!(content_type(name), kind);
        }
    }
}
