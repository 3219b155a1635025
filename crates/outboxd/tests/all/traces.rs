//! Spans of deliveries, as a collector gets them from a running program (E5).

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::collector::{Collector, Span};
use crate::endpoint::Endpoint;
use crate::program::{PATIENCE, Program, RELAY, Running, delivered};
use crate::web::{get, server};

const CANARY: &str = "canary-8f3a";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const WRITER: &str = "b7ad6b7169203331";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos().try_into().unwrap()
}

/// Sends a message of this type with these headers, and gives its id.
fn send(program: &Program, kind: &str, headers: &[String]) -> String {
    let data = format!("{{\"secret\":\"{CANARY}\"}}");
    let mut args = vec!["send", "--type", kind, "--key", "42", "--data", &data];
    headers.iter().for_each(|header| args.extend(["--header", header]));
    program.ok(&args).trim().to_owned()
}

fn end(running: Running) -> String {
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
    said
}

/// The spans of a message that went through this pipe, in order.
fn of<'s>(spans: &'s [Span], pipe: &str, id: &str) -> Vec<&'s Span> {
    let is_it =
        |span: &&Span| span.attribute("outboxd.pipe") == pipe && span.attribute("messaging.message.id") == id;
    let mut found: Vec<_> = spans.iter().filter(is_it).collect();
    found.sort_by_key(|span| span.start);
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_the_relay_links_to_the_writer_and_the_consumer_is_a_child_of_it() {
    let Some(postgres) = testbed::postgres().await else { return };
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let (database, vhost) = (postgres.database().await.unwrap(), rabbitmq.vhost().await.unwrap());
    let (endpoint, collector) = (Endpoint::start().await, Collector::start().await);
    let program = Program::migrated(&format!(
        r#"
[connections]
shop = "{}"
rabbit = "{}"
[sources.orders]
on = "shop"
[sinks.events]
on = "rabbit"
exchange = "shop.events"
[pipes.relay]
from = "orders"
to = "events"
order = "none"
poll = "20ms"
attempts = 2
retry_first = "10ms"
retry_most = "10ms"
[sources.work]
on = "rabbit"
queue = "notifications"
bind = [{{ exchange = "shop.events", keys = ["order.*"] }}]
retry = ["100ms"]
[sinks.hook]
http = "{}"
[pipes.notify]
from = "work"
to = "hook"
order = "none"
poll = "20ms"
[traces]
endpoint = "{}"
service = "shop-relay"
"#,
        database.url(),
        vhost.url(),
        endpoint.url,
        collector.url
    ));
    let (begun, parent) = (now(), format!("00-{TRACE}-{WRITER}-01"));
    let running = program.start(&["run"]);
    let headers = [format!("traceparent={parent}"), "tracestate=shop=1".to_owned()];
    endpoint.answer(&[503]);
    let traced = send(&program, "order.created", &headers);
    endpoint.wait_for(2).await;
    let plain = send(&program, "order.created", &[]);
    let broken = send(&program, "order.created", &["traceparent=00-nonsense-01".to_owned()]);
    let unsampled = send(&program, "order.created", &[format!("traceparent=00-{TRACE}-{WRITER}-00")]);
    let lost = send(&program, "invoice.sent", &headers);
    let posted = endpoint.wait_for(5).await;
    let dead = Instant::now();
    while program.json(&["status"])["pipes"][0]["dead"] != 1 {
        assert!(dead.elapsed() < PATIENCE, "it never was dead");
    }
    end(running);
    let (ended, spans) = (now(), collector.spans());

    // Nothing of it is changed on its way.
    let arrived = posted.iter().find(|request| request.id == traced).unwrap();
    assert_eq!(arrived.headers["traceparent"], parent.as_str());
    assert_eq!(arrived.headers["tracestate"], "shop=1");

    let [sent] = of(&spans, "relay", &traced)[..] else { panic!("{spans:#?}") };
    assert_eq!((&*sent.name, sent.kind, sent.status), ("send shop.events", 4, 0));
    assert_eq!(sent.links, [(TRACE.to_owned(), WRITER.to_owned())]);
    assert_eq!(sent.parent, "", "it has a trace of its own");
    assert_ne!(sent.trace, TRACE);
    for (name, value) in [
        ("messaging.system", "rabbitmq"),
        ("messaging.destination.name", "shop.events"),
        ("messaging.rabbitmq.destination.routing_key", "order.created"),
        ("messaging.operation.type", "send"),
        ("outboxd.attempt", "1"),
        ("outboxd.verdict", "done"),
    ] {
        assert_eq!(sent.attribute(name), value, "{name}: {sent:#?}");
    }
    assert_eq!(sent.resource["service.name"], "shop-relay");

    let [failed, handled] = of(&spans, "notify", &traced)[..] else { panic!("{spans:#?}") };
    for span in [failed, handled] {
        assert_eq!((&*span.name, span.kind), ("process notifications", 5));
        assert_eq!((&*span.trace, &*span.parent), (TRACE, WRITER), "a child of the writer's span");
        assert_eq!((&*span.state, span.links.len()), ("shop=1", 0));
    }
    assert_eq!((failed.status, failed.attribute("error.type")), (2, "HTTP_503"));
    assert!(failed.words.starts_with("HTTP_503: "), "{failed:#?}");
    assert_eq!((failed.attribute("outboxd.attempt"), failed.attribute("outboxd.verdict")), ("1", "retry"));
    assert_eq!((handled.status, handled.attribute("error.type")), (0, ""));
    assert_eq!((handled.attribute("outboxd.attempt"), handled.attribute("outboxd.verdict")), ("2", "done"));

    let given_up = of(&spans, "relay", &lost);
    let told: Vec<_> = given_up
        .iter()
        .map(|span| ["error.type", "outboxd.attempt", "outboxd.verdict"].map(|name| span.attribute(name)))
        .collect();
    assert_eq!(told, [["NO_ROUTE", "1", "retry"], ["NO_ROUTE", "2", "dead"]]);
    assert!(given_up.iter().all(|span| span.status == 2 && span.links.len() == 1));

    for id in [&plain, &broken] {
        let [sent] = of(&spans, "relay", id)[..] else { panic!("{spans:#?}") };
        let [handled] = of(&spans, "notify", id)[..] else { panic!("{spans:#?}") };
        assert!(sent.links.is_empty() && sent.parent.is_empty() && handled.parent.is_empty());
        assert_ne!(sent.trace, handled.trace, "each is the root of its own");
    }
    assert!(!spans.iter().any(|span| span.attribute("messaging.message.id") == unsampled));
    assert_eq!(spans.len(), 9, "{spans:#?}");
    for span in &spans {
        assert!(begun <= span.start && span.start <= span.end && span.end <= ended, "{span:#?}");
    }
    for request in collector.exported() {
        assert_eq!(request.uri, "/v1/traces");
        assert_eq!(request.headers["content-type"], "application/x-protobuf");
        assert!(!String::from_utf8_lossy(&request.body).contains(CANARY), "a payload is in a span");
    }
}

/// From a file of SQLite to lines, with traces.
fn lines(traces: &str) -> Program {
    let http = "[http]\nlisten = \"127.0.0.1:0\"\n";
    let program = Program::migrated(&format!("{RELAY}{http}[traces]\n{traces}\n"));
    program.make_folder("out");
    program
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_a_collector_that_is_away_or_hangs_costs_no_message_and_no_delay() {
    // Takes connections, and never answers.
    let hanging = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hangs = format!("http://{}", hanging.local_addr().unwrap());
    for url in [hangs.as_str(), "http://127.0.0.1:1"] {
        let program = lines(&format!("endpoint = \"{url}\""));
        for n in 0..5 {
            program.send(&n.to_string());
        }
        let mut running = program.start(&["run"]);
        let address = server(&mut running);
        let begun = Instant::now();
        while std::fs::read_to_string(program.path("out/lines.jsonl")).unwrap_or_default().lines().count() < 5
        {
            assert!(begun.elapsed() < PATIENCE, "{url}: {:#?}", running.heard());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let heard = running.heard().join("\n");
        assert!(
            !heard.contains("cannot send traces"),
            "all went before anybody knew that it is away: {heard}"
        );
        running.wait_for("cannot send traces");
        let (_, figures) = get(address, "/metrics").await;
        let dropped = figures.lines().find(|line| line.starts_with("outbox_spans_dropped_total{"));
        assert!(dropped.is_some_and(|line| line.contains("reason=\"failed\"")), "{figures}");
        let stopping = Instant::now();
        let said = end(running);
        assert!(stopping.elapsed() < Duration::from_secs(10), "{said}");
        assert_eq!(said.matches("cannot send traces").count(), 1, "it is told once: {said}");
        assert_eq!(delivered(&said), 5);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_what_the_collector_took_is_counted() {
    let collector = Collector::start().await;
    let program = lines(&format!("endpoint = \"{}\"", collector.url));
    let mut running = program.start(&["run"]);
    let address = server(&mut running);
    program.send("1");
    collector.wait_for(1).await;
    let begun = Instant::now();
    while !get(address, "/metrics").await.1.lines().any(|line| line == "outbox_spans_sent_total 1") {
        assert!(begun.elapsed() < PATIENCE, "it never was counted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    end(running);
    let [span] = &collector.spans()[..] else { panic!("{:#?}", collector.spans()) };
    assert_eq!((&*span.name, span.attribute("messaging.system")), ("send lines", "outboxd"));
    let none = lines(&format!("endpoint = \"{}\"\nsample = 0", collector.url));
    none.send("1");
    none.ok(&["run", "--once"]);
    assert_eq!(collector.spans().len(), 1, "the dice never fall so");
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_no_secret_of_a_collector_reaches_an_output() {
    let refusing = Collector::answering(401).await;
    let place = refusing.url.strip_prefix("http://").unwrap().to_owned();
    let endpoint = format!("http://me:{CANARY}@{place}/{CANARY}?key={CANARY}\n");
    let traces = "[traces]\nendpoint_file = \"collector\"\nheaders = { X-Tenant = \"${TENANT}\" }\n";
    let program = Program::with(&format!("{RELAY}[http]\nlisten = \"127.0.0.1:0\"\n{traces}"))
        .env("TENANT", &format!("50%25{CANARY}"));
    program.write("collector", &endpoint);
    program.make_folder("out");
    program.ok(&["migrate"]);
    program.send("1");
    let shown = ["table", "json"].map(|format| program.ok(&["config", "show", "--format", format]));
    let once = program.run(&["run", "--once", "-vv"]);
    assert_eq!(once.code, 0, "{once:#?}");
    let mut running = program.start(&["run", "-vv"]);
    let address = server(&mut running);
    program.send("2");
    running.wait_for("cannot send traces");
    let (_, figures) = get(address, "/metrics").await;
    let said = end(running);
    // A collector that is away, and one that cannot be used.
    program.write("collector", &endpoint.replace(&place, "127.0.0.1:1"));
    program.send("3");
    let away = program.run(&["run", "--once", "-vv"]);
    program.write("collector", &endpoint.replace("http://", "gopher://"));
    let invalid = program.run(&["validate"]);
    assert_eq!(invalid.code, 3, "{invalid:#?}");
    let outputs =
        [&shown[0], &shown[1], &once.stderr, &said, &figures, &away.stderr, &invalid.stderr, &invalid.stdout];
    for output in outputs {
        assert!(!output.contains(CANARY), "{output}");
    }
    let request = &refusing.exported()[0];
    assert_eq!(request.uri, format!("/{CANARY}/v1/traces?key={CANARY}"));
    assert_eq!(request.headers["x-tenant"], format!("50%25{CANARY}").as_str(), "as it was written");
    assert!(request.headers["authorization"].to_str().unwrap().starts_with("Basic "));
}
