//! Sources on a broker: a queue of RabbitMQ, topics of Kafka.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use outbox::broker::Picks;
pub use outbox::rabbitmq::Argument;

use super::{ExchangeKind, PipeOptions, QueueKind, Start, Topology};

/// Who made the messages, which says where id, type and key stand in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Envelope {
    /// Anybody.
    Plain,
    /// MassTransit, with an envelope of JSON.
    MassTransit,
}

impl Envelope {
    /// The words for it in the configuration.
    pub const WORDS: [(&'static str, Self); 2] = [("plain", Self::Plain), ("masstransit", Self::MassTransit)];

    /// Where id, type and key stand, unless it is said.
    pub fn picks(self) -> Picks {
        match self {
            Self::Plain => Picks::default(),
            Self::MassTransit => Picks::masstransit(),
        }
    }
}

/// How messages that anybody may have made are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormOptions {
    /// Who made them.
    pub envelope: Envelope,
    /// Where id, type and key stand.
    pub picks: Picks,
    /// Larger ones go to the dead letters as they are.
    pub max_payload: usize,
}

impl Default for FormOptions {
    fn default() -> Self {
        let envelope = Envelope::Plain;
        Self { envelope, picks: envelope.picks(), max_payload: 16 << 20 }
    }
}

/// An exchange to which a queue is bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindOptions {
    /// Its name.
    pub exchange: String,
    /// Its kind.
    pub kind: ExchangeKind,
    /// The binding keys.
    pub keys: Vec<String>,
}

/// A queue that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkQueueOptions {
    /// Its name.
    pub queue: String,
    /// How it keeps its messages.
    pub kind: QueueKind,
    /// Whether it is made or only checked.
    pub topology: Topology,
    /// Exchanges to which it is bound.
    pub bind: Vec<BindOptions>,
    /// Delays before further attempts, each kept by a queue of its own.
    pub retry: Vec<Duration>,
    /// The queue of dead letters.
    pub dead: String,
    /// Messages handed over and not settled; unless it was set, as many as its pipe can use, see [`prefetch_for`].
    pub prefetch: Option<u16>,
    /// One consumer at a time.
    pub single_active: bool,
    /// Further arguments of the queue.
    pub arguments: BTreeMap<String, Argument>,
    /// Those of its queue of dead letters, if another source of the plan reads it.
    pub dead_arguments: BTreeMap<String, Argument>,
    /// How its messages are read.
    pub form: FormOptions,
}

impl Default for WorkQueueOptions {
    fn default() -> Self {
        Self {
            queue: String::new(),
            kind: QueueKind::Quorum,
            topology: Topology::Declare,
            bind: Vec::new(),
            retry: Vec::new(),
            dead: String::new(),
            prefetch: None,
            single_active: false,
            arguments: BTreeMap::new(),
            dead_arguments: BTreeMap::new(),
            form: FormOptions::default(),
        }
    }
}

/// Topics that are read by a consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupOptions {
    /// Their names.
    pub topics: Vec<String>,
    /// The group.
    pub group: String,
    /// Whether retry and dead topics are made or only checked.
    pub topology: Topology,
    /// Delays before further attempts, each kept in a topic of its own.
    pub retry: Vec<Duration>,
    /// The topic of dead letters; each topic has its own if none is set.
    pub dead: Option<String>,
    /// Where a new group begins.
    pub start: Start,
    /// How their messages are read.
    pub form: FormOptions,
    /// Certificates that are trusted instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// So long after a member has fallen silent, the others take over.
    pub session_timeout: Duration,
}

impl Default for GroupOptions {
    fn default() -> Self {
        Self {
            topics: Vec::new(),
            group: String::new(),
            topology: Topology::Declare,
            retry: Vec::new(),
            dead: None,
            start: Start::Beginning,
            form: FormOptions::default(),
            ca_file: None,
            session_timeout: Duration::from_secs(15),
        }
    }
}

/// More than this has to be asked for.
const MOST_PREFETCH: u16 = 300;

/// What a pipe can use, twice, and no more than keeps a broker busy: the driver takes into memory what the broker hands
/// over, whatever its size, and with slow handlers it would lie there longer than the broker waits.
pub fn prefetch_for(pipe: &PipeOptions) -> u16 {
    let useful = pipe.batch.saturating_mul(pipe.depth).saturating_mul(2);
    u16::try_from(useful.clamp(16, MOST_PREFETCH.into())).unwrap_or(MOST_PREFETCH)
}

/// The queue or topic of dead letters, unless another is named.
pub fn dead_name(place: &str) -> String {
    format!("{place}.dlq")
}
