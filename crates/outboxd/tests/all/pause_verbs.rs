//! Pausing and resuming by the command line and by HTTP: what is said, and what is refused.

use serde_json::{Value, json};

use crate::pause::{end, until_state};
use crate::program::{Program, RELAY};
use crate::web::{ask, post, server};

#[test]
fn pausing_says_what_is_wrong_and_who_was_first() {
    let program = Program::migrated(RELAY);
    program.make_folder("out");
    let unknown = program.run(&["pause", "relai"]);
    let (error, help) = unknown.only_error(2);
    assert_eq!(error, "there is no pipe 'relai'");
    assert!(help.contains("did you mean") && help.contains("relay"), "{help}");
    assert_eq!(program.ok(&["resume", "relay"]), "relay was not paused\n");
    let paused = program.json(&["pause", "relay", "--by", "ann", "--note", "a look"]);
    let pause = &paused["pipes"][0];
    assert_eq!((&pause["paused"], &pause["changed"]), (&json!(true), &json!(true)), "{paused}");
    let again = program.ok(&["pause", "relay", "--by", "bob"]);
    assert!(again.starts_with("relay was paused already, by ann since 20"), "{again}");
    assert!(again.ends_with(": a look\n"), "{again}");
    let status = program.json(&["status"]);
    assert_eq!(status["paused"][0]["by"], "ann", "{status}");
    let long = program.run(&["pause", "relay", "--note", &"x".repeat(501)]);
    assert_eq!(long.only_error(2).0, "the note has more than 500 characters");
    let resumed = program.json(&["resume", "relay"]);
    assert_eq!(resumed["pipes"][0]["pause"]["by"], "ann", "{resumed}");
    // What was paused and then renamed can be set free.
    program.ok(&["pause", "relay"]);
    program.write("outboxd.toml", &RELAY.replace("[pipes.relay]", "[pipes.renamed]"));
    assert!(program.ok(&["resume", "relay"]).starts_with("relay goes on; it was paused by "));
    assert_eq!(program.run(&["resume", "relay"]).only_error(2).0, "there is no pipe 'relay'");
}

#[test]
fn without_a_place_for_pauses_pausing_is_refused_with_what_to_do() {
    let two = RELAY.replace("[sources.orders]", "other = \"sqlite:other.db\"\n[sources.orders]")
        + "[sources.second]\non = \"other\"\n";
    let program = Program::migrated(&two);
    for verb in ["pause", "resume"] {
        let ran = program.run(&[verb, "relay"]);
        let (error, help) = ran.only_error(3);
        assert_eq!(error, "there is no place to write down which pipes are paused");
        assert!(help.contains("[audit]") && help.contains("outboxd migrate"), "{help}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_was_not_migrated_says_so_and_its_pipes_run() {
    let program = Program::migrated(RELAY);
    program.make_folder("out");
    crate::handlers::on_file(&program, "shop.db", "DROP TABLE outbox_pauses").await;
    let refused = program.run(&["pause", "relay"]);
    let (error, help) = refused.only_error(1);
    assert!(error.contains("'shop' has no table for it") && help.contains("outboxd migrate"), "{refused:#?}");
    let mut running = program.start(&["run"]);
    running.wait_for("no pipe can be paused");
    program.send("a");
    running.wait_for("delivered=1");
    end(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_pauses_at_once_and_shows_every_instance() {
    let person = "[http.people.ci]\nrole = \"operator\"\ntoken = \"let-me-in-please\"\n";
    let config = format!("{RELAY}[http]\nlisten = \"127.0.0.1:0\"\n{person}");
    let program = Program::migrated(&config);
    program.make_folder("out");
    let token = "let-me-in-please";
    let mut one = program.start(&["run"]);
    let address = server(&mut one);
    let other = program.start(&["run"]);
    until_state(&program, "relay", 2, "running");
    let pipes = async || {
        let head = format!("GET /v1/pipes HTTP/1.1\r\nAuthorization: Bearer {token}");
        let (status, body) = ask(address, &head, "").await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str::<Value>(&body).unwrap()
    };
    let (status, answer) = post(address, "/v1/pipes/relay/pause", token, &json!({ "note": "a look" })).await;
    assert_eq!((status, &answer["changed"]), (200, &json!(true)), "{answer}");
    assert_eq!(answer["pause"]["by"], "ci", "{answer}");
    until_state(&program, "relay", 2, "paused");
    let shown = pipes().await;
    let relay = &shown["pipes"][0];
    assert_eq!(
        [&relay["pipe"], &relay["from"], &relay["to"], &relay["paused"]["note"]],
        ["relay", "orders", "lines", "a look"],
        "{shown:#}"
    );
    let instances = relay["instances"].as_array().unwrap();
    let told: Vec<_> =
        instances.iter().map(|seen| (&seen["own"], &seen["state"], &seen["offline"])).collect();
    let [ours, theirs] = [json!(true), json!(false)];
    assert_eq!(told, [(&ours, &json!("paused"), &theirs), (&theirs, &json!("paused"), &theirs)], "{shown:#}");
    assert_eq!(instances[0]["breaker"]["open"], false, "{shown:#}");
    let (status, answer) = post(address, "/v1/pipes/relay/resume", token, &json!({})).await;
    assert_eq!(
        (status, &answer["paused"], &answer["changed"]),
        (200, &json!(false), &json!(true)),
        "{answer}"
    );
    until_state(&program, "relay", 2, "running");
    assert_eq!(pipes().await["pipes"][0]["paused"], Value::Null);
    for (path, body, code) in [
        ("/v1/pipes/relai/pause", json!({}), 404),
        ("/v1/pipes/relay/pause", json!({ "nota": "x" }), 400),
        ("/v1/pipes/relay/pause", json!({ "note": "x".repeat(501) }), 400),
    ] {
        let (status, answer) = post(address, path, token, &body).await;
        assert_eq!(status, code, "{path} {body}: {answer}");
        assert!(answer["error"].is_string() && answer["help"].is_string(), "{answer}");
    }
    assert_eq!(post(address, "/v1/pipes/relay/pause", "wrong", &json!({})).await.0, 401);
    end(one);
    end(other);
}
