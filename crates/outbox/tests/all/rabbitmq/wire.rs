//! What a consumer sees: routing keys, properties, headers, topology.

use outbox::rabbitmq::{Exchange, ExchangeConfig, ExchangeKind, QueueConfig, Topology};
use outbox::template::Template;
use outbox::{ErrorKind, Message, Outcome, Sink, header};

use super::{EXCHANGE, Scene, order, text, words};

#[tokio::test]
async fn a5_the_routing_key_comes_from_the_type_and_the_body_is_the_payload() {
    let Some(scene) = Scene::shared().await else { return };
    let mut config = ExchangeConfig::new("ticketflow.events");
    config.routing_key = Template::parse("{type.dotted}").unwrap();
    config.queues = vec![
        QueueConfig::new("created", ["ticket.created"]),
        QueueConfig::new("changed", ["ticket.status.changed"]).quorum(),
    ];
    let sink = Exchange::new(&scene.url, config).unwrap();
    let payload = "{\"title\": \"Ä\" ,\n\t\"n\":1.50}\0\u{1}";
    let messages = [
        Message::new("TicketFlow.Domain.Events.TicketCreatedEvent", payload).content_type("application/json"),
        Message::new("TicketFlow.Domain.Events.TicketStatusChangedEvent", payload),
    ];
    assert_eq!(sink.deliver(&messages).await, [Outcome::Delivered, Outcome::Delivered]);
    for (queue, key) in [("created", "ticket.created"), ("changed", "ticket.status.changed")] {
        let got = scene.drain(queue).await;
        assert_eq!(got.len(), 1);
        assert_eq!(got[0].data, payload.as_bytes());
        assert_eq!(got[0].routing_key.as_str(), key);
        assert_eq!(*got[0].properties.delivery_mode(), Some(2), "persistent");
    }
}

#[tokio::test]
async fn a6_type_correlation_and_unix_time_are_properties_and_can_be_headers() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let mut config = scene.config();
    for (name, template) in
        [("Type", "{type}"), ("CorrelationId", "{correlation_id}"), ("Timestamp", "{time.unix}")]
    {
        config.headers.push((name.into(), Template::parse(template).unwrap()));
    }
    let sink = Exchange::new(&scene.url, config).unwrap();
    let message = order(1).correlation("c-1").occurred_at("2026-01-02T03:04:05.678Z".parse().unwrap());
    assert_eq!(words(&sink.deliver(&[message]).await), ["delivered"]);
    let got = &scene.drain("orders").await[0];
    assert_eq!(got.properties.kind().as_ref().unwrap().as_str(), "order.created");
    assert_eq!(got.properties.correlation_id().as_ref().unwrap().as_str(), "c-1");
    assert_eq!(*got.properties.timestamp(), Some(1_767_323_045));
    assert_eq!(text(got, "Type").unwrap(), "order.created");
    assert_eq!(text(got, "CorrelationId").unwrap(), "c-1");
    assert_eq!(text(got, "Timestamp").unwrap(), "1767323045");
}

#[tokio::test]
async fn d2_every_message_bears_its_event_id_and_correlation_id() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let plain = order(1);
    let told = order(2).correlation("c").header(header::EVENT_ID, "somebody else's");
    assert_eq!(
        words(&scene.sink().deliver(&[plain.clone(), told.clone()]).await),
        ["delivered", "delivered"]
    );
    let got = scene.drain("orders").await;
    assert_eq!(text(&got[0], "x-event-id").unwrap(), plain.id.as_str());
    assert_eq!(text(&got[0], "x-correlation-id").unwrap(), plain.id.as_str());
    assert_eq!(text(&got[1], "x-event-id").unwrap(), told.id.as_str());
    assert_eq!(text(&got[1], "x-correlation-id").unwrap(), "c");
}

#[tokio::test]
async fn c7_saga_id_and_step_are_headers() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    assert_eq!(words(&scene.sink().deliver(&[order(1).saga("s-1", "reserve")]).await), ["delivered"]);
    let got = &scene.drain("orders").await[0];
    assert_eq!(text(got, header::SAGA_ID).unwrap(), "s-1");
    assert_eq!(text(got, header::SAGA_STEP).unwrap(), "reserve");
}

#[tokio::test]
async fn k8_everything_about_a_message_arrives_as_it_was_given() {
    let Some(scene) = Scene::shared().await else { return };
    let scene = scene.with_orders().await;
    let mut config = scene.config();
    config.source = "/shop".into();
    let sink = Exchange::new(&scene.url, config).unwrap();
    let payload: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let message = Message::new("order.created", payload.clone())
        .key("k ü")
        .content_type("image/png; a=\"b\"")
        .header("Empty", "")
        .header("x-läng", "y".repeat(5_000))
        .header(header::TRACEPARENT, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .occurred_at("2026-01-02T03:04:05.123456789Z".parse().unwrap());
    let empty = Message::new("order.empty", "").id("not a uuid");
    assert_eq!(words(&sink.deliver(&[message.clone(), empty]).await), ["delivered", "delivered"]);
    let got = scene.drain("orders").await;
    assert_eq!(got[0].data, payload);
    assert_eq!(got[0].properties.message_id().as_ref().unwrap().as_str(), message.id.as_str());
    assert_eq!(got[0].properties.content_type().as_ref().unwrap().as_str(), message.content_type);
    assert_eq!(got[0].properties.app_id().as_ref().unwrap().as_str(), "outboxd");
    for (name, value) in &message.headers {
        assert_eq!(text(&got[0], name).as_ref(), Some(value));
    }
    for (name, value) in [
        ("specversion", "1.0"),
        ("id", message.id.as_str()),
        ("source", "/shop"),
        ("type", "order.created"),
        ("time", "2026-01-02T03:04:05.123456789Z"),
        ("partitionkey", "k ü"),
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ] {
        assert_eq!(text(&got[0], &format!("cloudEvents_{name}")).unwrap(), value, "{name}");
    }
    assert!(got[1].data.is_empty());
    assert_eq!(text(&got[1], "cloudEvents_partitionkey"), None);
}

#[tokio::test]
async fn d1_the_topology_is_declared_and_can_be_checked() {
    let Some(scene) = Scene::shared().await else { return };
    let mut config = ExchangeConfig::new("tickets");
    config.queues = vec![
        QueueConfig::new("notifications", ["ticket.created", "ticket.status.changed", "ticket.assigned"]),
        QueueConfig::new("metrics", ["ticket.*"]),
        QueueConfig::new("notifications.dlq", [""; 0]),
        QueueConfig::new("metrics.dlq", [""; 0]),
    ];
    let mut check = config.clone();
    check.topology = Topology::Check;
    let checking = Exchange::new(&scene.url, check).unwrap();
    let message = [Message::new("ticket.assigned", "")];
    assert_eq!(words(&checking.deliver(&message).await), ["~NO_EXCHANGE"]);
    let error = checking.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("exchange 'tickets' does not exist"), "{error}");

    let declaring = Exchange::new(&scene.url, config.clone()).unwrap();
    declaring.check().await.unwrap();
    declaring.check().await.unwrap();
    assert_eq!(words(&checking.deliver(&message).await), ["delivered"]);
    assert_eq!(scene.drain("notifications").await.len(), 1);
    assert_eq!(scene.drain("metrics").await.len(), 1);

    config.kind = ExchangeKind::Fanout;
    let other = Exchange::new(&scene.url, config.clone()).unwrap();
    let outcomes = other.deliver(&message).await;
    assert_eq!(words(&outcomes), ["~TOPOLOGY"]);
    assert!(format!("{outcomes:?}").contains("exists and is not as configured"), "{outcomes:?}");
    config.kind = ExchangeKind::Topic;
    config.topology = Topology::Check;
    config.queues.push(QueueConfig::new("absent", ["#"]));
    let outcomes = Exchange::new(&scene.url, config).unwrap().deliver(&message).await;
    assert_eq!(words(&outcomes), ["~TOPOLOGY"]);
    assert!(format!("{outcomes:?}").contains("queue 'absent' does not exist"), "{outcomes:?}");
}

#[tokio::test]
async fn the_default_exchange_needs_no_topology() {
    let Some(scene) = Scene::shared().await else { return };
    let mut config = ExchangeConfig::new("");
    config.queues = vec![QueueConfig::new("order.created", [""; 0])];
    let sink = Exchange::new(&scene.url, config).unwrap();
    assert_eq!(words(&sink.deliver(&[order(1)]).await), ["delivered"]);
    assert_eq!(scene.drain("order.created").await.len(), 1);
}

#[tokio::test]
async fn connect_declares_at_once_and_tells_what_is_wrong() {
    let Some(scene) = Scene::shared().await else { return };
    Exchange::connect(&scene.url, EXCHANGE).await.unwrap();
    let wrong = scene.url.replace("guest:guest", "guest:s3cret");
    let error = Exchange::connect(&wrong, EXCHANGE).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(!error.chain().contains("s3cret"), "{error}");
    let absent = scene.url.replace(scene.vhost.name(), "no-such-vhost");
    let error = Exchange::connect(&absent, EXCHANGE).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    // TLS to a port that does not speak it ends with an error, not with a hang or a panic.
    let error = Exchange::connect(&scene.url.replace("amqp:", "amqps:"), EXCHANGE).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
}
