//! Every rule of a mapped table: the mistake, its place, its one line and its way out.

use std::time::Duration;

use outbox::table::{ClaimBy, preset, presets};

use super::tests::{EXAMPLE, assert_each, mistakes, only_mistake, parse};
use super::*;
use crate::options::TableOptions;
use crate::show::effective;

const REFERENCE: &str = include_str!("../../../../docs/reference/config.md");

const HEAD: &str = "[connections]\nshop = \"postgres://localhost/shop\"\nmaria = \"mysql://localhost/shop\"\n\
    file = \"sqlite:shop.db\"\nrabbit = \"amqp://localhost\"\n[sinks.screen]\nstdout = true\n[sinks.events]\n\
    on = \"rabbit\"\nexchange = \"e\"\n[sources.tickets]\non = \"shop\"\n";

const MAPPING: &str = "table = \"OutboxMessages\"\nid = \"Id\"\ntype = \"Type\"\npayload = \"Body\"\n\
    pending = \"SentAt IS NULL AND Tries < 3\"\ndone = \"SentAt = now\"\nattempts = \"Tries\"\n";

const PIPE: &str = "[pipes.relay]\nfrom = \"tickets\"\nto = \"events\"\n";

/// A whole configuration with this mapping.
fn with(mapping: &str) -> String {
    format!("{HEAD}{mapping}{PIPE}")
}

/// The same with something in the mapping replaced.
fn changed(from: &str, to: &str) -> String {
    assert!(MAPPING.contains(from), "{from}");
    with(&MAPPING.replace(from, to))
}

fn mapping(text: &str) -> TableOptions {
    let mut plan = parse(text).unwrap_or_else(|invalid| panic!("{text}\n{:#?}", invalid.mistakes));
    match plan.sources.remove("tickets").map(|source| source.layout) {
        Some(Layout::Table(options)) => *options,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_preset_is_a_mapping_and_what_is_set_goes_before_it() {
    for known in presets() {
        let options = mapping(&with(&format!("preset = \"{}\"\n", known.name)));
        let expected = preset(known.name).expect("it is known").check().expect("it is whole");
        assert_eq!(options, TableOptions { mapping: expected, retention: None }, "{}", known.name);
    }
    let text = "preset = \"ticketflow\"\nschema = \"app\"\ntables = [\"A\", \"B\"]\nkey = \"TicketId\"\norder_by = \"No\"\n\
        lock = -7\nretention = \"30d\"\nheader_columns = { CorrelationId = \"CorrelationId\" }\n\
        processed = { table = \"Seen\" }\nstamp = \"TakenAt\"\nstamp_timeout = \"1m\"\n";
    let TableOptions { mapping, retention } = mapping(&with(text));
    assert_eq!(mapping.tables.to_string(), "app.A, app.B");
    assert_eq!(mapping.order_by.iter().map(|name| name.as_str()).collect::<Vec<_>>(), ["No"]);
    assert_eq!(mapping.header_columns.len(), 2, "{:?}", mapping.header_columns);
    assert_eq!((mapping.lock, retention), (Some(-7), Some(Duration::from_secs(30 * 86_400))));
    let processed = mapping.processed.expect("it is mapped");
    assert_eq!((processed.table.to_string(), processed.id.as_str()), ("app.Seen".to_owned(), "EventId"));
    assert!(
        matches!(mapping.claim, ClaimBy::Stamp { timeout, .. } if timeout == Duration::from_secs(60)),
        "{:?}",
        mapping.claim
    );
}

#[test]
fn bad_input_is_one_line_with_its_place() {
    assert_eq!(
        only_mistake(&changed("id = \"Id\"\n", "")),
        "/srv/outboxd.toml:11:10: [sources.tickets] has no 'id' | name the column that tells rows apart: id = \"Id\""
    );
    assert_eq!(
        only_mistake(&changed("SentAt IS NULL AND Tries < 3", "SentAt IS NULL; DROP TABLE x")),
        "/srv/outboxd.toml:17:11: sources.tickets.pending = \"SentAt IS NULL; DROP TABLE x\": \
        at character 15: ';' cannot stand here | write a condition: pending = \"DispatchedAt IS NULL AND Attempts < 5\""
    );
    assert_eq!(
        only_mistake(&with("preset = \"ticketflo\"\n")),
        "/srv/outboxd.toml:13:10: sources.tickets.preset = \"ticketflo\": there is no such preset | \
        did you mean 'ticketflow'?"
    );
    assert_each(&[
        (with("preset = \"zzz\"\n"), "known are: ticketflow, prisma, efcore, debezium, cap, masstransit"),
        (with("layout = \"table\"\npreset = 5\n"), "sources.tickets.preset: must be a string"),
        (changed("id = ", "idd = "), "unknown key 'idd' in [sources.tickets] | did you mean 'id'?"),
        (changed("id = \"Id\"", "id = 5"), "sources.tickets.id: must be a string, not an integer"),
        (changed("\"Id\"", "\"I\\\"d\""), "which a name cannot have"),
        (changed("table = \"OutboxMessages\"", "tables = []"), "tables: is an empty list"),
        (
            changed("table = \"OutboxMessages\"", "layout = \"table\""),
            "has no 'table' or 'tables' | name one",
        ),
        (
            changed("done = \"SentAt = now\"", "done = \"Error = null\""),
            "done = \"Error = null\": changes nothing",
        ),
        (
            with(&format!("{MAPPING}lock = \"42\"\n")),
            "sources.tickets.lock: must be a whole number, not a string",
        ),
        (
            with(&format!("{MAPPING}lock = 9223372036854775808\n")),
            "lock = 9223372036854775808: is out of range",
        ),
        (with(&format!("{MAPPING}stamp_timeout = \"1m\"\n")), "stamp_timeout = \"1m\": there is no stamp"),
        (with(&format!("{MAPPING}order_by = [\"a;b\"]\n")), "20:12: sources.tickets.order_by: 'a;b' has"),
        (
            with(&format!("{MAPPING}header_columns = {{ a = \"b;c\" }}\n")),
            "sources.tickets.header_columns: 'b;c' has ';'",
        ),
        (with(&format!("{MAPPING}header_columns = {{ a = 5 }}\n")), "header_columns.a: must be a string"),
        (changed("Tries < 3", "Tries < 0"), "pending = \"SentAt IS NULL AND Tries < 0\": is never true"),
    ]);
}

#[test]
fn the_members_of_processed_have_their_own_places() {
    let processed = |members: &str| with(&format!("{MAPPING}processed = {{ {members} }}\n"));
    assert_each(&[
        (processed("table = \"P\""), "20:1: [sources.tickets.processed] has no 'id'"),
        (processed("id = \"I\""), "20:1: [sources.tickets.processed] has no 'table'"),
        (processed("table = \"P;\", id = \"I\""), "20:23: sources.tickets.processed.table = \"P;\": "),
        (
            processed("table = \"P\", id = \"I\", on = \"A\""),
            "unknown key 'on' in [sources.tickets.processed]",
        ),
        (
            processed("tabel = \"P\", id = \"I\""),
            "unknown key 'tabel' in [sources.tickets.processed] | did you mean 'table'?",
        ),
        (with(&format!("{MAPPING}processed = \"P\"\n")), "sources.tickets.processed: must be a table"),
    ]);
}

#[test]
fn every_flaw_of_a_mapping_is_told_in_one_run() {
    let found = mistakes(&with("table = \"a;b\"\npending = \"a = 1;\"\nlock = true\n"));
    let places: Vec<_> = found.iter().map(|line| line.split(": ").next().expect("a place")).collect();
    let expected = ["11:10", "11:10", "11:10", "11:10", "13:9", "14:11", "15:8"]
        .map(|place| format!("/srv/outboxd.toml:{place}"));
    assert_eq!(places, expected, "{found:#?}");
}

#[test]
fn a_layout_refuses_the_keys_of_the_other() {
    let (_, keys) = Plan::parse_noting_keys(Path::new("/srv/a.toml"), &with(MAPPING), &|_| None);
    let (_, of_log) = Plan::parse_noting_keys(Path::new("/srv/a.toml"), &with(""), &|_| None);
    let only = |keys: &[String], others: &[String]| -> Vec<String> {
        let keys = keys.iter().filter_map(|key| key.strip_prefix("sources.NAME.").map(str::to_owned));
        keys.filter(|key| !others.contains(&format!("sources.NAME.{key}"))).collect()
    };
    let (table, log) = (only(&keys, &of_log), only(&of_log, &keys));
    assert!(table.len() > 20 && log.len() == 4, "{table:?} {log:?}");
    for (head, keys, other) in [("layout = \"log\"\n", table, "table"), (MAPPING, log, "log")] {
        for key in keys {
            let line = only_mistake(&with(&format!("{head}{key} = 1\n")));
            let expected = format!(
                "'{key}' has no meaning in [sources.tickets] | it belongs to a source with layout = \"{other}\""
            );
            assert!(line.contains(&expected), "{line}");
        }
    }
}

#[test]
fn a_table_needs_a_database_that_has_mapped_tables() {
    let on = |connection: &str, mapping: &str| {
        format!("{HEAD}{mapping}").replace("on = \"shop\"", &format!("on = \"{connection}\""))
    };
    assert_each(&[
        (
            on("file", MAPPING),
            "12:6: sources.tickets.on = \"file\": a mapped table in SQLite is not supported",
        ),
        (on("rabbit", MAPPING), "RabbitMQ has no tables"),
        (
            on("maria", ""),
            "sources.tickets.on = \"maria\": a log in MySQL is not supported yet | map a table",
        ),
        (
            on("shop", &MAPPING.replace("OutboxMessages", "app.Outbox")),
            "13:9: sources.tickets.table: 'app.Outbox' has a dot in it | write schema = \"app\" and table = \"Outbox\"",
        ),
    ]);
    parse(&on("maria", MAPPING)).expect("a table in MySQL");
    let cap = "preset = \"cap\"\nschema = \"shop\"\ntable = \"cap.published\"\n";
    parse(&on("maria", cap)).expect("a name with a dot in MySQL");
    let several =
        format!("{HEAD}{MAPPING}[sources.log]\non = \"shop\"\n[sources.other]\non = \"shop\"\n{MAPPING}");
    assert_eq!(parse(&several).expect("one log and two tables").sources.len(), 3);
}

#[test]
fn a_table_feeds_one_pipe() {
    let second = format!("{}[pipes.second]\nfrom = \"tickets\"\nto = \"screen\"\n", with(MAPPING));
    let line = only_mistake(&second);
    assert!(
        line.contains("24:8: pipes.second.from = \"tickets\": pipe 'relay' reads from this table already"),
        "{line}"
    );
}

#[test]
fn the_table_has_the_last_word_on_attempts() {
    let attempts = |text: &str| parse(text).expect("it is valid").pipes["relay"].options.policy.attempts;
    assert_eq!(attempts(&with(MAPPING)), 3);
    assert_eq!(attempts(&format!("{}attempts = 3\n", with(MAPPING))), 3);
    let line = only_mistake(&format!("{}attempts = 10\n", with(MAPPING)));
    assert!(
        line.contains(
            "23:12: pipes.relay.attempts = 10: 'pending' of source 'tickets' ends at 3, so attempts must be 3"
        ),
        "{line}"
    );
    let endless = MAPPING.replace(" AND Tries < 3", "");
    assert_eq!(attempts(&with(&endless)), u32::MAX);
    let line = only_mistake(&format!("{}attempts = 10\n", with(&endless)));
    assert!(
        line.contains("has no place to write down that a message is dead | leave 'attempts' out"),
        "{line}"
    );
    // With a place for what is dead and no limit the pipe decides.
    let dead = format!("{}dead = \"SentAt = now, Gone = true\"\n", endless);
    assert_eq!(attempts(&with(&dead)), 10);
    assert_eq!(attempts(&format!("{}attempts = 7\n", with(&dead))), 7);
}

#[test]
fn what_a_pipe_cannot_ask_of_a_table() {
    let stamp =
        |timeout: &str| with(&format!("{MAPPING}stamp = \"TakenAt\"\nstamp_timeout = \"{timeout}\"\n"));
    let no_time = MAPPING.replace("SentAt IS NULL", "NOT Sent").replace("SentAt = now", "Sent = true");
    assert_each(&[
        (
            format!("{}start = \"now\"\n", with(MAPPING)),
            "23:9: pipes.relay.start: has no meaning for the mapped table",
        ),
        (
            stamp("19s"),
            "21:17: sources.tickets.stamp_timeout = \"19s\": is too short for sink 'events' with timeout = \"10s\"",
        ),
        (
            with(&format!("{no_time}retention = \"1d\"\n")),
            "20:13: sources.tickets.retention = \"1d\": the table does not say since when",
        ),
        (with("preset = \"debezium\"\nretention = \"1d\"\n"), "a row is removed as soon as it is done"),
    ]);
    parse(&stamp("20s")).expect("twice the time-out of the sink");
    parse(&stamp("1s").replace("to = \"events\"", "to = \"screen\"")).expect("a sink without a time-out");
    // With a stamp, the time-out of the stamp takes the place of the lease.
    parse(&format!("{}lease = \"1s\"\n", stamp("20s"))).expect("it has no meaning");
}

#[test]
fn what_config_show_prints_of_a_table_is_the_same_table() {
    let stamped = format!("{MAPPING}stamp = \"TakenAt\"\nretention = \"7d\"\ndue = \"DueAt\"\nlock = 42\n");
    let texts = presets().iter().map(|known| format!("preset = \"{}\"\n", known.name));
    for text in texts.chain([MAPPING.to_owned(), stamped]) {
        let plan = parse(&with(&text)).expect(&text);
        let shown = toml::to_string(&effective(&plan)).expect("it can be written");
        assert_eq!(parse(&shown).unwrap_or_else(|invalid| panic!("{shown}\n{:?}", invalid.mistakes)), plan);
        assert!(shown.contains("pending = ") && !shown.contains("preset"), "{shown}");
    }
}

#[test]
fn the_table_of_the_example_is_valid() {
    let (_, after) = EXAMPLE.split_once("# [sources.tickets]\n").expect("it is there");
    let body = after.lines().take_while(|line| line.starts_with("# ")).map(|line| &line[2..]);
    let body = body.filter(|line| !line.starts_with("on = ")).collect::<Vec<_>>().join("\n");
    assert_eq!(
        mapping(&with(&format!("{body}\n"))).mapping,
        preset("ticketflow").expect("it is known").check().expect("it is whole")
    );
}

#[test]
fn the_reference_lists_every_preset_and_no_other() {
    let (_, body) = REFERENCE.split_once("### Presets").expect("it is there");
    let body = body.split("\n#").next().unwrap_or_default();
    let listed = body.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: Vec<_> = listed.map(|(name, _)| name).collect();
    let known: Vec<_> = presets().iter().map(|preset| preset.name).collect();
    assert_eq!(listed, known);
}
