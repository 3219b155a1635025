//! A look at topics: whether they keep what they are given, and take what we send. Nothing is made.

use std::collections::BTreeSet;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::config::ClientConfig;

use super::brokers::Brokers;
use super::config::TopicConfig;
use super::error::{into_error, setup_words, words};
use super::judge::{Size, Told, record_size, replicas, retention};
use super::publisher::Publisher;
use super::session::{Ear, Found};
use super::settings;
use super::sink::Topic;
use super::source::Group;
use super::topics::{kept, settings_of};
use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;

impl Topic {
    /// Looks at a cluster and at these topics of it, and makes none of them.
    pub async fn examine(brokers: &str, config: &TopicConfig, topics: &BTreeSet<String>) -> Vec<Finding> {
        let opened = async {
            config.check()?;
            let brokers = Brokers::parse(brokers)?;
            let (place, servers) = (brokers.to_string(), brokers.servers());
            let publisher = Publisher::new(settings::sink(&brokers, config)?, place, config.timeout)?;
            let asker = Asker::new(&settings::asker(&brokers, config)?, config.timeout)?;
            publisher.check(None).await?;
            Ok((publisher, asker, servers))
        };
        let (publisher, asker, servers) = match opened.await {
            Ok(opened) => opened,
            Err(error) => return vec![Finding::error("connection", &error)],
        };
        let mut findings = vec![Finding::ok("connection", format!("the cluster at {servers} answers"))];
        for topic in topics {
            match publisher.find(topic).await {
                Ok(Some(found)) => {
                    let partitions = found.partitions;
                    findings
                        .push(Finding::ok("topic", format!("'{topic}' is there, partitions: {partitions}")));
                    let told = asker.ask(topic).await;
                    findings.push(replicas(&servers, topic, found.replicas, &told));
                    let sent = Size::Sent(config.max_message);
                    findings.extend(record_size(&servers, topic, sent, &told));
                }
                Ok(None) => {
                    let create =
                        format!("kafka-topics.sh --bootstrap-server {servers} --create --topic '{topic}'");
                    findings.push(Finding::failure("topic", format!("'{topic}' does not exist")).fix(create));
                }
                Err(failed) => findings.push(Finding::error("topic", &into_error(&failed.cause))),
            }
        }
        findings
    }
}

impl Group {
    /// Looks at those of its topics that are there: the ones that are read, for retries and for dead letters. None of
    /// them is made.
    pub async fn examine_topics(&self) -> Vec<Finding> {
        let servers = self.admin.get("bootstrap.servers").unwrap_or_default().to_owned();
        let asker = match Asker::new(&self.admin, self.config.timeout) {
            Ok(asker) => asker,
            Err(error) => return vec![Finding::error("topic", &error)],
        };
        let mut findings = Vec::new();
        for work in &self.catalog.works {
            let Some(found) = self.found(&work.name).await else { continue };
            let told = asker.ask(&work.name).await;
            findings.push(replicas(&servers, &work.name, found.replicas, &told));
            let read = Size::Read(self.config.max_payload);
            findings.extend(record_size(&servers, &work.name, read, &told));
            let largest = told.ok().and_then(|told| told.largest);
            let retries = work.retries().zip(self.catalog.steps.all());
            let retries = retries.map(|(name, delay)| (name, Some(*delay)));
            for (name, delay) in retries.chain([(&work.dead, None)]) {
                let Some(found) = self.found(name).await else { continue };
                let told = asker.ask(name).await;
                findings.push(replicas(&servers, name, found.replicas, &told));
                let moved = largest.map(|largest| Size::Moved(&work.name, largest));
                findings.extend(moved.and_then(|moved| record_size(&servers, name, moved, &told)));
                findings.extend(retention(&servers, name, delay, &told));
            }
        }
        findings
    }

    /// What is missing, or closed to us, is told by [`Group::check`].
    async fn found(&self, topic: &str) -> Option<Found> {
        self.publisher.find(topic).await.ok().flatten()
    }
}

/// Asks topics for their settings.
struct Asker {
    admin: AdminClient<Ear>,
    limit: Duration,
}

impl Asker {
    fn new(settings: &ClientConfig, limit: Duration) -> Result<Self> {
        let admin = settings.create_with_context(Ear::default()).map_err(|error| {
            let what = format!("the Kafka client cannot be set up: {}", setup_words(&error));
            Error::new(ErrorKind::Config, what)
        })?;
        Ok(Self { admin, limit })
    }

    /// The settings, or why they are not told.
    async fn ask(&self, topic: &str) -> Result<Told, String> {
        let limit = Some(self.limit);
        let options = AdminOptions::new().request_timeout(limit).operation_timeout(limit);
        let found = settings_of(&self.admin, topic, &options).await.map_err(words)?;
        let value = |name: &str| found.get(name).and_then(|entry| entry.value.as_deref());
        let number = |name: &str| value(name).and_then(|text| text.parse::<i64>().ok());
        Ok(Told {
            in_sync: number("min.insync.replicas").and_then(|number| i32::try_from(number).ok()),
            unclean: value("unclean.leader.election.enable") == Some("true"),
            largest: number("max.message.bytes").and_then(|number| usize::try_from(number).ok()),
            kept: kept(value("cleanup.policy"), value("retention.ms")),
        })
    }
}
