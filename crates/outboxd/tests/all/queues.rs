//! A consumer of RabbitMQ by configuration alone: retries and dead letters kept by the broker.

use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use testbed::{Proxy, Vhost};

use crate::broker::Queue;
use crate::endpoint::Endpoint;
use crate::handlers::on_file;
use crate::program::{PATIENCE, Program};

fn config(vhost: &Vhost, url: &str, source: &str) -> String {
    format!(
        "[connections]\nrabbit = \"{}\"\nhandled = \"sqlite:handled.db\"\n\
         [sources.work]\non = \"rabbit\"\nqueue = \"notifications\"\n{source}\n\
         [sinks.hook]\nhttp = \"{url}\"\ninbox = \"handled\"\n\
         [pipes.notify]\nfrom = \"work\"\nto = \"hook\"\npoll = \"20ms\"\n",
        vhost.url()
    )
}

/// Somebody who publishes, and is no program of ours.
struct Publisher(Channel);

impl Publisher {
    async fn connect(vhost: &Vhost) -> Self {
        let connection = Connection::connect(vhost.url(), ConnectionProperties::default()).await.unwrap();
        let channel = connection.create_channel().await.unwrap();
        channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
        Self(channel)
    }

    async fn publish(&self, exchange: &str, key: &str, id: &str, body: &str) {
        let properties =
            BasicProperties::default().with_message_id(id.into()).with_type("ticket.created".into());
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let sent = self.0.basic_publish(exchange.into(), key.into(), options, body.as_bytes(), properties);
        sent.await.unwrap().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d1_d3_d5_a_queue_is_handled_once_retried_by_the_broker_and_set_aside() {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let endpoint = Endpoint::start().await;
    let source = "bind = [{ exchange = \"tickets\", keys = [\"ticket.*\"] }]\nretry = [\"100ms\", \"200ms\"]";
    let program = Program::migrated(&config(&vhost, &endpoint.url, source));
    // Makes queue, exchange and binding; nothing is there yet.
    program.ok(&["run", "--once"]);
    let publisher = Publisher::connect(&vhost).await;
    let running = program.start(&["run"]);
    publisher.publish("tickets", "ticket.created", "m-1", "{\"n\":1}").await;
    assert_eq!(endpoint.wait_for(1).await[0].id, "m-1");
    publisher.publish("tickets", "ticket.created", "m-1", "{\"n\":1}").await;
    endpoint.answer(&[503]);
    publisher.publish("tickets", "ticket.created", "m-2", "{}").await;
    let posted = endpoint.wait_for(3).await;
    let ids: Vec<_> = posted.iter().map(|request| request.id.as_str()).collect();
    assert_eq!(ids, ["m-1", "m-2", "m-2"], "m-1 came twice and was handled once; m-2 was tried again");
    endpoint.answer(&[500, 500, 500]);
    publisher.publish("tickets", "ticket.created", "m-3", "{}").await;
    endpoint.wait_for(6).await;
    let dead = Queue::open(vhost.url(), "notifications.dlq").await;
    let give_up_at = std::time::Instant::now() + PATIENCE;
    let letter = loop {
        if let Some(letter) = dead.drain().await.pop() {
            break letter;
        }
        assert!(std::time::Instant::now() < give_up_at, "no dead letter");
    };
    assert_eq!((letter.id.as_str(), letter.headers["x-error-code"].as_str()), ("m-3", "HTTP_500"));
    assert_eq!(letter.headers["x-error-attempts"], "3");
    running.signal("TERM");
    let (code, said) = running.end();
    assert_eq!(code, 0, "{said}");
    assert_eq!(endpoint.posted().len(), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn run_once_ends_when_nothing_more_comes_and_says_when_the_broker_is_away() {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let endpoint = Endpoint::start().await;
    let program = Program::migrated(&config(&vhost, &endpoint.url, ""));
    program.ok(&["run", "--once"]);
    let publisher = Publisher::connect(&vhost).await;
    for n in 0..50 {
        publisher.publish("", "notifications", &format!("m-{n}"), "{}").await;
    }
    program.ok(&["run", "--once"]);
    assert_eq!(endpoint.posted().len(), 50);
    let away = config(&vhost, &endpoint.url, "").replace(vhost.url(), "amqp://127.0.0.1:1");
    program.write("outboxd.toml", &away);
    let ran = program.run(&["run", "--once"]);
    assert_eq!(ran.code, 4, "{ran:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d3_a_queue_of_foreign_messages_is_handled_by_statements() {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let program = Program::migrated(&format!(
        "[connections]\nrabbit = \"{}\"\nshop = \"sqlite:shop.db\"\n\
         [sources.work]\non = \"rabbit\"\nqueue = \"orders\"\nid = [\"payload.id\"]\n\
         [sinks.stock]\non = \"shop\"\nsql = \"INSERT INTO stock (sku) VALUES (:payload.sku)\"\n\
         [pipes.stock]\nfrom = \"work\"\nto = \"stock\"\npoll = \"20ms\"\n",
        vhost.url()
    ));
    on_file(&program, "shop.db", "CREATE TABLE stock (sku TEXT NOT NULL)").await;
    program.ok(&["run", "--once"]);
    let publisher = Publisher::connect(&vhost).await;
    for n in 0..30 {
        // Every message twice, with an id that only the payload has.
        let body = format!("{{\"id\":\"o-{}\",\"sku\":\"s\"}}", n / 2);
        publisher.publish("", "orders", "", &body).await;
    }
    for bad in ["", "no json", "{\"sku\":\"without an id\"}"] {
        publisher.publish("", "orders", "", bad).await;
    }
    program.ok(&["run", "--once"]);
    assert_eq!(on_file(&program, "shop.db", "SELECT count(*), '' FROM stock").await[0].0, 15);
    let dead = Queue::open(vhost.url(), "orders.dlq").await.drain().await;
    let mut codes: Vec<_> = dead.iter().map(|letter| letter.headers["x-error-code"].as_str()).collect();
    codes.sort_unstable();
    assert_eq!(codes, ["NO_ID", "UNFIT", "UNFIT"], "{dead:#?}");
}

/// The dead letters lead into an error table; the queues are made.
fn with_error_table(vhost: &testbed::Vhost, endpoint: &Endpoint) -> Program {
    let errors = "[sources.dead]\non = \"rabbit\"\nqueue = \"notifications.dlq\"\n\
        [sinks.errors]\non = \"handled\"\nerror_log = true\n[pipes.errors]\nfrom = \"dead\"\nto = \"errors\"\npoll = \"20ms\"\n";
    let program = Program::migrated(&format!("{}{errors}", config(vhost, &endpoint.url, "")));
    program.ok(&["run", "--once"]);
    program
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_dead_letters_are_written_down_in_a_table_of_errors() {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let endpoint = Endpoint::start().await;
    let program = with_error_table(&vhost, &endpoint);
    endpoint.answer(&[404]);
    Publisher::connect(&vhost).await.publish("", "notifications", "m-1", "{\"n\":1}").await;
    program.ok(&["run", "--once"]);
    program.ok(&["run", "--once"]);
    let written = on_file(
        &program,
        "handled.db",
        "SELECT attempts, message_id || ' ' || code || ' ' || origin FROM outbox_errors",
    )
    .await;
    assert_eq!(written, [(1, "m-1 HTTP_404 notifications".to_owned())]);
    assert!(program.ok(&["doctor", "--sink", "errors"]).contains("there, and can be read"));
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_what_nobody_can_handle_is_written_down_too() {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let endpoint = Endpoint::start().await;
    let program = with_error_table(&vhost, &endpoint);
    let publisher = Publisher::connect(&vhost).await;
    let mut odd = FieldTable::default();
    odd.insert("x-event-id".into(), AMQPValue::FieldTable(FieldTable::default()));
    let bare = BasicProperties::default;
    for (body, properties) in [("odd", bare().with_headers(odd)), ("bare", bare())] {
        let options = BasicPublishOptions::default();
        let to = "notifications".into();
        let sent = publisher.0.basic_publish("".into(), to, options, body.as_bytes(), properties);
        sent.await.unwrap().await.unwrap();
    }
    program.ok(&["run", "--once"]);
    program.ok(&["run", "--once"]);
    let query = "SELECT length(payload), code || ' ' || origin FROM outbox_errors ORDER BY code";
    let written = on_file(&program, "handled.db", query).await;
    assert_eq!(written, [(3, "BAD_HEADER notifications".to_owned()), (4, "NO_ID notifications".to_owned())]);
    assert_eq!(Queue::count(vhost.url(), "notifications.dlq.dlq").await, Some(0));
    assert!(endpoint.posted().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn verbs_over_outboxes_say_that_a_queue_is_none() {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let program = Program::migrated(&config(&vhost, "http://localhost:1/", ""));
    let ran = program.run(&["status"]);
    assert!(ran.code == 0 && ran.stderr.contains("work: on a broker, whose own tools tell"), "{ran:#?}");
    let listed = program.run(&["list"]);
    assert!(listed.only_error(2).0.contains("source 'work' is on a broker"), "{listed:#?}");
    let sent = program.run(&["send", "--type", "x", "--data", "{}"]);
    assert!(sent.only_error(2).0.contains("source 'work' is on a broker"), "{sent:#?}");
    assert!(program.run(&["migrate"]).stderr.contains("work: on a broker, nothing to migrate"));
}

#[tokio::test(flavor = "multi_thread")]
async fn doctor_tells_what_is_missing_and_what_differs_and_makes_nothing() {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let program = Program::migrated(&config(&vhost, "http://localhost:1/", "retry = [\"1m\"]"));
    let doctor = |program: &Program| program.run(&["doctor", "--source", "work"]);
    let ran = doctor(&program);
    assert_eq!(ran.code, 0, "run will make it: {ran:#?}");
    assert!(ran.stderr.contains("0 warnings"), "as with the queues of a sink: {ran:#?}");
    let missing = "not all there yet; the pipe makes what is missing when it starts";
    assert!(ran.stdout.contains(missing), "{ran:#?}");
    assert!(doctor(&program).stdout.contains(missing), "doctor has made nothing");
    program.write(
        "outboxd.toml",
        &config(&vhost, "http://localhost:1/", "retry = [\"1m\"]\ntopology = \"check\""),
    );
    assert_eq!(doctor(&program).code, 4);
    let made = config(&vhost, "http://localhost:1/", "retry = [\"1m\"]");
    program.write("outboxd.toml", &made);
    program.ok(&["run", "--once"]);
    assert!(program.ok(&["doctor", "--source", "work"]).contains("there, and as configured"));
    program.write("outboxd.toml", &made.replace("retry =", "kind = \"classic\"\nretry ="));
    let ran = doctor(&program);
    assert!(ran.code == 4 && ran.stdout.contains("exists and is not as configured"), "{ran:#?}");
}

/// A consumer that is slow to reach its broker, and a relay of the same run that is quick and tries once.
#[tokio::test(flavor = "multi_thread")]
async fn d1_queues_are_declared_before_a_relay_of_the_same_run_publishes() {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let endpoint = Endpoint::start().await;
    let proxy = Proxy::to(("127.0.0.1", rabbitmq.port())).await.unwrap();
    proxy.latency(Duration::from_millis(50));
    let slow = proxy.reroute(vhost.url()).unwrap();
    let consumer = config(&vhost, &endpoint.url, "bind = [{ exchange = \"shop.events\", keys = [\"#\"] }]");
    let consumer = consumer.replace("[connections]", &format!("[connections]\nquick = \"{}\"", vhost.url()));
    let consumer =
        consumer.replace(&format!("rabbit = \"{}\"", vhost.url()), &format!("rabbit = \"{slow}\""));
    let program = Program::migrated(&format!(
        "{consumer}[sources.orders]\non = \"handled\"\n\
         [sinks.events]\non = \"quick\"\nexchange = \"shop.events\"\n\
         [pipes.relay]\nfrom = \"orders\"\nto = \"events\"\npoll = \"20ms\"\nattempts = 1\n"
    ));
    let sent = ["a", "b", "c"]
        .map(|key| program.ok(&["send", "--source", "orders", "--type", "t", "--key", key, "--data", "{}"]));
    let running = program.start(&["run"]);
    let mut posted: Vec<_> = endpoint.wait_for(3).await.into_iter().map(|posted| posted.id).collect();
    posted.sort_unstable();
    assert_eq!(posted, sent.map(|id| id.trim().to_owned()));
    running.signal("TERM");
    let (code, said) = running.end();
    assert!(code == 0 && !said.contains("NO_ROUTE"), "{said}");
}
