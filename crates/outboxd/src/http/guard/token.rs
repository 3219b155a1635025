//! Tokens, and who bears them.

use axum::http::{HeaderMap, header};

use crate::secret::Secret;

/// Tokens, each with who bears it.
pub(super) struct Tokens<W>(pub(super) Vec<(Secret, W)>);

impl<W: Clone> Tokens<W> {
    /// Who bears this. All are compared, to the end: how long it takes tells nothing of how much was right.
    pub(super) fn find(&self, given: &[u8]) -> Option<W> {
        let found = self.0.iter().fold(None, |found, (token, who)| {
            let is_this = is_same(given, token.reveal().as_bytes());
            found.or(is_this.then_some(who))
        });
        found.cloned()
    }
}

/// What is given as a token, if one is.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, rest) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
}

/// Compares to the end.
pub(super) fn is_same(given: &[u8], token: &[u8]) -> bool {
    let differences = given.iter().zip(token).fold(0, |all, (one, other)| all | (one ^ other));
    std::hint::black_box(differences) == 0 && given.len() == token.len() && !token.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::person::{Person, Role};

    #[test]
    fn only_a_whole_token_is_known() {
        let person = |name: &str| Person { name: name.to_owned(), role: Role::Viewer };
        let tokens = Tokens(vec![
            (Secret::new("0123456789abcdef"), person("one")),
            (Secret::new("another-token-16"), person("two")),
        ]);
        assert_eq!(tokens.find(b"0123456789abcdef"), Some(person("one")));
        assert_eq!(tokens.find(b"another-token-16"), Some(person("two")));
        for wrong in ["", "0", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF", "another"] {
            assert_eq!(tokens.find(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Tokens(vec![(Secret::new(""), person("none"))]).find(b""), None, "no token opens nothing");
    }
}
