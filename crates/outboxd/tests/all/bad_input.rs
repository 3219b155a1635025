//! Bad input gets one clear line saying what, where and what to do, and nothing is lost.

use crate::program::{Program, RELAY};

/// The one mistake in this configuration.
fn mistake(config: &str) -> (String, String) {
    let program = Program::with(config);
    let ran = program.run(&["validate"]);
    let (error, help) = ran.only_error(3);
    (error.to_owned(), help.to_owned())
}

#[test]
fn a_wrong_config_key() {
    let (error, help) = mistake(&RELAY.replace("attempts", "atempts"));
    assert_eq!(error, "outboxd.toml:13:1: unknown key 'atempts' in [pipes.relay]");
    assert_eq!(help, "did you mean 'attempts'?");
}

#[test]
fn an_unknown_scheme() {
    let (error, help) = mistake(&RELAY.replace("sqlite:shop.db", "oracle://shop"));
    assert_eq!(
        error,
        "outboxd.toml:3:8: connections.shop = \"oracle://shop\": the scheme 'oracle' is unknown"
    );
    assert_eq!(
        help,
        "known are sqlite:, postgres:, postgresql:, mysql:, mariadb:, amqp:, amqps:, kafka:, kafka+ssl:, smtp:, smtps:"
    );
}

#[test]
fn a_missing_variable() {
    let (error, help) = mistake(&RELAY.replace("sqlite:shop.db", "${OUTBOXD_TEST_NOT_SET}"));
    assert_eq!(
        error,
        "outboxd.toml:3:8: connections.shop: the environment variable OUTBOXD_TEST_NOT_SET is not set"
    );
    assert_eq!(help, "set OUTBOXD_TEST_NOT_SET, or give a default: ${OUTBOXD_TEST_NOT_SET:-value}");
    let program = Program::with(&RELAY.replace("sqlite:shop.db", "${OUTBOXD_TEST_URL}"));
    let mut command = program.command(&["validate"]);
    assert_eq!(Program::finish(command.env("OUTBOXD_TEST_URL", "sqlite:x.db")).code, 0);
}

#[test]
fn an_identifier_with_a_quote_in_it() {
    let (error, help) = mistake(&RELAY.replace("[pipes.relay]", "[pipes.\"rel'ay; DROP TABLE x\"]"));
    assert_eq!(error, "outboxd.toml:8:8: \"rel'ay; DROP TABLE x\" in [pipes] is no name");
    assert_eq!(help, "a name begins with a letter and has letters, digits, _ and -, at most 63");
}

/// A mapped table in a database that nobody can reach: whatever is told of it was found offline.
const TICKETS: &str = r#"
[connections]
shop = "postgres://app@127.0.0.1:1/shop"
[sources.tickets]
on = "shop"
preset = "ticketflow"
[sinks.screen]
stdout = true
[pipes.relay]
from = "tickets"
to = "screen"
"#;

#[test]
fn a_mapping_without_an_id_or_with_a_semicolon_in_it() {
    let (error, help) = mistake(&TICKETS.replace("preset = \"ticketflow\"", "table = \"Outbox\"\ntype = \"T\"\npayload = \"P\"\npending = \"Done IS NULL\"\ndone = \"Done = now\""));
    assert_eq!(error, "outboxd.toml:4:10: [sources.tickets] has no 'id'");
    assert_eq!(help, "name the column that tells rows apart: id = \"Id\"");
    let (error, help) =
        mistake(&TICKETS.replace("\"ticketflow\"", "\"ticketflow\"\npending = \"a = 1; DROP TABLE x\""));
    assert_eq!(
        error,
        "outboxd.toml:7:11: sources.tickets.pending = \"a = 1; DROP TABLE x\": at character 6: ';' cannot stand here"
    );
    assert!(help.starts_with("write a condition"), "{help}");
    let (error, help) = mistake(&TICKETS.replace("\"ticketflow\"", "\"prism\""));
    assert_eq!(error, "outboxd.toml:6:10: sources.tickets.preset = \"prism\": there is no such preset");
    assert_eq!(help, "did you mean 'prisma'?");
}

#[test]
fn a_verb_that_a_mapped_table_does_not_have() {
    let program = Program::with(TICKETS);
    let ran = program.run(&["send", "--type", "t", "--data", "x"]);
    let (error, help) = ran.only_error(2);
    assert_eq!(error, "source 'tickets' is a mapped table: its application writes to it");
    assert!(help.starts_with("insert a row as the application does"), "{help}");
    let ran = program.run(&["replay", "--pipe", "relay", "--from-start", "--yes"]);
    let (error, help) = ran.only_error(2);
    assert!(error.starts_with("source 'tickets' is a mapped table: "), "{error}");
    assert!(help.contains("outboxd retry"), "{help}");
    for args in [&["migrate"][..], &["migrate", "--print"]] {
        let ran = program.run(args);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{ran:?}");
        assert!(ran.stderr.contains("tickets: a mapped table, nothing to migrate"), "{ran:?}");
    }
}

#[test]
fn a_database_without_the_migration() {
    let program = Program::with(RELAY);
    let absent = program.run(&["status"]);
    let (error, help) = absent.only_error(1);
    assert!(error.starts_with("cannot open the source (source 'orders' at sqlite://"), "{error}");
    assert!(error.ends_with("shop.db): there is no such file"), "{error}");
    assert!(help.starts_with("run `outboxd migrate`"), "{help}");
    assert!(!program.path("shop.db").exists(), "looking makes nothing");
    program.write("shop.db", "");
    for args in [
        &["status"][..],
        &["list"],
        &["show", "x"],
        &["retry"],
        &["replay", "--pipe", "relay", "--from-start"],
        &["purge", "--older-than", "1d"],
        &["send", "--type", "t", "--data", "x"],
    ] {
        let ran = program.run(args);
        let (error, help) = ran.only_error(1);
        assert!(error.contains("source 'orders' at sqlite://"), "{error}");
        assert!(help.starts_with("run `outboxd migrate`"), "{args:?}: {help}");
    }
    let ran = program.run(&["run"]);
    assert_eq!(ran.code, 1);
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.contains("ERROR")).collect();
    assert!(
        matches!(errors[..], [line] if line.contains("the pipe has stopped") && line.contains("outboxd migrate")),
        "{ran:#?}"
    );
}

#[test]
fn a_payload_over_the_limit() {
    let program = Program::migrated(&RELAY.replace("on = \"shop\"", "on = \"shop\"\nmax_payload = \"4B\""));
    program.ok(&["send", "--type", "t", "--data", "1234"]);
    let ran = program.run(&["send", "--type", "order.created", "--data", "12345"]);
    let (error, help) = ran.only_error(1);
    assert!(error.contains("of type 'order.created' is 5 bytes, the limit is 4"), "{error}");
    assert_eq!(help, "change the message, or the limit in the configuration");
    assert_eq!(program.json(&["list"])["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn an_empty_type() {
    let program = Program::migrated(RELAY);
    let ran = program.run(&["send", "--type", " ", "--data", "x"]);
    assert!(ran.only_error(1).0.contains("has no type"), "{ran:#?}");
}

#[test]
fn what_a_message_says_cannot_steer_a_terminal() {
    let program = Program::migrated(RELAY);
    program.ok(&["send", "--type", "a\u{1b}[2Jb", "--key", "k\u{7}", "--data", "x"]);
    let listed = program.ok(&["list"]);
    assert!(!listed.contains('\u{1b}') && !listed.contains('\u{7}'), "{listed:?}");
}
