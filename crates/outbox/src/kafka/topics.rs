//! Sees to it that the topics of a group are there: those that are read must be, the others are made if told so.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use rdkafka::admin::{
    AdminClient, AdminOptions, ConfigResource, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::config::ClientConfig;
use rdkafka::error::RDKafkaErrorCode;
use tokio::time::{Instant, sleep};

use super::catalog::Catalog;
use super::error::{Whose, code_of, fault, into_error, setup_words, words};
use super::group_config::{GroupConfig, Topology};
use super::publisher::Publisher;
use super::session::{Ear, Found};
use crate::error::{Error, ErrorKind, Result};
use crate::sink::{Cause, code};

/// What the headers of a move may add to a record that just fitted into its topic.
const SLACK: usize = 64 * 1024;

/// How long a retry topic keeps its records beyond their delay, in which somebody should have started a consumer again.
const RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long a topic that is not there is looked for.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often is looked whether a topic that was made is known everywhere.
const LOOK: Duration = Duration::from_millis(50);

/// How many partitions each topic has.
pub(super) type Counts = HashMap<String, i32>;

/// Who asks, and of what.
pub(super) struct Topics<'g> {
    admin: AdminClient<Ear>,
    /// Which also hears what is wrong with the way to the cluster.
    publisher: &'g Publisher,
    config: &'g GroupConfig,
    catalog: &'g Catalog,
    /// The cluster, for every error.
    place: &'g str,
}

impl<'g> Topics<'g> {
    pub(super) fn new(
        settings: &ClientConfig,
        publisher: &'g Publisher,
        config: &'g GroupConfig,
        catalog: &'g Catalog,
        place: &'g str,
    ) -> Result<Self> {
        let admin = settings.create_with_context(Ear::default()).map_err(|error| {
            Error::new(
                ErrorKind::Config,
                format!("the Kafka client cannot be set up: {}", setup_words(&error)),
            )
        })?;
        Ok(Self { admin, publisher, config, catalog, place })
    }

    /// Looks for every topic, and makes those that may be made; tells how many partitions each has.
    pub(super) async fn establish(&self) -> Result<Counts> {
        let mut counts = Counts::new();
        let mut others: BTreeMap<&str, (Found, Option<Duration>, &str)> = BTreeMap::new();
        for work in &self.catalog.works {
            let Some(found) = self.look_twice(&work.name).await? else {
                let what = "does not exist; create it, or correct the name of the topic to read";
                return Err(self.wrong(&work.name, what));
            };
            counts.insert(work.name.clone(), found.partitions);
            let retries = work.retries().zip(self.catalog.steps.all());
            let retries = retries.map(|(name, step)| (name, Some(*step)));
            for (name, step) in retries.chain([(&work.dead, None)]) {
                let most = others.entry(name).or_insert((found, step, &work.name));
                most.0.partitions = most.0.partitions.max(found.partitions);
            }
        }
        for (name, (like, step, origin)) in others {
            counts.insert(name.to_owned(), self.establish_one(name, like, step, origin).await?);
        }
        Ok(counts)
    }

    async fn establish_one(
        &self,
        name: &str,
        like: Found,
        step: Option<Duration>,
        origin: &str,
    ) -> Result<i32> {
        let is_ours = self.config.topology == Topology::Declare;
        let found = if is_ours { self.look(name).await? } else { self.look_twice(name).await? };
        match found {
            None if is_ours => {
                self.create(name, like, step, origin).await?;
                self.until_known(name, like.partitions).await
            }
            None => {
                let what = "does not exist; create it, or let it be made with topology = \"declare\"";
                Err(self.wrong(name, what))
            }
            // Each partition has its own in the retry topics; dead letters are content with fewer.
            Some(found) if step.is_some() && found.partitions < like.partitions => {
                if !is_ours {
                    let (has, wants) = (found.partitions, like.partitions);
                    let what =
                        format!("has {has} partitions, and '{origin}' has {wants}; give it as many as that");
                    return Err(self.wrong(name, &what));
                }
                self.grow(name, like.partitions).await?;
                self.until_known(name, like.partitions).await
            }
            Some(found) => Ok(found.partitions),
        }
    }

    /// Asks for a topic for a while: a broker that has just started, or is busy, may not know it yet.
    async fn look_twice(&self, name: &str) -> Result<Option<Found>> {
        let deadline = Instant::now() + PATIENCE.min(self.config.timeout);
        loop {
            let found = self.look(name).await?;
            if found.is_some() || Instant::now() >= deadline {
                return Ok(found);
            }
            sleep(LOOK).await;
        }
    }

    /// Asks for a topic; none if it is not there.
    async fn look(&self, name: &str) -> Result<Option<Found>> {
        self.publisher.find(name).await.map_err(|failed| match (failed.fault.whose, failed.fault.code) {
            (Whose::Topic, code::FORBIDDEN) => {
                let what = format!("topic '{name}' at {}: the user may not use it; grant it", self.place);
                Error::new(ErrorKind::Denied, what)
            }
            _ => into_error(&failed.cause),
        })
    }

    async fn create(&self, name: &str, like: Found, step: Option<Duration>, origin: &str) -> Result<()> {
        // What waits or has died is not to be lost for its age.
        let kept = step.map_or("-1".to_owned(), |step| (RETENTION + step).as_millis().to_string());
        let largest = self.largest(origin).await.map(|largest| (largest + SLACK).to_string());
        let mut topic = NewTopic::new(name, like.partitions, TopicReplication::Fixed(like.replicas))
            .set("cleanup.policy", "delete")
            .set("retention.ms", &kept);
        if let Some(largest) = &largest {
            topic = topic.set("max.message.bytes", largest);
        }
        let answers = self.admin.create_topics([&topic], &self.options()).await;
        match answers.map_err(|error| code_of(&error)).map(|mut answers| answers.pop()) {
            Ok(Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists)))) => Ok(()),
            Ok(Some(Err((_, error)))) | Err(error) => Err(self.not_made(name, error)),
            Ok(_) => {
                tracing::info!(topic = name, partitions = like.partitions, "made the topic");
                Ok(())
            }
        }
    }

    async fn grow(&self, name: &str, partitions: i32) -> Result<()> {
        let more = NewPartitions::new(name, usize::try_from(partitions).unwrap_or_default());
        let answers = self.admin.create_partitions([&more], &self.options()).await;
        match answers.map_err(|error| code_of(&error)).map(|mut answers| answers.pop()) {
            // Another member of the group was quicker.
            Ok(Some(Err((_, RDKafkaErrorCode::InvalidPartitions)))) => Ok(()),
            Ok(Some(Err((_, error)))) | Err(error) => Err(self.not_made(name, error)),
            Ok(_) => {
                tracing::info!(topic = name, partitions, "gave the topic more partitions");
                Ok(())
            }
        }
    }

    /// The largest record that a topic takes, if it may be asked for: what fitted there has to fit elsewhere.
    async fn largest(&self, topic: &str) -> Option<usize> {
        let found = self.settings_of(topic).await.ok()?;
        found.get("max.message.bytes")?.value.as_ref()?.parse().ok()
    }

    /// How long a topic keeps its records; none keeps them without end.
    pub(super) async fn retention(&self, topic: &str) -> Result<Option<Duration>> {
        let found = self.settings_of(topic).await.map_err(|error| {
            let what = format!("the settings of topic '{topic}' at {}: {}", self.place, words(error));
            into_error(&Cause::new(fault(error).code, what))
        })?;
        let value = |name: &str| found.get(name).and_then(|entry| entry.value.as_deref());
        kept(value("cleanup.policy"), value("retention.ms")).ok_or_else(|| {
            let what = format!("topic '{topic}' at {}: it does not tell its retention", self.place);
            Error::new(ErrorKind::Unexpected, what)
        })
    }

    async fn settings_of(&self, topic: &str) -> Result<ConfigResource, RDKafkaErrorCode> {
        settings_of(&self.admin, topic, &self.options()).await
    }

    /// A topic that was made is not known to every broker at once.
    async fn until_known(&self, name: &str, partitions: i32) -> Result<i32> {
        let deadline = Instant::now() + self.config.timeout;
        loop {
            match self.look(name).await? {
                Some(found) if found.partitions >= partitions => return Ok(found.partitions),
                _ if Instant::now() >= deadline => {
                    let what = format!("topic '{name}' at {}: made, but not yet known", self.place);
                    return Err(Error::new(ErrorKind::Busy, what));
                }
                _ => sleep(LOOK).await,
            }
        }
    }

    fn options(&self) -> AdminOptions {
        let limit = Some(self.config.timeout);
        AdminOptions::new().request_timeout(limit).operation_timeout(limit)
    }

    fn wrong(&self, name: &str, what: &str) -> Error {
        Error::new(ErrorKind::Config, format!("topic '{name}' at {}: it {what}", self.place))
    }

    fn not_made(&self, name: &str, error: RDKafkaErrorCode) -> Error {
        let said = match error {
            RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed => {
                "the user may not make it; grant that, or make it yourself and set topology = \"check\""
                    .to_owned()
            }
            _ => words(error),
        };
        into_error(&Cause::new(fault(error).code, format!("topic '{name}' at {}: {said}", self.place)))
    }
}

/// Asks for the settings of a topic, which not every user may.
pub(super) async fn settings_of(
    admin: &AdminClient<Ear>,
    topic: &str,
    options: &AdminOptions,
) -> Result<ConfigResource, RDKafkaErrorCode> {
    let asked = admin.describe_configs(&[ResourceSpecifier::Topic(topic)], options).await;
    let mut answers = asked.map_err(|error| code_of(&error))?;
    answers.pop().unwrap_or(Err(RDKafkaErrorCode::UnknownTopicOrPartition))
}

/// How long records are kept, by the settings of their topic; within, none is without end. None if they do not say.
pub(super) fn kept(policy: Option<&str>, retention_ms: Option<&str>) -> Option<Option<Duration>> {
    // One that is only compacted keeps the last record of each key.
    if !policy?.split(',').any(|policy| policy.trim() == "delete") {
        return Some(None);
    }
    let milliseconds: i64 = retention_ms?.parse().ok()?;
    Some(u64::try_from(milliseconds).ok().map(Duration::from_millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_deleted_for_its_age_is_kept_without_end() {
        let day = Duration::from_secs(24 * 60 * 60);
        for (policy, retention, expected) in [
            (Some("delete"), Some("86400000"), Some(Some(day))),
            (Some("compact,delete"), Some("86400000"), Some(Some(day))),
            (Some("delete"), Some("-1"), Some(None)),
            (Some("compact"), Some("86400000"), Some(None)),
            (Some("delete"), None, None),
            (None, Some("86400000"), None),
        ] {
            assert_eq!(kept(policy, retention), expected, "{policy:?} {retention:?}");
        }
    }
}
