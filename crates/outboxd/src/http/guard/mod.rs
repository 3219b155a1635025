//! Who may ask, and how safely.
//!
//! | what | who may |
//! | --- | --- |
//! | `POST /v1/messages` | who bears the token of `[http]`: programs publish, not people |
//! | the rest of `/v1`, and the pages | a [`Person`], by a token of their own, a session or, where only this machine can come, by nothing |
//! | `/login`, `/logout`, `/assets/…` | anybody who comes by a name of this server |
//! | `/metrics`, `/livez`, `/readyz`, `/health` | anybody, but where only this machine can come only by address |
//!
//! A request that changes something and bears no token must come from a page of this server: a browser adds cookies, and
//! comes from this machine, also for a page of somebody else. Such a page may also not load anything from here; a link in it
//! may lead here.

mod headers;
mod login;
mod origin;
mod pace;
mod session;
mod token;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use super::answer::Refusal;
use super::person::{ANONYMOUS, Person};
use super::{HttpOptions, Shared};
use crate::options::AccessOptions;
pub(super) use headers::headers;
use login::Desk;
pub(super) use login::{LOGINS, local};
use session::Sessions;
use token::{Tokens, bearer};

/// What a form of ours may weigh.
const FORM: usize = 16 * 1024;

/// What is known of those who may ask.
pub(super) struct Guard {
    access: AccessOptions,
    /// Of programs, which publish and do nothing else.
    publishers: Tokens<()>,
    /// Of those who may look and repair.
    people: Tokens<Person>,
    sessions: Sessions,
    desk: Desk,
}

impl Guard {
    pub(super) fn new(options: &HttpOptions) -> anyhow::Result<Self> {
        let access = options.access.clone();
        let publishers = Tokens(options.tokens.iter().map(|token| (token.clone(), ())).collect());
        let people = access.people.iter().filter_map(|(name, person)| {
            let token = person.token.clone()?;
            Some((token, Person { name: name.clone(), role: person.role }))
        });
        let people = Tokens(people.collect());
        let sessions = Sessions::new(&access)?;
        let desk = Desk::default();
        Ok(Self { access, publishers, people, sessions, desk })
    }

    /// Who asks, or why they may not.
    fn admit(&self, method: &Method, headers: &HeaderMap) -> Result<Person, Refusal> {
        self.named(headers)?;
        if let Some(given) = bearer(headers) {
            return self.people.find(given).ok_or_else(|| self.no_person(given));
        }
        let session = self.sessions.person(headers, SystemTime::now());
        let anonymous = || {
            let role = self.access.anonymous?;
            Some(Person { name: ANONYMOUS.to_owned(), role })
        };
        let person =
            session.or_else(anonymous).ok_or_else(|| unknown("nobody has signed in", false, PEOPLE))?;
        own_site(method, headers)?;
        Ok(person)
    }

    /// Why who bears this is nobody who may look.
    fn no_person(&self, given: &[u8]) -> Refusal {
        if self.publishers.find(given).is_none() {
            return unknown("the token is not known", true, PEOPLE);
        }
        let help = "publish with POST /v1/messages; for everything else take a token of [http.people.NAME], which has a role";
        Refusal::new(StatusCode::FORBIDDEN, "this token publishes, and may nothing else", help)
    }

    /// A page of somebody else in a browser may have led its own name here.
    fn named(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if origin::host(headers).is_some_and(|host| origin::is_known(host, &self.access.hosts)) {
            return Ok(());
        }
        let help = "ask by address or as localhost, or add the name to 'hosts' of [http]";
        Err(Refusal::new(StatusCode::FORBIDDEN, "this server is not known by that name", help))
    }

    /// Whether who asks how the pipes are is told in whose words and by whom: where strangers come, only who is known. Causes
    /// quote what endpoints and servers answered.
    pub(super) fn may_read_causes(&self, listen: SocketAddr, headers: &HeaderMap) -> bool {
        listen.ip().is_loopback() || self.admit(&Method::GET, headers).is_ok()
    }

    /// What is said where there are neither pages nor the API.
    fn there(&self) -> Result<(), Refusal> {
        if self.access.dashboard {
            return Ok(());
        }
        let help = "set dashboard = true in [http], or use the command line";
        Err(Refusal::new(StatusCode::NOT_FOUND, "pages and the API are switched off here", help))
    }
}

/// A change must come from a page of this server, and so must a look, unless somebody follows a link.
fn own_site(method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    let checked = if method.is_safe() { origin::may_look(headers) } else { origin::own_site(headers) };
    checked.map_err(|why| {
        let help = "use the pages of this server, or send a token: 'Authorization: Bearer …'";
        Refusal::new(StatusCode::FORBIDDEN, why, help)
    })
}

/// How people are known, and how programs that publish are.
const PEOPLE: &str =
    "sign in at /login, or send the header 'Authorization: Bearer …' with a token of [http.people.NAME]";
const PROGRAMS: &str = "send the header 'Authorization: Bearer …' with the token of [http]";

fn unknown(error: &str, given: bool, help: &str) -> Refusal {
    let challenge = match given {
        false => "Bearer realm=\"outboxd\"",
        true => "Bearer realm=\"outboxd\", error=\"invalid_token\"",
    };
    let refusal = Refusal::new(StatusCode::UNAUTHORIZED, error, help);
    refusal.with(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge))
}

/// Below `/v1`: programs publish with their token, everything else is for people.
pub(super) async fn api(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let guard = &shared.guard;
    if request.method() == Method::POST && request.uri().path() == "/messages" {
        return match publisher(guard, request.headers()) {
            Ok(()) => next.run(request).await,
            Err(refusal) => refusal.into_response(),
        };
    }
    match guard.there().and_then(|()| guard.admit(request.method(), request.headers())) {
        Ok(person) => {
            request.extensions_mut().insert(person);
            next.run(request).await
        }
        Err(refusal) => refusal.into_response(),
    }
}

fn publisher(guard: &Guard, headers: &HeaderMap) -> Result<(), Refusal> {
    let given = bearer(headers);
    let error = if given.is_some() { "the token is not known" } else { "a token is needed" };
    given
        .and_then(|given| guard.publishers.find(given))
        .ok_or_else(|| unknown(error, given.is_some(), PROGRAMS))
}

/// Pages: who is not known is led to where they can sign in.
pub(super) async fn page(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let guard = &shared.guard;
    // Also who signs in wants to see something.
    if request.uri().path().starts_with("/assets/") {
        return front(State(shared), request, next).await;
    }
    match guard.there().and_then(|()| guard.admit(request.method(), request.headers())) {
        Ok(person) => {
            request.extensions_mut().insert(person);
            next.run(request).await
        }
        Err(refusal) if refusal.status() == StatusCode::UNAUTHORIZED && wants_page(request.headers()) => {
            Redirect::to(&login::address(request.method(), request.uri())).into_response()
        }
        Err(refusal) => refusal.into_response(),
    }
}

/// Where nobody has to be known.
async fn front(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let (guard, method, headers) = (&shared.guard, request.method(), request.headers());
    let checked = guard.there().and_then(|()| guard.named(headers)).and_then(|()| own_site(method, headers));
    match checked {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Whether somebody with a browser asks.
pub(super) fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT);
    accepted.iter().any(|accepted| accepted.to_str().is_ok_and(|accepted| accepted.contains("text/html")))
}

/// `/login` and `/logout`.
pub(super) fn front_routes(shared: &Arc<Shared>) -> Router<Arc<Shared>> {
    Router::new()
        .route("/login", get(login::show).post(login::sign_in))
        .route("/logout", axum::routing::post(login::sign_out))
        .layer(DefaultBodyLimit::max(FORM))
        .layer(from_fn_with_state(Arc::clone(shared), front))
}

/// Lets a request for figures pass that came by an address, where only this machine can come. A name in its place is that
/// of a page in somebody's browser that has led its own name here, or of a proxy that lets strangers in.
pub(super) async fn host(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if !shared.options.listen.ip().is_loopback() || host.is_none_or(|host| origin::is_known(host, &[])) {
        return next.run(request).await;
    }
    let help = "ask by address: http://127.0.0.1 or http://localhost, with the port";
    Refusal::new(StatusCode::FORBIDDEN, "this server is not known by that name", help).into_response()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails should say where")]
mod tests;
