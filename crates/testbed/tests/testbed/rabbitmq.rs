use std::time::Duration;

use anyhow::Result;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties};
use testbed::{Proxy, RabbitMq, available};
use tokio::time::timeout;

async fn connect(url: &str) -> lapin::Result<Connection> {
    Connection::connect(url, ConnectionProperties::default()).await
}

async fn declare(channel: &Channel, options: QueueDeclareOptions) -> Result<u32> {
    let queue = channel.queue_declare("work".into(), options, FieldTable::default()).await?;
    Ok(queue.message_count())
}

async fn publish(channel: &Channel) -> Result<()> {
    let properties = BasicProperties::default().with_delivery_mode(2);
    let options = BasicPublishOptions::default();
    channel.basic_publish("".into(), "work".into(), options, b"x", properties).await?.await?;
    Ok(())
}

const DURABLE: QueueDeclareOptions = QueueDeclareOptions {
    passive: false,
    durable: true,
    exclusive: false,
    auto_delete: false,
    nowait: false,
};
const PASSIVE: QueueDeclareOptions = QueueDeclareOptions { passive: true, ..DURABLE };

#[tokio::test]
async fn each_test_gets_a_virtual_host_of_its_own() -> Result<()> {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return Ok(()) };
    let (one, other) = tokio::try_join!(rabbitmq.vhost(), rabbitmq.vhost())?;
    assert_ne!(one.name(), other.name());

    let connection = connect(one.url()).await?;
    let channel = connection.create_channel().await?;
    declare(&channel, DURABLE).await?;
    let elsewhere = connect(other.url()).await?.create_channel().await?;
    assert!(declare(&elsewhere, PASSIVE).await.is_err());

    let queues = rabbitmq.ctl(&["list_queues", "-p", one.name(), "name"]).await?;
    assert!(queues.contains("work"), "{queues}");
    Ok(())
}

#[tokio::test]
async fn a_cut_network_breaks_the_connection_and_not_the_broker() -> Result<()> {
    let Some(rabbitmq) = testbed::rabbitmq().await else { return Ok(()) };
    let vhost = rabbitmq.vhost().await?;
    let proxy = Proxy::to(("127.0.0.1", rabbitmq.port())).await?;
    let url = proxy.reroute(vhost.url())?;
    let channel = connect(&url).await?.create_channel().await?;
    declare(&channel, DURABLE).await?;
    assert_eq!(proxy.connections(), 1);

    proxy.cut();
    assert_eq!(proxy.connections(), 0);
    assert!(declare(&channel, PASSIVE).await.is_err());
    let channel = connect(&url).await?.create_channel().await?;
    declare(&channel, PASSIVE).await?;
    Ok(())
}

#[tokio::test]
async fn a_private_broker_can_be_blocked_stopped_and_killed() -> Result<()> {
    let Some(mut rabbitmq) = available(RabbitMq::start().await) else { return Ok(()) };
    let vhost = rabbitmq.vhost().await?;
    let connection = connect(vhost.url()).await?;
    let channel = connection.create_channel().await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    declare(&channel, DURABLE).await?;
    publish(&channel).await?;

    rabbitmq.block().await?;
    let other = connect(vhost.url()).await?.create_channel().await?;
    other.confirm_select(ConfirmSelectOptions::default()).await?;
    let mut waiting = tokio::spawn(async move { publish(&other).await });
    assert!(timeout(Duration::from_millis(300), &mut waiting).await.is_err(), "the broker is not blocked");
    rabbitmq.unblock().await?;
    waiting.await??;

    rabbitmq.kill().await?;
    assert!(publish(&channel).await.is_err());
    assert!(connect(vhost.url()).await.is_err());
    rabbitmq.start_again().await?;
    let channel = connect(vhost.url()).await?.create_channel().await?;
    assert_eq!(declare(&channel, PASSIVE).await?, 2, "confirmed and durable, so kept");

    rabbitmq.stop().await?;
    assert!(connect(vhost.url()).await.is_err());
    rabbitmq.start_again().await?;
    let channel = connect(vhost.url()).await?.create_channel().await?;
    assert_eq!(declare(&channel, PASSIVE).await?, 2);
    Ok(())
}
