//! `status` over several sources, of which some are in trouble.

use serde_json::Value;

use crate::program::{Program, RELAY, Ran};

/// The source of [`RELAY`], and two more: one cannot be reached, the other has no tables.
fn in_trouble() -> Program {
    let more = [("away", "folder"), ("bare", "bare.db")].map(|(name, file)| {
        format!(
            "[connections.{name}]\nurl = \"sqlite:{file}\"\n[sources.{name}]\non = \"{name}\"\n\
             [pipes.from-{name}]\nfrom = \"{name}\"\nto = \"lines\"\n"
        )
    });
    let program = Program::migrated(RELAY);
    program.make_folder("folder");
    program.make_folder("out");
    program.write("outboxd.toml", &format!("{RELAY}{}", more.concat()));
    program.ok(&["send", "--source", "orders", "--type", "t", "--data", "x"]);
    program
}

fn pipes(ran: &Ran) -> Vec<Value> {
    let shown: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:#?}"));
    shown["pipes"].as_array().unwrap().clone()
}

#[test]
fn a_source_in_trouble_has_its_reason_in_its_rows_and_hides_no_other() {
    let program = in_trouble();
    let ran = program.run(&["status", "--format", "json"]);
    assert_eq!(ran.code, 4, "that of the first: {ran:#?}");
    let pipes = pipes(&ran);
    let of = |pipe: &str| pipes.iter().find(|row| row["pipe"] == pipe).unwrap_or_else(|| panic!("{ran:#?}"));
    assert_eq!((&of("relay")["started"], &of("relay")["error"]), (&false.into(), &Value::Null));
    for name in ["away", "bare"] {
        let row = of(&format!("from-{name}"));
        assert_eq!(row["source"], name);
        let (error, help) = (row["error"].as_str().unwrap(), row["help"].as_str().unwrap());
        assert!(error.contains(&format!("(source '{name}' at sqlite://")), "{error}");
        assert!(!help.is_empty() && ran.stderr.contains(error) && ran.stderr.contains(help), "{ran:#?}");
    }
    assert!(of("from-bare")["help"].as_str().unwrap().contains("outboxd migrate"), "{ran:#?}");
    assert_eq!(program.run(&["status", "--source", "bare"]).code, 1);
    program.ok(&["status", "--source", "orders"]);
}

#[test]
fn the_table_has_every_pipe_and_the_reasons() {
    let program = in_trouble();
    let ran = program.run(&["status"]);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{ran:#?}");
    assert!(lines[0].ends_with("TROUBLE"), "{ran:#?}");
    let line = |name: &str| *lines.iter().find(|line| line.starts_with(name)).unwrap();
    assert!(line("relay").contains("not started"), "{ran:#?}");
    for name in ["away", "bare"] {
        let line = line(&format!("from-{name}"));
        assert!(line.contains("unknown") && line.contains("cannot open the source"), "{ran:#?}");
    }
    let fine = program.ok(&["status", "--source", "orders"]);
    assert!(fine.lines().next().unwrap().ends_with("DELIVERED"), "no column without need: {fine}");
}

#[test]
fn the_lag_of_the_others_is_told_as_well() {
    let program = in_trouble();
    std::thread::sleep(std::time::Duration::from_millis(5)); // Lag is nothing but time.
    let ran = program.run(&["status", "--max-lag", "1ms"]);
    assert_eq!(ran.code, 4, "{ran:#?}");
    assert!(ran.stderr.contains("error: pipe 'relay' is "), "{ran:#?}");
}

#[test]
fn a10_activity_is_asked_for_and_a_log_says_that_it_keeps_none() {
    let program = Program::migrated(RELAY);
    let ran = program.run(&["status", "--activity"]);
    assert_eq!((ran.code, ran.stderr.lines().count()), (0, 1), "{ran:#?}");
    assert!(ran.stderr.starts_with("no activity to show"), "{ran:#?}");
    let shown = program.json(&["status", "--activity"]);
    assert_eq!(shown["activity"], serde_json::json!([]));
    assert_eq!(program.json(&["status"])["activity"], Value::Null, "only when asked for");
}
