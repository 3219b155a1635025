//! The rules of the program's own server, of publishers and of the audit.

use super::tests::{BASE, assert_each, assert_shown, only_mistake, parse};
use crate::show::effective;

const HTTP: &str = "[http]\nlisten = \"127.0.0.1:8480\"\ntoken = \"0123456789abcdef\"\n";
const PUBLISHER: &str = "[publishers.products]\nto = \"events\"\nkeep = \"orders\"\n";

fn with(more: &str) -> String {
    format!("{BASE}{more}")
}

#[test]
fn a_server_listens_where_it_is_told() {
    let plan = parse(&with(HTTP)).expect("it is valid");
    let http = plan.http.as_ref().expect("it listens");
    assert_eq!(http.listen.to_string(), "127.0.0.1:8480");
    assert_eq!(http.token.as_ref().expect("it has one").reveal(), "0123456789abcdef");
    let shown = format!("{plan:?} {}", effective(&plan));
    assert!(!shown.contains("0123456789abcdef"), "{shown}");
    assert_eq!(parse(BASE).expect("it is valid").http, None);
    assert_shown(&with("[http]\nlisten = \"[::1]:80\"\n"));
}

#[test]
fn e4_a_publisher_needs_a_broker_a_place_to_keep_and_somebody_who_listens() {
    let plan = parse(&with(&format!("{HTTP}{PUBLISHER}"))).expect("it is valid");
    let publisher = &plan.publishers["products"];
    assert_eq!((&*publisher.to, &*publisher.keep), ("events", "orders"));
    assert_eq!(publisher.timeout, crate::options::PUBLISH_TIMEOUT);
    let publisher = |from: &str, to: &str| {
        assert!(PUBLISHER.contains(from), "{from}");
        with(&format!("{HTTP}{}", PUBLISHER.replace(from, to)))
    };
    assert_each(&[
        (with(PUBLISHER), "publishers.products: nobody listens for its messages | add [http]"),
        (
            with(&format!("[http]\nlisten = \"127.0.0.1:8480\"\n{PUBLISHER}")),
            "[http] has no 'token', which publisher 'products' needs",
        ),
        (publisher("to = \"events\"\n", ""), "[publishers.products] has no 'to'"),
        (publisher("keep = \"orders\"\n", ""), "[publishers.products] has no 'keep'"),
        (publisher("\"events\"", "\"evnts\""), "there is no such sink | did you mean 'events'?"),
        (
            publisher("\"events\"", "\"screen\""),
            "publishers.products.to = \"screen\": is no sink on a broker",
        ),
        (publisher("\"orders\"", "\"order\""), "there is no such source | did you mean 'orders'?"),
        (
            publisher("\"orders\"", "\"work\"")
                .replace("[sinks.screen]", "[sources.work]\non = \"rabbit\"\nqueue = \"q\"\n[sinks.screen]"),
            "publishers.products.keep = \"work\": a broker that is away keeps nothing",
        ),
        (
            publisher("\"orders\"", "\"orders\"")
                .replace("[pipes.relay]\nfrom = \"orders\"\nto = \"screen\"\n", ""),
            "publishers.products.keep = \"orders\": no pipe delivers what is kept there",
        ),
    ]);
}

#[test]
fn a_server_that_anybody_can_reach_needs_a_token() {
    assert_each(&[
        (
            with("[http]\nlisten = \"0.0.0.0:8480\"\n"),
            "http.listen = \"0.0.0.0:8480\": anybody can reach it, and nobody needs to sign in",
        ),
        (with("[http]\nlisten = \"8480\"\n"), "http.listen = \"8480\": is no address to listen on"),
        (with("[http]\n"), "[http] has no 'listen'"),
        (
            with("[http]\nlisten = \"0.0.0.0:1\"\ntoken = \"canary\"\n"),
            "http.token: the token must have 16 characters",
        ),
        (
            with("[http]\nlisten = \"0.0.0.0:1\"\ntoken_file = \"/nonexistent\"\n"),
            "http.token_file = \"/nonexistent\": cannot be read",
        ),
    ]);
    assert!(!only_mistake(&with("[http]\nlisten = \"0.0.0.0:1\"\ntoken = \"canary\"\n")).contains("canary"));
    assert!(parse(&with(&HTTP.replace("127.0.0.1", "0.0.0.0"))).is_ok());
}

#[test]
fn e7_repairs_are_written_down_in_the_only_database_unless_another_is_named() {
    let audit = |text: &str| parse(text).expect("it is valid").audit;
    let only = audit(BASE).expect("there is one");
    assert_eq!((&*only.connection.name, only.chosen), ("shop", false));
    let two = BASE.replace("[sources.orders]", "other = \"sqlite:b.db\"\n[sources.orders]");
    let by_log = audit(&two).expect("one of them has the log");
    assert_eq!((&*by_log.connection.name, by_log.chosen), ("shop", false));
    let logs = format!("{two}[sources.second]\non = \"other\"\n");
    assert_eq!(audit(&logs), None, "two logs, and nobody says which");
    let chosen = audit(&format!("{two}[audit]\non = \"other\"\n")).expect("there is one");
    assert_eq!((&*chosen.connection.name, chosen.chosen), ("other", true));
    assert_shown(&format!("{two}[audit]\non = \"other\"\n"));
    assert_each(&[
        (with("[audit]\non = \"rabbit\"\n"), "audit.on = \"rabbit\": is no database, but amqp"),
        (with("[audit]\non = \"shp\"\n"), "audit.on = \"shp\": there is no such connection"),
        (with("[audit]\n"), "[audit] has no 'on'"),
    ]);
}
