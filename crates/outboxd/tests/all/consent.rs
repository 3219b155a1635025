//! Nothing that cannot be taken back happens by accident.

use crate::program::{Program, RELAY};

#[test]
fn without_a_terminal_and_without_yes_nothing_is_changed() {
    let program = Program::migrated(RELAY);
    program.send("a");
    program.ok(&["run", "--once"]);
    for (args, deed) in [
        (vec!["retry"], "would retry 1 message, and nobody is there to confirm it"),
        (vec!["skip"], "would skip 1 message, and nobody is there to confirm it"),
        (
            vec!["replay", "--pipe", "relay", "--from-start"],
            "would repeat 1 message on pipe 'relay', and nobody",
        ),
    ] {
        let ran = program.run(&args);
        let (error, help) = ran.only_error(2);
        assert!(error.starts_with(deed), "{error}");
        assert_eq!(help, "repeat it with --yes, or look first with --dry-run");
        assert_eq!(ran.stdout, "");
    }
    assert_eq!(program.json(&["list", "--state", "dead"])["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn nothing_to_do_needs_no_consent() {
    let program = Program::migrated(RELAY);
    assert_eq!(program.ok(&["retry"]), "0 messages matched\n");
    assert_eq!(program.ok(&["purge", "--older-than", "30d"]), "0 messages matched\n");
}
