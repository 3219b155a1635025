//! The configuration as it was written: one struct per section, each value with its place.
//!
//! Reading knows sections, keys and types; what refers to what is the business of [`crate::plan`].

mod sink;
mod source;
mod table;

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::mistake::{At, Place};
use crate::options::{
    GROUP_WORDS, LEVELS, LogFormat, LogOptions, ON_DEAD_WORDS, ORDER_WORDS, OUTAGE_WORDS, PipeOptions, Start,
};
use crate::reader::Section;
use crate::secret::Secret;

pub use sink::{SinkConfig, TargetConfig, TemplateConfig};
use source::read_source;
pub use source::{LayoutConfig, SourceConfig};

/// A whole file.
#[derive(Debug, Default)]
pub struct Config {
    /// `[connections]`
    pub connections: Vec<ConnectionConfig>,
    /// `[sources.NAME]`
    pub sources: Vec<SourceConfig>,
    /// `[sinks.NAME]`
    pub sinks: Vec<SinkConfig>,
    /// `[pipes.NAME]`
    pub pipes: Vec<PipeConfig>,
    /// `[log]`
    pub log: LogOptions,
    /// `[relay] name`
    pub relay: Option<At<String>>,
}

/// A server or a file, by URL.
#[derive(Debug)]
pub struct ConnectionConfig {
    /// Its name.
    pub name: At<String>,
    /// Its URL, unless that was a mistake already.
    pub url: Option<At<Secret>>,
    /// A password from a file.
    pub password: Option<At<Secret>>,
    /// Whether it may go unencrypted to another host.
    pub plaintext: bool,
}

/// From a source to a sink.
#[derive(Debug)]
pub struct PipeConfig {
    /// Its name, which is that of its cursor.
    pub name: At<String>,
    /// The source.
    pub from: Option<At<String>>,
    /// The sink.
    pub to: Option<At<String>>,
    /// Everything else.
    pub options: PipeOptions,
    /// Where the lease was set.
    pub lease_place: Place,
    /// Where the attempts were set, if they were.
    pub attempts_place: Option<Place>,
    /// Where the start was set, if it was.
    pub start_place: Option<Place>,
}

impl Config {
    /// Reads every section; mistakes go to the reader.
    pub fn read(root: Section<'_>) -> Self {
        let mut config = Self::default();
        if let Some(section) = root.section("connections") {
            config.connections = read_connections(&section);
        }
        if let Some(section) = root.section("sources") {
            let read = |(name, section)| read_source(name, section);
            config.sources = section.named_sections().into_iter().map(read).collect();
        }
        if let Some(section) = root.section("sinks") {
            let read = |(name, section)| sink::read(name, section);
            config.sinks = section.named_sections().into_iter().map(read).collect();
        }
        if let Some(section) = root.section("pipes") {
            let read = |(name, section)| read_pipe(name, section);
            config.pipes = section.named_sections().into_iter().map(read).collect();
        }
        if let Some(section) = root.section("log") {
            section.choice("format", &LogFormat::WORDS, &mut config.log.format);
            section.choice("level", &LEVELS, &mut config.log.level);
            section.finish(&[]);
        }
        if let Some(section) = root.section("relay") {
            config.relay = section.text("name");
            section.finish(&[]);
        }
        root.finish(&[]);
        config
    }
}

fn read_connections(section: &Section<'_>) -> Vec<ConnectionConfig> {
    let mut connections = Vec::new();
    let hide = |text: At<String>| At::new(Secret::new(text.value), text.place);
    for (name, value) in section.named() {
        let Some(table) = section.as_section(&name, value) else {
            let url = section.named_text(&name, value).map(hide);
            connections.push(ConnectionConfig { name, url, password: None, plaintext: false });
            continue;
        };
        let mut url = table.text("url").map(hide);
        if table.has("url_file") {
            if table.has("url") {
                table.note("url_file", "stands beside 'url'", "keep one of the two");
            }
            url = table.secret_file("url_file").map(hide);
        } else if !table.has("url") {
            table.note_missing(
                &["url"],
                "write url = \"postgres://…\", \"sqlite:…\", \"amqps://…\" or \"kafka+ssl://…\"",
            );
        }
        let password = table.secret_file("password_file").map(hide);
        let mut plaintext = false;
        table.flag("plaintext", &mut plaintext);
        table.finish(&[]);
        connections.push(ConnectionConfig { name, url, password, plaintext });
    }
    connections
}

fn read_pipe(name: At<String>, section: Section<'_>) -> PipeConfig {
    let mut options = PipeOptions::default();
    let from = section.required("from", "name the source: from = \"…\"");
    let to = section.required("to", "name the sink: to = \"…\"");
    let policy = &mut options.policy;
    section.choice("order", &ORDER_WORDS, &mut policy.order);
    section.choice("on_dead", &ON_DEAD_WORDS, &mut policy.on_dead);
    section.choice("outage", &OUTAGE_WORDS, &mut policy.outage);
    section.count("attempts", 1..=1_000_000, &mut policy.attempts);
    let delays = || millis(1)..=days(1);
    section.duration("retry_first", delays(), &mut policy.retry.first);
    section.duration("retry_most", delays(), &mut policy.retry.most);
    section.duration("probe_first", delays(), &mut policy.probe.first);
    section.duration("probe_most", delays(), &mut policy.probe.most);
    section.count("streak", 1..=1_000_000, &mut policy.streak);
    for (first, most, backoff) in
        [("retry_first", "retry_most", policy.retry), ("probe_first", "probe_most", policy.probe)]
    {
        if backoff.first > backoff.most {
            let set = if section.has(first) { first } else { most };
            section.note(
                set,
                format!("'{first}' is above '{most}'"),
                "delays double from the first up to the most",
            );
        }
    }
    section.count("batch", 1..=10_000, &mut options.batch);
    section.count("depth", 1..=64, &mut options.depth);
    section.count("concurrency", 1..=1_024, &mut options.concurrency);
    section.choice("group", &GROUP_WORDS, &mut options.group);
    section.count("lanes", 1..=256, &mut options.lanes);
    section.duration("lease", secs(1)..=minutes(60), &mut options.lease);
    section.duration("poll", millis(1)..=minutes(10), &mut options.poll);
    section.duration("drain", millis(0)..=minutes(60), &mut options.drain);
    section.choice("start", &Start::WORDS, &mut options.start);
    let lease_place = section.place_of("lease");
    let (attempts_place, start_place) = (section.place_if_set("attempts"), section.place_if_set("start"));
    section.finish(&[]);
    PipeConfig { name, from, to, options, lease_place, attempts_place, start_place }
}

fn count(section: &Section<'_>, key: &'static str, limits: RangeInclusive<u32>, into: &mut usize) {
    let mut number = u32::try_from(*into).unwrap_or(u32::MAX);
    section.count(key, limits, &mut number);
    *into = number as usize;
}

const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n * 60)
}

const fn days(n: u64) -> Duration {
    Duration::from_secs(n * 86_400)
}
