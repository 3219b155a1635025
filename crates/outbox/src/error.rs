//! One error type, with a kind that decides what the loop does and advice for the person who reads it.
//!
//! Each backend turns its driver's errors into this one in its own `error.rs`; nothing else looks at a
//! driver's error. Messages are lower-case and never repeat their source.

use std::fmt;

/// A result with our [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in terms of what can be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The database or broker cannot be reached, or went away.
    Unreachable,
    /// It did not answer in time: what was asked may or may not have happened.
    Timeout,
    /// It answered, but cannot serve now (starting up, shutting down, disk full, too many connections).
    Busy,
    /// The credentials or grants do not suffice.
    Denied,
    /// Our tables are not there, or not as this version needs them.
    NotMigrated,
    /// A table that was brought along is not as its mapping says.
    Mapping,
    /// A claim is no longer ours: its lease ran out or somebody took over.
    Lost,
    /// A message breaks a limit or a rule, and was not written.
    Invalid,
    /// What was asked for does not exist.
    NotFound,
    /// The configuration or an argument cannot work as it stands.
    Config,
    /// The other side answered something that it should not: a bug there, here, or a version mismatch.
    Unexpected,
}

impl ErrorKind {
    /// What a person should do about it; the same sentence in logs, command line and dashboard.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Unreachable => {
                "check that the server runs and that address, port and network are right; work resumes by itself"
            }
            Self::Timeout => "check the load of the server and the network; it is tried again by itself",
            Self::Busy => "the server says that it cannot serve now; it is tried again by itself",
            Self::Denied => "check user, password and grants",
            Self::NotMigrated => {
                "run `outboxd migrate`, or apply the output of `outboxd migrate --print` yourself"
            }
            Self::Mapping => {
                "change the mapping in the configuration, or the table; `outboxd doctor` tells what it finds"
            }
            Self::Lost => {
                "another relay took over; nothing to do unless it happens often (then raise `lease`)"
            }
            Self::Invalid => "change the message, or the limit in the configuration",
            Self::NotFound => "check the name or the id",
            Self::Config => "change the configuration and check it with `outboxd validate`",
            Self::Unexpected => "this should not happen; please report it with the log lines around it",
        }
    }
}

/// An error of the library: its kind, where it happened, and what lies beneath.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    temporary: bool,
    context: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `context` says what was being done to what.
    pub fn new(kind: ErrorKind, context: impl Into<String>) -> Self {
        let temporary = matches!(kind, ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Busy);
        Self { kind, temporary, context: context.into(), source: None }
    }

    /// Adds the error beneath.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Puts what was being done in front.
    #[must_use]
    pub fn while_doing(mut self, what: impl fmt::Display) -> Self {
        self.context = format!("{what}: {}", self.context);
        self
    }

    /// What can be done about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether trying the same again later can succeed with nobody's help.
    pub fn is_temporary(&self) -> bool {
        self.temporary
    }

    /// What a person should do.
    pub fn advice(&self) -> &'static str {
        self.kind.advice()
    }

    /// The whole chain in one line, for logs and for the `cause` of a message.
    pub fn chain(&self) -> String {
        let mut line = self.context.clone();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            let text = error.to_string();
            if !line.contains(&text) {
                line.push_str(": ");
                line.push_str(&text);
            }
            source = error.source();
        }
        line
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.context)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn std::error::Error + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_names_every_cause_once() {
        let error = Error::new(ErrorKind::Unreachable, "cannot reach the database")
            .caused_by(std::io::Error::other("connection refused"))
            .while_doing("claiming from cursor 'relay'");
        assert_eq!(
            error.chain(),
            "claiming from cursor 'relay': cannot reach the database: connection refused"
        );
        assert!(error.is_temporary());
        assert!(!error.advice().is_empty());
    }
}
