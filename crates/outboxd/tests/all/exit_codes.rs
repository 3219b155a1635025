//! Every exit code, and the list of them in the help.

use crate::program::{Program, RELAY};

#[test]
fn the_help_lists_them() {
    let help = Program::new().ok(&["--help"]);
    for code in [0, 1, 2, 3, 4, 5, 6, 7, 130] {
        assert!(help.contains(&format!("\n  {code:<5}")), "{code}: {help}");
    }
}

#[test]
fn one_is_a_failure() {
    let program = Program::migrated(RELAY);
    let ran = program.run(&["show", "nothing"]);
    assert_eq!(ran.only_error(1).0, "there is no message 'nothing'");
}

#[test]
fn two_is_wrong_usage() {
    let program = Program::migrated(RELAY);
    assert_eq!(program.run(&["stauts"]).code, 2);
    assert_eq!(program.run(&["purge"]).code, 2);
    assert_eq!(program.run(&["purge", "--older-than", "5"]).code, 2);
    assert_eq!(program.run(&["replay", "--pipe", "relay"]).code, 2);
    assert_eq!(program.run(&["send", "--type", "t", "--header", "x"]).code, 2);
    let ran = program.run(&["list", "--pipe", "rely"]);
    assert_eq!(ran.only_error(2), ("there is no pipe 'rely'", "did you mean 'relay'?"));
    let ran = program.run(&["status", "--source", "order"]);
    assert_eq!(ran.only_error(2).1, "did you mean 'orders'?");
    assert_eq!(program.run(&["run", "--pipe", "rely"]).only_error(2).1, "did you mean 'relay'?");
}

#[test]
fn three_is_an_invalid_configuration() {
    let program = Program::new();
    let ran = program.run(&["status"]);
    let (error, help) = ran.only_error(3);
    assert!(error.starts_with("cannot read the configuration (outboxd.toml): "), "{error}");
    assert!(help.contains("outboxd init"));
    program.write("outboxd.toml", "");
    for verb in ["validate", "run", "status", "migrate"] {
        assert!(program.run(&[verb]).only_error(3).0.starts_with("outboxd.toml:1:1: nothing is configured"));
    }
    program.write("outboxd.toml", RELAY.split("[sinks").next().unwrap());
    assert_eq!(program.run(&["run"]).only_error(3).0, "there is no pipe in the configuration");
}

#[test]
fn four_is_a_source_out_of_reach() {
    let program = Program::with(&RELAY.replace("sqlite:shop.db", "sqlite:folder"));
    program.make_folder("folder");
    for args in [&["status"][..], &["migrate"], &["list"], &["send", "--type", "t", "--data", "x"]] {
        let ran = program.run(args);
        let (error, help) = ran.only_error(4);
        assert!(error.contains("(source 'orders' at sqlite://"), "{error}");
        assert!(help.ends_with("try again"), "{help}");
    }
    assert_eq!(program.run(&["run", "--once"]).code, 4);
    let program = Program::with(&RELAY.replace("sqlite:shop.db", "postgres://app@127.0.0.1:1/shop"));
    let ran = program.run(&["status"]);
    assert!(ran.only_error(4).0.contains("(source 'orders' at postgres://app@127.0.0.1:1/shop)"), "{ran:#?}");
}

#[test]
fn five_is_a_sink_out_of_reach() {
    let program = Program::migrated(&RELAY.replace("\"count\"", "\"wait\""));
    program.send("a");
    let ran = program.run(&["run", "--once"]);
    assert_eq!(ran.code, 5, "{ran:#?}");
    assert!(ran.stderr.contains("the sink is unavailable"), "{ran:#?}");
    let status = program.json(&["status"]);
    assert_eq!(
        (&status["pipes"][0]["pending"], &status["pipes"][0]["dead"]),
        (&1.into(), &0.into()),
        "{status}"
    );
}

#[test]
fn seven_is_too_much_lag() {
    let program = Program::migrated(RELAY);
    program.make_folder("out");
    program.ok(&["status", "--max-lag", "1ms"]);
    program.send("a");
    std::thread::sleep(std::time::Duration::from_millis(5)); // Lag is nothing but time.
    assert_eq!(program.run(&["status", "--max-lag", "1ms"]).code, 7, "a pipe that never ran is behind too");
    program.ok(&["run", "--once"]);
    program.ok(&["status", "--max-lag", "1ms"]);
    program.send("b");
    std::thread::sleep(std::time::Duration::from_millis(5));
    let ran = program.run(&["status", "--max-lag", "1ms"]);
    assert!(ran.only_error(7).0.starts_with("pipe 'relay' is "), "{ran:#?}");
    assert!(ran.stdout.contains("relay"), "the table is shown all the same");
    program.ok(&["status", "--max-lag", "1h"]);
}
