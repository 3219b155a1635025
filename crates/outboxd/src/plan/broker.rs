//! The rules for sources on a broker, and for what only one may read.

use std::collections::BTreeMap;

use super::{Checker, Known, Layout, Places, SinkPlan, SourcePlan, Target};
use crate::config::{LayoutConfig, PipeConfig};
use crate::connection::Kind;
use crate::options::{QueueKind, Topology, word};

/// Whether a source can look like this on such a connection; else the rule, and what to do.
pub(super) fn fits(layout: &LayoutConfig, kind: Kind) -> Result<(), (&'static str, &'static str)> {
    match (layout, kind) {
        (_, Kind::Smtp) => Err(("a mail server is no source", "name a connection to a database or a broker")),
        (LayoutConfig::Queue { .. }, Kind::Amqp) | (LayoutConfig::Topics { .. }, Kind::Kafka) => Ok(()),
        (LayoutConfig::Queue { .. }, Kind::Kafka) => {
            Err(("Kafka has no queues", "write topic = \"…\" and group = \"…\", or name an amqp: connection"))
        }
        (LayoutConfig::Topics { .. }, Kind::Amqp) => {
            Err(("RabbitMQ has no topics", "write queue = \"…\", or name a kafka: connection"))
        }
        (LayoutConfig::Queue { .. }, _) => {
            Err(("a database has no queues", "name an amqp: connection, or remove 'queue' for a log"))
        }
        (LayoutConfig::Topics { .. }, _) => {
            Err(("a database has no topics", "name a kafka: connection, or remove 'topic' for a log"))
        }
        (_, Kind::Amqp) => Err(("RabbitMQ has no tables", "name the queue to read: queue = \"…\"")),
        (_, Kind::Kafka) => {
            Err(("Kafka has no tables", "name the topic to read: topic = \"…\", and group = \"…\""))
        }
        (LayoutConfig::Log { .. }, Kind::MySql) => Err((
            "a log in MySQL is not supported yet",
            "map a table that is there, with layout = \"table\", or name a postgres: or sqlite: connection",
        )),
        (LayoutConfig::Table { .. }, Kind::Sqlite) => Err((
            "a mapped table in SQLite is not supported",
            "name a postgres: or mysql: connection, or use layout = \"log\"",
        )),
        (LayoutConfig::Log { .. } | LayoutConfig::Table { .. }, _) => Ok(()),
    }
}

/// Why a second pipe would get only what the first has left, and what to do.
fn one_reader(layout: &Layout) -> Option<(&'static str, &'static str)> {
    match layout {
        Layout::Log(_) => None,
        Layout::Table(_) => Some((
            "table",
            "a row of a mapped table is marked once, so it feeds one pipe; map another table, or use a log",
        )),
        Layout::Queue(_) => {
            Some(("queue", "a queue gives each message to one of its readers; bind a second queue"))
        }
        Layout::Topic(_) => Some((
            "topic",
            "a group gives each message to one of its readers; add a source with a group of its own",
        )),
    }
}

impl Checker<'_> {
    /// What is handed out once feeds one pipe.
    pub(super) fn one_reader(&self, pipes: &[PipeConfig], sources: &Known<SourcePlan>) {
        let mut taken = BTreeMap::new();
        for pipe in pipes {
            let Some(from) = &pipe.from else { continue };
            let Some(Some(source)) = sources.get(&from.value) else { continue };
            let Some((noun, help)) = one_reader(&source.layout) else { continue };
            if let Some(first) = taken.insert(&from.value, &pipe.name.value) {
                let what = format!(
                    "pipes.{}.from = \"{}\": pipe '{first}' reads from this {noun} already",
                    pipe.name.value, from.value
                );
                self.mistakes.note(from.place, what, help);
            }
        }
    }

    /// Whether another source reads the same; else each would get a part of it.
    pub(super) fn same_place<'s>(
        &self,
        sources: &'s Known<SourcePlan>,
        connection: &str,
        layout: &Layout,
    ) -> Option<&'s SourcePlan> {
        let is_same = |other: &&SourcePlan| {
            other.connection.name == connection
                && match (&other.layout, layout) {
                    (Layout::Queue(one), Layout::Queue(other)) => one.queue == other.queue,
                    (Layout::Topic(one), Layout::Topic(other)) => {
                        one.group == other.group
                            && one.topics.iter().any(|topic| other.topics.contains(topic))
                    }
                    _ => false,
                }
        };
        sources.values().flatten().find(is_same)
    }

    /// A queue that a sink makes and a source reads must be one and the same: the broker refuses the second.
    pub(super) fn one_kind_per_queue(
        &self,
        sources: &Known<SourcePlan>,
        sinks: &Known<SinkPlan>,
        places: &Places,
    ) {
        for source in sources.values().flatten() {
            let Layout::Queue(read) = &source.layout else { continue };
            for sink in sinks.values().flatten() {
                let Target::Exchange(connection, options) = &sink.target else { continue };
                let made = options.queues.iter().find(|queue| queue.name == read.queue);
                let both_make = [read.topology, options.topology] == [Topology::Declare; 2];
                if let (Some(made), true) = (made, both_make && connection.name == source.connection.name)
                    && made.kind != read.kind
                {
                    let shown = |kind| word(&QueueKind::WORDS, kind);
                    let what = format!(
                        "sources.{}: queue '{}' is {} here, and {} in sink '{}'",
                        source.name,
                        read.queue,
                        shown(read.kind),
                        shown(made.kind),
                        sink.name
                    );
                    let place = places.sources.get(&source.name).copied().unwrap_or_default();
                    let help = format!(
                        "write kind = \"{}\" here, or remove the queue from the sink and 'bind' it here",
                        shown(made.kind)
                    );
                    self.mistakes.note(place, what, help);
                }
            }
        }
    }
}
