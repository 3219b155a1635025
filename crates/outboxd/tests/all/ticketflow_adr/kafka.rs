//! D10: Kafka instead of RabbitMQ.

use testbed::Kafka;
use toml::Table;

use super::producer::{CREATED, Ticket};
use super::{SOON, Scene, changed, somebody, stop};

/// A topic of the test's own.
struct Topic {
    kafka: &'static Kafka,
    name: String,
}

impl Topic {
    async fn make() -> Option<Self> {
        let kafka = testbed::kafka().await?;
        if kafka.is_mock() {
            testbed::skip("this needs an Apache Kafka");
            return None;
        }
        Some(Self { kafka, name: kafka.topic(3).await.unwrap() })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d10_kafka_takes_the_place_of_rabbitmq_by_changing_the_sink_alone() {
    let Some(topic) = Topic::make().await else { return };
    let file = changed("outboxd.toml", &[]);
    let (from, to) = (file.find("[sinks.events]").unwrap(), file.find("[pipes.dispatch]").unwrap());
    let to_kafka = (&file[from..to], format!("[sinks.events]\non = \"kafka\"\ntopic = \"{}\"\n", topic.name));
    let connection = ("[connections]", format!("[connections]\nkafka = \"{}\"", topic.kafka.url()));
    let changes = [(to_kafka.0, to_kafka.1.as_str()), (connection.0, connection.1.as_str())];
    let Some(scene) = Scene::shared(&changes).await else { return };
    let mut session = scene.session().await;
    let ticket = Ticket::new("Printer", "nobody@ticketflow.example");
    let id = ticket.create(&mut session).await.unwrap().to_string();
    let running = scene.run(&["dispatch"]);
    scene.until_dispatched().await;
    stop(running);
    let record = topic.kafka.records(&topic.name, 1).await.unwrap().remove(0);
    assert_eq!(record.header("x-event-id"), Some(id));
    assert_eq!(record.header("x-correlation-id"), Some(ticket.correlation.clone()));
    assert_eq!(record.header("ce_type").as_deref(), Some(CREATED));
}

#[test]
fn d10_the_file_for_kafka_has_other_places_and_the_same_pipes_and_handlers() {
    let read = |file: &str| -> Table {
        let mut table: Table = toml::from_str(&changed(file, &[])).unwrap();
        table.remove("connections");
        table["sinks"].as_table_mut().unwrap().remove("events").unwrap();
        for source in ["notifications", "metrics"] {
            table["sources"].as_table_mut().unwrap().remove(source).unwrap();
        }
        table
    };
    assert_eq!(read("outboxd.toml"), read("kafka.toml"));
}

#[tokio::test(flavor = "multi_thread")]
async fn d10_the_consumers_read_topics_as_they_read_queues() {
    let Some(topic) = Topic::make().await else { return };
    let (letters, counts) =
        (format!("group = \"{}-letters\"", topic.name), format!("group = \"{}-counts\"", topic.name));
    let groups =
        [(r#"group = "notifications""#, letters.as_str()), (r#"group = "metrics""#, counts.as_str())];
    let changes: Vec<_> = groups.into_iter().chain([SOON]).collect();
    let Some(scene) = Scene::of("kafka.toml", &changes).await else { return };
    let program = scene.program.env("KAFKA_URL", &topic.kafka.url()).env("TOPIC", &topic.name);
    let scene = Scene { program, ..scene };
    let running = scene.run(&["dispatch", "notify", "count"]);
    let (ana, greylisted, refused) = (somebody("ana"), somebody("greylisted"), somebody("refused"));
    for somebody in [&ana, &greylisted, &refused] {
        scene.create(somebody).await;
    }
    scene.until_mails(&ana, 1).await;
    scene.until_mails(&greylisted, 1).await;
    scene.until_processed("count", 3).await;
    scene.until_processed("notify", 2).await;
    let dead = topic.kafka.records(&format!("{}.notifications.dlq", topic.name), 1).await.unwrap();
    assert_eq!(dead[0].header("x-error-code").as_deref(), Some("SMTP_550"));
    stop(running);
    assert_eq!(scene.number(r#"select count(*) from "ProcessedEvents""#).await, 5);
}
