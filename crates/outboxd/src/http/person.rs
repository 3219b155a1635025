//! Who asks, and what they may.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;

use super::answer::Refusal;
use crate::options::Payloads;
pub use crate::options::Role;

/// How somebody is called in the audit who has not signed in.
pub const ANONYMOUS: &str = "anonymous";

/// Who asks: the guard knows them and puts them into the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// As they are called in the audit.
    pub name: String,
    /// What they may do.
    pub role: Role,
}

impl<S: Sync> FromRequestParts<S> for Person {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let help = "sign in at /login, or send the header 'Authorization: Bearer …'";
        let refusal = || Refusal::new(StatusCode::UNAUTHORIZED, "nobody has signed in", help);
        parts.extensions.get::<Self>().cloned().ok_or_else(refusal)
    }
}

/// A person who may repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator(pub Person);

impl<S: Sync> FromRequestParts<S> for Operator {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let person = Person::from_request_parts(parts, state).await?;
        if person.role >= Role::Operator {
            return Ok(Self(person));
        }
        let what = format!("{} may look, but change nothing", person.name);
        let help = "ask somebody with the role operator, or for that role";
        Err(Refusal::new(StatusCode::FORBIDDEN, what, help))
    }
}

/// Whether somebody sees what applications wrote, which may hold what not everybody should see.
pub fn may_see_payloads(person: &Person, payloads: Payloads) -> bool {
    match payloads {
        Payloads::Nobody => false,
        Payloads::Operator => person.role >= Role::Operator,
        Payloads::Viewer => person.role >= Role::Viewer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_seen_by_those_who_may() {
        let sees = |role, payloads| may_see_payloads(&Person { name: "anna".to_owned(), role }, payloads);
        for (payloads, viewer, operator) in [
            (Payloads::Nobody, false, false),
            (Payloads::Operator, false, true),
            (Payloads::Viewer, true, true),
        ] {
            assert_eq!((sees(Role::Viewer, payloads), sees(Role::Operator, payloads)), (viewer, operator));
        }
    }
}
