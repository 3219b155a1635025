//! Pipes that somebody pauses and resumes: with real databases and brokers, over restarts and in all instances.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::Vhost;

use crate::broker::Queue;
use crate::endpoint::Endpoint;
use crate::program::{PATIENCE, Program, Running};
use crate::web::{get, server};

/// From PostgreSQL to an exchange, from the same outbox to a file, and from a queue behind the exchange to an endpoint.
struct Shop {
    program: Program,
    endpoint: Endpoint,
    vhost: Vhost,
    _database: testbed::Database,
}

impl Shop {
    async fn open() -> Option<Self> {
        let (postgres, rabbitmq) = (testbed::postgres().await?, testbed::rabbitmq().await?);
        let (database, vhost) = (postgres.database().await.unwrap(), rabbitmq.vhost().await.unwrap());
        let endpoint = Endpoint::start().await;
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
queues = [{{ name = "billing", keys = ["order.*"], type = "classic" }}]
[pipes.relay]
from = "orders"
to = "events"
poll = "20ms"
[sinks.lines]
file = "lines.jsonl"
[pipes.copy]
from = "orders"
to = "lines"
poll = "20ms"
[sources.work]
on = "rabbit"
queue = "work"
bind = [{{ exchange = "shop.events", keys = ["order.*"] }}]
[sinks.app]
http = "{}"
private = true
inbox = "shop"
[pipes.handle]
from = "work"
to = "app"
poll = "20ms"
[http]
listen = "127.0.0.1:0"
token = "let-me-in-please"
"#,
            database.url(),
            vhost.url(),
            endpoint.url
        ));
        Some(Self { program, endpoint, vhost, _database: database })
    }

    /// Everything that was written has passed by the pipe that nobody paused: there was time enough for the others.
    fn until_copied(&self, count: usize) {
        until("the copies", || {
            let lines = std::fs::read_to_string(self.program.path("lines.jsonl")).unwrap_or_default();
            (lines.lines().count() >= count).then_some(()).ok_or(lines)
        });
    }

    /// How many are ready in a queue, and who reads it.
    async fn depth(&self, queue: &str) -> (u32, u32) {
        let connection =
            lapin::Connection::connect(self.vhost.url(), lapin::ConnectionProperties::default()).await;
        let channel = connection.unwrap().create_channel().await.unwrap();
        let passive = lapin::options::QueueDeclareOptions { passive: true, ..Default::default() };
        let queue = channel.queue_declare(queue.into(), passive, Default::default()).await.unwrap();
        (queue.message_count(), queue.consumer_count())
    }

    async fn until_depth(&self, queue: &str, wanted: (u32, u32)) {
        let begun = Instant::now();
        loop {
            let depth = self.depth(queue).await;
            if depth == wanted {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{queue} has {depth:?}, not {wanted:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Looks until something is as wanted; what is not is told at the end.
pub fn until<T, E: std::fmt::Debug>(what: &str, look: impl Fn() -> Result<T, E>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(begun.elapsed() < PATIENCE, "{what}: never as wanted: {seen:#?}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until all instances say this of a pipe; the first of them.
pub fn until_state(program: &Program, pipe: &str, instances: usize, state: &str) -> Value {
    until(pipe, || {
        let shown = program.json(&["status"]);
        let all = shown["instances"].as_array().cloned().unwrap_or_default();
        let is_live = |seen: &&Value| {
            seen["pipe"] == pipe && !["stopped", "offline"].contains(&seen["state"].as_str().unwrap_or(""))
        };
        let live: Vec<&Value> = all.iter().filter(is_live).collect();
        match live.iter().filter(|seen| seen["state"] == state).count() {
            count if count == instances && live.len() == instances => Ok(live[0].clone()),
            _ => Err(shown),
        }
    })
}

fn pending(program: &Program, pipe: &str) -> u64 {
    let shown = program.json(&["status"]);
    let pipes = shown["pipes"].as_array().unwrap();
    pipes.iter().find(|shown| shown["pipe"] == pipe).unwrap()["pending"].as_u64().unwrap()
}

fn send(program: &Program, count: usize) -> Vec<String> {
    (0..count).map(|n| program.send(&format!("key-{}", n % 3))).collect()
}

pub fn end(running: Running) -> String {
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_relay_delivers_nothing_and_then_all_in_order_and_once_without_an_attempt_charged() {
    let Some(shop) = Shop::open().await else { return };
    let program = &shop.program;
    let mut running = program.start(&["run"]);
    let address = server(&mut running);
    let first = program.send("key-0");
    Queue::until(shop.vhost.url(), "billing", 1).await;
    let said = program.ok(&["pause", "relay", "--by", "ann", "--note", "the broker moves"]);
    assert_eq!(said, "relay is paused; `outboxd resume relay` lets it go on\n");
    let seen = until_state(program, "relay", 1, "paused");
    let cause = seen["cause"].as_str().unwrap();
    assert!(cause.starts_with("paused by ann since 20") && cause.ends_with(": the broker moves"), "{seen}");
    let written = send(program, 20);
    shop.until_copied(21);
    assert_eq!(pending(program, "relay"), 20);
    assert_eq!(shop.depth("billing").await.0, 1, "only what came before the pause");
    let (status, health) = get(address, "/health").await;
    let health: Value = serde_json::from_str(&health).unwrap();
    let relay = health["pipes"].as_array().unwrap().iter().find(|pipe| pipe["pipe"] == "relay").unwrap();
    assert_eq!((status, &health["status"]), (200, &json!("ok")), "{health:#}");
    assert_eq!((&relay["state"], &relay["paused"]["by"]), (&json!("paused"), &json!("ann")), "{health:#}");
    assert_eq!(get(address, "/readyz").await.0, 200);
    let figures = get(address, "/metrics").await.1;
    assert!(figures.contains("outbox_pipe_paused{source=\"orders\",pipe=\"relay\"} 1\n"), "{figures}");
    assert!(figures.contains("outbox_pipe_paused{source=\"orders\",pipe=\"copy\"} 0\n"), "{figures}");
    let table = program.ok(&["status"]);
    assert!(table.contains("paused by ann since 20"), "{table}");
    program.ok(&["resume", "relay", "--by", "bob"]);
    Queue::until(shop.vhost.url(), "billing", 21).await;
    until_state(program, "relay", 1, "running");
    let arrived = Queue::open(shop.vhost.url(), "billing").await.drain().await;
    let of_key = |ids: Vec<&String>, key: usize| -> Vec<String> {
        let is_of_key =
            |id: &&String| written.iter().position(|one| one == *id).is_some_and(|n| n % 3 == key);
        ids.into_iter().filter(is_of_key).cloned().collect()
    };
    assert_eq!(arrived[0].id, first);
    for key in 0..3 {
        let came = of_key(arrived.iter().map(|arrived| &arrived.id).collect(), key);
        assert_eq!(came, of_key(written.iter().collect(), key), "key-{key} in order, and none twice");
    }
    assert_eq!(arrived.len(), 21, "none twice");
    let health: Value = serde_json::from_str(&get(address, "/health").await.1).unwrap();
    let relay = health["pipes"].as_array().unwrap().iter().find(|pipe| pipe["pipe"] == "relay").unwrap();
    assert_eq!((&relay["delivered"], &relay["failed"]), (&json!(21), &json!(0)), "{relay:#}");
    let acts = program.json(&["audit", "list"]);
    let acts: Vec<_> = acts["entries"].as_array().unwrap().iter().rev().collect();
    let told: Vec<_> = acts
        .iter()
        .map(|entry| [&entry["by"], &entry["action"], &entry["target"]].map(|text| text.as_str().unwrap()))
        .collect();
    let [paused, resumed] = [["ann", "pause", "relay"], ["bob", "resume", "relay"]];
    assert_eq!(told, [paused, paused, resumed, resumed], "begun and done: {acts:#?}");
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_both_pause_and_both_go_on() {
    let Some(shop) = Shop::open().await else { return };
    let program = &shop.program;
    let (one, other) = (program.start(&["run"]), program.start(&["run"]));
    until_state(program, "relay", 2, "running");
    program.send("before");
    Queue::until(shop.vhost.url(), "billing", 1).await;
    program.ok(&["pause", "relay"]);
    until_state(program, "relay", 2, "paused");
    send(program, 5);
    shop.until_copied(6);
    assert_eq!((pending(program, "relay"), shop.depth("billing").await.0), (5, 1));
    program.ok(&["resume", "relay"]);
    until_state(program, "relay", 2, "running");
    Queue::until(shop.vhost.url(), "billing", 6).await;
    end(one);
    end(other);
    assert_eq!(shop.depth("billing").await.0, 6, "none twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_consumer_leaves_its_messages_in_the_queue_and_then_handles_each_once() {
    let Some(shop) = Shop::open().await else { return };
    let program = &shop.program;
    let running = program.start(&["run"]);
    program.send("first");
    shop.endpoint.wait_for(1).await;
    program.ok(&["pause", "handle"]);
    until_state(program, "handle", 1, "paused");
    let written = send(program, 10);
    // Nobody reads it, so what came stays where the broker can count it.
    shop.until_depth("work", (10, 0)).await;
    assert_eq!(shop.endpoint.posted().len(), 1);
    program.ok(&["resume", "handle"]);
    let posted = shop.endpoint.wait_for(11).await;
    shop.until_depth("work", (0, 1)).await;
    let mut handled: Vec<_> = posted[1..].iter().map(|posted| posted.id.clone()).collect();
    handled.sort();
    let mut expected = written.clone();
    expected.sort();
    assert_eq!(handled, expected);
    end(running);
    assert_eq!(shop.endpoint.posted().len(), 11, "each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_does_not_end_a_pause() {
    let Some(shop) = Shop::open().await else { return };
    let program = &shop.program;
    program.send("before");
    program.ok(&["run", "--once"]);
    program.ok(&["pause", "relay", "handle"]);
    for count in 1..=2 {
        let running = program.start(&["run"]);
        until_state(program, "relay", 1, "paused");
        until_state(program, "handle", 1, "paused");
        program.send("a");
        shop.until_copied(count + 1);
        let said = end(running);
        let started: Vec<_> = said.lines().filter(|line| line.contains(" started ")).collect();
        assert!(started.len() == 1 && started[0].contains("pipe=\"copy\""), "not for a moment: {said}");
        assert_eq!(pending(program, "relay"), u64::try_from(count).unwrap());
    }
    let ran = program.run(&["run", "--once"]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(ran.stderr.contains("left for later: paused by "), "{ran:#?}");
    assert_eq!(pending(program, "relay"), 2, "nor by a run that ends by itself");
    program.ok(&["resume", "relay", "handle"]);
    program.ok(&["run", "--once"]);
    assert_eq!((pending(program, "relay"), shop.depth("billing").await.0), (0, 3));
}
