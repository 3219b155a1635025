//! The same program with real servers: an outbox in PostgreSQL, an exchange in RabbitMQ.

use serde_json::json;

use crate::program::Program;

#[tokio::test(flavor = "multi_thread")]
async fn from_postgres_to_rabbitmq() {
    let Some(postgres) = testbed::postgres().await else { return };
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let (database, vhost) = (postgres.database().await.unwrap(), rabbitmq.vhost().await.unwrap());
    let config = format!(
        r#"
[connections]
shop = "{}"
rabbit = "{}"
[sources.orders]
on = "shop"
[sinks.events]
on = "rabbit"
exchange = "shop.events"
queues = [{{ name = "billing", keys = ["order.*"], type = "classic" }}]
[pipes.relay]
from = "orders"
to = "events"
poll = "20ms"
retry_first = "1h"
retry_most = "1h"
"#,
        database.url(),
        vhost.url()
    );
    let program = Program::with(&config);
    let unready = program.run(&["status"]);
    assert!(unready.only_error(1).1.starts_with("run `outboxd migrate`"), "{unready:#?}");
    program.ok(&["migrate"]);
    assert_eq!(program.ok(&["migrate"]), "orders: up to date\n");
    let routed = program.send("a");
    let lost = program.ok(&["send", "--type", "invoice.sent", "--data", "x"]);
    program.ok(&["run", "--once"]);
    let counted = rabbitmq.ctl(&["list_queues", "-q", "-p", vhost.name(), "name", "messages"]).await.unwrap();
    assert!(counted.lines().any(|line| line.split_whitespace().eq(["billing", "1"])), "{counted}");
    assert_eq!(program.json(&["show", &routed])["pipes"][0]["state"], "done");
    let shown = program.json(&["show", lost.trim()]);
    assert_eq!(shown["pipes"][0]["state"], json!("waiting"), "{shown}");
    assert_eq!(shown["pipes"][0]["cause"]["code"], json!("NO_ROUTE"), "{shown}");
    assert_eq!(
        program.ok(&["skip", "--state", "waiting", "--code", "NO_ROUTE", "--yes"]),
        "1 message skipped\n"
    );
    let status = program.json(&["status"]);
    assert_eq!(
        (&status["pipes"][0]["waiting"], &status["pipes"][0]["pending"]),
        (&json!(0), &json!(0)),
        "{status}"
    );
    assert_eq!(program.json(&["replay", "--pipe", "relay", "--from-start", "--yes"])["changed"], 2);
}
