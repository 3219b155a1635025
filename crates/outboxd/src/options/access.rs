//! Who may ask the program's own server, and for what.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::secret::Secret;

/// What a person may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Looks, and changes nothing.
    Viewer,
    /// Repairs, too.
    Operator,
}

impl Role {
    /// The words for it.
    pub const WORDS: [(&'static str, Self); 2] = [("viewer", Self::Viewer), ("operator", Self::Operator)];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
        }
    }
}

/// The words for what somebody may who has not signed in.
pub const ANONYMOUS_WORDS: [(&str, Option<Role>); 3] =
    [("none", None), ("viewer", Some(Role::Viewer)), ("operator", Some(Role::Operator))];

/// The words for who sees payloads: the least role, or nobody.
pub const PAYLOAD_WORDS: [(&str, Payloads); 3] =
    [("nobody", Payloads::Nobody), ("operator", Payloads::Operator), ("viewer", Payloads::Viewer)];

/// Who sees payloads on pages and in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payloads {
    /// Not even operators.
    Nobody,
    /// Who may repair.
    Operator,
    /// Everybody who may look.
    Viewer,
}

/// Who may ask for pages and the API, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessOptions {
    /// Whether there are pages and the API at all.
    pub dashboard: bool,
    /// The names by which they may be asked, in lower case, besides localhost and addresses.
    pub hosts: Vec<String>,
    /// What somebody may who has not signed in.
    pub anonymous: Option<Role>,
    /// What sessions are signed with; without one a key of this process alone.
    pub session_key: Option<Secret>,
    /// How long a session lasts.
    pub session_lasts: Duration,
    /// Who sees payloads.
    pub payloads: Payloads,
    /// By name.
    pub people: BTreeMap<String, PersonOptions>,
}

impl Default for AccessOptions {
    fn default() -> Self {
        Self {
            dashboard: true,
            hosts: Vec::new(),
            anonymous: None,
            session_key: None,
            session_lasts: Duration::from_secs(12 * 3_600),
            payloads: Payloads::Operator,
            people: BTreeMap::new(),
        }
    }
}

/// Somebody who can sign in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersonOptions {
    /// What they may.
    pub role: Role,
    /// Their password, as argon2id has it in a PHC string.
    pub password_hash: Option<Secret>,
    /// What their scripts bear.
    pub token: Option<Secret>,
}
