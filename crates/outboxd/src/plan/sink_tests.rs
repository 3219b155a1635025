//! The rules of sinks with a broker: which keys belong to which, and what a mix-up is told.

use std::path::Path;
use std::time::Duration;

use outbox::kafka::Compression;

use super::*;
use crate::options::TemplateOptions;
use crate::plan::Plan;
use crate::show::effective;

const BASE: &str = "[connections]\nshop = \"sqlite:shop.db\"\nrabbit = \"amqp://localhost\"\n\
    kafka = \"kafka://localhost\"\n[sources.orders]\non = \"shop\"\n[pipes.relay]\nfrom = \"orders\"\n\
    to = \"events\"\n[sinks.events]\n";

fn parse(sink: &str) -> Result<Plan, String> {
    let text = format!("{BASE}{sink}");
    let checked = Plan::parse(Path::new("/srv/outboxd.toml"), &text, &|_| None);
    checked.map(|checked| checked.plan).map_err(|invalid| {
        let lines: Vec<_> = invalid.mistakes.iter().map(|m| format!("{m} | {}", m.help)).collect();
        assert_eq!(lines.len(), 1, "{lines:#?}");
        lines[0].clone()
    })
}

fn target(sink: &str) -> Target {
    parse(sink).expect(sink).sinks.remove("events").expect("it is there").target
}

#[test]
fn a_topic_has_its_keys_and_their_defaults() {
    let Target::Topic(connection, options) = target("on = \"kafka\"\ntopic = \"{type}\"\n") else {
        panic!("it is a topic");
    };
    assert_eq!(connection.name, "kafka");
    assert_eq!(options, TopicOptions { topic: "{type}".to_owned(), ..Default::default() });
    let Target::Topic(_, options) = target(
        "on = \"kafka\"\ntopic = \"orders\"\ncompression = \"zstd\"\ntimeout = \"5s\"\nmax_message = \"2MiB\"\n\
         ca_file = \"ca.pem\"\nheaders = { Type = \"{type}\", Timestamp = \"{time.unix}\" }\n",
    ) else {
        panic!("it is a topic");
    };
    let header =
        |name: &str, template: &str| TemplateOptions { name: name.to_owned(), template: template.to_owned() };
    let mut headers = options.headers.clone();
    headers.sort_by(|one, other| other.name.cmp(&one.name));
    assert_eq!(headers, [header("Type", "{type}"), header("Timestamp", "{time.unix}")]);
    assert_eq!((options.compression, options.timeout), (Compression::Zstd, Duration::from_secs(5)));
    assert_eq!((options.max_message, options.ca_file), (2 << 20, Some("/srv/ca.pem".into())));
}

#[test]
fn an_exchange_has_headers_too() {
    let sink =
        "on = \"rabbit\"\nexchange = \"e\"\n[sinks.events.headers]\nCorrelationId = \"{correlation_id}\"\n";
    let Target::Exchange(_, options) = target(sink) else { panic!("it is an exchange") };
    assert_eq!(options.headers[0].name, "CorrelationId");
    assert_eq!(options.headers[0].template, "{correlation_id}");
}

#[test]
fn what_config_show_prints_has_the_same_sinks() {
    for sink in [
        "on = \"kafka\"\ntopic = \"t\"\nca_file = \"a.pem\"\ncompression = \"lz4\"\nheaders = { A = \"{id}\" }\n",
        "on = \"rabbit\"\nexchange = \"e\"\nheaders = { A = \"{id}\", b = \"x\" }\n",
    ] {
        let plan = parse(sink).expect(sink);
        let shown = toml::to_string(&effective(&plan)).expect("it can be written");
        let again = Plan::parse(Path::new("/srv/outboxd.toml"), &shown, &|_| None);
        assert_eq!(again.expect(&shown).plan, plan);
    }
}

#[test]
fn a_mix_up_of_exchange_and_topic_is_told_as_one() {
    for (sink, expected) in [
        (
            "on = \"rabbit\"\ntopic = \"t\"\n",
            "sinks.events.on = \"rabbit\": RabbitMQ has no topics | write exchange",
        ),
        (
            "on = \"kafka\"\nexchange = \"e\"\n",
            "sinks.events.on = \"kafka\": Kafka has no exchanges | write topic",
        ),
        ("on = \"shop\"\ntopic = \"t\"\n", "a sqlite database has no topics | name a kafka: connection"),
        ("on = \"kafka\"\ntopic = \"t\"\nexchange = \"e\"\n", "stands beside 'exchange'"),
        ("on = \"kafka\"\n", "[sinks.events] has no 'exchange' or 'topic'"),
        ("on = \"kafka\"\ntopik = \"t\"\n", "unknown key 'topik' in [sinks.events] | did you mean 'topic'?"),
        (
            "on = \"kafka\"\ntopic = \"t\"\nrouting_key = \"k\"\n",
            "'routing_key' has no meaning in [sinks.events] | it belongs to a sink with 'exchange'",
        ),
        (
            "on = \"rabbit\"\nexchange = \"e\"\ncompression = \"lz4\"\n",
            "'compression' has no meaning in [sinks.events] | it belongs to a sink with 'topic'",
        ),
        ("stdout = true\ntopic = \"t\"\n", "topic = \"t\": stands beside 'stdout' | a sink is one of"),
        ("stdout = true\ncompression = \"lz4\"\n", "it belongs to a sink with 'topic'"),
    ] {
        let told = parse(sink).expect_err(sink);
        assert!(told.contains(expected), "expected: {expected}\nfound:    {told}");
    }
}

#[test]
fn a_header_that_rabbitmq_keeps_for_itself_is_told() {
    let told = parse("on = \"rabbit\"\nexchange = \"e\"\nheaders = { CC = \"x\" }\n").expect_err("reserved");
    assert!(told.contains("sinks.events.headers: RabbitMQ keeps the header 'CC' for itself"), "{told}");
}

#[test]
fn values_of_a_topic_that_break_a_rule() {
    let topic = |more: &str| format!("on = \"kafka\"\ntopic = \"t\"\n{more}\n");
    for (sink, expected) in [
        ("on = \"kafka\"\ntopic = \"a b\"\n".to_owned(), "sinks.events.topic = \"a b\": has a character"),
        ("on = \"kafka\"\ntopic = \"{typ}\"\n".to_owned(), "sinks.events.topic = \"{typ}\": template"),
        ("on = \"kafka\"\ntopic = \"\"\n".to_owned(), "sinks.events.topic = \"\": is empty"),
        (topic("compression = \"zip\""), "must be one of: none, gzip, snappy, lz4, zstd"),
        (topic("headers = { A = \"{nope}\" }"), "sinks.events.headers.A = \"{nope}\": template"),
        (topic("headers = { A = 1 }"), "sinks.events.headers.A: must be a string"),
        (topic("headers = { \"\" = \"x\" }"), "is no name of a header"),
        (topic("headers = [\"a\"]"), "sinks.events.headers: must be a table"),
        (
            topic("timeout = \"20s\"\n[pipes.other]\nfrom = \"orders\"\nto = \"events\"\nlease = \"30s\""),
            "is too short for sink 'events'",
        ),
        (topic("max_message = \"1KiB\""), "is above max_message = \"1KiB\" of sink 'events'"),
    ] {
        let told = parse(&sink).expect_err(&sink);
        assert!(told.contains(expected), "expected: {expected}\nfound:    {told}");
    }
    let told = parse("stdout = true\n[sources.topic]\non = \"kafka\"\n").expect_err("no source");
    assert!(told.contains("Kafka has no tables | name the topic to read"), "{told}");
}
