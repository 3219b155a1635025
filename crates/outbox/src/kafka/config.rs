//! What a person decides about a topic; plain values, checked by [`TopicConfig::check`].

use std::path::PathBuf;
use std::time::Duration;

use crate::cloudevents::DEFAULT_SOURCE;
use crate::error::{Error, ErrorKind, Result};
use crate::template::Template;

/// The longest name of a topic.
const LONGEST: usize = 249;

/// How messages reach a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicConfig {
    /// The topic of a message; often a constant, or `{type}`.
    pub topic: Template,
    /// Headers that every record bears besides those of its message.
    pub headers: Vec<(String, Template)>,
    /// How batches are compressed.
    pub compression: Compression,
    /// The `source` of the CloudEvents attributes.
    pub source: String,
    /// What the brokers' logs and quotas call us.
    pub client_name: String,
    /// Payloads of more bytes are refused before they are sent. The broker has a limit of its own, on the record with
    /// its key and headers (`message.max.bytes`, or `max.message.bytes` of a topic).
    pub max_message: usize,
    /// How long a message may take to be reported as written; a call of `deliver` ends within twice this time,
    /// and two seconds.
    pub timeout: Duration,
    /// So many messages may wait in the client, over all calls; the next one waits for room.
    pub buffer: usize,
    /// A file of certificates in PEM that are trusted instead of the system's, for `kafka+ssl`.
    pub ca_file: Option<PathBuf>,
}

impl TopicConfig {
    /// Messages go to the topic that this template makes of them, uncompressed.
    pub fn new(topic: Template) -> Self {
        Self {
            topic,
            headers: Vec::new(),
            compression: Compression::default(),
            source: DEFAULT_SOURCE.to_owned(),
            client_name: "outboxd".to_owned(),
            max_message: 1024 * 1024,
            timeout: Duration::from_secs(10),
            buffer: 100_000,
            ca_file: None,
        }
    }

    /// Says in one sentence what cannot work, if anything.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Config, what));
        if let Some(name) = self.topic.as_text()
            && let Err(rule) = check_topic_name(name)
        {
            return wrong(format!("'{name}' is no name of a topic: it {rule}"));
        }
        if let Some((name, _)) = self.headers.iter().find(|(name, _)| name.is_empty() || name.contains('\0'))
        {
            return wrong(format!("'{}' is no name of a header", name.escape_default()));
        }
        if self.timeout < Duration::from_millis(100) || self.timeout > Duration::from_secs(600) {
            return wrong("the time limit must be from 100 ms to 10 minutes".into());
        }
        if self.max_message == 0 || self.max_message > 512 << 20 {
            return wrong("the largest message must be from 1 byte to 512 MiB".into());
        }
        if self.buffer == 0 || self.buffer > 10_000_000 {
            return wrong("the buffer must be from 1 to 10000000 messages".into());
        }
        Ok(())
    }
}

/// Whether Kafka takes this as the name of a topic; the error says what is wrong, as in "it is empty".
pub fn check_topic_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        Err("is empty")
    } else if name.len() > LONGEST {
        Err("is longer than 249 bytes")
    } else if name == "." || name == ".." {
        Err("is no name but a folder")
    } else if !name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)) {
        Err("has a character other than letters, digits, '.', '_' and '-'")
    } else {
        Ok(())
    }
}

/// How batches are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// The oldest one.
    Gzip,
    /// Fast.
    Snappy,
    /// Faster.
    Lz4,
    /// The smallest.
    Zstd,
}

impl Compression {
    /// The words for it, as Kafka has them.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("none", Self::None),
        ("gzip", Self::Gzip),
        ("snappy", Self::Snappy),
        ("lz4", Self::Lz4),
        ("zstd", Self::Zstd),
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("none", |(word, _)| word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_work_is_told_at_once() {
        let config = |topic: &str| TopicConfig::new(Template::parse(topic).unwrap());
        for topic in ["shop.events", "{type}", "a_b-{key}"] {
            assert!(config(topic).check().is_ok(), "{topic}");
        }
        for topic in ["", "..", "shop events", "shop/events", "ü", &"x".repeat(250)] {
            let error = config(topic).check().unwrap_err();
            assert!(error.kind() == ErrorKind::Config && error.to_string().contains("no name of a topic"));
        }
        let told = |change: &dyn Fn(&mut TopicConfig)| {
            let mut config = config("a");
            change(&mut config);
            config.check().unwrap_err().to_string()
        };
        assert!(told(&|config| config.timeout = Duration::ZERO).contains("time limit"));
        assert!(told(&|config| config.max_message = 0).contains("largest message"));
        assert!(told(&|config| config.buffer = 0).contains("buffer"));
        let header = Template::parse("{id}").unwrap();
        assert!(told(&|config| config.headers.push((String::new(), header.clone()))).contains("header"));
    }
}
