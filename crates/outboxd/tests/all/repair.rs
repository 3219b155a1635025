//! What a person does about messages that failed.

use serde_json::{Value, json};

use crate::program::{Program, RELAY};

fn states(program: &Program) -> Vec<String> {
    let found = program.json(&["list", "--pipe", "relay"]);
    found["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["state"].as_str().unwrap().to_owned())
        .collect()
}

/// Two messages of one key and one of another, of which none could be delivered.
fn with_dead() -> (Program, Vec<String>) {
    let program = Program::migrated(RELAY);
    let ids = ["a", "a", "b"].map(|key| program.send(key)).to_vec();
    program.ok(&["run", "--once"]);
    assert_eq!(states(&program), ["dead", "behind", "dead"]);
    program.make_folder("out");
    (program, ids)
}

fn delivered(program: &Program) -> Vec<String> {
    let lines = program.read("out/lines.jsonl");
    let events = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_dead_message_says_why_and_holds_its_key() {
    let (program, ids) = with_dead();
    let shown = program.json(&["show", &ids[0]]);
    let pipe = &shown["pipes"][0];
    assert_eq!(
        (&pipe["pipe"], &pipe["state"], &pipe["attempts"]),
        (&json!("relay"), &json!("dead"), &json!(1))
    );
    assert_eq!(pipe["cause"]["code"], "UNREACHABLE");
    let dead = program.json(&["list", "--code", "UNREACHABLE", "--state", "dead"]);
    assert_eq!(dead["messages"].as_array().unwrap().len(), 2);
    assert!(program.ok(&["list", "--state", "dead"]).contains("UNREACHABLE: cannot write"));
}

#[test]
fn retry_brings_them_back_in_the_order_of_their_key() {
    let (program, ids) = with_dead();
    let preview = program.json(&["retry", "--dry-run"]);
    assert_eq!((&preview["matched"], &preview["changed"]), (&json!(2), &json!(0)));
    assert_eq!(states(&program), ["dead", "behind", "dead"]);
    assert_eq!(program.ok(&["retry", "--key", "a", "--yes"]), "1 message due again\n");
    program.ok(&["run", "--once"]);
    assert_eq!(delivered(&program), ids[..2]);
    assert_eq!(states(&program), ["done", "done", "dead"]);
}

#[test]
fn skip_lets_them_go_and_their_keys_go_on() {
    let (program, ids) = with_dead();
    let skipped = program.json(&["skip", &ids[0], &ids[2], "--yes"]);
    assert_eq!((&skipped["matched"], &skipped["changed"]), (&json!(2), &json!(2)));
    program.ok(&["run", "--once"]);
    assert_eq!(delivered(&program), ids[1..2]);
    assert_eq!(states(&program), ["done", "done", "done"]);
}

#[test]
fn replay_repeats_from_a_message_a_time_or_the_start() {
    let program = Program::migrated(RELAY);
    program.make_folder("out");
    let ids = ["a", "b", "c"].map(|key| program.send(key));
    program.ok(&["run", "--once"]);
    let replay = |from: &[&str]| {
        let mut args = vec!["replay", "--pipe", "relay", "--yes"];
        args.extend(from);
        let replayed = program.json(&args)["changed"].as_u64().unwrap();
        program.ok(&["run", "--once"]);
        replayed
    };
    assert_eq!(replay(&["--from-id", &ids[1]]), 2);
    assert_eq!(delivered(&program)[3..], ids[1..]);
    assert_eq!(replay(&["--from-start"]), 3);
    assert_eq!(replay(&["--from-time", "2020-01-01T00:00:00Z"]), 3);
    assert_eq!(delivered(&program).len(), 3 + 2 + 3 + 3);
    let unknown = program.run(&["replay", "--pipe", "relay", "--from-id", "nothing", "--yes"]);
    assert!(unknown.only_error(1).0.contains("nothing"), "{unknown:#?}");
}

#[test]
fn purge_removes_only_what_every_pipe_has_done() {
    let (program, ids) = with_dead();
    program.ok(&["skip", &ids[0], "--yes"]);
    program.ok(&["run", "--once"]);
    std::thread::sleep(std::time::Duration::from_millis(5)); // Older than a millisecond: only time does that.
    assert_eq!(program.ok(&["purge", "--older-than", "1h", "--dry-run"]), "0 messages matched\n");
    assert_eq!(program.ok(&["purge", "--older-than", "1ms", "--yes"]), "2 messages removed\n");
    let left = program.json(&["list"]);
    assert_eq!(left["messages"].as_array().unwrap().len(), 1);
    assert_eq!(left["messages"][0]["id"], ids[2].as_str());
}

#[test]
fn a_filter_says_what_the_flags_say_and_may_not_contradict_them() {
    let (program, ids) = with_dead();
    let by_filter = program.json(&["list", "--filter", "key:b state:dead"]);
    assert_eq!(by_filter, program.json(&["list", "--key", "b", "--state", "dead"]));
    assert_eq!(by_filter["messages"][0]["id"], ids[2].as_str());
    let both = program.json(&["retry", "--filter", "key:a", "--type", "order.*", "--dry-run"]);
    assert_eq!(both["matched"], 1, "{both}");
    let refused = program.run(&["skip", "--key", "a", "--filter", "key:b", "--yes"]);
    let (error, help) = refused.only_error(2);
    assert_eq!(error, "'key' cannot be both 'a' and 'b', by flag and by --filter");
    assert_eq!(help, "ask for one key");
    let wrong = program.run(&["list", "--filter", "key:b stat:dead"]);
    let (error, help) = wrong.only_error(2);
    assert_eq!(error, "the filter, at character 7: there is no term 'stat'");
    assert_eq!(help, "did you mean 'state'?");
}
