//! What can be set, and what holds when it is not: every default of the program is here.

mod access;
mod alerts;
mod broker;
mod handler;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use outbox::kafka::Compression;
use outbox::policy::{OnDead, Order, Outage};
use outbox::table::Mapping;
use outbox::{Group, Limits, Policy};

use crate::secret::{MASK, is_secret_name};

pub use access::{ANONYMOUS_WORDS, AccessOptions, PAYLOAD_WORDS, Payloads, PersonOptions, Role};
pub use alerts::{ALERTS_EVERY, AlertLimits};
pub use broker::{
    Argument, BindOptions, Envelope, FormOptions, GroupOptions, WorkQueueOptions, dead_name, prefetch_for,
};
pub use handler::{
    EndpointOptions, ErrorLogOptions, ErrorTableOptions, InboxTableOptions, MailOptions, MeterOptions,
    StatementOptions, WINDOW,
};

/// How a log is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceOptions {
    /// What every pipe has done is removed after this time; none keeps everything.
    pub retention: Option<Duration>,
    /// What a message may weigh.
    pub limits: Limits,
    /// Whether a waiting pipe is woken by NOTIFY (PostgreSQL); a hint only, polling goes on.
    pub notify: bool,
}

impl Default for SourceOptions {
    fn default() -> Self {
        let retention = Some(Duration::from_secs(30 * 24 * 3_600));
        Self { retention, limits: Limits::default(), notify: false }
    }
}

/// A table that somebody else made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOptions {
    /// Which column is what.
    pub mapping: Mapping,
    /// Rows that are done are removed after this time; none leaves them to their owner.
    pub retention: Option<Duration>,
}

/// The kinds of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutWord {
    /// A log of ours.
    Log,
    /// A table that somebody else made.
    Table,
}

/// The words for [`LayoutWord`] in the configuration.
pub const LAYOUT_WORDS: [(&str, LayoutWord); 2] = [("log", LayoutWord::Log), ("table", LayoutWord::Table)];

/// The kind of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeKind {
    /// By patterns of the routing key.
    Topic,
    /// By the routing key itself.
    Direct,
    /// To every queue.
    Fanout,
    /// By headers.
    Headers,
}

impl ExchangeKind {
    /// The words for it in the configuration.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("topic", Self::Topic),
        ("direct", Self::Direct),
        ("fanout", Self::Fanout),
        ("headers", Self::Headers),
    ];
}

/// Whether the exchange and its queues are made, or must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// Made when they are not there.
    Declare,
    /// Only checked.
    Check,
}

impl Topology {
    /// The words for it in the configuration.
    pub const WORDS: [(&'static str, Self); 2] = [("declare", Self::Declare), ("check", Self::Check)];
}

/// How a queue keeps its messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueKind {
    /// Replicated.
    Quorum,
    /// On one node.
    Classic,
}

impl QueueKind {
    /// The words for it in the configuration.
    pub const WORDS: [(&'static str, Self); 2] = [("quorum", Self::Quorum), ("classic", Self::Classic)];
}

/// A queue that must be bound to the exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOptions {
    /// Its name.
    pub name: String,
    /// The binding keys.
    pub keys: Vec<String>,
    /// How it keeps its messages.
    pub kind: QueueKind,
    /// Further arguments: those of the source of the plan that reads it.
    pub arguments: BTreeMap<String, Argument>,
}

/// How messages go to an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeOptions {
    /// Its name.
    pub exchange: String,
    /// Its kind.
    pub kind: ExchangeKind,
    /// A template of the routing key.
    pub routing_key: String,
    /// Whether it is made or only checked.
    pub topology: Topology,
    /// Queues to be bound to it.
    pub queues: Vec<QueueOptions>,
    /// Headers that every message bears besides its own.
    pub headers: Vec<TemplateOptions>,
    /// How long a confirm may take.
    pub timeout: Duration,
    /// The largest body that the broker takes.
    pub max_message: usize,
}

impl Default for ExchangeOptions {
    fn default() -> Self {
        Self {
            exchange: String::new(),
            kind: ExchangeKind::Topic,
            routing_key: "{type}".to_owned(),
            topology: Topology::Declare,
            queues: Vec::new(),
            headers: Vec::new(),
            timeout: Duration::from_secs(10),
            max_message: 16 << 20,
        }
    }
}

/// A header or a label made from a message.
#[derive(Clone, PartialEq, Eq)]
pub struct TemplateOptions {
    /// The name of the header.
    pub name: String,
    /// A template of its value.
    pub template: String,
}

impl TemplateOptions {
    /// The template, unless it may hold a secret: by the name, and because it has text of its own.
    pub fn shown(&self) -> &str {
        if is_secret_name(&self.name) && self.has_text() { MASK } else { &self.template }
    }

    /// Whether it is more than fields of the message.
    pub fn has_text(&self) -> bool {
        has_text(&self.template)
    }
}

/// Whether a template is more than fields of the message.
pub fn has_text(template: &str) -> bool {
    let mut depth = 0;
    template.chars().any(|c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => return depth == 0,
        }
        false
    })
}

impl fmt::Debug for TemplateOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.name, self.shown())
    }
}

/// How messages go to a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicOptions {
    /// A template of its name.
    pub topic: String,
    /// Headers that every message bears besides its own.
    pub headers: Vec<TemplateOptions>,
    /// How batches are compressed.
    pub compression: Compression,
    /// How long a message may take to be written.
    pub timeout: Duration,
    /// The largest payload that is sent.
    pub max_message: usize,
    /// Certificates that are trusted instead of the system's.
    pub ca_file: Option<PathBuf>,
}

impl Default for TopicOptions {
    fn default() -> Self {
        Self {
            topic: String::new(),
            headers: Vec::new(),
            compression: Compression::None,
            timeout: Duration::from_secs(10),
            max_message: 1 << 20,
            ca_file: None,
        }
    }
}

/// Where a cursor begins that did not exist before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the first message of the log.
    Beginning,
    /// With what is written from now on.
    Now,
}

impl Start {
    /// The words for it in the configuration.
    pub const WORDS: [(&'static str, Self); 2] = [("beginning", Self::Beginning), ("now", Self::Now)];
}

/// The words for [`Order`] in the configuration.
pub const ORDER_WORDS: [(&str, Order); 2] = [("key", Order::Key), ("none", Order::None)];
/// The words for [`OnDead`] in the configuration.
pub const ON_DEAD_WORDS: [(&str, OnDead); 2] = [("hold", OnDead::Hold), ("skip", OnDead::Skip)];
/// The words for [`Outage`] in the configuration.
pub const OUTAGE_WORDS: [(&str, Outage); 2] = [("wait", Outage::Wait), ("count", Outage::Count)];

/// The words for [`Group`] in the configuration.
pub const GROUP_WORDS: [(&str, Group); 2] = [("none", Group::None), ("type", Group::Type)];

/// The word for a value.
pub fn word<T: Copy + PartialEq>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, other)| *other == value).map_or("", |(word, _)| word)
}

/// How a pipe works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipeOptions {
    /// Order, retries, breaker.
    pub policy: Policy,
    /// Messages of a claim.
    pub batch: u32,
    /// Claims in flight.
    pub depth: u32,
    /// Deliveries at a time.
    pub concurrency: u32,
    /// Which messages go together in one delivery.
    pub group: Group,
    /// Cursors that share the log by hash of the key.
    pub lanes: u32,
    /// How long a cursor stays ours without a sign of life.
    pub lease: Duration,
    /// How long an idle pipe waits before it looks again.
    pub poll: Duration,
    /// How long a stop waits for what is in flight.
    pub drain: Duration,
    /// Where a new cursor begins.
    pub start: Start,
    /// So old the oldest message may be before the program is not ready.
    pub objective: Option<Duration>,
    /// So long a sink or a source may be away, or messages stand still, before the program is not ready.
    pub unready_after: Duration,
}

impl Default for PipeOptions {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            batch: 500,
            depth: 4,
            concurrency: 4,
            group: Group::None,
            lanes: 1,
            lease: Duration::from_secs(30),
            poll: Duration::from_millis(500),
            drain: Duration::from_secs(30),
            start: Start::Beginning,
            objective: None,
            unready_after: Duration::from_secs(60),
        }
    }
}

/// How long a broker may take before a publisher keeps a message instead.
pub const PUBLISH_TIMEOUT: Duration = Duration::from_secs(2);

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// The words for it in the configuration.
    pub const WORDS: [(&'static str, Self); 3] =
        [("auto", Self::Auto), ("text", Self::Text), ("json", Self::Json)];
}

/// The levels of the log, from the quietest.
pub const LEVELS: [(&str, usize); 5] = [("error", 0), ("warn", 1), ("info", 2), ("debug", 3), ("trace", 4)];

/// What is logged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogOptions {
    /// How lines look.
    pub format: LogFormat,
    /// An index into [`LEVELS`].
    pub level: usize,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { format: LogFormat::Auto, level: 2 }
    }
}
