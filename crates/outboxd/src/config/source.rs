//! `[sources.NAME]`: a log of ours, a table that somebody else made, a queue or topics of a broker.

use super::broker::{QUEUE_KEYS, SHARED_KEYS, TOPIC_KEYS, read_queue, read_topics};
use super::table::{TABLE_KEYS, read_table};
use super::{count, days, minutes};
use crate::mistake::{At, Place};
use crate::options::{GroupOptions, LAYOUT_WORDS, LayoutWord, SourceOptions, TableOptions, WorkQueueOptions};
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

/// What a source looks like where it is.
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
    /// A queue of RabbitMQ.
    Queue {
        /// The queue, and what belongs to it.
        options: Box<WorkQueueOptions>,
        /// Where it was named.
        queue_place: Place,
    },
    /// Topics of Kafka.
    Topics {
        /// The topics, and what belongs to them.
        options: Box<GroupOptions>,
        /// Where they were named.
        topic_place: Place,
    },
}

impl LayoutConfig {
    /// Where the limit was set that has to fit the sink.
    pub fn limit_place(&self) -> Place {
        match self {
            Self::Log { max_payload_place, .. } => *max_payload_place,
            Self::Table { stamp_timeout_place, .. } => *stamp_timeout_place,
            Self::Queue { queue_place: place, .. } | Self::Topics { topic_place: place, .. } => *place,
        }
    }
}

/// Keys that only a log has.
const LOG_KEYS: [&str; 3] = ["max_headers", "max_header_bytes", "notify"];

const LOG: &str = "a source with layout = \"log\"";
const TABLE: &str = "a source with layout = \"table\"";
const DATABASE: &str = "a source in a database";
const QUEUE: &str = "a source with 'queue'";
const TOPIC: &str = "a source with 'topic'";
const BROKER: &str = "a source with 'queue' or 'topic'";

pub(super) fn read_source(name: At<String>, section: Section<'_>) -> SourceConfig {
    let on = section.required("on", "name the connection: on = \"…\"");
    let sets = |keys: &[&str]| keys.iter().any(|key| section.is_set(key));
    let (is_queue, is_topic) = (sets(&["queue"]), sets(&["topic", "topics", "group"]));
    let mut elsewhere: Vec<(&'static str, &str)> = Vec::new();
    let mut belong = |keys: &[&'static str], kind: &'static str| {
        elsewhere.extend(keys.iter().map(|key| (*key, kind)));
    };
    let layout = if is_queue || is_topic {
        let layout = if is_queue {
            belong(&TOPIC_KEYS, TOPIC);
            read_queue(&section)
        } else {
            belong(&QUEUE_KEYS, QUEUE);
            read_topics(&section)
        };
        belong(&["layout", "retention"], DATABASE);
        belong(&LOG_KEYS, LOG);
        belong(&TABLE_KEYS, TABLE);
        layout
    } else {
        let maps = sets(&["preset", "table", "tables"]);
        let mut word = if maps { LayoutWord::Table } else { LayoutWord::Log };
        section.choice("layout", &LAYOUT_WORDS, &mut word);
        let layout = match word {
            LayoutWord::Log => {
                belong(&TABLE_KEYS, TABLE);
                Some(read_log(&section))
            }
            LayoutWord::Table => {
                belong(&LOG_KEYS, LOG);
                belong(&["max_payload"], LOG);
                read_table(&section)
            }
        };
        belong(&QUEUE_KEYS, QUEUE);
        belong(&TOPIC_KEYS, TOPIC);
        belong(&SHARED_KEYS, BROKER);
        layout
    };
    let misspelt = section.finish(&elsewhere);
    // What was meant to be a queue is no log, whatever else it looks like.
    let meant = ["queue", "topic", "topics"].iter().any(|key| misspelt.contains(key));
    SourceConfig { name, on, layout: layout.filter(|_| !meant) }
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
