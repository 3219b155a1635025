//! Sinks that handle messages: an HTTP endpoint, SQL, e-mail, figures, a table of errors; and the inbox before them.

use std::path::PathBuf;
use std::time::Duration;

use outbox::meter::MeterKind;

use super::TemplateOptions;
use crate::secret::Secret;

/// How long an inbox of ours remembers an id, unless it is said.
pub const WINDOW: Duration = Duration::from_secs(7 * 24 * 3_600);

/// A table of handled ids that somebody else made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxTableOptions {
    /// Its schema, unless it is where the connection looks first.
    pub schema: Option<String>,
    /// The table.
    pub table: String,
    /// The column of the id.
    pub id: String,
    /// The column of the time.
    pub at: Option<String>,
    /// The column of the consumer; without one all consumers share the ids.
    pub consumer: Option<String>,
}

/// How messages are posted to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointOptions {
    /// Where. Any part of it may be secret.
    pub url: Secret,
    /// What they are signed with; the first is the newest.
    pub secrets: Vec<Secret>,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Whether the address may be private.
    pub private: bool,
    /// Whether it may go unencrypted to another host.
    pub plaintext: bool,
    /// Certificates that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
    /// Headers that every request bears besides our own.
    pub headers: Vec<TemplateOptions>,
}

impl EndpointOptions {
    /// An endpoint with the defaults.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: Secret::new(url),
            secrets: Vec::new(),
            timeout: Duration::from_secs(15),
            private: false,
            plaintext: false,
            ca_file: None,
            headers: Vec::new(),
        }
    }
}

/// Statements that handle a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementOptions {
    /// Run one after the other, in one transaction with the inbox.
    pub statements: Vec<String>,
    /// How long they may take for one message.
    pub timeout: Duration,
}

impl Default for StatementOptions {
    fn default() -> Self {
        Self { statements: Vec::new(), timeout: Duration::from_secs(30) }
    }
}

/// An e-mail made from a message; all of its texts are templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailOptions {
    /// From whom.
    pub from: String,
    /// To whom.
    pub to: Vec<String>,
    /// Who gets a copy.
    pub cc: Vec<String>,
    /// Who gets the answers.
    pub reply_to: Option<String>,
    /// What it is about.
    pub subject: String,
    /// The plain text.
    pub text: Option<String>,
    /// The HTML.
    pub html: Option<String>,
    /// How long it may take to hand it over.
    pub timeout: Duration,
    /// Certificates that are trusted besides the system's.
    pub ca_file: Option<PathBuf>,
}

impl Default for MailOptions {
    fn default() -> Self {
        Self {
            from: String::new(),
            to: Vec::new(),
            cc: Vec::new(),
            reply_to: None,
            subject: String::new(),
            text: None,
            html: None,
            timeout: Duration::from_secs(30),
            ca_file: None,
        }
    }
}

/// A figure that is made from messages.
#[derive(Debug, Clone, PartialEq)]
pub struct MeterOptions {
    /// What kind it is.
    pub kind: MeterKind,
    /// Its name.
    pub name: String,
    /// What it is, in words.
    pub help: String,
    /// A template of the number; a counter without one adds 1.
    pub value: Option<String>,
    /// The upper bounds of a histogram's buckets; those of the endpoint if there are none.
    pub buckets: Vec<f64>,
    /// Labels, each with a template.
    pub labels: Vec<TemplateOptions>,
    /// Types that count, with `*` at the end for any; all if there are none.
    pub types: Vec<String>,
}

/// Where messages in error are written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorLogOptions {
    /// In a table of ours.
    Ours,
    /// In a table that somebody else made.
    Mapped(Box<ErrorTableOptions>),
}

/// A table of errors that somebody else made: the column of each thing that it has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorTableOptions {
    /// Its schema, unless it is where the connection looks first.
    pub schema: Option<String>,
    /// The table.
    pub table: String,
    /// The columns, by the key in the configuration.
    pub columns: Vec<(&'static str, String)>,
}
