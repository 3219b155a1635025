//! Every rule of the configuration: the mistake, its place, its one line and its way out.

use super::*;
use crate::options::{ExchangeOptions, SourceOptions};
use crate::show::{effective, to_toml};

pub(super) const EXAMPLE: &str = include_str!("../assets/outboxd.toml");

fn environment(name: &str) -> Option<String> {
    (name == "RABBIT_PASSWORD").then(|| "canary".to_owned())
}

pub(super) fn parse(text: &str) -> Result<Plan, Invalid> {
    check(text).map(|checked| checked.plan)
}

pub(super) fn check(text: &str) -> Result<Checked, Invalid> {
    Plan::parse(Path::new("/srv/outboxd.toml"), text, &environment)
}

/// The warnings of a configuration that can be used, each with its help.
pub(super) fn warnings(text: &str) -> Vec<String> {
    let checked = check(text).unwrap_or_else(|invalid| panic!("{text}\n{:#?}", invalid.mistakes));
    checked.warnings.iter().map(|warning| format!("{warning} | {}", warning.help)).collect()
}

/// What `config show` prints is a configuration with the same plan.
pub(super) fn assert_shown(text: &str) {
    let plan = parse(text).unwrap_or_else(|invalid| panic!("{text}\n{:#?}", invalid.mistakes));
    let shown = to_toml(&effective(&plan)).expect("it can be written");
    let again = parse(&shown).unwrap_or_else(|invalid| panic!("{shown}\n{:#?}", invalid.mistakes));
    assert_eq!(again, plan);
}

/// The mistakes as they are shown, each with its help.
pub(super) fn mistakes(text: &str) -> Vec<String> {
    let invalid = parse(text).expect_err("it should be refused");
    invalid.mistakes.iter().map(|mistake| format!("{mistake} | {}", mistake.help)).collect()
}

pub(super) fn only_mistake(text: &str) -> String {
    let mut found = mistakes(text);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

pub(super) const BASE: &str = "[connections]\nshop = \"sqlite:shop.db\"\nrabbit = \"amqp://localhost\"\n\
    [sources.orders]\non = \"shop\"\n[sinks.screen]\nstdout = true\n[sinks.events]\non = \"rabbit\"\n\
    exchange = \"e\"\n[pipes.relay]\nfrom = \"orders\"\nto = \"screen\"\n";

#[test]
fn what_looks_like_a_variable_and_is_none_is_shown_so_that_it_stays_none() {
    for name in ["$${x}", "a$$${x}", "$${", "$x"] {
        assert_shown(&BASE.replace("exchange = \"e\"", &format!("exchange = \"{name}\"")));
    }
}

#[test]
fn the_example_is_valid_and_shows_the_defaults() {
    let plain = parse(EXAMPLE).expect("the example is valid");
    // Uncommented, the keys of the example's own sections say what holds anyway.
    let mut section = "";
    let mut full = String::new();
    for line in EXAMPLE.lines() {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        if bare.starts_with('[') {
            section = bare;
        }
        let is_key = bare
            .split_once(" = ")
            .is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
        let keep = is_key
            && !matches!(section, "[connections]" | "[sinks.events]" | "[sources.tickets]" | "[relay]");
        let header =
            bare.starts_with('[') && !matches!(bare, "[sinks.events]" | "[sources.tickets]" | "[relay]");
        full.push_str(if keep || header { bare } else { line });
        full.push('\n');
    }
    assert!(full.contains("\nlease = \"30s\""), "{full}");
    assert_eq!(parse(&full).expect("the uncommented example is valid"), plain);
    assert_eq!(plain.pipes["relay"].options, PipeOptions::default());
    assert_eq!(plain.sources["orders"].layout, Layout::Log(SourceOptions::default()));
    assert_eq!(plain.log, LogOptions::default());
}

#[test]
fn the_exchange_of_the_example_shows_the_defaults_too() {
    let (_, after) = EXAMPLE.split_once("# [sinks.events]").expect("it is there");
    let body: String = after
        .lines()
        .take_while(|line| !line.starts_with("["))
        .map(|l| l.trim_start_matches("# ").to_owned() + "\n")
        .collect();
    let body = body.lines().filter(|line| line.contains(" = ")).collect::<Vec<_>>().join("\n");
    let text = format!(
        "[connections]\nrabbit = \"amqps://relay:${{RABBIT_PASSWORD}}@broker.example/%2f\"\n[sinks.events]\n{body}"
    );
    let mut plan = parse(&text).expect("it is valid");
    let Some(SinkPlan { target: Target::Exchange(_, options), .. }) = plan.sinks.remove("events") else {
        panic!("it is an exchange");
    };
    assert_eq!(options.queues.len(), 1);
    let defaults = ExchangeOptions {
        exchange: "shop.events".to_owned(),
        queues: options.queues.clone(),
        ..Default::default()
    };
    assert_eq!(options, defaults);
}

#[test]
fn what_config_show_prints_is_a_configuration_with_the_same_plan() {
    let text = format!(
        "{BASE}retry_first = \"250ms\"\nlanes = 3\nobjective = \"5m\"\nunready_after = \"90s\"\n[pipes.other]\nfrom = \"orders\"\nto = \"events\"\norder = \"none\"\n[sinks.lines]\nfile = \"out.jsonl\"\n[relay]\nname = \"r1\"\n[log]\nlevel = \"debug\"\n"
    );
    let text =
        text.replace("exchange = \"e\"", "exchange = \"e\"\nheaders = { Type = \"{type}\", B = \"b\" }");
    assert_shown(&text);
}

#[test]
fn every_key_of_the_code_is_in_the_reference() {
    let reference = include_str!("../../../docs/reference/config.md");
    let more = "[connections.c]\nurl = \"postgres://localhost/c\"\n[sources.t]\non = \"c\"\npreset = \"ticketflow\"\n\
        processed = { table = \"P\", id = \"I\" }\n\
        [connections.k]\nurl = \"kafka://localhost\"\n[sinks.t]\non = \"k\"\ntopic = \"t\"\n";
    let more = format!("{more}{}", super::handler_tests::EVERY_HANDLER);
    let more = format!("{more}{}", super::broker_tests::EVERY_SOURCE);
    let more = format!("{more}{}", super::access_tests::EVERY_PERSON);
    let more = format!("{more}{}", super::alerts_tests::ALERTS);
    let more = format!("{more}[traces]\nendpoint = \"http://localhost:4318\"\n");
    let text = format!("{BASE}[log]\n[relay]\n{more}")
        .replace("exchange = \"e\"", "exchange = \"e\"\nqueues = [{ name = \"q\" }]");
    let (plan, keys) = Plan::parse_noting_keys(Path::new("/srv/outboxd.toml"), &text, &environment);
    plan.expect("it is valid");
    assert!(keys.len() > 120, "{keys:?}");
    for key in keys.iter().filter(|key| key.contains('.')) {
        let (section, key) = key.rsplit_once('.').expect("it has a dot");
        let heading = format!("## `[{section}]`");
        let Some((_, body)) = reference.split_once(&heading) else {
            if ["sources", "sinks", "pipes"].contains(&section) {
                continue;
            }
            panic!("docs/reference/config.md has no {heading}");
        };
        let body = body.split("\n## ").next().unwrap_or_default();
        assert!(body.contains(&format!("| `{key}` |")), "docs/reference/config.md lacks {section}.{key}");
    }
}

#[test]
fn an_unknown_key_is_one_mistake_with_its_place() {
    assert_eq!(
        only_mistake(&format!("{BASE}bacth = 5\n")),
        "/srv/outboxd.toml:14:1: unknown key 'bacth' in [pipes.relay] | did you mean 'batch'?"
    );
    assert_eq!(
        only_mistake(&BASE.replace("from =", "form =")),
        "/srv/outboxd.toml:12:1: unknown key 'form' in [pipes.relay] | did you mean 'from'?"
    );
    assert_eq!(
        only_mistake(&BASE.replace("stdout", "stdot")),
        "/srv/outboxd.toml:7:1: unknown key 'stdot' in [sinks.screen] | did you mean 'stdout'?"
    );
    assert!(
        only_mistake(&format!("{BASE}[pipe.x]\n"))
            .contains("unknown key 'pipe' in the file | did you mean 'pipes'?")
    );
}

#[test]
fn every_mistake_is_told_in_one_run_in_the_order_of_the_file() {
    let text = format!(
        "{BASE}batch = 0\npoll = \"5\"\norder = \"kex\"\nlease = 30\nnotify = true\n[pipes.b]\nfrom = \"orderz\"\nto = \"nowhere\"\n"
    );
    let found = mistakes(&text);
    let lines: Vec<&str> = found.iter().map(|line| line.split(": ").next().expect("a place")).collect();
    let expected = ["14:9", "15:8", "16:9", "17:9", "18:1", "20:8", "21:6"]
        .map(|place| format!("/srv/outboxd.toml:{place}"));
    assert_eq!(lines, expected, "{found:#?}");
    assert!(
        found[0].contains("pipes.relay.batch = 0: is out of range | choose from 1 to 10000"),
        "{found:#?}"
    );
    assert!(found[1].contains("pipes.relay.poll = \"5\": is no duration | a duration is"), "{found:#?}");
    assert!(found[2].contains("must be one of: key, none | did you mean 'key'?"), "{found:#?}");
    assert!(found[3].contains("pipes.relay.lease: must be a string, not an integer"), "{found:#?}");
    assert!(found[5].contains("there is no such source | did you mean 'orders'?"), "{found:#?}");
    assert!(found[6].contains("there is no such sink | known are: events, screen"), "{found:#?}");
}

pub(super) fn assert_each(cases: &[(String, &str)]) {
    for (text, expected) in cases {
        let line = only_mistake(text);
        assert!(line.contains(expected), "expected: {expected}\nfound:    {line}");
    }
}

/// The base with something in it replaced.
fn base(from: &str, to: &str) -> String {
    assert!(BASE.contains(from), "{from}");
    BASE.replace(from, to)
}

#[test]
fn references_and_what_is_missing() {
    assert_each(&[
        (
            base("on = \"shop\"", "on = \"shp\""),
            "sources.orders.on = \"shp\": there is no such connection | did you mean 'shop'?",
        ),
        (
            base("on = \"shop\"", "on = \"rabbit\""),
            "RabbitMQ has no tables | name the queue to read: queue =",
        ),
        (
            base("on = \"rabbit\"", "on = \"shop\""),
            "sinks.events.on = \"shop\": a sqlite database has no exchanges",
        ),
        (base("from = \"orders\"\n", ""), "[pipes.relay] has no 'from' | name the source"),
        (base("to = \"screen\"\n", ""), "[pipes.relay] has no 'to' | name the sink"),
        (base("exchange = \"e\"\n", ""), "[sinks.events] has no 'exchange'"),
        (
            base("stdout = true\n", ""),
            "[sinks.screen] has no 'on' or 'stdout' or 'file' or 'http' or 'metrics' | write on =",
        ),
        (
            base("rabbit = \"amqp://localhost\"", "rabbit = { plaintext = true }"),
            "[connections.rabbit] has no 'url'",
        ),
        (base("on = \"rabbit\"\n", ""), "[sinks.events] has no 'on' | name the connection"),
        (String::new(), ":1:1: nothing is configured"),
    ]);
}

#[test]
fn contradictions_and_duplicates() {
    let exchange = |more: &str| base("exchange = \"e\"", &format!("exchange = \"e\"\n{more}"));
    let to_events = base("to = \"screen\"", "to = \"events\"");
    assert_each(&[
        (
            base("stdout = true", "stdout = true\nrouting_key = \"e\""),
            "'routing_key' has no meaning in [sinks.screen] | it belongs to a sink with 'exchange'",
        ),
        (base("stdout = true", "stdout = true\nfile = \"a\""), "stands beside 'stdout'"),
        (base("on = \"shop\"", "on = \"shop\"\n[sources.b]\non = \"shop\""), "is the source for it already"),
        (
            exchange("queues = [{ name = \"q\" }, { name = \"q\" }]"),
            "queues[1].name = \"q\": is listed twice",
        ),
        (exchange("kind = \"direct\"\nqueues = [{ name = \"q\" }]"), "queues[0]] has no 'keys'"),
        (base("stdout = true", "file = \"a\"\n[sinks.b]\nfile = \"a\""), "writes to this file already"),
        (format!("{to_events}lease = \"15s\"\n"), "is too short for sink 'events'"),
        (
            to_events.replace("on = \"shop\"", "on = \"shop\"\nmax_payload = \"17MiB\""),
            "is above max_message = \"16MiB\"",
        ),
        (format!("{BASE}retry_first = \"10m\"\n"), "'retry_first' is above 'retry_most'"),
        (format!("{BASE}from = \"x\"\n"), "not valid TOML: duplicate key"),
    ]);
}

#[test]
fn values_that_break_a_rule() {
    let rabbit = |url: &str| base("amqp://localhost", url);
    assert_each(&[
        (
            base("stdout = true", "http = \"http://localhost\"\nstdout = true"),
            "http = \"http://localhost\": stands beside 'stdout'",
        ),
        (
            base("on = \"shop\"", "on = \"shop\"\nlayout = \"tabel\""),
            "layout = \"tabel\": must be one of: log, table | did you mean 'table'?",
        ),
        (base("exchange = \"e\"", "exchange = \"e'x\""), "a character that a name cannot have"),
        (
            base("exchange = \"e\"", "exchange = \"e\"\nrouting_key = \"{typ}\""),
            "sinks.events.routing_key = \"{typ}\"",
        ),
        (
            base("exchange = \"e\"", "exchange = \"e\"\nheaders = { Type = \"{typ}\" }"),
            "sinks.events.headers.Type = \"{typ}\"",
        ),
        (
            base("exchange = \"e\"", "exchange = \"e\"\nheaders = { CC = \"{type}\" }"),
            "sinks.events.headers: RabbitMQ keeps the header 'CC' for itself",
        ),
        (
            base("[pipes.relay]", "[pipes.\"re'lay\"]"),
            "\"re'lay\" in [pipes] is no name | a name begins with",
        ),
        (
            rabbit("mongo://localhost"),
            "connections.rabbit = \"mongo://localhost\": the scheme 'mongo' is unknown",
        ),
        (
            rabbit("${RABBIT_URL}"),
            "3:10: connections.rabbit: the environment variable RABBIT_URL is not set | set RABBIT_URL",
        ),
        (rabbit("amqp://broker.example"), "would send unencrypted"),
        (format!("{BASE}[relay]\nname = \" \"\n"), "relay.name: must have"),
        (format!("{BASE}[log]\nlevel = \"loud\"\n"), "must be one of: error, warn, info, debug, trace"),
        (
            base(
                "rabbit = \"amqp://localhost\"",
                "rabbit = { url = \"amqp://a@localhost\", password_file = \"/nonexistent\" }",
            ),
            "connections.rabbit.password_file = \"/nonexistent\": cannot be read",
        ),
        ("[connections\nshop = 1".to_owned(), "not valid TOML"),
    ]);
}

#[test]
fn a_password_that_cannot_be_read_is_one_mistake_and_hides_no_other() {
    let at = |url: &str| {
        let connection = format!("rabbit = {{ url = \"{url}\", password_file = \"/nonexistent\" }}");
        mistakes(&base("rabbit = \"amqp://localhost\"", &connection))
    };
    let unread = "connections.rabbit.password_file = \"/nonexistent\": cannot be read";
    for url in ["amqp://a@localhost", "kafka://a@localhost", "smtp://a@localhost"] {
        let found = at(url);
        // What else is said is that the sink wants another kind of connection.
        let about: Vec<_> = found.iter().filter(|line| line.contains("connections.rabbit")).collect();
        assert!(about.len() == 1 && about[0].contains(unread), "{url}: {found:#?}");
    }
    let found = at("amqp://a@broker.example");
    assert!(found.iter().any(|line| line.contains("would send unencrypted")), "{found:#?}");
    assert!(!format!("{found:?}").contains("unread"), "{found:#?}");
}

#[test]
fn secrets_never_reach_a_mistake_or_the_shown_plan() {
    let url = |url: &str| BASE.replace("amqp://localhost", url);
    for text in [
        url("mongo://app:canary@db"),
        url("amqp://app:canary@broker.example"),
        url("amqp://app:canary"),
        url("canary"),
        url("mongo://app:${RABBIT_PASSWORD}@db"),
        url("${RABBIT_PASSWORD}"),
        BASE.replace(
            "rabbit = \"amqp://localhost\"",
            "rabbit = { url = \"amqp://localhost\", password = \"canary\" }",
        ),
        BASE.replace("rabbit = \"amqp://localhost\"", "rabbit = [\"canary\"]"),
        BASE.replace("amqp://localhost\"", "amqp://app:canary@localhost\n"),
    ] {
        for line in mistakes(&text) {
            assert!(!line.contains("canary"), "{line}");
        }
    }
    let plan = parse(&url("amqp://app:${RABBIT_PASSWORD}@localhost")).expect("it is valid");
    for shown in [format!("{plan:?}"), effective(&plan).to_string()] {
        assert!(!shown.contains("canary") && shown.contains("amqp://app:***@localhost"), "{shown}");
    }
    assert_eq!(plan.connections["rabbit"].url.reveal(), "amqp://app:canary@localhost");
}
