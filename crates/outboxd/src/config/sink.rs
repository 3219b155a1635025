//! The sinks as they were written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use outbox::kafka::Compression;

use super::handler::{
    self, ENDPOINT_KEYS, ERROR_LOG_KEYS, MAIL_FURTHER_KEYS, MAIL_KEYS, METRICS_KEYS, SQL_KEYS,
};
use super::inbox::{INBOX_KEYS, InboxConfig};
use super::{millis, minutes};
use crate::mistake::{At, Place};
use crate::options::{
    EndpointOptions, ErrorLogOptions, ExchangeKind, ExchangeOptions, MailOptions, MeterOptions, QueueKind,
    QueueOptions, StatementOptions, TemplateOptions, TopicOptions, Topology, has_text,
};
use crate::reader::Section;
use crate::secret::is_secret_name;

/// A place to send to.
#[derive(Debug)]
pub struct SinkConfig {
    /// Its name.
    pub name: At<String>,
    /// Which kind, unless that was a mistake already.
    pub target: Option<TargetConfig>,
    /// The inbox before it.
    pub inbox: Option<InboxConfig>,
    /// The templates in it.
    pub templates: Vec<TemplateConfig>,
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
    },
    /// A topic on a connection.
    Topic {
        /// The connection.
        on: At<String>,
        /// The topic.
        options: TopicOptions,
    },
    /// Statements in the database of a connection.
    Sql {
        /// The connection.
        on: At<String>,
        /// The statements.
        options: StatementOptions,
        /// Where they stand.
        place: Place,
    },
    /// E-mail through the server of a connection.
    Mail {
        /// The connection.
        on: At<String>,
        /// What is sent.
        options: Box<MailOptions>,
    },
    /// A table of errors in the database of a connection.
    ErrorLog {
        /// The connection.
        on: At<String>,
        /// The table.
        options: ErrorLogOptions,
        /// Where it was named.
        place: Place,
    },
    /// An endpoint.
    Http {
        /// Where, and how.
        options: Box<EndpointOptions>,
        /// Where the URL stands.
        place: Place,
        /// Where the secret stands.
        secret_place: Place,
    },
    /// Figures on the metrics endpoint.
    Metrics {
        /// The figures, each with its place.
        meters: Vec<At<MeterOptions>>,
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

impl TemplateConfig {
    pub(super) fn new(key: impl Into<String>, text: &At<String>) -> Self {
        Self { key: key.into(), text: text.value.clone(), place: text.place }
    }

    /// Whether it may hold a secret: a header with text of its own may, whatever it is called.
    pub fn is_secret(&self) -> bool {
        self.key.starts_with("headers.") && (is_secret_name(&self.key) || has_text(&self.text))
    }
}

const EXCHANGE_KEYS: [&str; 5] = ["exchange", "kind", "routing_key", "topology", "queues"];
const TOPIC_KEYS: [&str; 3] = ["topic", "compression", "ca_file"];
const BROKER_KEYS: [&str; 3] = ["headers", "timeout", "max_message"];

/// A kind of sink: the word for it, the keys that tell it, and all that it has.
struct Trait {
    word: &'static str,
    tells: &'static [&'static str],
    keys: &'static [&'static [&'static str]],
}

impl Trait {
    fn all_keys(&self) -> impl Iterator<Item = &'static str> {
        self.tells.iter().chain(self.keys.iter().copied().flatten()).copied()
    }
}

const KINDS: [Trait; 9] = [
    Trait { word: "'stdout'", tells: &["stdout"], keys: &[] },
    Trait { word: "'file'", tells: &["file"], keys: &[] },
    Trait { word: "'http'", tells: &["http"], keys: &[&ENDPOINT_KEYS, &INBOX_KEYS] },
    Trait { word: "'metrics'", tells: &["metrics"], keys: &[&METRICS_KEYS, &INBOX_KEYS] },
    Trait { word: "'exchange'", tells: &["exchange"], keys: &[&EXCHANGE_KEYS, &BROKER_KEYS] },
    Trait { word: "'topic'", tells: &["topic"], keys: &[&TOPIC_KEYS, &BROKER_KEYS] },
    Trait { word: "'sql'", tells: &["sql"], keys: &[&SQL_KEYS, &INBOX_KEYS] },
    Trait { word: "'error_log'", tells: &["error_log"], keys: &[&ERROR_LOG_KEYS] },
    Trait { word: "e-mail", tells: &MAIL_KEYS, keys: &[&MAIL_KEYS, &MAIL_FURTHER_KEYS, &INBOX_KEYS] },
];

/// Reads a sink; which kind it is, its keys tell.
pub(super) fn read(name: At<String>, section: Section<'_>) -> SinkConfig {
    let tells = |kind: &&Trait| kind.tells.iter().any(|key| section.is_set(key));
    let found: Vec<_> = KINDS.iter().filter(tells).collect();
    if let [first, second, ..] = found[..] {
        let key = second.tells.iter().copied().find(|key| section.is_set(key)).unwrap_or_default();
        let help = "a sink is one of 'exchange', 'topic', 'sql', 'error_log' or e-mail with 'on', or 'http', 'metrics', 'stdout', 'file'";
        section.note(key, format!("stands beside {}", first.word), help);
    }
    let mut sink = SinkConfig { name, target: None, inbox: None, templates: Vec::new() };
    match found[..] {
        [kind] => (sink.target, sink.inbox) = read_kind(kind, &section, &mut sink.templates),
        _ => {
            if found.is_empty() && section.is_set("on") {
                let help = "name what is there: exchange = \"…\" of RabbitMQ, topic = \"…\" of Kafka, sql = \"…\" or error_log = true in a database, from, to and subject of an e-mail";
                section.note_missing(&["exchange", "topic", "sql", "error_log", "to"], help);
            } else if found.is_empty() {
                let help = "write on = \"connection\" with exchange = \"…\" or topic = \"…\" or sql = \"…\", or http = \"https://…\", or stdout = true, or file = \"path\"";
                section.note_missing(&["on", "stdout", "file", "http", "metrics"], help);
            }
            // Known all the same, so that they are not told as unknown.
            section.has("on");
            for key in KINDS.iter().flat_map(Trait::all_keys) {
                section.has(key);
            }
        }
    }
    section.finish(&elsewhere(found.first().map(|kind| kind.word)));
    sink
}

fn read_kind(
    kind: &Trait,
    section: &Section<'_>,
    templates: &mut Vec<TemplateConfig>,
) -> (Option<TargetConfig>, Option<InboxConfig>) {
    match kind.tells[0] {
        "stdout" => {
            let mut stdout = true;
            section.flag("stdout", &mut stdout);
            if !stdout {
                let help = "write stdout = true, or remove the sink";
                section.note("stdout", "says that this is no sink", help);
            }
            (Some(TargetConfig::Stdout), None)
        }
        "file" => (section.path("file").map(TargetConfig::File), None),
        "exchange" => (read_exchange(section, templates), None),
        "topic" => (read_topic(section, templates), None),
        "http" => handler::read_endpoint(section, templates),
        "metrics" => handler::read_metrics(section, templates),
        "sql" => handler::read_sql(section),
        "error_log" => (handler::read_error_log(section), None),
        _ => handler::read_mail(section, templates),
    }
}

/// The keys of the other kinds, with the words for them. A key that several have is told by all of them.
fn elsewhere(own: Option<&str>) -> Vec<(&'static str, &'static str)> {
    let mut keys = vec![
        ("on", "a sink on a connection: 'exchange', 'topic', 'sql', 'error_log', e-mail"),
        ("inbox", "a sink that handles messages: 'http', 'sql', 'metrics', e-mail"),
        ("inbox_window", "a sink that handles messages: 'http', 'sql', 'metrics', e-mail"),
        ("timeout", "a sink that waits for an answer: 'exchange', 'topic', 'http', 'sql', e-mail"),
        ("headers", "a sink with 'exchange', 'topic' or 'http'"),
        ("max_message", "a sink with 'exchange' or 'topic'"),
        ("ca_file", "a sink with 'topic' or 'http', or for e-mail"),
    ];
    let words = [
        ("'http'", "a sink with 'http'"),
        ("'metrics'", "a sink with 'metrics'"),
        ("'exchange'", "a sink with 'exchange'"),
        ("'topic'", "a sink with 'topic'"),
        ("'sql'", "a sink with 'sql'"),
        ("'error_log'", "a sink with 'error_log'"),
        ("e-mail", "a sink for e-mail"),
    ];
    for kind in KINDS.iter().filter(|kind| Some(kind.word) != own) {
        if let Some((_, told)) = words.iter().find(|(word, _)| *word == kind.word) {
            keys.extend(kind.all_keys().map(|key| (key, *told)));
        }
    }
    keys
}

const ON_HELP: &str = "name the connection: on = \"…\"";

fn read_exchange(section: &Section<'_>, templates: &mut Vec<TemplateConfig>) -> Option<TargetConfig> {
    let mut options = ExchangeOptions::default();
    let on = section.required("on", ON_HELP);
    if let Some(exchange) = section.text("exchange") {
        if let Err(rule) = check_broker_name(&exchange.value) {
            section.note("exchange", rule, BROKER_NAME_HELP);
        }
        options.exchange = exchange.value;
    }
    section.choice("kind", &ExchangeKind::WORDS, &mut options.kind);
    if let Some(template) = section.text("routing_key") {
        templates.push(TemplateConfig::new("routing_key", &template));
        options.routing_key = template.value;
    }
    section.choice("topology", &Topology::WORDS, &mut options.topology);
    options.headers = read_templates(section, "headers", templates);
    section.duration("timeout", millis(100)..=minutes(10), &mut options.timeout);
    section.size("max_message", 1..=512 << 20, &mut options.max_message);
    for queue in section.tables("queues") {
        options.queues.extend(read_queue(queue, options.kind, &options.queues));
    }
    on.map(|on| TargetConfig::Exchange { on, options })
}

fn read_topic(section: &Section<'_>, templates: &mut Vec<TemplateConfig>) -> Option<TargetConfig> {
    let mut options = TopicOptions::default();
    let on = section.required("on", ON_HELP);
    if let Some(template) = section.text("topic") {
        templates.push(TemplateConfig::new("topic", &template));
        options.topic = template.value;
    }
    section.choice("compression", &Compression::WORDS, &mut options.compression);
    options.headers = read_templates(section, "headers", templates);
    section.duration("timeout", millis(100)..=minutes(10), &mut options.timeout);
    section.size("max_message", 1..=512 << 20, &mut options.max_message);
    options.ca_file = section.path("ca_file").map(|path| path.value);
    on.map(|on| TargetConfig::Topic { on, options })
}

/// Headers or labels, each with a template: `{ Name = "template" }`.
pub(super) fn read_templates(
    section: &Section<'_>,
    key: &'static str,
    templates: &mut Vec<TemplateConfig>,
) -> Vec<TemplateOptions> {
    let Some(table) = section.section(key) else { return Vec::new() };
    let mut read = Vec::new();
    for (name, value) in table.named() {
        if name.value.is_empty() || name.value.len() > 255 || name.value.chars().any(char::is_control) {
            table.note(&name.value, "is no name of a header", "1 to 255 bytes without control characters");
        } else if let Some(text) = table.named_text(&name, value) {
            templates.push(TemplateConfig::new(format!("{key}.{}", name.value), &text));
            read.push(TemplateOptions { name: name.value, template: text.value });
        }
    }
    read
}

fn read_queue(section: Section<'_>, exchange: ExchangeKind, before: &[QueueOptions]) -> Option<QueueOptions> {
    let name = section.required("name", "name the queue: { name = \"…\", keys = [\"…\"] }");
    let mut kind = QueueKind::Quorum;
    section.choice("type", &QueueKind::WORDS, &mut kind);
    let mut keys: Vec<String> = section.texts("keys").into_iter().map(|key| key.value).collect();
    if !section.has("keys") {
        keys = default_keys(&section, exchange);
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
    Some(QueueOptions { name: name?.value, keys, kind, arguments: BTreeMap::new() })
}

/// The binding keys of a queue that names none.
pub(super) fn default_keys(section: &Section<'_>, exchange: ExchangeKind) -> Vec<String> {
    match exchange {
        ExchangeKind::Topic => vec!["#".to_owned()],
        ExchangeKind::Fanout | ExchangeKind::Headers => vec![String::new()],
        ExchangeKind::Direct => {
            section.note_missing(&["keys"], "a direct exchange needs keys = [\"…\"]");
            Vec::new()
        }
    }
}

pub(super) const BROKER_NAME_HELP: &str = "1 to 255 bytes without quotes, backslashes and control characters";

/// Whether an exchange or a queue can bear this name.
pub(super) fn check_broker_name(name: &str) -> Result<(), &'static str> {
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
