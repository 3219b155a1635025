//! What is around every page: who looks, how it is, where one can go, and what was just done.

use std::sync::Arc;

use askama::Template;
use axum::extract::{FromRequestParts, OriginalUri};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::truth::{Truth, truth};
use crate::http::Shared;
use crate::http::answer::Refusal;
pub(in crate::http) use crate::http::guard::local as back;
use crate::http::person::{ANONYMOUS, Person, Role};

/// The cookie with what was just done, for the next page.
const SAID: &str = "outboxd-said";

/// The cookie with the colours that somebody likes.
const THEME: &str = "outboxd-theme";

/// A cookie should not outgrow what browsers keep.
const SAID_AT_MOST: usize = 1_000;

/// Where one can go: the key after `g`, the path, the word.
pub const PLACES: [(char, &str, &str); 8] = [
    ('o', "/", "Overview"),
    ('m', "/messages", "Messages"),
    ('f', "/failures", "Failures"),
    ('p', "/pipes", "Pipes"),
    ('q', "/queues", "Queues"),
    ('d', "/doctor", "Doctor"),
    ('a', "/audit", "Audit"),
    ('c', "/config", "Config"),
];

/// The pages that only operators see.
const ONLY_OPERATORS: [&str; 2] = ["/doctor", "/config"];

/// What is around a page.
#[derive(Debug, Clone)]
pub struct Frame {
    /// Who looks.
    pub person: Person,
    /// How it is.
    pub truth: Truth,
    /// What was just done.
    pub said: Option<String>,
    /// `light` or `dark`, if somebody chose.
    pub theme: Option<&'static str>,
    /// This page, with its query.
    pub address: String,
    /// Who we are.
    pub instance: String,
    path: String,
}

impl Frame {
    /// Whether whoever looks may also repair.
    pub fn may_repair(&self) -> bool {
        self.person.role >= Role::Operator
    }

    /// Whether nobody has signed in, nor has to.
    pub fn is_anonymous(&self) -> bool {
        self.person.name == ANONYMOUS
    }

    /// Where one can go, and whether one is there.
    pub fn places(&self) -> impl Iterator<Item = (char, &'static str, &'static str, bool)> {
        let shown =
            PLACES.into_iter().filter(|(_, path, _)| !ONLY_OPERATORS.contains(path) || self.may_repair());
        shown.map(|(key, path, word)| (key, path, word, self.is_in(path)))
    }

    fn is_in(&self, path: &str) -> bool {
        let rest = self.path.strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || (path != "/" && rest.starts_with('/')))
    }

    /// The program's version.
    pub fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    /// What the button for the colours chooses next.
    pub fn next_theme(&self) -> &'static str {
        match self.theme {
            None => "dark",
            Some("dark") => "light",
            Some(_) => "auto",
        }
    }
}

impl FromRequestParts<Arc<Shared>> for Frame {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, Refusal> {
        let person = Person::from_request_parts(parts, shared).await?;
        let uri = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |uri| &uri.0);
        let health = &shared.options.health;
        Ok(Self {
            person,
            truth: truth(&health.judged(), &shared.board.known()),
            // A part of a page that is loaded again would take it from the page that it is for.
            said: cookie(&parts.headers, SAID).filter(|_| !parts.headers.contains_key("hx-request")),
            theme: theme(&parts.headers),
            address: uri.path_and_query().map_or("/", |both| both.as_str()).to_owned(),
            instance: health.instance.clone(),
            path: uri.path().to_owned(),
        })
    }
}

fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let cookies = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|cookies| cookies.split(';')).filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| key.trim() == name)?;
    Some(percent_decode_str(value.trim()).decode_utf8_lossy().into_owned())
}

/// The colours that somebody chose.
pub fn theme(headers: &HeaderMap) -> Option<&'static str> {
    match cookie(headers, THEME)?.as_str() {
        "dark" => Some("dark"),
        "light" => Some("light"),
        _ => None,
    }
}

/// A page. What was just done is shown once.
pub fn page(frame: &Frame, template: &impl Template) -> Response {
    page_with(StatusCode::OK, frame.said.is_some(), template)
}

/// A page that need not have a frame.
pub fn page_with(status: StatusCode, forget_said: bool, template: &impl Template) -> Response {
    let mut response = match template.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "a page cannot be written");
            return (StatusCode::INTERNAL_SERVER_ERROR, "this page cannot be written").into_response();
        }
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if forget_said {
        set_cookie(&mut response, &format!("{SAID}=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict"));
    }
    response
}

/// On to a page that tells what was done.
pub fn done(to: &str, said: &str) -> Response {
    let mut end = said.len().min(SAID_AT_MOST);
    while !said.is_char_boundary(end) {
        end -= 1;
    }
    let said = utf8_percent_encode(&said[..end], NON_ALPHANUMERIC);
    let mut response = Redirect::to(to).into_response();
    set_cookie(&mut response, &format!("{SAID}={said}; Path=/; Max-Age=60; HttpOnly; SameSite=Strict"));
    response
}

/// On to a page in other colours.
pub fn themed(to: &str, theme: &str) -> Response {
    let mut response = Redirect::to(to).into_response();
    let kept = match theme {
        "dark" | "light" => format!("{THEME}={theme}; Path=/; Max-Age=31536000; SameSite=Strict"),
        _ => format!("{THEME}=; Path=/; Max-Age=0; SameSite=Strict"),
    };
    set_cookie(&mut response, &kept);
    response
}

fn set_cookie(response: &mut Response, cookie: &str) {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().append(header::SET_COOKIE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_goes_back_only_to_a_page_of_ours() {
        assert_eq!(back("/messages?filter=a"), "/messages?filter=a");
        for other in [
            "https://example.com",
            "//example.com",
            "/\\example.com",
            "",
            "messages",
            "/a\r\nb",
            "/\t/example.com",
        ] {
            assert_eq!(back(other), "/", "{other:?}");
        }
    }

    #[test]
    fn what_was_done_survives_the_way_to_the_next_page() {
        let said = "retried 3 messages; \"ünïcode\" = fine";
        let response = done("/failures", said);
        let set = response.headers()[header::SET_COOKIE].to_str().expect("it is text").to_owned();
        let mut headers = HeaderMap::new();
        let pair = set.split(';').next().expect("it has a pair");
        headers.insert(header::COOKIE, format!("other=1; {pair}").parse().expect("it is a header"));
        assert_eq!(cookie(&headers, SAID).as_deref(), Some(said));
        assert_eq!(response.status(), StatusCode::SEE_OTHER);
    }
}
