//! `doctor` at brokers: what would lose a message there, or refuse one, and what is well.

use lapin::options::QueueDeclareOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties};
use serde_json::Value;
use testbed::RabbitMq;

use crate::doctor::{about, findings, the};
use crate::program::Program;

/// The queues of the sink are made by others.
fn to_queues(url: &str, queues: &[&str]) -> String {
    let queues: Vec<_> = queues.iter().map(|name| format!("{{ name = \"{name}\" }}")).collect();
    format!(
        "[connections]\nshop = \"sqlite:shop.db\"\nrabbit = \"{url}\"\n[sources.orders]\non = \"shop\"\n\
         [sinks.events]\non = \"rabbit\"\nexchange = \"amq.fanout\"\nkind = \"fanout\"\ntopology = \"check\"\n\
         queues = [{}]\n[pipes.relay]\nfrom = \"orders\"\nto = \"events\"\n",
        queues.join(", ")
    )
}

async fn channel(url: &str) -> Channel {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    connection.create_channel().await.unwrap()
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

async fn make(channel: &Channel, name: &str, durable: bool, arguments: &[(&str, AMQPValue)]) {
    let mut table = FieldTable::default();
    for (name, value) in arguments {
        table.insert((*name).into(), value.clone());
    }
    let options = QueueDeclareOptions { durable, ..QueueDeclareOptions::default() };
    channel.queue_declare(name.into(), options, table).await.unwrap();
}

/// The finding about one of several queues.
fn of<'f>(found: &'f [Value], queue: &str) -> &'f Value {
    let name = format!("'{queue}'");
    let about = about(found, "keeping");
    let of_queue = about.iter().find(|finding| finding["evidence"].as_str().unwrap().starts_with(&name));
    of_queue.unwrap_or_else(|| panic!("{queue}: {found:#?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_would_drop_messages_is_told_and_one_that_keeps_them_is_well() {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let channel = channel(vhost.url()).await;
    let limit = || ("x-max-length", AMQPValue::LongInt(10));
    let quorum = || ("x-queue-type", text("quorum"));
    make(&channel, "plain", true, &[]).await;
    make(&channel, "refusing", true, &[limit(), ("x-overflow", text("reject-publish"))]).await;
    make(&channel, "dropping", true, &[limit(), ("x-overflow", text("drop-head"))]).await;
    make(&channel, "full", true, &[limit(), ("x-dead-letter-exchange", text("x"))]).await;
    make(&channel, "old", true, &[("x-message-ttl", AMQPValue::LongInt(60_000))]).await;
    make(&channel, "limited", true, &[quorum(), ("x-delivery-limit", AMQPValue::LongInt(5))]).await;
    make(&channel, "keeping", true, &[quorum(), ("x-single-active-consumer", AMQPValue::Boolean(true))])
        .await;
    let names = ["plain", "refusing", "dropping", "full", "old", "limited", "keeping"];
    let program = Program::migrated(&to_queues(vhost.url(), &names));
    let (code, found) = findings(&program, &["--sink", "events"]);
    assert_eq!(code, 5, "{found:#?}");
    for (queue, level, says) in [
        ("plain", "ok", "(classic) is durable"),
        ("refusing", "ok", "drops nothing"),
        ("dropping", "failure", "x-max-length 10 and x-overflow 'drop-head'"),
        ("full", "warning", "go to the dead letters when it is full"),
        ("old", "warning", "60000 ms are lost"),
        ("limited", "warning", "handed out 5 times is lost"),
        ("keeping", "ok", "(quorum) is durable"),
    ] {
        let finding = of(&found, queue);
        let evidence = finding["evidence"].as_str().unwrap();
        assert_eq!((finding["level"].as_str().unwrap(), evidence.contains(says)), (level, true), "{finding}");
        assert_eq!(finding["fix"].is_null(), level == "ok", "{finding}");
    }
    assert_eq!(the(&found, "alarm")["level"], "ok");
    // Nothing was made by asking, and nothing was changed.
    let listed = rabbitmq.ctl(&["list_queues", "-q", "-p", vhost.name(), "name", "messages"]).await.unwrap();
    assert_eq!(listed.lines().filter(|line| line.ends_with('0')).count(), names.len(), "{listed}");
    let program = Program::migrated(&to_queues(vhost.url(), &["missing"]));
    let (_, found) = findings(&program, &["--sink", "events"]);
    assert!(about(&found, "keeping").is_empty(), "{found:#?}");
    let listed = rabbitmq.ctl(&["list_queues", "-q", "-p", vhost.name(), "name"]).await.unwrap();
    assert!(!listed.contains("missing"), "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_blocks_publishers_is_told_to_whoever_only_looks() {
    let Some(mut rabbitmq) = testbed::available(RabbitMq::start().await) else { return };
    let url = rabbitmq.url();
    let program = Program::migrated(&to_queues(&url, &[]));
    let (code, found) = findings(&program, &["--sink", "events"]);
    assert_eq!((code, the(&found, "alarm")["level"].as_str()), (0, Some("ok")), "{found:#?}");
    rabbitmq.block().await.unwrap();
    let (code, found) = findings(&program, &["--sink", "events"]);
    assert_eq!((code, the(&found, "alarm")["level"].as_str()), (5, Some("failure")), "{found:#?}");
    rabbitmq.unblock().await.unwrap();
    assert_eq!(findings(&program, &["--sink", "events"]).0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queues_of_a_consumer_are_looked_at_too() {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return };
    let vhost = rabbitmq.vhost().await.unwrap();
    let program = Program::migrated(&format!(
        "[connections]\nshop = \"sqlite:shop.db\"\nrabbit = \"{}\"\n[sources.work]\non = \"rabbit\"\nqueue = \"work\"\n\
         [sinks.hook]\nhttp = \"http://127.0.0.1:1/\"\ninbox = \"shop\"\n[pipes.handle]\nfrom = \"work\"\nto = \"hook\"\n",
        vhost.url()
    ));
    program.ok(&["run", "--once"]);
    let (code, found) = findings(&program, &["--source", "work"]);
    assert_eq!((code, the(&found, "alarm")["level"].as_str()), (0, Some("ok")), "{found:#?}");
    let levels: Vec<_> = about(&found, "keeping").iter().map(|one| one["level"].as_str().unwrap()).collect();
    assert_eq!(levels, ["ok", "ok"], "as outboxd makes them: {found:#?}");
    // Somebody else made the queue of dead letters, which gives them up when they are looked at too often.
    let dead = the_dead(&found);
    let channel = channel(vhost.url()).await;
    channel.queue_delete(dead.as_str().into(), lapin::options::QueueDeleteOptions::default()).await.unwrap();
    let arguments = [("x-queue-type", text("quorum")), ("x-delivery-limit", AMQPValue::LongInt(5))];
    make(&channel, &dead, true, &arguments).await;
    let (_, found) = findings(&program, &["--source", "work"]);
    assert_eq!(of(&found, &dead)["level"], "warning", "{found:#?}");
}

/// The name of the queue of dead letters, as the doctor tells it.
fn the_dead(found: &[Value]) -> String {
    let told = about(found, "keeping");
    let evidence = told.last().unwrap()["evidence"].as_str().unwrap();
    evidence.split('\'').nth(1).unwrap().to_owned()
}

#[cfg(feature = "kafka")]
mod kafka {
    use super::*;

    fn to_topic(url: &str, topic: &str) -> String {
        format!(
            "[connections]\nshop = \"sqlite:shop.db\"\nkafka = \"{url}\"\n[sources.orders]\non = \"shop\"\n\
             [sinks.events]\non = \"kafka\"\ntopic = \"{topic}\"\ntimeout = \"10s\"\n\
             [pipes.relay]\nfrom = \"orders\"\nto = \"events\"\n"
        )
    }

    async fn apache() -> Option<&'static testbed::Kafka> {
        let kafka = testbed::kafka().await?;
        if kafka.is_mock() {
            testbed::skip("this needs an Apache Kafka");
            return None;
        }
        Some(kafka)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_topic_that_loses_or_refuses_records_is_told_with_the_setting_to_change() {
        let Some(kafka) = apache().await else { return };
        let (well, closed, small) =
            (testbed::Kafka::topic_name(), testbed::Kafka::topic_name(), testbed::Kafka::topic_name());
        kafka.create_topic(&well, 3, &[]).await.unwrap();
        kafka.create_topic(&closed, 1, &[("min.insync.replicas", "2")]).await.unwrap();
        kafka.create_topic(&small, 1, &[("max.message.bytes", "1000")]).await.unwrap();
        let look = |topic: &str| {
            let program = Program::migrated(&to_topic(&kafka.url(), topic));
            findings(&program, &["--sink", "events"])
        };
        let (code, found) = look(&well);
        assert_eq!(code, 0, "{found:#?}");
        assert!(the(&found, "topic")["evidence"].as_str().unwrap().ends_with("partitions: 3"), "{found:#?}");
        assert_eq!(the(&found, "record size")["level"], "ok", "{found:#?}");
        let alone = the(&found, "replicas");
        assert_eq!(alone["level"], "warning", "{found:#?}");
        assert!(alone["evidence"].as_str().unwrap().contains("has 1 replica: "), "{alone}");
        let (code, found) = look(&closed);
        assert_eq!(code, 5, "{found:#?}");
        let unwritable = the(&found, "replicas");
        assert_eq!(unwritable["level"], "failure", "{found:#?}");
        assert!(unwritable["fix"].as_str().unwrap().ends_with("--add-config min.insync.replicas=1"));
        let (code, found) = look(&small);
        assert_eq!((code, the(&found, "record size")["level"].as_str()), (0, Some("warning")), "{found:#?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn topics_of_a_group_must_keep_what_waits_and_what_died() {
        let Some(kafka) = apache().await else { return };
        let topic = testbed::Kafka::topic_name();
        let minute = ("retention.ms", "60000");
        kafka.create_topic(&topic, 1, &[("max.message.bytes", "40000000")]).await.unwrap();
        kafka.create_topic(&format!("{topic}.g.retry.1m"), 1, &[minute]).await.unwrap();
        kafka.create_topic(&format!("{topic}.g.dlq"), 1, &[]).await.unwrap();
        let config = format!(
            "[connections]\nshop = \"sqlite:shop.db\"\nkafka = \"{}\"\n\
             [sources.orders]\non = \"kafka\"\ntopics = [\"{topic}\"]\ngroup = \"g\"\nretry = [\"1m\"]\n\
             topology = \"check\"\n[sinks.hook]\nhttp = \"http://127.0.0.1:1/\"\ninbox = \"shop\"\n\
             [pipes.notify]\nfrom = \"orders\"\nto = \"hook\"\n",
            kafka.url()
        );
        let (code, found) = findings(&Program::migrated(&config), &["--source", "orders"]);
        assert_eq!(code, 4, "{found:#?}");
        let levels: Vec<_> = about(&found, "retention").iter().map(|one| one["level"].clone()).collect();
        assert_eq!(levels, ["failure", "warning"], "{found:#?}");
        let sizes: Vec<_> = about(&found, "record size").iter().map(|one| one["level"].clone()).collect();
        assert_eq!(sizes, ["warning", "warning", "warning"], "{found:#?}");
        // As outboxd makes them all is well.
        let topic = testbed::Kafka::topic_name();
        kafka.create_topic(&topic, 1, &[]).await.unwrap();
        let config = config.replace("topology = \"check\"\n", "");
        let old = config.split("topics = [\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
        let program = Program::migrated(&config.replace(&old, &topic));
        program.ok(&["run", "--once"]);
        let (code, found) = findings(&program, &["--source", "orders"]);
        assert_eq!(code, 0, "{found:#?}");
        for what in ["retention", "record size"] {
            assert!(about(&found, what).iter().all(|one| one["level"] == "ok"), "{found:#?}");
        }
        assert_eq!(about(&found, "retention").len(), 2, "{found:#?}");
    }
}
