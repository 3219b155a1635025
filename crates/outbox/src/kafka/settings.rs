//! The settings of the client, as its own documentation names them.

use std::path::Path;
use std::time::Duration;

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};

use super::brokers::Brokers;
use super::config::TopicConfig;
use super::group_config::GroupConfig;
use crate::error::{Error, ErrorKind, Result};

/// What keys and headers may add to the payload, before the client itself refuses a message.
const SLACK: usize = 1024 * 1024;

/// The most bytes of messages that the client puts into one request. With the 16 KiB that are usual elsewhere the rate
/// was a sixth.
const BATCH: usize = 1_000_000;

/// The largest record that the client can be told to carry.
const LARGEST: usize = 1_000_000_000;

/// The most bytes that one answer to a fetch may have; a single record may be larger.
const FETCH: usize = 16 * 1024 * 1024;

/// Where the cluster is and how to log in.
fn client(brokers: &Brokers, name: &str, timeout: Duration, ca_file: Option<&Path>) -> Result<ClientConfig> {
    let limit = timeout.as_millis();
    let mut client = ClientConfig::new();
    client.set_log_level(RDKafkaLogLevel::Info);
    for (name, value) in [
        ("bootstrap.servers", brokers.servers()),
        ("client.id", name.to_owned()),
        // A mistyped name must not become a topic.
        ("allow.auto.create.topics", "false".to_owned()),
        ("topic.metadata.propagation.max.ms", (limit / 2).clamp(50, 5_000).to_string()),
        // Without these a broker that is back is noticed only after ten seconds, and one that is silent after sixty.
        ("reconnect.backoff.ms", "50".to_owned()),
        ("reconnect.backoff.max.ms", "500".to_owned()),
        ("socket.timeout.ms", limit.clamp(1_000, 60_000).to_string()),
        ("socket.connection.setup.timeout.ms", limit.clamp(1_000, 30_000).to_string()),
        ("socket.keepalive.enable", "true".to_owned()),
        ("socket.nagle.disable", "true".to_owned()),
    ] {
        client.set(name, value);
    }
    let protocol = match (brokers.is_tls(), brokers.login().is_some()) {
        (false, false) => "plaintext",
        (false, true) => "sasl_plaintext",
        (true, false) => "ssl",
        (true, true) => "sasl_ssl",
    };
    client.set("security.protocol", protocol);
    if let Some(login) = brokers.login() {
        let Some(password) = &login.password else {
            let what = format!("the user '{}' has no password; write kafka://user:password@host", login.user);
            return Err(Error::new(ErrorKind::Config, what));
        };
        client.set("sasl.mechanism", login.mechanism.as_str().to_ascii_uppercase());
        client.set("sasl.username", &login.user);
        client.set("sasl.password", password);
    }
    if let Some(file) = ca_file {
        let Some(file) = file.to_str() else {
            return Err(Error::new(ErrorKind::Config, "the path of the certificates is not UTF-8"));
        };
        client.set("ssl.ca.location", file);
    }
    Ok(client)
}

/// What every producer of ours has: all in-sync replicas confirm, and its own repeats leave no duplicates.
fn producer(client: &mut ClientConfig, timeout: Duration, largest: usize, buffer: usize) {
    for (name, value) in [
        ("acks", "all".to_owned()),
        ("enable.idempotence", "true".to_owned()),
        ("message.timeout.ms", timeout.as_millis().to_string()),
        ("message.max.bytes", largest.to_string()),
        ("batch.size", BATCH.to_string()),
        // Batches come together already: to wait for more of them cost 5 ms of every message, and a tenth of the rate.
        ("linger.ms", "0".to_owned()),
        ("queue.buffering.max.messages", buffer.to_string()),
        // As the clients in Java do it, so that a key has one partition whoever writes it.
        ("partitioner", "murmur2_random".to_owned()),
    ] {
        client.set(name, value);
    }
}

/// The producer of a sink.
pub(super) fn sink(brokers: &Brokers, config: &TopicConfig) -> Result<ClientConfig> {
    let mut client = client(brokers, &config.client_name, config.timeout, config.ca_file.as_deref())?;
    producer(&mut client, config.timeout, (config.max_message + SLACK).max(BATCH), config.buffer);
    client.set("compression.type", config.compression.as_str());
    Ok(client)
}

/// The producer by which a group moves records. It carries whatever could be read, however large.
pub(super) fn mover(brokers: &Brokers, config: &GroupConfig) -> Result<ClientConfig> {
    let mut client = client(brokers, &config.client_name, config.timeout, config.ca_file.as_deref())?;
    producer(&mut client, config.timeout, LARGEST, 100_000);
    Ok(client)
}

/// Who asks for the settings of the topics of a sink.
pub(super) fn asker(brokers: &Brokers, config: &TopicConfig) -> Result<ClientConfig> {
    client(brokers, &config.client_name, config.timeout, config.ca_file.as_deref())
}

/// Who makes topics and looks for them.
pub(super) fn admin(brokers: &Brokers, config: &GroupConfig) -> Result<ClientConfig> {
    client(brokers, &config.client_name, config.timeout, config.ca_file.as_deref())
}

/// Who reads topics through without being a member; the name of the group is for asking how far it is.
pub(super) fn visitor(brokers: &Brokers, config: &GroupConfig) -> Result<ClientConfig> {
    let mut client = client(brokers, &config.client_name, config.timeout, config.ca_file.as_deref())?;
    for (name, value) in [
        ("group.id", config.group.as_str()),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("enable.partition.eof", "true"),
        ("auto.offset.reset", "earliest"),
        ("isolation.level", "read_committed"),
        ("receive.message.max.bytes", "1000000000"),
    ] {
        client.set(name, value);
    }
    Ok(client)
}

/// A member of a group.
pub(super) fn member(brokers: &Brokers, config: &GroupConfig) -> Result<ClientConfig> {
    let mut client = client(brokers, &config.client_name, config.timeout, config.ca_file.as_deref())?;
    let session = config.session_timeout.as_millis();
    // A record over our limit is read too: it goes to the dead letters as it is.
    let receive = config.max_payload.saturating_mul(2).clamp(100_000_000, LARGEST);
    for (name, value) in [
        ("group.id", config.group.clone()),
        ("enable.auto.commit", "false".to_owned()),
        ("enable.auto.offset.store", "false".to_owned()),
        // Also when the offset has been removed with its records: what is left must not be passed over. A group that
        // begins now has offsets before it has members.
        ("auto.offset.reset", "earliest".to_owned()),
        ("isolation.level", "read_committed".to_owned()),
        // The partitions of one number go to one member, so that what it moved to a retry topic comes back to it.
        ("partition.assignment.strategy", "range".to_owned()),
        ("session.timeout.ms", session.to_string()),
        ("heartbeat.interval.ms", (session / 4).clamp(100, 3_000).to_string()),
        // A thread does nothing but poll, however slow handlers are.
        ("max.poll.interval.ms", session.to_string()),
        ("queued.min.messages", config.buffer.clamp(1, 100_000).to_string()),
        ("queued.max.messages.kbytes", (config.buffer_bytes / 1024).clamp(1, 2_097_151).to_string()),
        ("fetch.max.bytes", FETCH.to_string()),
        ("max.partition.fetch.bytes", (1024 * 1024).to_string()),
        ("receive.message.max.bytes", receive.to_string()),
        // New partitions and topics that come back are noticed in less than the five minutes that are usual.
        ("topic.metadata.refresh.interval.ms", "60000".to_owned()),
    ] {
        client.set(name, value);
    }
    Ok(client)
}
