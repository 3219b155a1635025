//! Pipes and their pauses while the database that keeps those is away.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use testbed::Proxy;

use crate::pause::{end, until, until_state};
use crate::program::{PATIENCE, Program};
use crate::web::{get, server};

/// Two pipes over files, whose pauses are kept in a PostgreSQL that can be cut off.
struct Away {
    program: Program,
    proxy: Proxy,
    _database: testbed::Database,
}

impl Away {
    async fn open() -> Option<Self> {
        let postgres = testbed::postgres().await?;
        let database = postgres.database().await.unwrap();
        let proxy = Proxy::to(("127.0.0.1", postgres.port())).await.unwrap();
        let config = format!(
            r#"
[connections]
shop = "sqlite:shop.db"
book = "{}"
[sources.orders]
on = "shop"
[sinks.lines]
file = "lines.jsonl"
[pipes.relay]
from = "orders"
to = "lines"
poll = "20ms"
unready_after = "1s"
[sinks.copies]
file = "copies.jsonl"
[pipes.copy]
from = "orders"
to = "copies"
poll = "20ms"
unready_after = "1s"
[audit]
on = "book"
[http]
listen = "127.0.0.1:0"
"#,
            proxy.reroute(database.url()).unwrap()
        );
        Some(Self { program: Program::migrated(&config), proxy, _database: database })
    }

    fn cut(&self) {
        self.proxy.refuse();
        self.proxy.cut();
    }

    /// How many lines were delivered, and how many copies.
    fn delivered(&self) -> (usize, usize) {
        let lines = |name| std::fs::read_to_string(self.program.path(name)).unwrap_or_default();
        (lines("lines.jsonl").lines().count(), lines("copies.jsonl").lines().count())
    }

    fn until_delivered(&self, wanted: (usize, usize)) {
        until("lines and copies", || match self.delivered() {
            delivered if delivered == wanted => Ok(()),
            delivered => Err(delivered),
        });
    }
}

/// How copy and relay are.
async fn health(address: SocketAddr) -> (Value, Vec<String>) {
    let health: Value = serde_json::from_str(&get(address, "/health").await.1).unwrap();
    let pipes = health["pipes"].as_array().unwrap();
    let states = pipes.iter().map(|pipe| pipe["state"].as_str().unwrap().to_owned()).collect();
    (health, states)
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_of_pauses_is_away_what_was_known_holds() {
    let Some(away) = Away::open().await else { return };
    let program = &away.program;
    let mut running = program.start(&["run"]);
    let address = server(&mut running);
    program.ok(&["pause", "relay"]);
    until_state(program, "relay", 1, "paused");
    away.cut();
    running.wait_for("what was known last holds");
    program.send("a");
    away.until_delivered((0, 1));
    let (health, states) = health(address).await;
    assert_eq!(states, ["running", "paused"], "copy and relay: {health:#}");
    assert_eq!(away.delivered().0, 0);
    away.proxy.accept();
    running.wait_for("it is known again which pipes are paused");
    program.ok(&["resume", "relay"]);
    away.until_delivered((1, 1));
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_nobody_can_tell_at_the_start_what_is_paused_no_pipe_begins_and_that_is_told() {
    let Some(away) = Away::open().await else { return };
    let program = &away.program;
    program.ok(&["pause", "relay"]);
    program.send("a");
    away.cut();
    let ran = program.run(&["run", "--once"]);
    assert_eq!((ran.code, away.delivered()), (4, (0, 0)), "{ran:#?}");
    assert!(ran.stderr.contains("left for later: it is not known which pipes are paused"), "{ran:#?}");
    let mut running = program.start(&["run"]);
    let address = server(&mut running);
    let told = running.wait_for("no pipe begins before it is known");
    assert!(told.contains("connection 'book'"), "{told}");
    let begun = Instant::now();
    let unready = loop {
        let (status, body) = get(address, "/readyz").await;
        if status == 503 {
            break serde_json::from_str::<Value>(&body).unwrap();
        }
        assert!(begun.elapsed() < PATIENCE, "it says that it is ready: {body}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let reasons: Vec<_> = unready["not_ready"].as_array().unwrap().iter().map(|one| &one["reason"]).collect();
    assert_eq!(reasons, ["pauses", "pauses"], "{unready:#}");
    let (health, states) = health(address).await;
    assert_eq!(
        (states.as_slice(), away.delivered()),
        (&["starting", "starting"].map(str::to_owned)[..], (0, 0))
    );
    let cause = health["pipes"][0]["cause"].as_str().unwrap();
    assert!(cause.starts_with("it is not known yet whether it is paused: "), "{health:#}");
    away.proxy.accept();
    away.until_delivered((0, 1));
    until_state(program, "relay", 1, "paused");
    let said = end(running);
    let started: Vec<_> = said.lines().filter(|line| line.contains(" started ")).collect();
    assert!(started.len() == 1 && started[0].contains("pipe=\"copy\""), "not for a moment: {said}");
}
