//! What several answers have in common.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::trouble::{Exit, Trouble};

/// A payload: as text if it is UTF-8, else as base64. Neither if it was not asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Payload {
    /// The text.
    #[serde(rename = "payload", skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The bytes.
    #[serde(rename = "payload_base64", skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl Payload {
    /// These bytes.
    pub fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self { text: Some(text.to_owned()), base64: None },
            Err(_) => Self { text: None, base64: Some(STANDARD.encode(bytes)) },
        }
    }

    /// The bytes again; none if it was not asked for.
    pub fn bytes(&self) -> Vec<u8> {
        match (&self.text, &self.base64) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(text)) => STANDARD.decode(text).unwrap_or_default(),
            (None, None) => Vec::new(),
        }
    }
}

/// A place that could not be looked at: what it said, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Unseen {
    /// What is wrong.
    pub error: String,
    /// What to do about it.
    pub help: String,
    /// How a verb ends that could not look there.
    #[serde(skip)]
    pub exit: Exit,
}

impl From<&Trouble> for Unseen {
    fn from(trouble: &Trouble) -> Self {
        Self { error: trouble.to_string(), help: trouble.help().to_owned(), exit: trouble.exit }
    }
}

/// How many of one cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Preview {
    /// How many.
    pub count: u64,
    /// The queue or topic where they died, or the pipe.
    pub origin: String,
    /// Their type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Their cause.
    pub code: String,
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, origin, kind, code } = self;
        write!(f, "{count} of type {kind} with {code}, from {origin}")
    }
}

/// What is meant, as origin, type and cause of each, counted by these.
pub fn previews<'m>(meant: impl Iterator<Item = (&'m str, &'m str, &'m str)>) -> Vec<Preview> {
    let mut groups: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for one in meant {
        *groups.entry(one).or_default() += 1;
    }
    let told = |((origin, kind, code), count): ((&str, &str, &str), u64)| Preview {
        count,
        origin: origin.to_owned(),
        kind: kind.to_owned(),
        code: code.to_owned(),
    };
    groups.into_iter().map(told).collect()
}

/// Only the members that have a value, of the object and of what is in it.
pub fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let set = members.into_iter().filter(|(_, member)| !member.is_null());
            set.map(|(name, member)| (name, without_nulls(member))).collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}
