//! How the pipes are, by `/health`, `/readyz` and `status`: with a broker that stops, and instances that end (D8).

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::RabbitMq;

use crate::program::{PATIENCE, Program, RELAY, Running};
use crate::web::{get, server};

/// From a SQLite file to an exchange, with the server on.
fn config(broker: &str, pipe: &str) -> String {
    format!(
        r#"
[connections]
shop = "sqlite:shop.db"
rabbit = "{broker}"
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
probe_most = "1s"
{pipe}
[http]
listen = "127.0.0.1:0"
"#
    )
}

/// Asks until the answer is as wanted.
async fn until(address: SocketAddr, path: &str, wanted: impl Fn(u16, &Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let (status, body) = get(address, path).await;
        let shown: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{body}"));
        if wanted(status, &shown) {
            return shown;
        }
        assert!(begun.elapsed() < PATIENCE, "{path} never was as wanted: {status} {shown:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Asks for the instances until they are as wanted.
fn instances(program: &Program, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let begun = Instant::now();
    loop {
        let shown = program.json(&["status"])["instances"].as_array().cloned().unwrap_or_default();
        if wanted(&shown) {
            return shown;
        }
        assert!(begun.elapsed() < PATIENCE, "never as wanted: {shown:#?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn states(instances: &[Value]) -> Vec<&str> {
    let mut states: Vec<_> = instances.iter().filter_map(|seen| seen["state"].as_str()).collect();
    states.sort_unstable();
    states
}

async fn execute(program: &Program, sql: &'static str) {
    let url = format!("sqlite:{}", program.path("shop.db").display());
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    sqlx::query(sql).execute(&pool).await.unwrap();
    pool.close().await;
}

fn end(running: Running) -> String {
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_a_broker_that_stops_is_named_by_health_and_readiness_until_it_is_back() {
    let Some(mut broker) = testbed::available(RabbitMq::start().await) else { return };
    let vhost = broker.vhost().await.unwrap();
    let password = vhost.url().split_once("//").unwrap().1.split(['@', ':']).nth(1).unwrap().to_owned();
    let program = Program::migrated(&config(vhost.url(), "unready_after = \"1s\""));
    let mut running = program.start(&["run"]);
    let address = server(&mut running);
    program.send("a");
    let well = until(address, "/health", |_, shown| !shown["pipes"][0]["last_message_at"].is_null()).await;
    assert_eq!((&well["status"], &well["pipes"][0]["sink"]["reachable"]), (&"ok".into(), &true.into()));
    assert_eq!(get(address, "/readyz").await.0, 200);
    broker.stop().await.unwrap();
    // Nothing is sent: the broker is looked at all the same.
    let unready = until(address, "/readyz", |status, _| status == 503).await;
    let reason = &unready["not_ready"][0];
    assert_eq!((&reason["pipe"], &reason["reason"]), (&"relay".into(), &"sink".into()), "{unready}");
    assert!(reason["detail"].as_str().unwrap().starts_with("sink 'events' has been away for "), "{unready}");
    program.send("b");
    let ill = until(address, "/health", |_, shown| shown["pipes"][0]["breaker"]["open"] == true).await;
    let pipe = &ill["pipes"][0];
    assert_eq!((&ill["status"], &pipe["state"]), (&"failing".into(), &"waiting".into()), "{ill}");
    assert!(pipe["breaker"]["why"].is_string() && pipe["breaker"]["since"].is_string(), "{ill}");
    assert_eq!((&pipe["sink"]["reachable"], &pipe["source"]["reachable"]), (&false.into(), &true.into()));
    let seen = instances(&program, |seen| states(seen) == ["waiting"]);
    assert!(seen[0]["cause"].is_string(), "{seen:#?}");
    let table = program.ok(&["status"]);
    assert!(table.contains("waiting for the sink: "), "{table}");
    for text in [unready.to_string(), ill.to_string(), table] {
        assert!(!text.contains(&format!(":{password}@")), "{text}");
    }
    assert_eq!(get(address, "/livez").await.0, 200, "it lives");
    broker.start_again().await.unwrap();
    until(address, "/readyz", |status, _| status == 200).await;
    let well = until(address, "/health", |_, shown| shown["pipes"][0]["delivered"] == 2).await;
    assert_eq!((&well["status"], &well["pipes"][0]["breaker"]["open"]), (&"ok".into(), &false.into()));
    instances(&program, |seen| states(seen) == ["running"]);
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_a_message_that_is_older_than_the_objective_is_told() {
    let program = Program::migrated(&config(
        "amqp://127.0.0.1:1/%2f",
        "objective = \"1s\"\nunready_after = \"1h\"\nlease = \"60s\"",
    ));
    let mut running = program.start(&["run"]);
    let address = server(&mut running);
    assert_eq!(get(address, "/readyz").await.0, 200);
    program.send("a");
    let unready = until(address, "/readyz", |status, _| status == 503).await;
    let reason = &unready["not_ready"][0];
    assert_eq!((&reason["pipe"], &reason["reason"]), (&"relay".into(), &"objective".into()), "{unready}");
    assert!(reason["detail"].as_str().unwrap().ends_with("the objective is 1s"), "{unready}");
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_a_killed_worker_is_shown_as_offline_and_one_that_stopped_as_stopped() {
    let program = Program::migrated(RELAY);
    program.make_folder("out");
    let mut killed = program.start(&["run"]);
    killed.wait_for("started");
    program.send("a");
    let seen = instances(&program, |seen| states(seen) == ["running"]);
    assert_eq!((&seen[0]["pipe"], &seen[0]["version"]), (&"relay".into(), &env!("CARGO_PKG_VERSION").into()));
    killed.kill();
    // What 91 seconds of silence do.
    let silence = "UPDATE outbox_beats SET beat_at = strftime('%Y-%m-%dT%H:%M:%fZ', beat_at, '-91 seconds')";
    execute(&program, silence).await;
    let second = program.start(&["run"]);
    let seen = instances(&program, |seen| states(seen) == ["offline", "running"]);
    let offline = seen.iter().find(|seen| seen["state"] == "offline").unwrap();
    assert!(offline["age_seconds"].as_f64().unwrap() > 90.0, "{offline}");
    let table = program.ok(&["status"]);
    assert!(table.contains("OFFLINE since 20") && table.contains("running"), "{table}");
    end(second);
    assert_eq!(states(&instances(&program, |_| true)), ["offline", "stopped"], "at once, and it stays so");
    execute(&program, silence).await;
    assert_eq!(states(&instances(&program, |_| true)), ["offline", "stopped"], "however long ago");
}

#[test]
fn d8_a_pipe_that_cannot_go_on_says_so_while_its_instance_lives() {
    let broken = "[sources.bad]\non = \"bad\"\n[pipes.broken]\nfrom = \"bad\"\nto = \"lines\"\n[audit]\non = \"shop\"\n";
    let config =
        format!("{RELAY}{broken}").replace("[sources.orders]", "bad = \"sqlite:bad.db\"\n[sources.orders]");
    let program = Program::with(&config);
    program.ok(&["migrate", "--source", "orders"]);
    program.write("bad.db", "");
    let _running = program.start(&["run"]);
    let seen = {
        let begun = Instant::now();
        loop {
            // The exit code tells of the source in trouble.
            let ran = program.run(&["status", "--format", "json"]);
            let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
            let seen = shown["instances"].as_array().cloned().unwrap_or_default();
            if states(&seen) == ["running", "stopped"] {
                break seen;
            }
            assert!(begun.elapsed() < PATIENCE, "{ran:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let stopped = seen.iter().find(|seen| seen["state"] == "stopped").unwrap();
    assert_eq!(stopped["pipe"], "broken");
    assert!(stopped["cause"].as_str().unwrap().contains("bad"), "{stopped}");
    let of_orders = program.json(&["status", "--source", "orders"]);
    assert_eq!(states(of_orders["instances"].as_array().unwrap()), ["running"], "{of_orders}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_without_a_table_for_beats_the_pipes_run_all_the_same() {
    let program = Program::migrated(RELAY);
    program.make_folder("out");
    execute(&program, "DROP TABLE outbox_beats").await;
    let mut running = program.start(&["run"]);
    let words = "the database has no table for it; run `outboxd migrate`";
    running.wait_for(words);
    let id = program.send("a");
    running.wait_for("delivered=1");
    assert!(program.read("out/lines.jsonl").contains(&id));
    let said = end(running);
    assert_eq!(said.matches(words).count(), 1, "{said}");
    let ran = program.run(&["status", "--format", "json"]);
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &shown["instances"]), (0, &Value::Null), "{ran:#?}");
    assert!(!ran.stderr.contains("cannot tell which instances run"), "{ran:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_a_database_of_beats_that_is_away_is_told_once_and_by_status() {
    let config =
        format!("{RELAY}[connections.book]\nurl = \"postgres://127.0.0.1:1/x\"\n[audit]\non = \"book\"\n")
            .replace(
                "[connections]\nshop = \"sqlite:shop.db\"\n",
                "[connections.shop]\nurl = \"sqlite:shop.db\"\n",
            );
    let program = Program::with(&config);
    program.ok(&["migrate", "--source", "orders"]);
    let mut running = program.start(&["run"]);
    let words = "other instances may take this one for offline; trying again";
    running.wait_for(words);
    let said = end(running);
    assert_eq!(said.matches(words).count(), 1, "{said}");
    let ran = program.run(&["status", "--format", "json"]);
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, &shown["instances"]), (0, &Value::Null), "{ran:#?}");
    assert!(ran.stderr.contains("cannot tell which instances run"), "{ran:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d8_a_pipe_that_has_messages_and_settles_none_is_told_as_stalled_until_it_moves() {
    let quick = "unready_after = \"1s\"\nlease = \"2s\"\n[http]\nlisten = \"127.0.0.1:0\"\n";
    let program = Program::migrated(&(RELAY.replace("out/lines.jsonl", "fifo") + quick));
    assert!(Command::new("mkfifo").arg(program.path("fifo")).status().unwrap().success());
    // More than a pipe holds: the delivery hangs until somebody reads on.
    program.write("large", &"x".repeat(500_000));
    let mut running = program.start(&["run"]);
    let address = server(&mut running);
    assert_eq!(get(address, "/readyz").await.0, 200);
    program.ok(&["send", "--type", "t", "--file", "large", "--content-type", "text/plain"]);
    let path = program.path("fifo");
    let open = tokio::task::spawn_blocking(move || OpenOptions::new().read(true).open(path));
    let mut fifo = open.await.unwrap().unwrap();
    let unready = until(address, "/readyz", |status, _| status == 503).await;
    let reason = &unready["not_ready"][0];
    assert_eq!((&reason["pipe"], &reason["reason"]), (&"relay".into(), &"stalled".into()), "{unready}");
    let ill = until(address, "/health", |status, _| status == 503).await;
    assert_eq!((&ill["status"], &ill["pipes"][0]["running"]), (&"failing".into(), &true.into()), "{ill}");
    let read = std::thread::spawn(move || std::io::copy(&mut fifo, &mut std::io::sink()));
    until(address, "/readyz", |status, _| status == 200).await;
    end(running);
    read.join().unwrap().unwrap();
}
