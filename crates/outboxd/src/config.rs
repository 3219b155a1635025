//! The configuration as it was written: one struct per section, each value with its place.
//!
//! Reading knows sections, keys and types; what refers to what is the business of [`crate::plan`].

mod source;
mod table;

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use crate::mistake::{At, Place};
use crate::options::{
    ExchangeKind, ExchangeOptions, GROUP_WORDS, LEVELS, LogFormat, LogOptions, ON_DEAD_WORDS, ORDER_WORDS,
    OUTAGE_WORDS, PipeOptions, QueueKind, QueueOptions, Start, Topology,
};
use crate::reader::Section;
use crate::secret::Secret;

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

/// A place to send to.
#[derive(Debug)]
pub struct SinkConfig {
    /// Its name.
    pub name: At<String>,
    /// Which kind, unless that was a mistake already.
    pub target: Option<TargetConfig>,
}

/// The kinds of a sink.
#[derive(Debug)]
pub enum TargetConfig {
    /// An exchange on a connection.
    Exchange {
        /// The connection.
        on: At<String>,
        /// The exchange and its queues.
        options: ExchangeOptions,
        /// Where the routing key was set.
        routing_key_place: usize,
        /// The headers, each a name and a template.
        headers: Vec<(At<String>, At<String>)>,
    },
    /// Lines of JSON on standard output.
    Stdout,
    /// Lines of JSON in a file.
    File(At<PathBuf>),
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
            let read = |(name, section)| read_sink(name, section);
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
            table.note_missing(&["url"], "write url = \"postgres://…\", \"sqlite:…\" or \"amqps://…\"");
        }
        let password = table.secret_file("password_file").map(hide);
        let mut plaintext = false;
        table.flag("plaintext", &mut plaintext);
        table.finish(&[]);
        connections.push(ConnectionConfig { name, url, password, plaintext });
    }
    connections
}

const EXCHANGE_KEYS: [&str; 8] =
    ["exchange", "kind", "routing_key", "headers", "topology", "queues", "timeout", "max_message"];

fn read_sink(name: At<String>, section: Section<'_>) -> SinkConfig {
    let kinds = ["on", "stdout", "file"].into_iter().filter(|key| section.has(key)).collect::<Vec<_>>();
    if let [_, second, ..] = kinds[..] {
        section.note(
            second,
            format!("stands beside '{}'", kinds[0]),
            "a sink is one of 'on', 'stdout', 'file'",
        );
    }
    let target = match kinds.first().copied() {
        Some("on") => read_exchange(&section),
        Some("stdout") => {
            let mut stdout = true;
            section.flag("stdout", &mut stdout);
            if !stdout {
                section.note(
                    "stdout",
                    "says that this is no sink",
                    "write stdout = true, or remove the sink",
                );
            }
            Some(TargetConfig::Stdout)
        }
        Some(_) => section.path("file").map(TargetConfig::File),
        None => {
            let help =
                "write on = \"connection\" with exchange = \"…\", or stdout = true, or file = \"path\"";
            section.note_missing(&["on", "stdout", "file"], help);
            None
        }
    };
    let http = "an HTTP sink, which is not supported yet";
    let mut elsewhere = vec![("http", http), ("inbox", http)];
    if kinds.first() != Some(&"on") {
        elsewhere.extend(EXCHANGE_KEYS.map(|key| (key, "a sink with 'on'")));
    }
    section.finish(&elsewhere);
    SinkConfig { name, target }
}

fn read_exchange(section: &Section<'_>) -> Option<TargetConfig> {
    let mut options = ExchangeOptions::default();
    let on = section.text("on");
    if let Some(exchange) = section.required("exchange", "name the exchange: exchange = \"…\"") {
        if let Err(rule) = check_broker_name(&exchange.value) {
            section.note("exchange", rule, BROKER_NAME_HELP);
        }
        options.exchange = exchange.value;
    }
    section.choice("kind", &ExchangeKind::WORDS, &mut options.kind);
    if let Some(template) = section.text("routing_key") {
        options.routing_key = template.value;
    }
    section.choice("topology", &Topology::WORDS, &mut options.topology);
    section.duration("timeout", millis(100)..=minutes(10), &mut options.timeout);
    section.size("max_message", 1..=512 << 20, &mut options.max_message);
    for queue in section.tables("queues") {
        options.queues.extend(read_queue(queue, options.kind, &options.queues));
    }
    let routing_key_place = section.place_of("routing_key");
    let headers = section.section("headers").map_or_else(Vec::new, |headers| {
        let text = |(name, value)| headers.named_text(&name, value).map(|text| (name, text));
        headers.named().into_iter().filter_map(text).collect()
    });
    on.map(|on| TargetConfig::Exchange { on, options, routing_key_place, headers })
}

fn read_queue(section: Section<'_>, exchange: ExchangeKind, before: &[QueueOptions]) -> Option<QueueOptions> {
    let name = section.required("name", "name the queue: { name = \"…\", keys = [\"…\"] }");
    let mut kind = QueueKind::Quorum;
    section.choice("type", &QueueKind::WORDS, &mut kind);
    let mut keys: Vec<String> = section.texts("keys").into_iter().map(|key| key.value).collect();
    if !section.has("keys") {
        match exchange {
            ExchangeKind::Topic => keys.push("#".to_owned()),
            ExchangeKind::Fanout | ExchangeKind::Headers => keys.push(String::new()),
            ExchangeKind::Direct => section.note_missing(&["keys"], "a direct exchange needs keys = [\"…\"]"),
        }
    }
    if let Some(name) = &name {
        if let Err(rule) = check_broker_name(&name.value) {
            section.note("name", rule, BROKER_NAME_HELP);
        }
        if before.iter().any(|queue| queue.name == name.value) {
            section.note("name", "is listed twice", "put all its keys into one entry");
        }
    }
    section.finish(&[]);
    Some(QueueOptions { name: name?.value, keys, kind })
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

const BROKER_NAME_HELP: &str = "1 to 255 bytes without quotes, backslashes and control characters";

/// Whether an exchange or a queue can bear this name.
fn check_broker_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        Err("is empty")
    } else if name.len() > 255 {
        Err("is too long")
    } else if name.contains(['"', '\'', '`', '\\']) || name.chars().any(char::is_control) {
        Err("has a character that a name cannot have")
    } else {
        Ok(())
    }
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
