//! Doors to private parts for the fuzz targets; only there with `--cfg fuzzing`.

use std::time::Duration;

use jiff::Timestamp;
use rdkafka::message::{Header, OwnedHeaders, OwnedMessage};

use super::config::TopicConfig;
use super::envelope::Envelope;
use super::mark;
use super::record::Record;
use crate::broker::{Picks, Read};
use crate::message::Message;
use crate::sink::{Cause, Outcome, code};
use crate::template::Template;

/// A message as it was read: with its destination, and its defect if it has one.
pub type Seen = (Message, String, Option<Cause>);

/// A header of a record.
pub type Pair = (String, Option<Vec<u8>>);

const TOPIC: &str = "orders";

fn seen(read: Read) -> Seen {
    (read.message, read.destination, read.defect)
}

fn record(key: Option<&[u8]>, payload: Option<&[u8]>, headers: OwnedHeaders) -> Record {
    let at = rdkafka::Timestamp::CreateTime(1_700_000_000_123);
    let owned = |bytes: &[u8]| bytes.to_vec();
    Record::copy(&OwnedMessage::new(
        payload.map(owned),
        key.map(owned),
        TOPIC.into(),
        at,
        0,
        7,
        Some(headers),
    ))
}

/// A record that anybody may have written: as it is read, and as it is read again after a retry topic had it. `attempts`
/// are written on it on the way.
pub fn retried(
    key: Option<&[u8]>,
    payload: Option<&[u8]>,
    pairs: &[Pair],
    picks: &Picks,
    attempts: u32,
) -> [Seen; 2] {
    let headers = pairs.iter().fold(OwnedHeaders::new(), |headers, (name, value)| {
        headers.insert(Header { key: name, value: value.as_ref() })
    });
    let first = record(key, payload, headers);
    let _ = mark::of(pairs.iter().map(|(name, value)| (name.as_str(), value.as_deref())));
    let once = first.read(TOPIC, picks, 1_000);
    let cause = Cause::new(code::HANDLER, "told to fail");
    let now = Timestamp::UNIX_EPOCH;
    let tracks = once.tracks.retried(attempts, &cause, now, Duration::from_secs(1));
    let moved = first.headers_with(&tracks.headers(TOPIC), &once.destination, &[]);
    let twice = record(key, payload, moved).read(TOPIC, picks, 1_000);
    [seen(once), seen(twice)]
}

/// A message of ours, as our own consumer reads it; none if it cannot be sent.
pub fn carried(message: &Message) -> Result<Seen, Outcome> {
    let topic = Template::parse(TOPIC).expect("a plain name");
    let envelope = Envelope::new(message, &TopicConfig::new(topic))?;
    let key = message.key.as_ref().map(String::as_bytes);
    let record = record(key, Some(&message.payload), envelope.headers);
    Ok(seen(record.read(TOPIC, &Picks::default(), usize::MAX)))
}
