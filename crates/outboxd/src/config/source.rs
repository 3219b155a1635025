//! `[sources.NAME]`: a log of ours, or a table that somebody else made.

use super::table::{TABLE_KEYS, read_table};
use super::{count, days, minutes};
use crate::mistake::{At, Place};
use crate::options::{LAYOUT_WORDS, LayoutWord, SourceOptions, TableOptions};
use crate::reader::Section;

/// Something to read from.
#[derive(Debug)]
pub struct SourceConfig {
    /// Its name.
    pub name: At<String>,
    /// The connection.
    pub on: Option<At<String>>,
    /// What it looks like, unless that was a mistake already.
    pub layout: Option<LayoutConfig>,
}

/// What a source looks like in its database.
#[derive(Debug)]
pub enum LayoutConfig {
    /// A log of ours.
    Log {
        /// How it is kept.
        options: SourceOptions,
        /// Where the limit of the payload was set.
        max_payload_place: Place,
    },
    /// A table that somebody else made.
    Table {
        /// Its mapping, and how it is kept.
        options: Box<TableOptions>,
        /// Where the table was named.
        table_place: Place,
        /// Where the time-out of the stamp was set.
        stamp_timeout_place: Place,
    },
}

impl LayoutConfig {
    /// Where the limit was set that has to fit the sink.
    pub fn limit_place(&self) -> Place {
        match self {
            Self::Log { max_payload_place, .. } => *max_payload_place,
            Self::Table { stamp_timeout_place, .. } => *stamp_timeout_place,
        }
    }
}

/// Keys that only a log has.
const LOG_KEYS: [&str; 4] = ["max_payload", "max_headers", "max_header_bytes", "notify"];

pub(super) fn read_source(name: At<String>, section: Section<'_>) -> SourceConfig {
    let on = section.required("on", "name the connection: on = \"…\"");
    let maps = ["preset", "table", "tables"].into_iter().any(|key| section.is_set(key));
    let mut word = if maps { LayoutWord::Table } else { LayoutWord::Log };
    section.choice("layout", &LAYOUT_WORDS, &mut word);
    let queue = "a queue as a source, which is not supported yet";
    let mut elsewhere = vec![("queue", queue), ("bind", queue), ("retry", queue)];
    let layout = match word {
        LayoutWord::Log => {
            elsewhere.extend(TABLE_KEYS.map(|key| (key, "a source with layout = \"table\"")));
            Some(read_log(&section))
        }
        LayoutWord::Table => {
            elsewhere.extend(LOG_KEYS.map(|key| (key, "a source with layout = \"log\"")));
            read_table(&section)
        }
    };
    section.finish(&elsewhere);
    SourceConfig { name, on, layout }
}

fn read_log(section: &Section<'_>) -> LayoutConfig {
    let mut options = SourceOptions::default();
    section.duration_or_never("retention", minutes(1)..=days(36_500), &mut options.retention);
    section.size("max_payload", 1..=1 << 30, &mut options.limits.payload);
    count(section, "max_headers", 0..=10_000, &mut options.limits.headers);
    section.size("max_header_bytes", 1..=16 << 20, &mut options.limits.header_bytes);
    section.flag("notify", &mut options.notify);
    LayoutConfig::Log { options, max_payload_place: section.place_of("max_payload") }
}
