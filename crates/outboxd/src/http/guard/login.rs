//! `/login` and `/logout`.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use askama::Template;
use axum::extract::rejection::{FormRejection, QueryRejection};
use axum::extract::{Extension, Form, Query, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::sync::Semaphore;
use url::Url;

use super::Guard;
use super::origin::is_tls;
use super::pace::Pace;
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::listen::Peer;
use crate::password;

/// Attempts to sign in and to sign out, by what became of them.
pub(in crate::http) const LOGINS: &str = "outbox_logins_total";

/// Passwords that are looked at at a time: each takes a processor and some megabytes.
const AT_A_TIME: usize = 2;

/// The longest that is looked at.
const PASSWORD_MOST: usize = 1_024;

/// The longest address that somebody is led back to.
const NEXT_MOST: usize = 2_000;

/// Where passwords are looked at.
pub(super) struct Desk {
    pace: Mutex<Pace>,
    places: Semaphore,
}

impl Default for Desk {
    fn default() -> Self {
        Self { pace: Mutex::default(), places: Semaphore::new(AT_A_TIME) }
    }
}

/// The page.
#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage<'a> {
    /// What is wrong, if something is.
    wrong: Option<&'a str>,
    /// What to do about it.
    help: &'a str,
    name: &'a str,
    next: &'a str,
}

/// What the page is asked with.
#[derive(Deserialize)]
pub(super) struct Asked {
    #[serde(default)]
    next: String,
}

/// What the form says. It has no `Debug`: a password is in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    name: String,
    password: String,
    #[serde(default)]
    next: String,
}

/// What became of an attempt.
enum Attempt {
    Right,
    Wrong,
    /// Not looked at: too many before.
    Early(Duration),
}

/// Where to sign in, and where to go after that: back to what was asked for, if asking changes nothing.
pub(super) fn address(method: &Method, uri: &Uri) -> String {
    let wanted = uri.path_and_query().map_or("/", |wanted| wanted.as_str());
    if !method.is_safe() || wanted == "/" || local(wanted) != wanted {
        return "/login".to_owned();
    }
    format!("/login?next={}", utf8_percent_encode(wanted, NON_ALPHANUMERIC))
}

/// The path that somebody is led to: never to another server, whatever a link or a form says.
pub(in crate::http) fn local(next: &str) -> &str {
    const HERE: &str = "http://here.invalid";
    let is_path = next.starts_with('/') && !next.starts_with("//") && next.len() <= NEXT_MOST;
    // A browser takes a backslash for a slash, and leaves out what is not printed.
    let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let joined = Url::parse(HERE).and_then(|here| here.join(next));
    let stays = joined.is_ok_and(|url| url.as_str().starts_with("http://here.invalid/"));
    let is_ours = !["/login", "/logout"].contains(&next.split(['?', '#']).next().unwrap_or_default());
    if is_path && is_plain && stays && is_ours { next } else { "/" }
}

/// Shows the form.
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Response {
    let next = asked.map(|Query(asked)| asked.next).unwrap_or_default();
    let mut page = LoginPage { wrong: None, help: "", name: "", next: local(&next) };
    if !has_passwords(&shared.guard) {
        page.wrong = Some("nobody has a password here");
        page.help = "make one with `outboxd password`, and put it under [http.people.NAME]; \
            or, on this machine alone, set anonymous = \"viewer\" in [http]";
    }
    answer(StatusCode::OK, &page)
}

/// Whether anybody can sign in.
fn has_passwords(guard: &Guard) -> bool {
    guard.access.people.values().any(|person| person.password_hash.is_some())
}

fn answer(status: StatusCode, page: &LoginPage<'_>) -> Response {
    match page.render() {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => {
            tracing::error!(%error, "cannot show the page to sign in");
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the page cannot be shown", "see the log")
                .into_response()
        }
    }
}

/// Looks at a name and a password.
pub(super) async fn sign_in(
    State(shared): State<Arc<Shared>>,
    Extension(Peer(address)): Extension<Peer>,
    headers: HeaderMap,
    entry: Result<Form<Entry>, FormRejection>,
) -> Response {
    let guard = &shared.guard;
    let Ok(Form(Entry { name, password, next })) = entry else {
        let help = "send a form with 'name', 'password' and perhaps 'next'";
        return Refusal::bad("the form cannot be read", help).into_response();
    };
    let next = local(&next);
    let attempt = guard.attempt(&name, password, address).await;
    // What nobody is called may be a password in the wrong field.
    let known = guard.access.people.contains_key(&name);
    let person = if known { name.as_str() } else { "somebody unknown" };
    match attempt {
        Attempt::Right => {
            let Some(jar) = guard.sessions.begin(&name, &headers, is_tls(&headers), SystemTime::now()) else {
                return Refusal::later("no session can be begun", "see the log").into_response();
            };
            tracing::info!(person, %address, "signed in");
            metrics::counter!(LOGINS, "outcome" => "signed_in").increment(1);
            (jar, Redirect::to(next)).into_response()
        }
        Attempt::Wrong => {
            tracing::warn!(person, %address, "could not sign in: wrong name or password");
            metrics::counter!(LOGINS, "outcome" => "refused").increment(1);
            let help = "check both; passwords are case-sensitive";
            let page =
                LoginPage { wrong: Some("the name or the password is wrong"), help, name: &name, next };
            answer(StatusCode::UNAUTHORIZED, &page)
        }
        Attempt::Early(wait) => {
            tracing::warn!(person, %address, ?wait, "could not sign in: too many attempts");
            metrics::counter!(LOGINS, "outcome" => "slowed").increment(1);
            let seconds = wait.as_secs_f64().ceil();
            let wrong = format!("there were too many attempts; try again in {seconds} s");
            let help = "whoever has signed in stays signed in, and tokens work";
            let page = LoginPage { wrong: Some(&wrong), help, name: &name, next };
            let mut response = answer(StatusCode::TOO_MANY_REQUESTS, &page);
            if let Ok(value) = HeaderValue::from_str(&seconds.to_string()) {
                response.headers_mut().insert(header::RETRY_AFTER, value);
            }
            response
        }
    }
}

impl Guard {
    async fn attempt(&self, name: &str, password: String, address: IpAddr) -> Attempt {
        let pace = || self.desk.pace.lock().unwrap_or_else(PoisonError::into_inner);
        // What is longer than any name counts as one.
        let counted: String = name.chars().take(64).collect();
        if let Err(wait) = pace().attempt(&counted, address, Instant::now()) {
            return Attempt::Early(wait);
        }
        let of_person = self.access.people.get(name).and_then(|person| person.password_hash.clone());
        // Who is not known takes as long: otherwise the time would tell who is.
        let anybody = || self.access.people.values().find_map(|person| person.password_hash.clone());
        let is_known = of_person.is_some();
        let Some(hash) = of_person.or_else(anybody) else { return Attempt::Wrong };
        if password.len() > PASSWORD_MOST {
            return Attempt::Wrong;
        }
        let Ok(_place) = self.desk.places.acquire().await else { return Attempt::Wrong };
        let looked = tokio::task::spawn_blocking(move || password::is_right(&password, hash.reveal())).await;
        if is_known && looked.unwrap_or(false) {
            pace().succeeded(&counted, address);
            return Attempt::Right;
        }
        Attempt::Wrong
    }
}

/// Ends the session.
pub(super) async fn sign_out(
    State(shared): State<Arc<Shared>>,
    Extension(Peer(address)): Extension<Peer>,
    headers: HeaderMap,
) -> Response {
    let (sessions, now) = (&shared.guard.sessions, SystemTime::now());
    if let Some(person) = sessions.person(&headers, now) {
        tracing::info!(person = person.name, %address, "signed out");
        metrics::counter!(LOGINS, "outcome" => "signed_out").increment(1);
    }
    (sessions.end(&headers, now), Redirect::to("/login")).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_is_only_led_to_a_path_of_this_server() {
        for fine in
            ["/", "/messages", "/messages?filter=type%3Aorder.*&after=5", "/failures/a%2Fb#top", "/loginx"]
        {
            assert_eq!(local(fine), fine);
        }
        for foreign in [
            "",
            "messages",
            "//evil.example",
            "///evil.example",
            "/\\evil.example",
            "\\\\evil.example",
            "https://evil.example/",
            "javascript:alert(1)",
            "/\t/evil.example",
            "/\n/evil.example",
            "/a\r\nSet-Cookie: x=y",
            " /messages",
            "/login",
            "/login?next=/login",
            "/logout",
            "/ä",
        ] {
            assert_eq!(local(foreign), "/", "{foreign}");
        }
        assert_eq!(local(&format!("/{}", "x".repeat(NEXT_MOST))), "/");
    }

    #[test]
    fn who_must_sign_in_comes_back_to_what_they_asked_for() {
        let get = |uri: &str| address(&Method::GET, &uri.parse().expect("a path"));
        assert_eq!(get("/"), "/login");
        assert_eq!(
            get("/messages?filter=key:42&after=1"),
            "/login?next=%2Fmessages%3Ffilter%3Dkey%3A42%26after%3D1"
        );
        assert_eq!(get("//evil.example"), "/login");
        assert_eq!(address(&Method::POST, &"/messages/retry".parse().expect("a path")), "/login");
    }
}
