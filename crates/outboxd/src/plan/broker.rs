//! The rules for sources on a broker, and for what only one may read.

use std::collections::BTreeMap;

use super::{Checker, Known, Layout, Places, SinkPlan, SourcePlan, Target};
use crate::backends::work_queue_config;
use crate::config::{LayoutConfig, PipeConfig};
use crate::connection::{Connection, Kind};
use crate::options::{Argument, QueueKind, QueueOptions, Topology, WorkQueueOptions, word};

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

    /// A queue that is read, and made by a sink or for dead letters as well, is of one kind: the broker refuses another.
    pub(super) fn one_kind_per_queue(
        &self,
        sources: &Known<SourcePlan>,
        sinks: &Known<SinkPlan>,
        places: &Places,
    ) {
        for (source, read) in queues_read(sources.values().flatten()) {
            let on = &source.connection.name;
            let sinks = sinks.values().flatten().filter(|_| read.topology == Topology::Declare);
            for (sink, made) in sinks.flat_map(|sink| queues_made(sink, on, &read.queue)) {
                let otherwise = "or remove the queue from the sink and 'bind' it here";
                self.two_kinds(
                    source,
                    read,
                    made.kind,
                    &format!("in sink '{}'", sink.name),
                    otherwise,
                    places,
                );
            }
            for (other, of) in queues_read(sources.values().flatten()) {
                if of.dead == read.queue && other.connection.name == *on {
                    let whose = format!("as the dead letters of source '{}'", other.name);
                    self.two_kinds(source, read, of.kind, &whose, "or change the kind there", places);
                }
            }
        }
    }

    /// Notes that a queue is of another kind elsewhere, if it is.
    fn two_kinds(
        &self,
        source: &SourcePlan,
        read: &WorkQueueOptions,
        kind: QueueKind,
        whose: &str,
        or: &str,
        places: &Places,
    ) {
        if read.kind == kind {
            return;
        }
        let (here, there) = (word(&QueueKind::WORDS, read.kind), word(&QueueKind::WORDS, kind));
        let what =
            format!("sources.{}: queue '{}' is {here} here, and {there} {whose}", source.name, read.queue);
        let place = places.sources.get(&source.name).copied().unwrap_or_default();
        self.mistakes.note(place, what, format!("write kind = \"{there}\" here, {or}"));
    }
}

fn queues_read<'s>(
    sources: impl Iterator<Item = &'s SourcePlan>,
) -> impl Iterator<Item = (&'s SourcePlan, &'s WorkQueueOptions)> {
    sources.filter_map(|source| match &source.layout {
        Layout::Queue(options) => Some((source, &**options)),
        _ => None,
    })
}

/// The queue of this name on this connection, if the sink makes it.
fn queues_made<'s>(sink: &'s SinkPlan, on: &str, queue: &str) -> Option<(&'s SinkPlan, &'s QueueOptions)> {
    match &sink.target {
        Target::Exchange(connection, options)
            if connection.name == on && options.topology == Topology::Declare =>
        {
            Some((sink, options.queues.iter().find(|made| made.name == queue)?))
        }
        _ => None,
    }
}

/// A queue is made with the arguments that its reader needs, whoever is the first to make it.
pub(super) fn share_arguments(
    sources: &mut BTreeMap<String, SourcePlan>,
    sinks: &mut BTreeMap<String, SinkPlan>,
) {
    let arguments: BTreeMap<(String, String), BTreeMap<String, Argument>> = queues_read(sources.values())
        .map(|(source, read)| {
            let queue = (source.connection.name.clone(), read.queue.clone());
            (queue, work_queue_config(read).queue_arguments())
        })
        .collect();
    let of = |on: &Connection, queue: &String| {
        arguments.get(&(on.name.clone(), queue.clone())).cloned().unwrap_or_default()
    };
    for source in sources.values_mut() {
        if let Layout::Queue(options) = &mut source.layout {
            options.dead_arguments = of(&source.connection, &options.dead);
        }
    }
    for sink in sinks.values_mut() {
        if let Target::Exchange(connection, options) = &mut sink.target {
            for queue in &mut options.queues {
                queue.arguments = of(connection, &queue.name);
            }
        }
    }
}
