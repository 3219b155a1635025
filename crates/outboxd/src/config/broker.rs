//! Sources on a broker: `queue` of RabbitMQ, `topic` of Kafka.

use std::collections::BTreeMap;
use std::time::Duration;

use outbox::broker::{Pick, retry_name};
use outbox::kafka::check_topic_name;
use toml::de::DeValue;

use super::sink::{BROKER_NAME_HELP, check_broker_name, default_keys};
use super::source::LayoutConfig;
use super::{days, millis, minutes, secs};
use crate::options::{
    Argument, BindOptions, Envelope, ExchangeKind, FormOptions, GroupOptions, QueueKind, Start, Topology,
    WorkQueueOptions, dead_name,
};
use crate::reader::Section;

/// Keys that a queue and a topic share.
pub(super) const SHARED_KEYS: [&str; 8] =
    ["retry", "dead", "topology", "max_payload", "envelope", "id", "type", "key"];
/// Keys that only a queue has.
pub(super) const QUEUE_KEYS: [&str; 6] = ["queue", "kind", "bind", "prefetch", "single_active", "arguments"];
/// Keys that only a topic has.
pub(super) const TOPIC_KEYS: [&str; 6] = ["topic", "topics", "group", "start", "ca_file", "session_timeout"];

/// Arguments that a key of ours stands for.
const OUR_ARGUMENTS: [(&str, &str); 2] =
    [("x-queue-type", "kind"), ("x-single-active-consumer", "single_active")];

const PICK_HELP: &str =
    "write \"property\", \"cloudevent\", \"header.NAME\", \"payload.PATH\", \"destination\" or \"content\"";

pub(super) fn read_queue(section: &Section<'_>) -> Option<LayoutConfig> {
    let mut options = WorkQueueOptions::default();
    let queue = section.required("queue", "name the queue: queue = \"…\"");
    if let Some(queue) = &queue {
        check_name(section, "queue", &queue.value);
        options.queue.clone_from(&queue.value);
        options.dead = dead_name(&queue.value);
    }
    section.choice("kind", &QueueKind::WORDS, &mut options.kind);
    section.choice("topology", &Topology::WORDS, &mut options.topology);
    for bind in section.tables("bind") {
        options.bind.extend(read_bind(bind));
    }
    options.retry = read_retry(section);
    if let Some(dead) = section.text("dead") {
        check_name(section, "dead", &dead.value);
        options.dead = dead.value;
    }
    let mut prefetch = 1;
    section.count("prefetch", 1..=u32::from(u16::MAX), &mut prefetch);
    options.prefetch = section.is_set("prefetch").then(|| u16::try_from(prefetch).unwrap_or(u16::MAX));
    section.flag("single_active", &mut options.single_active);
    options.arguments = read_arguments(section);
    options.form = read_form(section);
    let waits = options.retry.iter().map(|delay| retry_name(&options.queue, *delay));
    check_dead(section, &options.dead, waits.chain([options.queue.clone()]));
    queue?;
    Some(LayoutConfig::Queue { options: Box::new(options), queue_place: section.place_of("queue") })
}

pub(super) fn read_topics(section: &Section<'_>) -> Option<LayoutConfig> {
    let mut options = GroupOptions::default();
    let topics = match (section.has("topic"), section.has("topics")) {
        (true, true) => {
            section.note("topics", "stands beside 'topic'", "keep one of the two");
            Vec::new()
        }
        (false, true) => section.one_or_more("topics"),
        (true, false) => section.text("topic").into_iter().collect(),
        (false, false) => {
            section.note_missing(&["topic", "topics"], "name the topic: topic = \"…\"");
            Vec::new()
        }
    };
    let key = if section.has("topics") { "topics" } else { "topic" };
    for topic in topics {
        if let Err(rule) = check_topic_name(&topic.value) {
            section.note(key, rule, TOPIC_NAME_HELP);
        } else if options.topics.contains(&topic.value) {
            section.note(key, format!("'{}' is listed twice", topic.value), "keep one of the two");
        }
        options.topics.push(topic.value);
    }
    let group = section.required("group", "name the consumer group: group = \"…\"");
    if let Some(group) = &group {
        if group.value.is_empty() || group.value.len() > 249 {
            section.note("group", "must have 1 to 249 bytes", "choose a name that no other consumer has");
        }
        options.group.clone_from(&group.value);
    }
    section.choice("topology", &Topology::WORDS, &mut options.topology);
    section.choice("start", &Start::WORDS, &mut options.start);
    options.retry = read_retry(section);
    if let Some(dead) = section.text("dead") {
        if let Err(rule) = check_topic_name(&dead.value) {
            section.note("dead", rule, TOPIC_NAME_HELP);
        }
        options.dead = Some(dead.value);
    }
    options.form = read_form(section);
    options.ca_file = section.path("ca_file").map(|path| path.value);
    section.duration("session_timeout", secs(1)..=minutes(30), &mut options.session_timeout);
    let waits = options.topics.iter().flat_map(|topic| {
        let own = format!("{topic}.{}", options.group);
        let waits = options.retry.iter().map(|delay| retry_name(&own, *delay));
        waits.chain([topic.clone()]).collect::<Vec<_>>()
    });
    if let Some(dead) = &options.dead {
        check_dead(section, dead, waits);
    }
    if options.topics.is_empty() {
        return None;
    }
    group?;
    Some(LayoutConfig::Topics { options: Box::new(options), topic_place: section.place_of(key) })
}

const TOPIC_NAME_HELP: &str = "a topic has 1 to 249 letters, digits, '.', '_' and '-'";

fn check_name(section: &Section<'_>, key: &str, name: &str) {
    if let Err(rule) = check_broker_name(name) {
        section.note(key, rule, BROKER_NAME_HELP);
    }
}

/// Dead letters that come back to where they died would go round for ever.
fn check_dead(section: &Section<'_>, dead: &str, mut others: impl Iterator<Item = String>) {
    if section.is_set("dead") && others.any(|other| other == dead) {
        section.note("dead", "is read from by this source", "name another place for the dead letters");
    }
}

fn read_retry(section: &Section<'_>) -> Vec<Duration> {
    section.durations("retry", &(millis(1)..=days(30)))
}

fn read_bind(section: Section<'_>) -> Option<BindOptions> {
    let exchange = section.required("exchange", "name the exchange: { exchange = \"…\", keys = [\"…\"] }");
    if let Some(exchange) = &exchange {
        check_name(&section, "exchange", &exchange.value);
    }
    let mut kind = ExchangeKind::Topic;
    section.choice("kind", &ExchangeKind::WORDS, &mut kind);
    let mut keys: Vec<String> = section.texts("keys").into_iter().map(|key| key.value).collect();
    if !section.has("keys") {
        keys = default_keys(&section, kind);
    }
    section.finish(&[]);
    Some(BindOptions { exchange: exchange?.value, kind, keys })
}

fn read_arguments(section: &Section<'_>) -> BTreeMap<String, Argument> {
    let Some(table) = section.section("arguments") else { return BTreeMap::new() };
    let mut arguments = BTreeMap::new();
    for (name, value) in table.named() {
        if let Some((_, ours)) = OUR_ARGUMENTS.iter().find(|(theirs, _)| *theirs == name.value) {
            table.note(&name.value, "is said by a key of its own", format!("write '{ours}' instead"));
            continue;
        }
        let argument = match value.get_ref() {
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(Argument::Integer)
            }
            DeValue::Boolean(flag) => Some(Argument::Flag(*flag)),
            DeValue::String(_) => table.named_text(&name, value).map(|text| Argument::Text(text.value)),
            _ => None,
        };
        match argument {
            Some(argument) => {
                arguments.insert(name.value, argument);
            }
            None if matches!(value.get_ref(), DeValue::String(_)) => {}
            None => {
                table.note(&name.value, "must be a whole number, a text, true or false", "remove it");
            }
        }
    }
    arguments
}

fn read_form(section: &Section<'_>) -> FormOptions {
    let mut form = FormOptions::default();
    section.choice("envelope", &Envelope::WORDS, &mut form.envelope);
    form.picks = form.envelope.picks();
    section.size("max_payload", 1..=512 << 20, &mut form.max_payload);
    let picks = &mut form.picks;
    for (key, into) in [("id", &mut picks.id), ("type", &mut picks.kind), ("key", &mut picks.key)] {
        if !section.has(key) {
            continue;
        }
        into.clear();
        for text in section.one_or_more(key) {
            match text.value.parse::<Pick>() {
                Ok(pick) => into.push(pick),
                Err(error) => section.note(key, error, PICK_HELP),
            }
        }
    }
    form
}
