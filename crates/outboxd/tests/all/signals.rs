//! The first signal drains, the second leaves.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::Command;

use serde_json::Value;

use crate::program::{Program, RELAY};

const SCREEN: &str = r#"
[connections]
shop = "sqlite:shop.db"
[sources.orders]
on = "shop"
[sinks.screen]
stdout = true
[pipes.relay]
from = "orders"
to = "screen"
"#;

#[test]
fn the_first_signal_drains_and_gives_everything_back() {
    for name in ["TERM", "INT"] {
        let program = Program::migrated(SCREEN);
        let mut running = program.start(&["run"]);
        running.wait_for("started");
        let id = program.send("a");
        let event: Value = serde_json::from_str(&running.next_line()).unwrap();
        assert_eq!(event["id"], id.as_str());
        running.signal(name);
        let (code, said) = running.end();
        assert_eq!(code, 0, "{said}");
        assert!(said.contains(&format!("SIG{name}")) && said.contains("outboxd is down"), "{said}");
        let status = program.json(&["status"]);
        let pipe = &status["pipes"][0];
        assert_eq!(
            (&pipe["owner"], &pipe["delivered"], &pipe["pending"]),
            (&Value::Null, &1.into(), &0.into())
        );
    }
}

#[test]
fn the_second_signal_leaves_at_once() {
    let program = Program::migrated(&RELAY.replace("out/lines.jsonl", "fifo"));
    assert!(Command::new("mkfifo").arg(program.path("fifo")).status().unwrap().success());
    program.write("large", &"x".repeat(500_000));
    program.ok(&["send", "--type", "t", "--file", "large", "--content-type", "text/plain"]);
    let mut running = program.start(&["run"]);
    // More than a pipe holds: once the first byte is here, the delivery hangs until we read on.
    let mut fifo = OpenOptions::new().read(true).open(program.path("fifo")).unwrap();
    fifo.read_exact(&mut [0]).unwrap();
    running.signal("TERM");
    running.wait_for("a second signal leaves at once");
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 130, "{said}");
    assert_eq!(program.json(&["list"])["messages"][0]["state"], "pending", "it is not lost");
}

#[test]
fn a_pipe_that_cannot_go_on_stops_alone() {
    let program = Program::with(
        &format!("{SCREEN}[sources.bad]\non = \"bad\"\n[pipes.broken]\nfrom = \"bad\"\nto = \"screen\"\n")
            .replace("[sources.orders]", "bad = \"sqlite:bad.db\"\n[sources.orders]"),
    );
    program.ok(&["migrate", "--source", "orders"]);
    program.write("bad.db", "");
    let mut running = program.start(&["run"]);
    let line = running.wait_for("the pipe has stopped");
    assert!(line.contains("broken") && line.contains("outboxd migrate"), "{line}");
    program.ok(&["send", "--source", "orders", "--type", "t", "--data", "{}"]);
    running.next_line();
    running.signal("TERM");
    assert_eq!(running.end().0, 1, "the end tells that one has failed");
}

#[test]
fn a_source_that_is_not_there_yet_is_waited_for() {
    let program = Program::with(SCREEN);
    program.make_folder("shop.db");
    let mut running = program.start(&["run"]);
    running.wait_for("trying again");
    std::fs::remove_dir(program.path("shop.db")).unwrap();
    program.ok(&["migrate"]);
    running.wait_for("started");
    program.send("a");
    running.next_line();
    running.signal("TERM");
    assert_eq!(running.end().0, 0);
}
