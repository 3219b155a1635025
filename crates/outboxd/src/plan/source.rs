//! The sources of a plan: each with a connection that it fits.

use std::time::Duration;

use super::{Checker, Known, broker};
use crate::backends;
use crate::config::{LayoutConfig, SourceConfig};
use crate::connection::Connection;
use crate::mistake::{At, Place};
use crate::options::{GroupOptions, SourceOptions, TableOptions, WorkQueueOptions};

/// Something to read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePlan {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub connection: Connection,
    /// What it looks like there.
    pub layout: Layout,
    /// The pipe that reads it, or the first of them: a mapped table has one.
    pub reader: Option<String>,
}

/// What a source looks like where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// A log of ours.
    Log(SourceOptions),
    /// A table that somebody else made, in PostgreSQL or MySQL.
    Table(Box<TableOptions>),
    /// A queue of RabbitMQ.
    Queue(Box<WorkQueueOptions>),
    /// Topics of Kafka.
    Topic(Box<GroupOptions>),
}

impl SourcePlan {
    /// After which time what is done is removed, if ever.
    pub fn retention(&self) -> Option<Duration> {
        match &self.layout {
            Layout::Log(options) => options.retention,
            Layout::Table(options) => options.retention,
            Layout::Queue(_) | Layout::Topic(_) => None,
        }
    }

    /// So many bytes may a payload have here, if that is said anywhere.
    pub fn max_payload(&self) -> Option<usize> {
        match &self.layout {
            Layout::Log(options) => Some(options.limits.payload),
            Layout::Queue(options) => Some(options.form.max_payload),
            Layout::Topic(options) => Some(options.form.max_payload),
            Layout::Table(_) => None,
        }
    }

    /// Whether it is on a broker, which keeps its progress: there is nothing that could be asked of an outbox.
    pub fn is_on_broker(&self) -> bool {
        matches!(self.layout, Layout::Queue(_) | Layout::Topic(_))
    }
}

impl Checker<'_> {
    pub(super) fn sources(
        &self,
        configs: Vec<SourceConfig>,
        connections: &Known<Connection>,
    ) -> Known<SourcePlan> {
        let mut sources: Known<SourcePlan> = Known::new();
        for SourceConfig { name, on, layout } in configs {
            self.name("sources", &name);
            let plan = on.and_then(|on| self.source(&name.value, &on, layout, connections, &sources));
            sources.insert(name.value, plan);
        }
        sources
    }

    fn source(
        &self,
        name: &str,
        on: &At<String>,
        layout: Option<LayoutConfig>,
        connections: &Known<Connection>,
        sources: &Known<SourcePlan>,
    ) -> Option<SourcePlan> {
        let whose = format!("sources.{name}");
        let connection = self.find(&whose, "on", on, connections, "connection")?;
        let layout = layout?;
        if let Err((rule, help)) = broker::fits(&layout, connection.kind) {
            self.mistakes.note(on.place, format!("{whose}.on = \"{}\": {rule}", on.value), help);
            return None;
        }
        let place = layout.limit_place();
        let layout = match layout {
            LayoutConfig::Table { options, table_place, .. } => {
                self.no_dot(&whose, &options.mapping, connection.kind, table_place);
                Layout::Table(options)
            }
            LayoutConfig::Log { options, .. } => {
                let is_its_log = |other: &&SourcePlan| {
                    other.connection.name == connection.name && matches!(other.layout, Layout::Log(_))
                };
                if let Some(other) = sources.values().flatten().find(is_its_log) {
                    let what = format!(
                        "{whose}.on = \"{}\": '{}' is the source for it already",
                        on.value, other.name
                    );
                    let help = "a database has one log; let both pipes read from the one source";
                    self.mistakes.note(on.place, what, help);
                }
                Layout::Log(options)
            }
            LayoutConfig::Queue { options, .. } => {
                self.whole(&whose, place, || backends::check_work_queue(&options));
                Layout::Queue(options)
            }
            LayoutConfig::Topics { options, .. } => {
                self.whole(&whose, place, || backends::check_group(&options));
                Layout::Topic(options)
            }
        };
        if let Some(other) = self.same_place(sources, &connection.name, &layout) {
            let what =
                format!("{whose}: source '{}' reads the same, so each would get a part of it", other.name);
            let help = if matches!(layout, Layout::Queue(_)) {
                "a queue gives each message to one of its readers; bind a second queue"
            } else {
                "a group gives each message to one of its readers; name another group"
            };
            self.mistakes.note(place, what, help);
        }
        Some(SourcePlan { name: name.to_owned(), connection: connection.clone(), layout, reader: None })
    }

    /// What one key says wrong is told by itself; here what only the whole tells.
    fn whole(&self, whose: &str, place: Place, check: impl Fn() -> Result<(), String>) {
        if self.mistakes.is_empty()
            && let Err(rule) = check()
        {
            self.mistakes.note(place, format!("{whose}: {rule}"), "see the reference of [sources.NAME]");
        }
    }
}
