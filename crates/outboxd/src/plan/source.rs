//! The sources of a plan: each with a connection that it fits.

use std::time::Duration;

use super::{Checker, Known, table};
use crate::config::{LayoutConfig, SourceConfig};
use crate::connection::{Connection, Kind};
use crate::options::{SourceOptions, TableOptions};

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

/// What a source looks like in its database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Layout {
    /// A log of ours.
    Log(SourceOptions),
    /// A table that somebody else made, in PostgreSQL or MySQL.
    Table(Box<TableOptions>),
}

impl SourcePlan {
    /// After which time what is done is removed, if ever.
    pub fn retention(&self) -> Option<Duration> {
        match &self.layout {
            Layout::Log(options) => options.retention,
            Layout::Table(options) => options.retention,
        }
    }
}

impl Checker<'_> {
    pub(super) fn sources(
        &self,
        configs: Vec<SourceConfig>,
        connections: &Known<Connection>,
    ) -> Known<SourcePlan> {
        let mut sources: Known<SourcePlan> = Known::new();
        for config in configs {
            self.name("sources", &config.name);
            let name = config.name.value;
            let plan = config.on.and_then(|on| {
                let whose = format!("sources.{name}");
                let connection = self.find(&whose, "on", &on, connections, "connection")?;
                let not_yet = match connection.kind {
                    Kind::Amqp => Some("a queue"),
                    Kind::Kafka => Some("a topic"),
                    Kind::Sqlite | Kind::Postgres | Kind::MySql => None,
                };
                if let Some(noun) = not_yet {
                    let what =
                        format!("{whose}.on = \"{}\": {noun} as a source is not supported yet", on.value);
                    self.mistakes.note(on.place, what, "name a connection to a database");
                    return None;
                }
                let layout = config.layout?;
                if let Err((rule, help)) = table::fits(&layout, connection.kind) {
                    self.mistakes.note(on.place, format!("{whose}.on = \"{}\": {rule}", on.value), help);
                    return None;
                }
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
                };
                Some(SourcePlan { name: name.clone(), connection: connection.clone(), layout, reader: None })
            });
            sources.insert(name, plan);
        }
        sources
    }
}
