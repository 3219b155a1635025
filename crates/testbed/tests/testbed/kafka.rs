use anyhow::Result;
use rdkafka::ClientConfig;
use rdkafka::producer::{FutureProducer, FutureRecord};
use std::time::Duration;
use testbed::{Kafka, available};

async fn produce(brokers: &str, topic: &str, key: &str) -> Result<()> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("acks", "all").set("message.timeout.ms", "3000");
    let producer: FutureProducer = config.create()?;
    let record = FutureRecord::to(topic).key(key).payload("x");
    producer.send(record, Duration::from_secs(3)).await.map(drop).map_err(|(error, _)| error.into())
}

#[tokio::test]
async fn each_test_gets_a_topic_of_its_own() -> Result<()> {
    let Some(kafka) = testbed::kafka().await else { return Ok(()) };
    let (one, other) = tokio::try_join!(kafka.topic(2), kafka.topic(1))?;
    assert_ne!(one, other);
    for key in ["a", "b", "c", "a"] {
        produce(&kafka.brokers(), &one, key).await?;
    }
    let records = kafka.records(&one, 4).await?;
    assert_eq!(records.len(), 4);
    let of_a: Vec<_> = records.iter().filter(|record| record.key.as_deref() == Some(b"a")).collect();
    assert!(of_a.len() == 2 && of_a[0].partition == of_a[1].partition, "{records:?}");
    assert!(kafka.records(&other, 0).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn a_private_broker_can_be_stopped_and_killed() -> Result<()> {
    let Some(mut kafka) = available(Kafka::start().await) else { return Ok(()) };
    let topic = kafka.topic(1).await?;
    produce(&kafka.brokers(), &topic, "a").await?;
    kafka.kill().await?;
    assert!(produce(&kafka.brokers(), &topic, "b").await.is_err(), "it is dead");
    kafka.start_again().await?;
    produce(&kafka.brokers(), &topic, "c").await?;
    kafka.stop().await?;
    assert!(produce(&kafka.brokers(), &topic, "d").await.is_err(), "it has stopped");
    kafka.start_again().await?;
    let keys: Vec<_> = kafka.records(&topic, 2).await?.into_iter().filter_map(|record| record.key).collect();
    assert_eq!(keys, [b"a", b"c"]);
    Ok(())
}
