//! What a person decides about a consumer group; plain values, checked by [`GroupConfig::check`].

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::config::check_topic_name;
use crate::broker::{Picks, check_steps, retry_name};
use crate::error::{Error, ErrorKind, Result};
use crate::source::Start;

/// How a consumer group reads topics.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupConfig {
    /// The topics that are read.
    pub topics: Vec<String>,
    /// The name of the group. Its members share the partitions; it has one progress.
    pub group: String,
    /// The delays of the retry topics, `<topic>.<group>.retry.<delay>`: each group has its own, or another would handle
    /// what this one retries. None: a message that is to be tried again waits in
    /// memory, and the offset of its partition with it.
    pub retry: Vec<Duration>,
    /// Where dead letters go; by default `<topic>.<group>.dlq`.
    pub dead: Option<String>,
    /// Who makes the topics for retries and dead letters. Nobody makes the ones that are read.
    pub topology: Topology,
    /// Where a group begins that has no offsets yet.
    pub start: Start,
    /// Where id, type and key of a message stand.
    pub picks: Picks,
    /// Messages with a larger payload go to the dead letters.
    pub max_payload: usize,
    /// A file of certificates in PEM that are trusted instead of the system's, for `kafka+ssl`.
    pub ca_file: Option<PathBuf>,
    /// What the brokers' logs and quotas call us.
    pub client_name: String,
    /// How long an answer of the brokers may take.
    pub timeout: Duration,
    /// So long after a member has fallen silent, the others take over its partitions. The brokers have limits of their
    /// own, by default from 6 seconds to 30 minutes (`group.min.session.timeout.ms`).
    pub session_timeout: Duration,
    /// So many messages are read ahead, over all partitions.
    pub buffer: usize,
    /// So many bytes are read ahead, over all partitions; the client has as much again for what it fetches.
    pub buffer_bytes: usize,
}

/// Who makes the topics for retries and dead letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Topology {
    /// We do, with as many partitions and replicas as the topic that is read.
    #[default]
    Declare,
    /// Somebody else does; we look whether they are there.
    Check,
}

impl GroupConfig {
    /// A group of this name that reads a topic from its beginning, without retry topics.
    pub fn new(topic: impl Into<String>, group: impl Into<String>) -> Self {
        Self {
            topics: vec![topic.into()],
            group: group.into(),
            retry: Vec::new(),
            dead: None,
            topology: Topology::default(),
            start: Start::default(),
            picks: Picks::default(),
            max_payload: 16 * 1024 * 1024,
            ca_file: None,
            client_name: "outboxd".to_owned(),
            timeout: Duration::from_secs(10),
            session_timeout: Duration::from_secs(15),
            buffer: 4_000,
            buffer_bytes: 32 * 1024 * 1024,
        }
    }

    /// Where the dead letters of a topic go.
    pub fn dead_name(&self, topic: &str) -> String {
        self.dead.clone().unwrap_or_else(|| format!("{}.dlq", self.own_name(topic)))
    }

    /// The retry topic of a topic for one delay.
    pub fn retry_name(&self, topic: &str, delay: Duration) -> String {
        retry_name(&self.own_name(topic), delay)
    }

    /// What the names of this group's own topics begin with.
    fn own_name(&self, topic: &str) -> String {
        format!("{topic}.{}", self.group)
    }

    /// Says in one sentence what cannot work, if anything.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Config, what));
        if self.topics.is_empty() {
            return wrong("there is no topic to read".into());
        }
        if self.group.is_empty() || self.group.contains('\0') {
            return wrong(format!("'{}' is no name of a consumer group", self.group.escape_default()));
        }
        check_steps(&self.retry)?;
        let mut read = BTreeSet::new();
        for topic in &self.topics {
            let retries =
                self.retry.iter().map(|delay| self.retry_name(topic, *delay)).collect::<BTreeSet<_>>();
            for name in [topic.clone()].into_iter().chain(retries) {
                check_name(&name)?;
                if read.contains(&name) {
                    return wrong(format!("the topic '{name}' would be read twice"));
                }
                read.insert(name);
            }
        }
        for topic in &self.topics {
            let dead = self.dead_name(topic);
            check_name(&dead)?;
            if read.contains(&dead) {
                return wrong(format!("dead letters cannot go to '{dead}', which is read"));
            }
        }
        if self.timeout < Duration::from_millis(100) || self.timeout > Duration::from_secs(600) {
            return wrong("the time limit must be from 100 ms to 10 minutes".into());
        }
        if self.session_timeout < Duration::from_secs(1) || self.session_timeout > Duration::from_secs(1_800)
        {
            return wrong("the session time-out must be from 1 second to 30 minutes".into());
        }
        if self.max_payload == 0 || self.max_payload > 256 << 20 {
            return wrong("the largest payload must be from 1 byte to 256 MiB".into());
        }
        if self.buffer == 0 || self.buffer > 1_000_000 || self.buffer_bytes < 1024 {
            return wrong("the buffer must be from 1 to 1000000 messages, and of 1 KiB or more".into());
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<()> {
    check_topic_name(name)
        .map_err(|rule| Error::new(ErrorKind::Config, format!("'{name}' is no name of a topic: it {rule}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(change: impl Fn(&mut GroupConfig)) -> String {
        let mut config = GroupConfig::new("orders", "billing");
        change(&mut config);
        let error = config.check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    }

    #[test]
    fn what_cannot_work_is_told_at_once() {
        let mut config = GroupConfig::new("orders", "billing");
        config.retry = vec![Duration::from_secs(60), Duration::from_secs(300), Duration::from_secs(60)];
        assert!(config.check().is_ok(), "a delay may come twice");
        assert_eq!(config.dead_name("orders"), format!("orders.{}.dlq", config.group));
        assert!(told(|config| config.topics.clear()).contains("no topic"));
        assert!(told(|config| config.group.clear()).contains("consumer group"));
        assert!(told(|config| config.topics.push("a b".into())).contains("no name of a topic"));
        assert!(told(|config| config.topics.push("orders".into())).contains("twice"));
        assert!(told(|config| config.retry = vec![Duration::ZERO]).contains("retry after"));
        let own_retries = |config: &mut GroupConfig| {
            config.topics.push(config.retry_name("orders", Duration::from_secs(60)));
            config.retry = vec![Duration::from_secs(60)];
        };
        assert!(told(own_retries).contains("retry.1m' would be read twice"));
        assert!(told(|config| config.dead = Some("orders".into())).contains("which is read"));
        assert!(told(|config| config.dead = Some("x".repeat(250))).contains("longer than 249"));
        assert!(told(|config| config.timeout = Duration::ZERO).contains("time limit"));
        assert!(told(|config| config.session_timeout = Duration::ZERO).contains("session"));
        assert!(told(|config| config.max_payload = 0).contains("largest payload"));
        assert!(told(|config| config.buffer = 0).contains("buffer"));
    }
}
