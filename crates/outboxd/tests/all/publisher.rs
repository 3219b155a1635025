//! Publishing over HTTP, with the real program and real servers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::RabbitMq;

use crate::broker::Queue;
use crate::program::{PATIENCE, Program, Running};

const TOKEN: &str = "s3cret-canary-0123456789";

/// A publisher that keeps in `store`, which is a connection, and a pipe that delivers from there.
fn config(store: &str, broker: &str, listen: &str) -> String {
    format!(
        r#"
[connections]
shop = "{store}"
rabbit = "{broker}"
[http]
listen = "{listen}"
token = "${{TOKEN}}"
[sources.pending]
on = "shop"
[sinks.events]
on = "rabbit"
exchange = "inventory_exchange"
queues = [{{ name = "product-created-queue", keys = ["product.created"], type = "classic" }}]
timeout = "2s"
[pipes.later]
from = "pending"
to = "events"
poll = "50ms"
[publishers.products]
to = "events"
keep = "pending"
timeout = "1s"
"#
    )
}

/// The program, up and ready; with the address at which it listens.
fn start(program: &Program) -> (Running, String) {
    let mut running = program.start(&["run"]);
    let line = running.wait_for("listening for HTTP");
    let address = line.split("addr=").nth(1).unwrap().trim().to_owned();
    running.wait_for("ready");
    (running, address)
}

fn post(address: &str, more: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let request = format!(
        "POST /v1/messages HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\
         Content-Type: application/json\r\n{more}Content-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap())
}

/// Publishes the next version of a key; gives how it stands.
fn publish(address: &str, key: &str, number: usize) -> String {
    let body = json!({ "type": "product.created", "key": key, "payload": format!("{key}:{number}") });
    let (status, answer) = post(address, "", &body.to_string());
    match (status, answer["state"].as_str()) {
        (200, Some("confirmed")) | (202, Some("kept")) => answer["state"].as_str().unwrap().to_owned(),
        _ => panic!("{status} {answer}"),
    }
}

/// Publishes until it is so; gives the next number.
fn publish_until(address: &str, key: &str, mut number: usize, state: &str) -> usize {
    let begun = Instant::now();
    loop {
        let found = publish(address, key, number);
        number += 1;
        if found == state {
            return number;
        }
        assert!(begun.elapsed() < PATIENCE, "it is never {state}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e4_a_broker_that_stops_and_a_program_that_is_killed_lose_nothing() {
    let Some(postgres) = testbed::postgres().await else { return };
    let Some(mut broker) = testbed::available(RabbitMq::start().await) else { return };
    let (database, vhost) = (postgres.database().await.unwrap(), broker.vhost().await.unwrap());
    let config = config(database.url(), vhost.url(), "127.0.0.1:0");
    let program = Program::with(&config).env("TOKEN", TOKEN);
    program.ok(&["migrate"]);
    let (mut running, address) = start(&program);
    let keys = ["p-1", "p-2"];
    // The first may find a connection that is not made yet.
    let mut next: Vec<usize> = keys.iter().map(|key| publish_until(&address, key, 0, "confirmed")).collect();
    broker.stop().await.unwrap();
    for (key, next) in keys.iter().zip(&mut next) {
        *next = publish_until(&address, key, *next, "kept");
        for _ in 0..5 {
            assert_eq!(publish(&address, key, *next), "kept");
            *next += 1;
        }
    }
    running.kill();
    let (running, address) = start(&program);
    for (key, next) in keys.iter().zip(&mut next) {
        assert_eq!(publish(&address, key, *next), "kept", "behind what the killed one has kept");
        *next += 1;
    }
    broker.start_again().await.unwrap();
    for (key, next) in keys.iter().zip(&mut next) {
        *next = publish_until(&address, key, *next, "confirmed");
    }
    running.signal("TERM");
    let (code, said) = running.end();
    assert!(code == 0 && !said.contains(TOKEN), "{code}: {said}");
    let arrived = Queue::open(vhost.url(), "product-created-queue").await.drain().await;
    let mut seen = std::collections::HashSet::new();
    let firsts: Vec<String> = arrived
        .iter()
        .filter(|message| seen.insert(message.id.clone()))
        .map(|message| String::from_utf8(message.body.clone()).unwrap())
        .collect();
    for (key, next) in keys.iter().zip(next) {
        let of_key: Vec<_> = firsts.iter().filter(|text| text.contains(key)).cloned().collect();
        let expected: Vec<_> = (0..next).map(|number| format!("\"{key}:{number}\"")).collect();
        assert_eq!(of_key, expected, "every one of {key}, in order");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e4_over_sqlite_while_there_is_no_broker_at_all() {
    let program = Program::with(&config("sqlite:shop.db", "amqp://127.0.0.1:1/%2f", "127.0.0.1:0"));
    let program = program.env("TOKEN", TOKEN);
    program.ok(&["migrate"]);
    let (running, address) = start(&program);
    let body = r#"{"type":"product.created","key":"p","payload":{ "price" : 1.10 }}"#;
    let id = "0190b3c4-7d2e-7a00-8000-0123456789ab";
    for _ in 0..2 {
        let (status, answer) = post(&address, &format!("Idempotency-Key: {id}\r\n"), body);
        assert_eq!((status, &answer["id"]), (202, &json!(id)), "{answer}");
    }
    let listed = program.json(&["list"]);
    assert_eq!(listed["messages"].as_array().map(Vec::len), Some(1), "an id is kept once: {listed}");
    let shown = program.json(&["show", id]);
    assert_eq!(shown["type"], "product.created", "{shown}");
    let told = program.ok(&["show", id]);
    assert!(told.contains("source        pending, written 2"), "who wrote it is not known: {told}");
    running.signal("TERM");
    assert_eq!(running.end().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn e5_what_was_published_at_once_and_waits_in_a_queue_is_not_said_to_be_nowhere() {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let program = Program::with(&config("sqlite:shop.db", vhost.url(), "127.0.0.1:0")).env("TOKEN", TOKEN);
    program.ok(&["migrate"]);
    let (running, address) = start(&program);
    publish_until(&address, "p", 0, "confirmed");
    let body = r#"{"type":"product.created","payload":{}}"#;
    let (status, answer) = post(&address, "", body);
    assert_eq!(status, 200, "{answer}");
    let id = answer["id"].as_str().unwrap();
    let ran = program.run(&["show", id]);
    let (error, help) = ran.only_error(1);
    let waits = "it may wait in queue 'product-created-queue', which is not searched";
    assert_eq!(error, format!("message '{id}' was not found; {waits}"));
    assert!(help.contains("once a consumer with an inbox has tried it"), "{help}");
    let ran = program.run(&["show", id, "--source", "pending"]);
    assert_eq!(ran.only_error(1).0, format!("there is no message '{id}'"), "not in that source");
    running.signal("TERM");
    assert_eq!(running.end().0, 0);
}

#[test]
fn a_process_for_other_pipes_does_not_need_the_port() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let both = config("sqlite:shop.db", "amqp://127.0.0.1:1/%2f", &address)
        + "[sinks.lines]\nfile = \"lines.jsonl\"\n[pipes.copy]\nfrom = \"pending\"\nto = \"lines\"\n";
    let program = Program::with(&both).env("TOKEN", TOKEN);
    program.ok(&["migrate"]);
    let mut running = program.start(&["run", "--pipe", "copy"]);
    running.wait_for("not listening for HTTP");
    running.wait_for("outboxd is up");
    running.signal("TERM");
    assert_eq!(running.end().0, 0);
    // What delivers for a publisher goes with it.
    let ran = program.run(&["run", "-q", "--pipe", "later"]);
    assert!(ran.only_error(1).0.starts_with("cannot listen on "), "{ran:#?}");
}

#[test]
fn a_port_that_is_taken_is_one_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let program = Program::with(&config("sqlite:shop.db", "amqp://127.0.0.1:1/%2f", &address));
    let program = program.env("TOKEN", TOKEN);
    program.ok(&["migrate"]);
    let ran = program.run(&["run", "-q"]);
    let (error, help) = ran.only_error(1);
    assert!(error.starts_with(&format!("cannot listen on {address}: ")), "{error}");
    assert_eq!(help, "listen elsewhere, by http.listen or --listen, or end what listens there");
}
