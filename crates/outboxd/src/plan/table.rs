//! The rules for a mapped table, whose marks are its only progress: what it needs of its connection, of its
//! one pipe and of the sink.

use std::collections::BTreeMap;

use outbox::table::{ClaimBy, Mapping, Tables};

use super::{Checker, Known, Layout, SinkPlan, SourcePlan};
use crate::config::{LayoutConfig, PipeConfig};
use crate::connection::Kind;
use crate::mistake::Place;
use crate::quantity::show_duration;

/// Whether a source can look like this on such a connection; else the rule, and what to do.
pub(super) fn fits(layout: &LayoutConfig, kind: Kind) -> Result<(), (&'static str, &'static str)> {
    match (layout, kind) {
        (LayoutConfig::Log { .. }, Kind::MySql) => Err((
            "a log in MySQL is not supported yet",
            "map a table that is there, with layout = \"table\", or name a postgres: or sqlite: connection",
        )),
        (LayoutConfig::Table { .. }, Kind::Sqlite) => Err((
            "a mapped table in SQLite is not supported",
            "name a postgres: or mysql: connection, or use layout = \"log\"",
        )),
        _ => Ok(()),
    }
}

impl Checker<'_> {
    /// In PostgreSQL a dot can only have been meant to part a schema from its table.
    pub(super) fn no_dot(&self, whose: &str, mapping: &Mapping, kind: Kind, place: Place) {
        let Tables::Named(tables) = &mapping.tables else { return };
        let named = tables.iter().map(|named| named.table.as_str());
        if let (Kind::Postgres, Some((name, (schema, table)))) =
            (kind, named.filter_map(|name| Some((name, name.split_once('.')?))).next())
        {
            let what = format!("{whose}.table: '{name}' has a dot in it");
            self.mistakes.note(place, what, format!("write schema = \"{schema}\" and table = \"{table}\""));
        }
    }

    /// A row is marked once, so a second pipe would get what the first has left.
    pub(super) fn one_pipe_per_table(&self, pipes: &[PipeConfig], sources: &Known<SourcePlan>) {
        let mut taken = BTreeMap::new();
        for pipe in pipes {
            let Some(from) = &pipe.from else { continue };
            let Some(Some(SourcePlan { layout: Layout::Table(_), .. })) = sources.get(&from.value) else {
                continue;
            };
            if let Some(first) = taken.insert(&from.value, &pipe.name.value) {
                let what = format!(
                    "pipes.{}.from = \"{}\": pipe '{first}' reads from this table already",
                    pipe.name.value, from.value
                );
                let help = "a row of a mapped table is marked once, so it feeds one pipe; map another table, or use a log";
                self.mistakes.note(from.place, what, help);
            }
        }
    }

    /// A pipe whose source is a mapped table; `place` is where the time-out of its stamp was set.
    pub(super) fn table_pipe(
        &self,
        config: &mut PipeConfig,
        source: &SourcePlan,
        mapping: &Mapping,
        sink: &SinkPlan,
        place: Place,
    ) {
        self.attempts(config, source, mapping);
        if let Some(start) = config.start_place {
            let what = format!(
                "pipes.{}.start: has no meaning for the mapped table '{}'",
                config.name.value, source.name
            );
            self.mistakes.note(start, what, "which rows are meant is said by its 'pending'; remove 'start'");
        }
        let Some((least, _)) = sink.target.limits() else { return };
        let ClaimBy::Stamp { timeout, .. } = &mapping.claim else {
            return self.lease(config, sink, least);
        };
        if *timeout < least * 2 {
            let (timeout, least) = (show_duration(*timeout), show_duration(least));
            let what = format!(
                "sources.{}.stamp_timeout = \"{timeout}\": is too short for sink '{}' with timeout = \"{least}\"",
                source.name, sink.name
            );
            self.mistakes.note(place, what, "the time-out of a stamp must be at least twice the sink's");
        }
    }

    /// The table has the last word on how often a message is tried.
    fn attempts(&self, config: &mut PipeConfig, source: &SourcePlan, mapping: &Mapping) {
        let attempts = &mut config.options.policy.attempts;
        let whose = format!("pipes.{}.attempts = {attempts}", config.name.value);
        match (mapping.attempts_limit(), config.attempts_place) {
            (Some(limit), None) => *attempts = limit,
            (Some(limit), Some(place)) if *attempts != limit => {
                let what = format!(
                    "{whose}: 'pending' of source '{}' ends at {limit}, so attempts must be {limit}",
                    source.name
                );
                self.mistakes.note(place, what, "leave 'attempts' out, or change 'pending'");
            }
            (None, Some(place)) if !mapping.can_be_dead() => {
                let what = format!(
                    "{whose}: the table of source '{}' has no place to write down that a message is dead",
                    source.name
                );
                let help = "leave 'attempts' out: a message is tried until it goes; or map 'dead', or 'attempts' with a limit in 'pending'";
                self.mistakes.note(place, what, help);
            }
            (None, None) if !mapping.can_be_dead() => *attempts = u32::MAX,
            _ => {}
        }
    }
}
