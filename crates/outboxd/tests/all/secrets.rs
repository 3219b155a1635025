//! A password is in no output, whatever is asked and whatever fails.

use std::process::Command;

use crate::program::{Program, RELAY, texts};

const CANARY: &str = "canary-7d1f";

fn config(url: &str) -> String {
    format!(
        "{}\n[sinks.events]\non = \"rabbit\"\nexchange = \"e\"\n[log]\nlevel = \"trace\"\n",
        RELAY.replace("[sources", &format!("rabbit = \"{url}\"\n[sources"))
    )
}

fn assert_clean(program: &Program, command: &mut Command) {
    let what = format!("{command:?}");
    let ran = Program::finish(command.env("SECRET", CANARY));
    assert!(!ran.stdout.contains(CANARY) && !ran.stderr.contains(CANARY), "{what}: {ran:#?}");
    for (path, text) in texts(&program.path("")) {
        let is_ours = path.ends_with("outboxd.toml") || path.ends_with("secret");
        assert!(is_ours || !text.contains(CANARY), "{what}: {}", path.display());
    }
}

#[test]
fn the_canary_is_in_no_output() {
    for url in [
        "amqp://app:${SECRET}@127.0.0.1:1",
        "amqp://app:canary-7d1f@127.0.0.1:1/%2f",
        "amqp://app:canary-7d1f@broker.example",
        "amqp://app:canary-7d1f",
        "mongo://app:canary-7d1f@localhost",
        "${SECRET}",
        "canary-7d1f",
    ] {
        let program =
            Program::with(&config(url).replace("to = \"lines\"", "to = \"events\"").replace("count", "wait"));
        for args in [
            &["validate"][..],
            &["validate", "--format", "json"],
            &["config", "show"],
            &["config", "show", "--format", "json"],
            &["migrate", "-vv"],
            &["send", "--type", "t", "--data", "x", "-vv"],
            &["status"],
            &["run", "--once", "-vv"],
        ] {
            assert_clean(&program, &mut program.command(args));
        }
    }
}

#[test]
fn a_password_of_a_database_is_in_no_output_either() {
    let url = "{ url = \"postgres://app@127.0.0.1:1/shop\", password_file = \"secret\" }";
    let program = Program::with(&RELAY.replace("\"sqlite:shop.db\"", url));
    program.write("secret", &format!("{CANARY}\n"));
    for verb in ["validate", "migrate", "status"] {
        assert_clean(&program, &mut program.command(&[verb, "-vv"]));
    }
    let shown = program.ok(&["config", "show"]);
    assert!(shown.contains("postgres://app:***@127.0.0.1:1/shop"), "{shown}");
    assert_clean(&program, &mut program.command(&["run", "--once", "-vv"]));
}
