//! A reader that has heard enough is no error.

use std::process::Stdio;

use crate::program::{Program, RELAY};

#[test]
fn a_closed_standard_output_is_no_error() {
    let program = Program::migrated(RELAY);
    for _ in 0..3 {
        program.send("a");
    }
    for args in [&["list"][..], &["completions", "bash"], &["config", "show"], &["migrate", "--print"]] {
        let mut child = program.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
        assert!(output.stderr.is_empty(), "{args:?}: {output:?}");
    }
}

#[test]
fn run_ends_when_nobody_reads_its_messages_any_more() {
    let program = Program::migrated(
        &RELAY.replace("file = \"out/lines.jsonl\"", "stdout = true").replace("count", "wait"),
    );
    let mut child = program.command(&["run"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    program.send("a");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(program.json(&["list"])["messages"][0]["state"], "pending", "it is not lost");
}
