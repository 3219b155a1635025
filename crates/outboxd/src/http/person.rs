//! Who asks, and what they may.

use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;

use super::answer::Refusal;

/// What a person may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Looks, and changes nothing.
    Viewer,
    /// Repairs, too.
    Operator,
}

impl Role {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }
}

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

/// Whether somebody sees what applications wrote, which may hold what not everybody should see.
pub fn may_see_payloads(person: &Person) -> bool {
    person.role >= Role::Operator
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
