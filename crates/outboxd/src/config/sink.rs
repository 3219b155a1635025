//! The sinks as they were written.

use std::path::PathBuf;

use outbox::kafka::Compression;

use super::{millis, minutes};
use crate::mistake::{At, Place};
use crate::options::{
    ExchangeKind, ExchangeOptions, QueueKind, QueueOptions, TemplateOptions, TopicOptions, Topology,
};
use crate::reader::Section;

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
        /// The templates in it.
        templates: Vec<TemplateConfig>,
    },
    /// A topic on a connection.
    Topic {
        /// The connection.
        on: At<String>,
        /// The topic.
        options: TopicOptions,
        /// The templates in it.
        templates: Vec<TemplateConfig>,
    },
    /// Lines of JSON on standard output.
    Stdout,
    /// Lines of JSON in a file.
    File(At<PathBuf>),
}

/// A template, to be checked with the whole.
#[derive(Debug)]
pub struct TemplateConfig {
    /// The key that it was written for, as in `headers.Type`.
    pub key: String,
    /// The template.
    pub text: String,
    /// Where it stands.
    pub place: Place,
}

const EXCHANGE_KEYS: [&str; 5] = ["exchange", "kind", "routing_key", "topology", "queues"];
const TOPIC_KEYS: [&str; 3] = ["topic", "compression", "ca_file"];
const BROKER_KEYS: [&str; 3] = ["headers", "timeout", "max_message"];

/// Reads a sink; which kind it is, its keys tell.
pub(super) fn read(name: At<String>, section: Section<'_>) -> SinkConfig {
    let kinds = ["on", "stdout", "file"].into_iter().filter(|key| section.has(key)).collect::<Vec<_>>();
    if let [_, second, ..] = kinds[..] {
        section.note(
            second,
            format!("stands beside '{}'", kinds[0]),
            "a sink is one of 'on', 'stdout', 'file'",
        );
    }
    let http = "an HTTP sink, which is not supported yet";
    let mut elsewhere = vec![("http", http), ("inbox", http)];
    let target = match kinds.first().copied() {
        Some("on") => read_broker(&section, &mut elsewhere),
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
            let help = "write on = \"connection\" with exchange = \"…\" or topic = \"…\", or stdout = true, or file = \"path\"";
            section.note_missing(&["on", "stdout", "file"], help);
            None
        }
    };
    if kinds.first() != Some(&"on") {
        let keys = EXCHANGE_KEYS.into_iter().chain(TOPIC_KEYS).chain(BROKER_KEYS);
        elsewhere.extend(keys.map(|key| (key, "a sink with 'on'")));
    }
    section.finish(&elsewhere);
    SinkConfig { name, target }
}

/// An exchange or a topic: what the connection is, is not known yet.
fn read_broker(
    section: &Section<'_>,
    elsewhere: &mut Vec<(&'static str, &'static str)>,
) -> Option<TargetConfig> {
    match (section.has("exchange"), section.has("topic")) {
        (true, true) => {
            section.note(
                "topic",
                "stands beside 'exchange'",
                "RabbitMQ has exchanges, Kafka has topics: keep one",
            );
            section.text("on");
            None
        }
        (false, true) => {
            elsewhere.extend(EXCHANGE_KEYS.map(|key| (key, "a sink with 'exchange'")));
            read_topic(section)
        }
        (true, false) => {
            elsewhere.extend(TOPIC_KEYS.map(|key| (key, "a sink with 'topic'")));
            read_exchange(section)
        }
        (false, false) => {
            section.note_missing(
                &["exchange", "topic"],
                "name the exchange of RabbitMQ: exchange = \"…\", or the topic of Kafka: topic = \"…\"",
            );
            section.text("on");
            // Known all the same, so that they are not told as unknown.
            for key in EXCHANGE_KEYS.into_iter().chain(TOPIC_KEYS).chain(BROKER_KEYS) {
                section.has(key);
            }
            None
        }
    }
}

fn read_exchange(section: &Section<'_>) -> Option<TargetConfig> {
    let (mut options, mut templates) = (ExchangeOptions::default(), Vec::new());
    let on = section.text("on");
    if let Some(exchange) = section.text("exchange") {
        if let Err(rule) = check_broker_name(&exchange.value) {
            section.note("exchange", rule, BROKER_NAME_HELP);
        }
        options.exchange = exchange.value;
    }
    section.choice("kind", &ExchangeKind::WORDS, &mut options.kind);
    if let Some(template) = section.text("routing_key") {
        options.routing_key.clone_from(&template.value);
        templates.push(template_config("routing_key".to_owned(), template));
    }
    section.choice("topology", &Topology::WORDS, &mut options.topology);
    options.headers = read_headers(section, &mut templates);
    section.duration("timeout", millis(100)..=minutes(10), &mut options.timeout);
    section.size("max_message", 1..=512 << 20, &mut options.max_message);
    for queue in section.tables("queues") {
        options.queues.extend(read_queue(queue, options.kind, &options.queues));
    }
    on.map(|on| TargetConfig::Exchange { on, options, templates })
}

fn read_topic(section: &Section<'_>) -> Option<TargetConfig> {
    let (mut options, mut templates) = (TopicOptions::default(), Vec::new());
    let on = section.text("on");
    if let Some(template) = section.text("topic") {
        options.topic.clone_from(&template.value);
        templates.push(template_config("topic".to_owned(), template));
    }
    section.choice("compression", &Compression::WORDS, &mut options.compression);
    options.headers = read_headers(section, &mut templates);
    section.duration("timeout", millis(100)..=minutes(10), &mut options.timeout);
    section.size("max_message", 1..=512 << 20, &mut options.max_message);
    options.ca_file = section.path("ca_file").map(|path| path.value);
    on.map(|on| TargetConfig::Topic { on, options, templates })
}

/// Headers that every message bears: `{ Name = "template" }`.
fn read_headers(section: &Section<'_>, templates: &mut Vec<TemplateConfig>) -> Vec<TemplateOptions> {
    let Some(table) = section.section("headers") else { return Vec::new() };
    let mut headers = Vec::new();
    for (name, value) in table.named() {
        if name.value.is_empty() || name.value.len() > 255 || name.value.chars().any(char::is_control) {
            table.note(&name.value, "is no name of a header", "1 to 255 bytes without control characters");
        } else if let Some(text) = table.named_text(&name, value) {
            headers.push(TemplateOptions { name: name.value.clone(), template: text.value.clone() });
            templates.push(template_config(format!("headers.{}", name.value), text));
        }
    }
    headers
}

fn template_config(key: String, text: At<String>) -> TemplateConfig {
    TemplateConfig { key, text: text.value, place: text.place }
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
