//! `[alerts]`: what goes wrong is told once, and its end too.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::Smtp;

use crate::endpoint::{Endpoint, Posted};
use crate::life::scene::stop;
use crate::program::{PATIENCE, Program, RELAY};

const CANARY: &str = "canary-7d1f";

/// The relay whose messages die, and a hook that is told of it. Its address bears a secret.
fn config(endpoint: &Endpoint) -> String {
    let address = endpoint.url.strip_prefix("http://").unwrap();
    let hook = format!("http://app:{CANARY}@{address}?token={CANARY}");
    format!("{RELAY}[sinks.hook]\nhttp = \"{hook}\"\n[alerts]\nto = \"hook\"\nevery = \"1s\"\n")
}

fn body(posted: &Posted) -> Value {
    serde_json::from_str(&posted.body).unwrap_or_else(|error| panic!("{error}: {posted:#?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn d7_a_dead_message_is_told_once_and_its_repair_once() {
    let endpoint = Endpoint::start().await;
    let program = Program::migrated(&config(&endpoint));
    program.send("order-1");
    let mut running = program.start(&["run"]);
    let posted = endpoint.wait_for(1).await;
    let told = body(&posted[0]);
    assert_eq!(
        (&told["status"], &told["alert"], &told["severity"]),
        (&json!("firing"), &json!("OutboxDeadMessages"), &json!("critical")),
        "{told}"
    );
    assert_eq!(told["labels"], json!({ "source": "orders", "pipe": "relay" }), "{told}");
    assert_eq!(told["summary"], "pipe relay has given up 1 message, waiting for a person", "{told}");
    assert!(told["since"].is_string() && told["instance"].is_string(), "{told}");
    assert_eq!(posted[0].headers["ce-type"], "outboxd.alert");
    assert!(posted[0].headers.contains_key("authorization"), "its secret is sent to it, and to nobody else");
    running.wait_for("an alert fires");

    // A second one is no other state, and is seen before the end is.
    program.send("order-2");
    running.wait_for("cycle");
    program.make_folder("out");
    program.ok(&["retry", "--yes"]);
    let posted = endpoint.wait_for(2).await;
    let told = body(&posted[1]);
    assert_eq!(
        (&told["status"], &told["alert"]),
        (&json!("resolved"), &json!("OutboxDeadMessages")),
        "{told}"
    );
    running.wait_for("an alert is over");
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains(CANARY), "{said}");
    assert!(!program.ok(&["config", "show"]).contains(CANARY));
    assert_eq!(endpoint.posted().len(), 2, "{:#?}", endpoint.posted());
}

#[tokio::test(flavor = "multi_thread")]
async fn d7_an_alert_that_is_not_taken_is_sent_again_and_told_in_the_log_without_secrets() {
    let endpoint = Endpoint::start().await;
    endpoint.answer(&[503, 500]);
    let program = Program::migrated(&config(&endpoint));
    program.send("order-1");
    let mut running = program.start(&["run"]);
    running.wait_for("cannot send an alert; trying again");
    let posted = endpoint.wait_for(3).await;
    assert_eq!(posted[0].id, posted[2].id, "it is the same message");
    running.wait_for("alerts can be sent again");
    running.signal("TERM");
    let (_, said) = running.end();
    assert!(!said.contains(CANARY), "{said}");
    assert_eq!(endpoint.posted().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn d7_an_alert_goes_out_as_a_letter_and_through_a_pipe() {
    let Some(server) = testbed::available(Smtp::shared().await) else { return };
    let endpoint = Endpoint::start().await;
    let config = format!(
        "{RELAY}[connections.post]\nurl = \"smtp://localhost:{}\"\n[connections.ops]\nurl = \"sqlite:ops.db\"\n\
         [sinks.oncall]\non = \"post\"\nfrom = \"outboxd@x.example\"\nto = \"{{payload.alert}}@alerts.example\"\n\
         subject = \"{{payload.status}}: {{payload.alert}}\"\ntext = \"{{payload.summary}}\"\n\
         [sources.ops]\non = \"ops\"\n[sinks.hook]\nhttp = \"{}\"\n[pipes.tell]\nfrom = \"ops\"\nto = \"hook\"\npoll = \"10ms\"\n\
         [alerts]\nto = [\"oncall\"]\ninto = \"ops\"\nevery = \"1s\"\n[audit]\non = \"shop\"\n",
        server.open_port(),
        endpoint.url
    );
    let program = Program::migrated(&config);
    program.ok(&["send", "--source", "orders", "--type", "order.created", "--key", "a", "--data", "{}"]);
    let running = program.start(&["run"]);
    let posted = endpoint.wait_for(1).await;
    assert_eq!(body(&posted[0])["alert"], "OutboxDeadMessages", "through the outbox and its pipe");
    let give_up_at = Instant::now() + PATIENCE;
    let mails = loop {
        let mails = server.mails("OutboxDeadMessages@alerts.example").unwrap();
        if !mails.is_empty() {
            break mails;
        }
        assert!(Instant::now() < give_up_at, "no letter came");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let content = &mails[0].content;
    assert!(content.contains("Subject: firing: OutboxDeadMessages"), "{content}");
    assert!(content.contains("pipe relay has given up 1 message"), "{content}");
    stop(running);
}

#[tokio::test(flavor = "multi_thread")]
async fn d7_of_two_instances_one_tells_of_what_both_see() {
    let endpoint = Endpoint::start().await;
    let program = Program::migrated(&config(&endpoint));
    let mut first = Program::begin(&mut program.command(&["run"]));
    first.wait_for("outboxd is up");
    let mut second = program.start(&["run"]);
    second.wait_for("outboxd is up");
    let seen = |instances: &Value| instances.as_array().map_or(0, Vec::len);
    let give_up_at = Instant::now() + PATIENCE;
    while seen(&program.json(&["status"])["instances"]) < 2 {
        assert!(Instant::now() < give_up_at, "they never told of themselves");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    program.send("order-1");
    let mut running = [first, second];
    endpoint.wait_for(1).await;
    // Both look at the database every 10 s, and at what they know every second: whoever would tell too has done so by then.
    tokio::time::sleep(Duration::from_secs(13)).await; // That nothing more comes has no signal.
    let posted = endpoint.posted();
    assert_eq!(posted.len(), 1, "{posted:#?}");
    let told: usize = running
        .iter_mut()
        .map(|one| one.heard().iter().filter(|line| line.contains("an alert fires")).count())
        .sum();
    assert_eq!(told, 1);
    running.into_iter().for_each(stop);
}
