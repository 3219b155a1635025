//! Every rule of a source on a broker and of its pipe: the mistake, its one line and its way out.

use std::time::Duration;

use outbox::broker::{Pick, Picks};
use outbox::policy::OnDead;

use super::tests::{assert_each, assert_shown, mistakes, only_mistake, parse, warnings};
use super::*;
use crate::options::{
    Argument, Envelope, ExchangeKind, GroupOptions, QueueKind, Start, Topology, WorkQueueOptions,
};

/// One source of each kind, with every table that it may have.
pub(super) const EVERY_SOURCE: &str = "[connections.r]\nurl = \"amqp://localhost\"\n\
    [sources.every_queue]\non = \"r\"\nqueue = \"q\"\nbind = [{ exchange = \"x\" }]\narguments = { x-max-length = 5 }\n\
    [sources.every_topic]\non = \"k\"\ntopics = [\"a\", \"b\"]\ngroup = \"g\"\n";

const HEAD: &str = "[connections]\nshop = \"sqlite:shop.db\"\nrabbit = \"amqp://localhost\"\n\
    kafka = \"kafka://localhost\"\n[sinks.screen]\nstdout = true\n[sinks.hook]\nhttp = \"https://x.example/\"\n\
    inbox = \"shop\"\n";
const QUEUE: &str = "[sources.work]\non = \"rabbit\"\nqueue = \"notifications\"\n";
const TOPIC: &str = "[sources.work]\non = \"kafka\"\ntopic = \"orders\"\ngroup = \"billing\"\n";
const PIPE: &str = "[pipes.notify]\nfrom = \"work\"\nto = \"screen\"\n";

fn queue(more: &str) -> String {
    format!("{HEAD}{QUEUE}{more}\n{PIPE}")
}

fn topic(more: &str) -> String {
    format!("{HEAD}{TOPIC}{more}\n{PIPE}")
}

fn layout(text: &str) -> Layout {
    let mut plan = parse(text).unwrap_or_else(|invalid| panic!("{text}\n{:#?}", invalid.mistakes));
    plan.sources.remove("work").expect("it is there").layout
}

#[test]
fn a_queue_that_no_pipe_reads_is_shown_too() {
    let log = "[sources.orders]\non = \"shop\"\n[pipes.relay]\nfrom = \"orders\"\nto = \"screen\"\n";
    assert_shown(&format!("{HEAD}{QUEUE}{log}"));
}

#[test]
fn a_queue_has_its_keys_and_their_defaults() {
    let Layout::Queue(options) = layout(&queue("")) else { panic!("it is a queue") };
    let defaults = WorkQueueOptions {
        queue: "notifications".to_owned(),
        dead: "notifications.dlq".to_owned(),
        // As much as its pipe can use, within bounds.
        prefetch: Some(300),
        ..Default::default()
    };
    assert_eq!(*options, defaults);
    let Layout::Queue(options) = layout(&queue(
        "kind = \"classic\"\ntopology = \"check\"\nretry = [\"1m\", \"5m\"]\ndead = \"notifications_error\"\n\
         prefetch = 50\nsingle_active = true\narguments = { x-max-length = 10, x-overflow = \"reject-publish\", x-y = true }\n\
         max_payload = \"1MiB\"\nenvelope = \"masstransit\"\nid = [\"payload.id\", \"content\"]\nkey = \"header.ticket\"\n\
         bind = [{ exchange = \"tickets\", keys = [\"ticket.*\"] }, { exchange = \"all\", kind = \"fanout\" }]",
    )) else {
        panic!("it is a queue")
    };
    assert_eq!((options.kind, options.topology), (QueueKind::Classic, Topology::Check));
    assert_eq!(options.retry, [60, 300].map(Duration::from_secs));
    assert_eq!((options.prefetch, options.single_active), (Some(50), true));
    assert_eq!(options.arguments["x-max-length"], Argument::Integer(10));
    assert_eq!(options.arguments["x-overflow"], Argument::Text("reject-publish".to_owned()));
    assert_eq!(options.arguments["x-y"], Argument::Flag(true));
    assert_eq!((options.form.envelope, options.form.max_payload), (Envelope::MassTransit, 1 << 20));
    let picks = &options.form.picks;
    assert_eq!(picks.id, ["payload.id", "content"].map(|text| text.parse::<Pick>().expect(text)));
    assert_eq!((&picks.kind, picks.key.len()), (&Picks::masstransit().kind, 1));
    assert_eq!(
        (options.bind[0].kind, &options.bind[0].keys[..]),
        (ExchangeKind::Topic, &["ticket.*".to_owned()][..])
    );
    assert_eq!(
        (options.bind[1].kind, &options.bind[1].keys[..]),
        (ExchangeKind::Fanout, &[String::new()][..])
    );
}

#[test]
fn a_topic_has_its_keys_and_their_defaults() {
    let Layout::Topic(options) = layout(&topic("")) else { panic!("it is a topic") };
    let defaults =
        GroupOptions { topics: vec!["orders".to_owned()], group: "billing".to_owned(), ..Default::default() };
    assert_eq!(*options, defaults);
    let text =
        topic("start = \"now\"\nretry = [\"5s\"]\ndead = \"d\"\nca_file = \"ca.pem\"\ntopology = \"check\"");
    let Layout::Topic(options) = layout(&text.replace("topic = \"orders\"", "topics = [\"a\", \"b\"]"))
    else {
        panic!("it is a topic")
    };
    assert_eq!((options.topics.len(), options.start), (2, Start::Now));
    assert_eq!(options.retry, [Duration::from_secs(5)]);
    assert_eq!((options.dead.as_deref(), options.ca_file), (Some("d"), Some("/srv/ca.pem".into())));
}

#[test]
fn d5_the_retries_of_a_broker_are_the_policy_of_its_pipe() {
    let plan = parse(&queue("retry = [\"1m\", \"5m\", \"15m\"]")).expect("it is valid");
    let policy = &plan.pipes["notify"].options.policy;
    assert_eq!(policy.steps, Some([60, 300, 900].map(Duration::from_secs).to_vec()));
    assert_eq!((policy.most_attempts(), policy.on_dead), (4, OnDead::Skip));
    let plan = parse(&topic("")).expect("it is valid");
    assert_eq!(plan.pipes["notify"].options.policy.most_attempts(), 1, "no retries unless they are listed");
}

#[test]
fn d5_a_log_can_have_fixed_delays_too() {
    let text = format!("{HEAD}[sources.work]\non = \"shop\"\n{PIPE}retry = [\"1s\", \"10s\"]\n");
    let policy = parse(&text).expect("it is valid").pipes["notify"].options.policy.clone();
    assert_eq!(policy.steps, Some([1, 10].map(Duration::from_secs).to_vec()));
    assert_shown(&text);
    let told = only_mistake(&format!("{text}attempts = 3\n"));
    assert!(told.contains("pipes.notify.attempts = 3: stands beside 'retry'"), "{told}");
    let found = mistakes(&format!("{text}retry_first = \"1s\"\nretry_most = \"2s\"\n"));
    assert_eq!(found.len(), 2, "{found:#?}");
}

#[test]
fn what_config_show_prints_has_the_same_sources() {
    for text in [
        queue(""),
        queue(
            "retry = [\"1m\"]\narguments = { x-max-length = 5, x-a = \"b\" }\nenvelope = \"masstransit\"\n\
             bind = [{ exchange = \"e\", keys = [\"a\"] }]\nid = \"header.id\"",
        ),
        topic(""),
        topic(
            "dead = \"d\"\nretry = [\"1m\"]\nca_file = \"a\"\nkey = [\"payload.customer.id\", \"property\"]",
        ),
    ] {
        assert_shown(&text);
    }
}

#[test]
fn what_a_pipe_from_a_broker_cannot_say_is_told() {
    for (key, expected) in [
        ("on_dead = \"hold\"", "pipes.notify.on_dead: has no meaning, because 'work' is on a broker"),
        ("on_dead = \"skip\"", "the broker keeps dead letters apart"),
        ("lanes = 2", "pipes.notify.lanes: has no meaning"),
        ("lease = \"1m\"", "pipes.notify.lease: has no meaning"),
        ("objective = \"5m\"", "a broker does not tell how old its oldest message is"),
        ("start = \"now\"", "where 'start' of the source says"),
        ("attempts = 3", "list the delays in 'retry' of the source"),
        ("retry = [\"1s\"]", "write 'retry' in the source"),
        ("retry_first = \"1s\"", "list the delays in 'retry' of the source"),
        ("retry_most = \"1m\"", "list the delays in 'retry' of the source"),
    ] {
        for text in [queue(""), topic("")] {
            let told = only_mistake(&format!("{text}{key}\n"));
            assert!(told.contains(expected), "expected: {expected}\nfound:    {told}");
        }
    }
    let fine = "order = \"none\"\noutage = \"count\"\nbatch = 7\nconcurrency = 2\ndepth = 3\npoll = \"1s\"\ndrain = \"1s\"\nstreak = 5\n";
    assert!(parse(&format!("{}{fine}", queue(""))).is_ok());
}

#[test]
fn values_that_break_a_rule() {
    assert_each(&[
        (queue("retry = [\"1x\"]"), "sources.work.retry: is no duration"),
        (queue("retry = [\"31d\"]"), "sources.work.retry: is out of range"),
        (queue("retry = \"1m\""), "sources.work.retry: must be a list of strings"),
        (queue("retry = [\"1m\"]\ndead = \"notifications.retry.1m\""), "is read from by this source"),
        (
            queue("dead = \"notifications\""),
            "sources.work.dead = \"notifications\": is read from by this source",
        ),
        (queue("prefetch = 0"), "choose from 1 to 65535"),
        (queue("prefetch = 65536"), "choose from 1 to 65535"),
        (queue("kind = \"classik\""), "did you mean 'classic'?"),
        (
            queue("arguments = { x-queue-type = \"quorum\" }"),
            "is said by a key of its own | write 'kind' instead",
        ),
        (queue("arguments = { x = [1] }"), "must be a whole number, a text, true or false"),
        (queue("arguments = 1"), "sources.work.arguments: must be a table"),
        (
            queue("id = \"headr.x\""),
            "sources.work.id = \"headr.x\": 'headr.x' is no place in a message | write \"property\"",
        ),
        (queue("id = []"), "sources.work.id: is an empty list"),
        (queue("type = \"payload.a..b\""), "is no path into a payload"),
        (queue("envelope = \"mastransit\""), "did you mean 'masstransit'?"),
        (queue("bind = [{ keys = [\"a\"] }]"), "[sources.work.bind[0]] has no 'exchange'"),
        (queue("bind = [{ exchange = \"e\", kind = \"direct\" }]"), "[sources.work.bind[0]] has no 'keys'"),
        (
            queue("bind = [{ exchange = \"e\", key = [\"a\"] }]"),
            "unknown key 'key' in [sources.work.bind[0]] | did you mean 'keys'?",
        ),
        (queue("").replace("notifications", "a'b"), "a character that a name cannot have"),
        (queue("max_payload = \"1GiB\""), "choose from 1B to 512MiB"),
        (
            topic("").replace("group = \"billing\"\n", ""),
            "[sources.work] has no 'group' | name the consumer group",
        ),
        (topic("").replace("topic = \"orders\"\n", ""), "[sources.work] has no 'topic' or 'topics'"),
        (topic("topics = [\"a\"]"), "sources.work.topics: stands beside 'topic'"),
        (topic("").replace("\"orders\"", "\"a b\""), "sources.work.topic = \"a b\": has a character"),
        (topic("").replace("topic = \"orders\"", "topics = [\"a\", \"a\"]"), "'a' is listed twice"),
        (topic("dead = \"orders\""), "is read from by this source"),
        (topic("dead = \"a b\""), "sources.work.dead = \"a b\": has a character"),
    ]);
}

#[test]
fn a_mix_up_of_kinds_of_sources_is_told() {
    assert_each(&[
        (queue("").replace("on = \"rabbit\"", "on = \"kafka\""), "Kafka has no queues | write topic ="),
        (topic("").replace("on = \"kafka\"", "on = \"rabbit\""), "RabbitMQ has no topics | write queue ="),
        (queue("").replace("on = \"rabbit\"", "on = \"shop\""), "a database has no queues"),
        (topic("").replace("on = \"kafka\"", "on = \"shop\""), "a database has no topics"),
        (
            queue("group = \"g\""),
            "'group' has no meaning in [sources.work] | it belongs to a source with 'topic'",
        ),
        (
            topic("prefetch = 5"),
            "'prefetch' has no meaning in [sources.work] | it belongs to a source with 'queue'",
        ),
        (queue("retention = \"1d\""), "it belongs to a source in a database"),
        (queue("notify = true"), "it belongs to a source with layout = \"log\""),
        (queue("pending = \"x\""), "it belongs to a source with layout = \"table\""),
        (
            format!("{HEAD}[sources.work]\non = \"shop\"\nretry = [\"1m\"]\n{PIPE}"),
            "'retry' has no meaning in [sources.work] | it belongs to a source with 'queue' or 'topic'",
        ),
        (
            queue("").replace("queue =", "queu ="),
            "unknown key 'queu' in [sources.work] | did you mean 'queue'?",
        ),
    ]);
}

#[test]
fn what_is_handed_out_once_feeds_one_pipe() {
    let second = "[pipes.second]\nfrom = \"work\"\nto = \"screen\"\n";
    let told = only_mistake(&format!("{}{second}", queue("")));
    assert!(told.contains("pipe 'notify' reads from this queue already | a queue gives each message to one of its readers; bind a second queue"), "{told}");
    assert!(only_mistake(&format!("{}{second}", topic(""))).contains("reads from this topic already"));
    let told = only_mistake(&queue(&QUEUE.replace("work", "zweit")));
    assert!(told.contains("source 'work' reads the same") && told.contains("bind a second queue"), "{told}");
    let told = only_mistake(&topic(&TOPIC.replace("work", "zweit")));
    assert!(told.contains("source 'work' reads the same") && told.contains("name another group"), "{told}");
    assert!(parse(&topic(&TOPIC.replace("work", "zweit").replace("billing", "other"))).is_ok());
}

const EVENTS: &str =
    "[sinks.events]\non = \"rabbit\"\nexchange = \"e\"\nqueues = [{ name = \"notifications\" }]\n";
const FAILED: &str = "[sources.failed]\non = \"rabbit\"\nqueue = \"notifications.dlq\"\n";

#[test]
fn a_queue_of_two_kinds_is_told() {
    assert!(parse(&queue(&format!("{EVENTS}{FAILED}"))).is_ok(), "who names no kind has one");
    let classic = |text: &str, before: &str| text.replace(before, &format!("kind = \"classic\"\n{before}"));
    let told = only_mistake(&classic(&queue(EVENTS), "queue = \"notifications\""));
    let expected =
        "queue 'notifications' is classic here, and quorum in sink 'events' | write kind = \"quorum\" here";
    assert!(told.contains(expected), "{told}");
    let checked = classic(&queue(&format!("topology = \"check\"\n{EVENTS}")), "queue = \"notifications\"");
    assert!(parse(&checked).is_ok());
    let told = only_mistake(&classic(&queue(FAILED), "queue = \"notifications\""));
    let expected =
        "queue 'notifications.dlq' is quorum here, and classic as the dead letters of source 'work'";
    assert!(told.contains(expected) && told.contains("write kind = \"classic\" here"), "{told}");
}

#[test]
fn e3_a_queue_is_made_with_the_arguments_of_its_reader_whoever_makes_it() {
    let mut plan = parse(&queue(&format!("single_active = true\n{EVENTS}{FAILED}"))).expect("it is valid");
    let text = |text: &str| Argument::Text(text.to_owned());
    let Target::Exchange(_, events) = &plan.sinks["events"].target else { panic!("it is an exchange") };
    let made = &events.queues[0].arguments;
    assert_eq!(made["x-dead-letter-routing-key"], text("notifications.dlq"));
    assert_eq!(
        (&made["x-overflow"], &made["x-single-active-consumer"]),
        (&text("reject-publish"), &Argument::Flag(true))
    );
    let Layout::Queue(work) = plan.sources.remove("work").expect("it is there").layout else {
        panic!("it is a queue")
    };
    assert_eq!(work.dead_arguments["x-dead-letter-routing-key"], text("notifications.dlq.dlq"));
    let Layout::Queue(failed) = plan.sources.remove("failed").expect("it is there").layout else {
        panic!("it is a queue")
    };
    assert!(failed.dead_arguments.is_empty(), "nobody reads those");
}

#[test]
fn d3_a_window_that_is_too_short_is_a_warning() {
    let hook = |text: String| text.replace("to = \"screen\"", "to = \"hook\"");
    assert_eq!(warnings(&hook(queue("retry = [\"1m\"]"))), [""; 0]);
    let told = warnings(&hook(queue("retry = [\"3d\", \"4d\"]")));
    assert_eq!(told.len(), 1, "{told:#?}");
    let expected = "sinks.hook.inbox_window = \"7d\": is shorter than what source 'work' may bring again on pipe 'notify': \
        its retries take 169h | raise it to \"169h\" at least";
    assert!(told[0].starts_with("/srv/outboxd.toml:9:") && told[0].contains(expected), "{told:#?}");
    let short =
        |text: &str| hook(text.replace("inbox = \"shop\"", "inbox = \"shop\"\ninbox_window = \"30m\""));
    assert!(warnings(&short(&topic("")))[0].contains(":10:16: sinks.hook.inbox_window = \"30m\""));
    let log = format!("{HEAD}[sources.work]\non = \"shop\"\n{PIPE}");
    assert!(warnings(&short(&log))[0].contains("it keeps what can be replayed for 30d"));
    assert_eq!(warnings(&hook(log.clone())), [""; 0], "the default is no cause for alarm");
    let never = hook(log.replace("inbox = \"shop\"", "inbox = \"shop\"\ninbox_window = \"never\""));
    assert_eq!(warnings(&never), [""; 0]);
}
