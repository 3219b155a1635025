//! The configuration as it was written: one struct per section, each value with its place.
//!
//! Reading knows sections, keys and types; what refers to what is the business of [`crate::plan`].

mod access;
mod alerts;
mod broker;
mod handler;
mod inbox;
mod pipe;
mod server;
mod sink;
mod source;
mod table;
mod traces;

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::mistake::At;
use crate::options::{LEVELS, LogFormat, LogOptions};
use crate::reader::Section;
use crate::secret::Secret;

pub use access::AccessConfig;
pub use alerts::AlertsConfig;
pub use inbox::{InboxConfig, InboxPlace};
pub use pipe::PipeConfig;
use pipe::read_pipe;
pub use server::{AuditConfig, HttpConfig, PublisherConfig};
pub use sink::{SinkConfig, TargetConfig, TemplateConfig};
use source::read_source;
pub use source::{LayoutConfig, SourceConfig};
pub use traces::TracesConfig;

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
    /// `[http]`
    pub http: Option<HttpConfig>,
    /// `[publishers.NAME]`
    pub publishers: Vec<PublisherConfig>,
    /// `[audit]`
    pub audit: Option<AuditConfig>,
    /// `[alerts]`
    pub alerts: Option<AlertsConfig>,
    /// `[traces]`
    pub traces: Option<TracesConfig>,
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
    /// A password from a file; something else if that was a mistake already.
    pub password: Option<At<Secret>>,
    /// Whether it may go unencrypted to another host.
    pub plaintext: bool,
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
        config.http = root.section("http").map(server::read_http);
        if let Some(section) = root.section("publishers") {
            let read = |(name, section)| server::read_publisher(name, section);
            config.publishers = section.named_sections().into_iter().map(read).collect();
        }
        config.audit = root.section("audit").map(server::read_audit);
        config.alerts = root.section("alerts").map(alerts::read_alerts);
        config.traces = root.section("traces").map(traces::read_traces);
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
                "write url = \"postgres://…\", \"sqlite:…\", \"amqps://…\", \"kafka+ssl://…\" or \"smtps://…\"",
            );
        }
        let password = match table.secret_file("password_file") {
            // That it cannot be read is noted. To the URL there is a password: that it lacks one would be a second mistake.
            None if table.has("password_file") => Some(At::new(Secret::new("unread"), name.place)),
            read => read.map(hide),
        };
        let mut plaintext = false;
        table.flag("plaintext", &mut plaintext);
        table.finish(&[]);
        connections.push(ConnectionConfig { name, url, password, plaintext });
    }
    connections
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
