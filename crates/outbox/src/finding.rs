//! What a look at a source or a sink found: the words of `outboxd doctor`.

use serde::Serialize;

use crate::error::Error;

/// How a finding is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// It works, and will hurt one day.
    Warning,
    /// It does not work.
    Failure,
}

impl Level {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How it is meant.
    pub level: Level,
    /// What was looked at, in a few words that stay the same.
    pub what: String,
    /// What was found.
    pub evidence: String,
    /// What to do about it: a statement, a line of configuration or a command to copy, or a sentence.
    pub fix: Option<String>,
}

impl Finding {
    /// As it should be.
    pub fn ok(what: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self { level: Level::Ok, what: what.into(), evidence: evidence.into(), fix: None }
    }

    /// It works, and will hurt one day.
    pub fn warning(what: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self { level: Level::Warning, ..Self::ok(what, evidence) }
    }

    /// It does not work.
    pub fn failure(what: impl Into<String>, evidence: impl Into<String>) -> Self {
        Self { level: Level::Failure, ..Self::ok(what, evidence) }
    }

    /// Looking at it failed.
    pub fn error(what: impl Into<String>, error: &Error) -> Self {
        Self::failure(what, error.chain()).fix(error.advice())
    }

    /// Says what to do about it.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}
