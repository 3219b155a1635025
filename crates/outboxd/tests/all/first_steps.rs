//! What the first ten minutes look like, and what each verb shows.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::program::{Program, RELAY};

fn mode(program: &Program) -> u32 {
    let file = std::fs::metadata(program.path("outboxd.toml")).unwrap();
    file.permissions().mode() & 0o777
}

#[test]
fn the_first_configuration_runs_as_it_is() {
    let program = Program::new();
    assert_eq!(program.ok(&["init"]), "wrote outboxd.toml\n");
    assert_eq!(mode(&program), 0o600, "it will hold passwords");
    assert!(program.ok(&["validate"]).contains("is valid: 1 connection, 1 source, 1 sink, 1 pipe"));
    assert!(program.ok(&["migrate"]).contains("orders: applied"));
    assert_eq!(program.ok(&["migrate"]), "orders: up to date\n");
    let id = program.ok(&["send", "--type", "order.created", "--key", "42", "--data", "{\"total\":10}"]);
    let event = program.json(&["run", "--once"]);
    assert_eq!(event["id"], id.trim());
    assert_eq!(event["type"], "order.created");
    assert_eq!(event["data"], json!({ "total": 10 }));
    assert_eq!(program.ok(&["run", "--once"]), "", "it was carried once");
}

#[test]
fn init_does_not_overwrite_unless_told() {
    let program = Program::with("mine");
    let ran = program.run(&["init"]);
    assert_eq!(ran.only_error(1), ("outboxd.toml exists already", "overwrite it with --force"));
    assert_eq!(program.read("outboxd.toml"), "mine");
    std::fs::set_permissions(program.path("outboxd.toml"), Permissions::from_mode(0o644)).unwrap();
    program.ok(&["init", "--force"]);
    assert_eq!(mode(&program), 0o600);
    program.ok(&["validate"]);
}

#[test]
fn status_tells_of_every_pipe() {
    let program = Program::migrated(RELAY);
    let before = program.json(&["status"]);
    let pipe = json!({ "source": "orders", "pipe": "relay", "started": false, "lag_seconds": null });
    assert_eq!(before, json!({ "pipes": [pipe], "instances": [], "paused": [] }));
    assert!(program.ok(&["status"]).contains("not started"));
    program.make_folder("out");
    program.send("a");
    program.send("b");
    program.ok(&["run", "--once"]);
    program.send("c");
    let pipes = program.json(&["status"]);
    let pipe = &pipes["pipes"][0];
    assert_eq!((&pipe["pipe"], &pipe["source"]), (&json!("relay"), &json!("orders")));
    assert_eq!(
        (&pipe["pending"], &pipe["delivered"], &pipe["dead"]),
        (&json!(1), &json!(2), &json!(0)),
        "{pipe}"
    );
    assert_eq!(pipe["owner"], json!(null), "the run gave its cursor back");
    let table = program.ok(&["status"]);
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let header = ["PIPE", "SOURCE", "OWNER", "PENDING", "LAG", "WAITING", "BEHIND", "DEAD", "DELIVERED"];
    assert_eq!(lines.next().unwrap(), header);
    assert_eq!(lines.next().unwrap()[..4], ["relay", "orders", "-", "1"]);
}

#[test]
fn list_filters_and_pages() {
    let program = Program::migrated(RELAY);
    for key in ["a", "b", "a"] {
        program.send(key);
    }
    let saga = ["send", "--type", "invoice.sent", "--header", "x-saga-id=s1", "--data", "x"];
    let id = program.ok(&saga);
    let ids = |args: &[&str]| {
        let mut all = vec!["list"];
        all.extend(args);
        let found = program.json(&all);
        found["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|m| m["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]).len(), 4);
    assert_eq!(ids(&["--key", "a"]).len(), 2);
    assert_eq!(ids(&["--type", "invoice.*"]), [id.trim()]);
    assert_eq!(ids(&["--header", "x-saga-id=s1"]), [id.trim()]);
    assert_eq!(ids(&["--id", id.trim()]), [id.trim()]);
    assert_eq!(ids(&["--state", "dead"]).len(), 0);
    let first = program.json(&["list", "--limit", "3"]);
    let after = first["next"].as_u64().unwrap().to_string();
    assert_eq!(ids(&["--after", &after]), [id.trim()]);
    assert_eq!(program.json(&["list", "--limit", "4"])["next"], json!(null), "a full page may be the last");
    assert!(program.ok(&["list"]).contains(id.trim()));
}

#[test]
fn show_hides_the_payload_unless_asked() {
    let program = Program::migrated(RELAY);
    program.write("payload", "confidential");
    let args = [
        "send",
        "--type",
        "t",
        "--key",
        "k",
        "--header",
        "a=b",
        "--file",
        "payload",
        "--content-type",
        "text/plain",
    ];
    let id = program.ok(&args);
    let id = id.trim();
    for format in ["table", "json"] {
        let plain = program.ok(&["show", id, "--format", format]);
        assert!(plain.contains("text/plain") && !plain.contains("confidential"), "{plain}");
        assert!(program.ok(&["show", id, "--payload", "--format", format]).contains("confidential"));
    }
    let shown = program.json(&["show", id]);
    assert_eq!((&shown["key"], &shown["headers"]), (&json!("k"), &json!({ "a": "b" })));
    assert_eq!(shown["payload_bytes"], 12);
}

#[test]
fn send_reads_standard_input() {
    let program = Program::migrated(RELAY);
    program.write("payload", "from a pipe");
    let mut command = program.command(&["send", "--type", "t"]);
    command.stdin(std::fs::File::open(program.path("payload")).unwrap());
    let ran = Program::finish(&mut command);
    let shown = program.json(&["show", ran.stdout.trim(), "--payload"]);
    assert_eq!(shown["payload"], "from a pipe");
}

#[test]
fn migrate_prints_sql_without_a_configuration() {
    let program = Program::new();
    for kind in ["sqlite", "postgres"] {
        let sql = program.ok(&["migrate", "--print", kind]);
        assert!(sql.to_uppercase().contains("CREATE TABLE"), "{sql}");
    }
    program.write("outboxd.toml", RELAY);
    assert_eq!(program.ok(&["migrate", "--print"]), program.ok(&["migrate", "--print", "sqlite"]));
    assert!(!program.path("shop.db").exists());
}

#[test]
fn completions_exist_for_every_shell() {
    let program = Program::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(program.ok(&["completions", shell]).contains("outboxd"));
    }
}

#[test]
fn one_outbox_feeds_several_pipes_and_none_holds_up_another() {
    let more = "[sinks.broken]\nfile = \"nowhere/lines.jsonl\"\n[pipes.audit]\nfrom = \"orders\"\nto = \"broken\"\npoll = \"10ms\"\n";
    let program = Program::migrated(&format!("{}{more}", RELAY.replace("attempts = 1", "lanes = 3")));
    program.make_folder("out");
    for key in 0..20 {
        program.send(&key.to_string());
    }
    let ran = program.run(&["run", "--once"]);
    assert_eq!(ran.code, 5, "{ran:#?}");
    assert_eq!(program.read("out/lines.jsonl").lines().count(), 20);
    let status = program.json(&["status"]);
    let sum = |pipe: &str, field: &str| {
        let rows = status["pipes"].as_array().unwrap().iter().filter(|row| row["pipe"] == pipe);
        rows.map(|row| row[field].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("relay", "delivered"), sum("relay", "pending")), (20, 0), "{status}");
    assert_eq!((sum("audit", "delivered"), sum("audit", "pending")), (0, 20), "{status}");
    assert!(program.ok(&["status"]).contains("relay/2"));
    assert_eq!(program.run(&["run", "--once", "--pipe", "relay"]).code, 0);
}

#[test]
fn the_log_can_be_json() {
    let program = Program::migrated(&format!("{RELAY}[log]\nformat = \"json\"\n"));
    let by_file = Program::finish(program.command(&["run", "--once"]).env_remove("OUTBOXD_LOG_FORMAT"));
    // A flag goes before the environment, which says text here.
    let by_flag = program.run(&["run", "--once", "--log-format", "json"]);
    for ran in [by_file, by_flag] {
        assert!(ran.stderr.lines().count() >= 3, "{ran:#?}");
        for line in ran.stderr.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(line["message"].is_string() && line["level"] == "INFO", "{line}");
        }
    }
    assert_eq!(program.run(&["run", "--once", "-q"]).stderr, "");
}

#[test]
fn colour_only_where_it_is_wanted() {
    let program = Program::new();
    assert!(!program.run(&["status"]).stderr.contains('\u{1b}'));
    assert!(program.run(&["status", "--color", "always"]).stderr.contains("\u{1b}[1;31merror:"));
}
