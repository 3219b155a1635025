//! Who may ask.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Shared;
use super::answer::Refusal;
use super::person::{Person, Role};
use crate::secret::Secret;

/// Lets a request pass that bears one of the tokens.
pub(super) async fn token(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let given = bearer(request.headers());
    if given.is_some_and(|given| is_known(given, &shared.options.tokens)) {
        request.extensions_mut().insert(Person { name: "token".to_owned(), role: Role::Operator });
        return next.run(request).await;
    }
    let (error, challenge) = match given {
        None => ("a token is needed", "Bearer realm=\"outboxd\""),
        Some(_) => ("the token is not known", "Bearer realm=\"outboxd\", error=\"invalid_token\""),
    };
    let help = "send the header 'Authorization: Bearer …' with the token of [http]";
    let challenge = HeaderValue::from_static(challenge);
    let refusal = Refusal::new(StatusCode::UNAUTHORIZED, error, help);
    refusal.with(header::WWW_AUTHENTICATE, challenge).into_response()
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

/// All are compared, to the end: how long it takes tells nothing of how much was right.
fn is_known(given: &[u8], tokens: &[Secret]) -> bool {
    tokens.iter().fold(false, |known, token| known | is_same(given, token.reveal().as_bytes()))
}

fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differences = given.iter().zip(token).fold(0, |all, (one, other)| all | (one ^ other));
    std::hint::black_box(differences) == 0 && given.len() == token.len() && !token.is_empty()
}

/// Lets a request pass that came by an address, where only this machine can come. A name in its place is that of a
/// page in somebody's browser that has led its own name here.
pub(super) async fn host(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    if !shared.options.listen.ip().is_loopback() || host.is_none_or(is_here) {
        return next.run(request).await;
    }
    let help = "ask by address: http://127.0.0.1 or http://localhost, with the port";
    Refusal::new(StatusCode::FORBIDDEN, "this server is not known by that name", help).into_response()
}

fn is_here(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_token_is_known() {
        let tokens = [Secret::new("0123456789abcdef"), Secret::new("another-token-16")];
        assert!(is_known(b"0123456789abcdef", &tokens) && is_known(b"another-token-16", &tokens));
        for wrong in ["", "0", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF", "another"] {
            assert!(!is_known(wrong.as_bytes(), &tokens), "{wrong}");
        }
        assert!(!is_known(b"", &[Secret::new("")]) && !is_known(b"x", &[]), "no token opens nothing");
    }

    #[test]
    fn an_address_is_no_name() {
        for here in ["localhost", "LOCALHOST:8480", "127.0.0.1:8480", "[::1]:8480", "::1"] {
            assert_eq!(is_here(here), here != "::1", "{here}");
        }
        for there in ["example.com", "127.0.0.1.example.com", "localhost.example.com:80", ""] {
            assert!(!is_here(there), "{there}");
        }
    }
}
