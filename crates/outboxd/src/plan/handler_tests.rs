//! Every rule of a sink that handles messages: the mistake, its one line and its way out.

use std::time::Duration;

use outbox::meter::MeterKind;

use super::tests::{assert_each, assert_shown, mistakes, only_mistake, parse, warnings};
use super::*;
use crate::options::{EndpointOptions, ErrorLogOptions, MailOptions, PipeOptions, StatementOptions, WINDOW};
use crate::show::effective;

/// One sink of each kind, with every table that it may have.
pub(super) const EVERY_HANDLER: &str = "[connections.post]\nurl = \"smtps://u:p@mail.example\"\n\
    [sinks.every_hook]\nhttp = \"https://x.example/\"\ninbox = { on = \"shop\", table = \"P\", id = \"I\" }\n\
    [sinks.every_sql]\non = \"c\"\nsql = \"SELECT 1\"\n\
    [sinks.every_mail]\non = \"post\"\nfrom = \"a@x.example\"\nto = \"b@x.example\"\nsubject = \"s\"\ntext = \"t\"\n\
    [sinks.every_figure]\nmetrics = [{ counter = \"c\" }, { histogram = \"h\", value = \"{payload.v}\" }]\n\
    [sinks.every_error]\non = \"c\"\nerror_log = { table = \"ErrorLogs\", id = \"I\", error = \"E\", payload = \"P\" }\n\
    [http]\nlisten = \"127.0.0.1:8480\"\ntoken = \"0123456789abcdef\"\n\
    [publishers.p]\nto = \"events\"\nkeep = \"orders\"\n[audit]\non = \"shop\"\n";

const HEAD: &str = "[connections]\nshop = \"postgres://localhost/shop\"\nfile = \"sqlite:shop.db\"\n\
    rabbit = \"amqp://localhost\"\npost = \"smtps://mail.example\"\n[sources.orders]\non = \"shop\"\n\
    [http]\nlisten = \"127.0.0.1:8480\"\n\
    [pipes.handle]\nfrom = \"orders\"\nto = \"it\"\n[sinks.it]\n";

const MAIL: &str =
    "on = \"post\"\nfrom = \"Shop <shop@x.example>\"\nto = \"{payload.email}\"\nsubject = \"Order {key}\"\n";

fn with(sink: &str) -> String {
    format!("{HEAD}{sink}\n")
}

fn plan(sink: &str) -> Plan {
    parse(&with(sink)).unwrap_or_else(|invalid| panic!("{sink}\n{:#?}", invalid.mistakes))
}

fn target(sink: &str) -> Target {
    plan(sink).sinks.remove("it").expect("it is there").target
}

#[test]
fn d9_an_endpoint_has_its_keys_and_their_defaults() {
    assert_eq!(
        target("http = \"https://x.example/\""),
        Target::Http(Box::new(EndpointOptions::new("https://x.example/")))
    );
    let secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3";
    let Target::Http(options) = target(&format!(
        "http = \"http://10.0.0.1/hook\"\nsecret = [\"{secret}\", \"{secret}\"]\ntimeout = \"5s\"\nprivate = true\n\
         plaintext = true\nca_file = \"ca.pem\"\nheaders = {{ X-Team = \"{{header.team|none}}\" }}\n"
    )) else {
        panic!("it is an endpoint")
    };
    assert_eq!((options.secrets.len(), options.secrets[0].reveal()), (2, secret));
    assert_eq!((options.timeout, options.private, options.plaintext), (Duration::from_secs(5), true, true));
    assert_eq!((options.ca_file, &*options.headers[0].name), (Some("/srv/ca.pem".into()), "X-Team"));
}

#[test]
fn statements_are_one_or_several() {
    let Target::Sql(connection, options) = target("on = \"shop\"\nsql = \"SELECT :id\"") else {
        panic!("it is sql")
    };
    let one = StatementOptions { statements: vec!["SELECT :id".to_owned()], ..Default::default() };
    assert_eq!((&*connection.name, options), ("shop", one));
    let Target::Sql(_, options) =
        target("on = \"shop\"\nsql = [\"SELECT 1\", \"SELECT 2\"]\ntimeout = \"1s\"")
    else {
        panic!("it is sql")
    };
    assert_eq!((options.statements.len(), options.timeout), (2, Duration::from_secs(1)));
}

#[test]
fn a_letter_has_its_keys_and_their_defaults() {
    let Target::Mail(connection, options) = target(&format!("{MAIL}text = \"Hello\"")) else {
        panic!("it is e-mail")
    };
    let expected = MailOptions {
        from: "Shop <shop@x.example>".to_owned(),
        to: vec!["{payload.email}".to_owned()],
        subject: "Order {key}".to_owned(),
        text: Some("Hello".to_owned()),
        ..Default::default()
    };
    assert_eq!((&*connection.name, *options), ("post", expected));
}

#[test]
fn a_letter_can_stand_in_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("letter.html");
    std::fs::write(&file, "<p>{key}</p>\n").expect("it can be written");
    let Target::Mail(_, options) = target(&format!("{MAIL}html_file = \"{}\"", file.display())) else {
        panic!("it is e-mail")
    };
    assert_eq!((options.html.as_deref(), options.text), (Some("<p>{key}</p>\n"), None));
    std::fs::write(&file, "<p>{kex}</p>").expect("it can be written");
    let told = only_mistake(&with(&format!("{MAIL}html_file = \"{}\"", file.display())));
    assert!(told.contains("sinks.it.html = \"<p>{kex}</p>\": template"), "{told}");
}

#[test]
fn figures_and_tables_of_errors_have_their_keys() {
    let Target::Metrics(meters) = target(
        "metrics = [{ counter = \"tickets_total\", help = \"h\", labels = { priority = \"{payload.p|none}\" }, types = [\"ticket.*\"] },\n\
         { histogram = \"amount\", value = \"{payload.total}\", buckets = [0.5, 10, 1e3] }]",
    ) else {
        panic!("they are figures")
    };
    assert_eq!((&*meters[0].name, &*meters[0].types[0]), ("tickets_total", "ticket.*"));
    assert_eq!((meters[0].kind, &meters[0].value), (MeterKind::Counter, &None));
    assert_eq!((meters[1].kind, meters[1].value.as_deref()), (MeterKind::Histogram, Some("{payload.total}")));
    assert_eq!(meters[1].buckets, [0.5, 10.0, 1_000.0]);
    let Target::ErrorLog(_, options) = target("on = \"shop\"\nerror_log = true") else {
        panic!("it is a log")
    };
    assert_eq!(options, ErrorLogOptions::Ours);
    let Target::ErrorLog(_, ErrorLogOptions::Mapped(mapped)) = target(
        "on = \"shop\"\nerror_log = { table = \"ErrorLogs\", id = \"Id\", error = \"Text\", payload = \"Payload\" }",
    ) else {
        panic!("it is mapped")
    };
    assert_eq!(mapped.table, "ErrorLogs");
    let columns = [("id", "Id"), ("error", "Text"), ("payload", "Payload")];
    assert_eq!(mapped.columns, columns.map(|(key, column)| (key, column.to_owned())));
}

#[test]
fn e7_an_error_table_that_keeps_too_little_to_send_back_is_a_warning() {
    let all = "table = \"E\", id = \"I\", error = \"T\", payload = \"P\", type = \"Y\", key = \"K\", origin = \"O\", \
               original_payload = \"OP\", content_type = \"CT\", headers = \"H\", first_seen = \"F\"";
    let sink = |columns: &str| with(&format!("on = \"shop\"\nerror_log = {{ {columns} }}"));
    assert_eq!(warnings(&sink(all)), [""; 0]);
    assert_eq!(warnings(&with("on = \"shop\"\nerror_log = true")), [""; 0]);
    for field in ["type", "key", "origin", "original_payload", "content_type", "headers", "first_seen"] {
        let columns: Vec<&str> = all.split(", ").filter(|column| !column.starts_with(field)).collect();
        let told = warnings(&sink(&columns.join(", ")));
        let [told] = &told[..] else { panic!("one of '{field}': {told:?}") };
        let what = "sinks.it.error_log: table 'E' keeps less than `outboxd errors` needs";
        assert!(told.contains(&format!("{what}; there is no column for '{field}' (")), "{told}");
        assert_eq!(told.matches("there is no column").count(), 1, "{told}");
    }
}

#[test]
fn d3_an_inbox_is_in_a_database() {
    let inbox = |sink: &str| plan(sink).sinks.remove("it").expect("it is there").inbox;
    let hook = "http = \"https://x.example/\"\n";
    assert_eq!(inbox(hook), None);
    let ours = inbox(&format!("{hook}inbox = \"file\"")).expect("it has one");
    assert_eq!((&*ours.connection.name, ours.table, ours.window), ("file", None, Some(WINDOW)));
    let mapped = "inbox = { on = \"file\", table = \"ProcessedEvents\", id = \"EventId\", at = \"At\", consumer = \"C\" }";
    let theirs = inbox(&format!("{hook}{mapped}")).expect("it has one");
    let table = theirs.table.expect("it is mapped");
    assert_eq!((&*table.table, &*table.id), ("ProcessedEvents", "EventId"));
    assert_eq!((table.at.as_deref(), table.consumer.as_deref()), (Some("At"), Some("C")));
    assert_eq!(theirs.window, None, "what is not ours is not pruned unless that is said");
    let pruned = inbox(&format!("{hook}{mapped}\ninbox_window = \"14d\"")).expect("it has one");
    assert_eq!(pruned.window, Some(WINDOW * 2));
    let sql = inbox("on = \"shop\"\nsql = \"SELECT 1\"").expect("statements always have one");
    assert_eq!((&*sql.connection.name, sql.window), ("shop", Some(WINDOW)));
    let sql = inbox("on = \"shop\"\nsql = \"SELECT 1\"\ninbox = { table = \"P\", id = \"I\" }")
        .expect("it has one");
    assert_eq!((&*sql.connection.name, sql.table.is_some()), ("shop", true));
}

#[test]
fn what_is_wrong_with_an_inbox_is_told() {
    let hook = |more: &str| with(&format!("http = \"https://x.example/\"\n{more}"));
    let sql = |more: &str| with(&format!("on = \"shop\"\nsql = \"SELECT 1\"\n{more}"));
    assert_each(&[
        (
            hook("inbox = \"shp\""),
            "sinks.it.inbox = \"shp\": there is no such connection | did you mean 'shop'?",
        ),
        (hook("inbox = \"rabbit\""), "sinks.it.inbox = \"rabbit\": is no database, but amqp"),
        (hook("inbox = 5"), "sinks.it.inbox: must be a string"),
        (hook("inbox = { table = \"P\", id = \"I\" }"), "[sinks.it.inbox] has no 'on'"),
        (hook("inbox = { on = \"shop\", id = \"I\" }"), "[sinks.it.inbox] has no 'table'"),
        (hook("inbox = { on = \"shop\", table = \"P\" }"), "[sinks.it.inbox] has no 'id'"),
        (hook("inbox = { on = \"shop\", table = \"P\", id = \"I\", ad = \"A\" }"), "did you mean 'at'?"),
        (
            hook("inbox = { on = \"shop\", table = \"P\", id = \"I\" }\ninbox_window = \"1d\""),
            "does not say since when an id is in it",
        ),
        (hook("inbox = { on = \"shop\", table = \"a;b\", id = \"I\" }"), "sinks.it.inbox: table: "),
        (hook("inbox_window = \"1d\""), "there is no 'inbox' | add inbox ="),
        (hook("inbox = \"shop\"\ninbox_window = \"1s\""), "is out of range"),
        (sql("inbox = \"file\""), "sinks.it.inbox: 'file' is another database than that of 'sql'"),
        (
            with("stdout = true\ninbox = \"shop\""),
            "'inbox' has no meaning in [sinks.it] | it belongs to a sink that handles messages",
        ),
    ]);
}

#[test]
fn d3_two_pipes_that_share_ids_are_a_warning() {
    let sink = "http = \"https://x.example/\"\ninbox = { on = \"shop\", table = \"P\", id = \"I\" }\n";
    let second = "[pipes.second]\nfrom = \"orders\"\nto = \"it\"\n";
    assert_eq!(warnings(&with(sink)), [""; 0]);
    let told = warnings(&with(&format!("{sink}{second}")));
    assert!(
        told.len() == 1 && told[0].contains("pipes 'handle' and 'second' share the ids in 'P'"),
        "{told:#?}"
    );
    let apart = sink.replace("id = \"I\"", "id = \"I\", consumer = \"C\"");
    assert_eq!(warnings(&with(&format!("{apart}{second}"))), [""; 0]);
}

#[test]
fn figures_that_nobody_can_read_are_a_warning() {
    let text = with("metrics = [{ counter = \"c\" }]");
    assert_eq!(warnings(&text), [""; 0]);
    let told = warnings(&text.replace("[http]\nlisten = \"127.0.0.1:8480\"\n", ""));
    assert!(told.len() == 1 && told[0].contains("nobody can read its figures"), "{told:#?}");
}

#[test]
fn a_pipe_to_a_handler_has_the_pace_that_suits_it() {
    let pace = |sink: &str| {
        let options = plan(sink).pipes["handle"].options.clone();
        (options.batch, options.depth, options.concurrency)
    };
    assert_eq!(pace("http = \"https://x.example/\""), (1, 16, 8));
    assert_eq!(pace(&format!("{MAIL}text = \"t\"")), (1, 16, 8));
    assert_eq!(pace("on = \"shop\"\nsql = \"SELECT 1\""), (100, 4, 4));
    assert_eq!(pace("on = \"file\"\nsql = \"SELECT 1\""), (100, 4, 1));
    assert_eq!(pace("metrics = [{ counter = \"c\" }]"), (100, 4, 4));
    let defaults = PipeOptions::default();
    assert_eq!(pace("stdout = true"), (defaults.batch, defaults.depth, defaults.concurrency));
    let text =
        with("http = \"https://x.example/\"").replace("to = \"it\"\n", "to = \"it\"\nconcurrency = 20\n");
    let options = parse(&text).expect("it is valid").pipes["handle"].options.clone();
    assert_eq!((options.batch, options.depth, options.concurrency), (1, 40, 20));
    let text = text.replace("concurrency = 20\n", "batch = 50\n");
    let options = parse(&text).expect("it is valid").pipes["handle"].options.clone();
    assert_eq!((options.batch, options.depth, options.concurrency), (50, 4, 8));
}

#[test]
fn a_lease_follows_the_timeout_unless_it_is_set() {
    let lease = |sink: &str| plan(sink).pipes["handle"].options.lease;
    assert_eq!(lease("http = \"https://x.example/\""), Duration::from_secs(30));
    assert_eq!(lease("on = \"shop\"\nsql = \"SELECT 1\""), Duration::from_secs(60));
    let text =
        with("on = \"shop\"\nsql = \"SELECT 1\"").replace("to = \"it\"\n", "to = \"it\"\nlease = \"59s\"\n");
    assert!(only_mistake(&text).contains("pipes.handle.lease = \"59s\": is too short for sink 'it'"));
}

#[test]
fn what_config_show_prints_has_the_same_handlers() {
    for sink in [
        "http = \"https://x.example/\"\ninbox = \"file\"\nheaders = { X-Team = \"{header.team|none}\", X-Key = \"{key|none}\" }",
        "http = \"https://x.example/\"\ninbox = { on = \"file\", schema = \"s\", table = \"P\", id = \"I\", at = \"A\" }\ninbox_window = \"1d\"",
        "http = \"https://x.example/\"\ninbox = \"file\"\ninbox_window = \"never\"",
        "on = \"shop\"\nsql = [\"SELECT 1\", \"SELECT 2\"]",
        "on = \"shop\"\nsql = \"SELECT 1\"\ninbox = { table = \"P\", id = \"I\" }",
        "metrics = [{ counter = \"a\", value = \"{payload.n}\" }, { histogram = \"b\", value = \"{payload.n}\", buckets = [1, 2.5], types = \"x.*\" }]",
        "on = \"shop\"\nerror_log = true",
        "on = \"shop\"\nerror_log = { schema = \"s\", table = \"T\", id = \"I\", error = \"E\", payload = \"P\", note = \"N\" }",
    ] {
        assert_shown(&with(sink));
    }
    let mail = format!(
        "{MAIL}text = \"a\"\nhtml = \"b\"\ncc = [\"c@x.example\"]\nreply_to = \"d@x.example\"\nca_file = \"ca.pem\"\ninbox = \"shop\""
    );
    assert_shown(&with(&mail));
}

#[test]
fn values_that_break_a_rule() {
    let mail = |more: &str| with(&format!("{MAIL}{more}"));
    assert_each(&[
        (with("http = \"ftp://x.example\""), "sinks.it.http: the scheme 'ftp' is not HTTP's"),
        (with("http = \"nonsense\""), "sinks.it.http: this is no URL"),
        (
            with("http = \"https://x.example/\"\nheaders = { A = \"{nope}\" }"),
            "sinks.it.headers.A = \"{nope}\": template",
        ),
        (with("on = \"rabbit\"\nsql = \"SELECT 1\""), "sinks.it.on = \"rabbit\": is no database, but amqp"),
        (with("sql = \"SELECT 1\""), "[sinks.it] has no 'on' | name the connection to a database"),
        (with("on = \"shop\"\nsql = []"), "sinks.it.sql: is an empty list"),
        (with("on = \"shop\"\nsql = [\"SELECT 1\", \" \"]"), "has an empty statement"),
        (
            with("on = \"shop\"\nsql = \"INSERT INTO a VALUES (:idd)\""),
            "sinks.it.sql: statement 1, line 1, character",
        ),
        (
            with("on = \"shop\"\nsql = [\"SELECT 1\", \"COMMIT\"]"),
            "statement 2: 'COMMIT' is left to the inbox",
        ),
        (with("on = \"rabbit\"\nerror_log = true"), "is no database, but amqp"),
        (
            with("on = \"shop\"\nerror_log = { table = \"T\", error = \"E\", payload = \"P\" }"),
            "sinks.it.error_log: id: is missing",
        ),
        (with("on = \"shop\"\nerror_log = false"), "says that this is no sink"),
        (with("on = \"shop\"\nerror_log = { message_id = \"M\" }"), "[sinks.it.error_log] has no 'table'"),
        (
            with(
                "on = \"shop\"\nerror_log = { table = \"T\", id = \"I\", error = \"E\", payload = \"P\", mesage_id = \"M\" }",
            ),
            "did you mean 'message_id'?",
        ),
        (mail(""), "[sinks.it] has no 'text' or 'html' | write the text"),
        (mail("text = \"a\"\ntext_file = \"b\""), "stands beside 'text'"),
        (mail("text = \"a\"").replace("on = \"post\"", "on = \"shop\""), "is no mail server, but postgres"),
        (mail("text = \"a\"").replace("subject = \"Order {key}\"\n", ""), "[sinks.it] has no 'subject'"),
        (mail("text = \"{payload.}\""), "sinks.it.text = \"{payload.}\": template"),
        (with("metrics = [{ counter = \"a-b\" }]"), "'a-b' is no name of a metric"),
        (
            with("metrics = [{ counter = \"a\", labels = { \"x-y\" = \"z\" } }]"),
            "'x-y' is no name of a label",
        ),
        (
            with("metrics = [{ help = \"x\" }]"),
            "[sinks.it.metrics[0]] has no 'counter' or 'gauge' or 'histogram'",
        ),
        (with("metrics = [{ histogram = \"h\" }]"), "needs a `value`"),
        (with("metrics = [{ histogram = \"h\", value = \"{id}\", buckets = [2, 1] }]"), "buckets: must rise"),
        (
            with("metrics = [{ histogram = \"h\", value = \"{id}\", buckets = [\"x\"] }]"),
            "must be a list of numbers",
        ),
        (with("metrics = [{ counter = \"c\", buckets = [1] }]"), "a counter has none"),
        (
            with("metrics = [{ counter = \"c\" }, { histogram = \"c\", value = \"{id}\" }]"),
            "'c' is a counter and a histogram",
        ),
        (
            with("metrics = [{ counter = \"c\", value = \"{nope}\" }]"),
            "sinks.it.metrics[0].value = \"{nope}\"",
        ),
        (
            with("metrics = [{ counter = \"c\", labels = { a = \"{nope}\" } }]"),
            "sinks.it.metrics[0].labels.a = \"{nope}\"",
        ),
        (
            with("on = \"shop\"\nsql = \"SELECT 1\"\nheaders = { A = \"b\" }"),
            "it belongs to a sink with 'exchange', 'topic' or 'http'",
        ),
        (with("on = \"shop\"\nsql = \"SELECT 1\"\nsubject = \"x\""), "subject = \"x\": stands beside 'sql'"),
    ]);
}

#[test]
fn d9_secrets_of_a_handler_are_never_shown() {
    let text = with(
        "http = \"https://app:canary@x.example/?token=canary\"\nsecret = \"whsec_canaryMDEyMzQ1Njc4OWFiY2RlZjAxMj\"\n\
         headers = { Authorization = \"Bearer canary\" }",
    );
    // It has a user and a header besides, which a rule may find: either way nothing is shown.
    match parse(&text) {
        Ok(plan) => {
            let shown = format!("{plan:?} {}", effective(&plan));
            assert!(!shown.contains("canary") && shown.contains("***"), "{shown}");
        }
        Err(invalid) => assert!(!format!("{:?}", invalid.mistakes).contains("canary")),
    }
    for sink in [
        "http = \"ftp://app:canary@x.example\"",
        "http = \"canary\"\nsecret = \"canary\"",
        "http = \"https://x.example\"\nsecret = 5\nheaders = { X-Token = \"canary{nope}\" }",
        "http = \"https://x.example\"\nsecret = [\"canary\", 1]",
        "http = \"https://x.example\"\nsecret = \"canary\"\nsecret_file = \"/nonexistent\"",
    ] {
        for line in mistakes(&with(sink)) {
            assert!(!line.contains("canary"), "{line}");
        }
    }
}
