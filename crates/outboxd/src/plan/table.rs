//! The rules for a mapped table, whose marks are its only progress: what it needs of its connection, of its
//! one pipe and of the sink.

use outbox::table::{ClaimBy, Mapping, Tables};

use super::{Checker, SinkPlan, SourcePlan};
use crate::config::PipeConfig;
use crate::connection::Kind;
use crate::mistake::Place;
use crate::quantity::show_duration;

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
        if let Some(start) = config.set("start") {
            let what = format!(
                "pipes.{}.start: has no meaning for the mapped table '{}'",
                config.name.value, source.name
            );
            self.mistakes.note(start, what, "which rows are meant is said by its 'pending'; remove 'start'");
        }
        let Some(least) = sink.target.timeout() else { return };
        let ClaimBy::Stamp { timeout, .. } = &mapping.claim else {
            return self.lease(config, sink);
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
        let policy = &mut config.options.policy;
        let tries = policy.most_attempts();
        let (key, shown) = match &policy.steps {
            Some(steps) => ("retry", format!("retry: {} delays are {tries} attempts", steps.len())),
            None => ("attempts", format!("attempts = {tries}")),
        };
        let whose = format!("pipes.{}.{shown}", config.name.value);
        let place = config.set(key);
        let policy = &mut config.options.policy;
        match (mapping.attempts_limit(), place) {
            (Some(limit), None) => policy.attempts = limit,
            (Some(limit), Some(_)) if tries == limit => policy.attempts = limit,
            (Some(limit), Some(place)) => {
                let what = format!(
                    "{whose}: 'pending' of source '{}' ends at {limit}, so attempts must be {limit}",
                    source.name
                );
                let help = if key == "retry" {
                    format!("list {} delays, or change 'pending'", limit.saturating_sub(1))
                } else {
                    "leave 'attempts' out, or change 'pending'".to_owned()
                };
                self.mistakes.note(place, what, help);
            }
            (None, Some(place)) if !mapping.can_be_dead() => {
                let what = format!(
                    "{whose}: the table of source '{}' has no place to write down that a message is dead",
                    source.name
                );
                let help = format!(
                    "leave '{key}' out: a message is tried until it goes; or map 'dead', or 'attempts' with a limit in 'pending'"
                );
                self.mistakes.note(place, what, help);
            }
            (None, None) if !mapping.can_be_dead() => policy.attempts = u32::MAX,
            _ => {}
        }
    }
}
