//! A message as it comes from a queue, and as it is sent on to another one.

use bytes::Bytes;
use jiff::Timestamp;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};

use super::config::SHORT;
use super::envelope::Envelope;
use super::topology::short;
use crate::broker::{Picks, Raw, Read, Tracks};
use crate::message::{Headers, MessageId, header};

/// Written to disk before it is confirmed.
const PERSISTENT: u8 = 2;

/// A message from a queue, as it came.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) tag: u64,
    routing_key: ShortString,
    properties: BasicProperties,
    pub(super) payload: Bytes,
}

/// What is known of a message once it was read.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) id: MessageId,
    pub(super) key: Option<String>,
    pub(super) tracks: Tracks,
    destination: String,
}

impl Known {
    pub(super) fn of(read: &Read) -> Self {
        Self {
            id: read.message.id.clone(),
            key: read.message.key.clone(),
            tracks: read.tracks.clone(),
            destination: read.destination.clone(),
        }
    }
}

impl Letter {
    pub(super) fn new(
        tag: u64,
        routing_key: ShortString,
        properties: BasicProperties,
        data: Vec<u8>,
    ) -> Self {
        Self { tag, routing_key, properties, payload: Bytes::from(data) }
    }

    /// Reads it as a message of `queue`.
    pub(super) fn read(&self, queue: &str, picks: &Picks, max_payload: usize) -> Read {
        let properties = &self.properties;
        let (headers, odd) = texts(properties.headers().as_ref());
        let at = properties.timestamp().and_then(|at| Timestamp::from_second(i64::try_from(at).ok()?).ok());
        let raw = Raw {
            place: queue,
            destination: self.routing_key.as_str(),
            id: properties.message_id().as_ref().map(ShortString::as_str),
            kind: properties.kind().as_ref().map(ShortString::as_str),
            key: None,
            correlation: properties.correlation_id().as_ref().map(ShortString::as_str),
            content_type: properties.content_type().as_ref().map(ShortString::as_str),
            at,
            headers,
            odd,
            payload: self.payload.clone(),
        };
        raw.read(picks, max_payload)
    }

    /// The envelope for another queue: all that it came with, and these headers instead of those that an earlier
    /// move wrote on it.
    pub(super) fn envelope(&self, to: &str, known: &Known, added: Vec<(&str, String)>) -> Envelope {
        let old = self.properties.headers().as_ref().map(FieldTable::inner);
        let mut headers = FieldTable::default();
        for (name, value) in old.into_iter().flatten().filter(|(name, _)| !is_of_move(name.as_str(), &added))
        {
            headers.insert(name.clone(), value.clone());
        }
        let added = added.into_iter().chain([(header::DESTINATION, known.destination.clone())]);
        for (name, value) in added {
            headers.insert(short(name), AMQPValue::LongString(LongString::from(value)));
        }
        let mut properties = kept(&self.properties).with_delivery_mode(PERSISTENT).with_headers(headers);
        // What comes back as unroutable is known by its id.
        if self.properties.message_id().is_none()
            && let Ok(id) = ShortString::try_new(known.id.as_str())
        {
            properties = properties.with_message_id(id);
        }
        Envelope { routing_key: short(to), properties, weight: 5 * SHORT }
    }
}

/// The properties that go along. Not its expiry, or it would vanish where it waits for a person; nor the user that
/// sent it, for which the broker would refuse it from us.
fn kept(old: &BasicProperties) -> BasicProperties {
    let mut new = BasicProperties::default();
    macro_rules! keep {
        ($($name:ident $with:ident)*) => {
            $(if let Some(value) = old.$name().clone() { new = new.$with(value); })*
        };
    }
    keep!(content_type with_content_type content_encoding with_content_encoding priority with_priority
        correlation_id with_correlation_id reply_to with_reply_to message_id with_message_id
        timestamp with_timestamp kind with_type app_id with_app_id cluster_id with_cluster_id);
    new
}

/// Headers by which the broker would route it elsewhere too, or that it counts by.
const OF_BROKER: [&str; 4] = ["CC", "BCC", "x-death", "x-delivery-count"];

/// Whether a header is of an earlier move, or was noted by the broker on the way out of a retry queue.
fn is_of_move(name: &str, added: &[(&str, String)]) -> bool {
    let of_error = added.iter().any(|(name, _)| *name == header::ERROR_ORIGIN);
    name.starts_with("x-retry-")
        || OF_BROKER.contains(&name)
        || name.starts_with("x-first-death-")
        || name.starts_with("x-last-death-")
        || (of_error && name.starts_with("x-error-"))
        || added.iter().any(|(other, _)| *other == name)
}

/// The headers that are text or can be written as such, and the names of the others.
fn texts(table: Option<&FieldTable>) -> (Headers, Vec<String>) {
    let (mut headers, mut odd) = (Headers::new(), Vec::new());
    for (name, value) in table.into_iter().flat_map(FieldTable::inner) {
        let name = name.as_str().to_owned();
        match text(value) {
            Some(text) => drop(headers.insert(name, text)),
            None => odd.push(name),
        }
    }
    (headers, odd)
}

fn text(value: &AMQPValue) -> Option<String> {
    Some(match value {
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok()?.to_owned(),
        AMQPValue::ShortString(text) => text.as_str().to_owned(),
        AMQPValue::Boolean(flag) => flag.to_string(),
        AMQPValue::ShortShortInt(number) => number.to_string(),
        AMQPValue::ShortShortUInt(number) => number.to_string(),
        AMQPValue::ShortInt(number) => number.to_string(),
        AMQPValue::ShortUInt(number) => number.to_string(),
        AMQPValue::LongInt(number) => number.to_string(),
        AMQPValue::LongUInt(number) => number.to_string(),
        AMQPValue::LongLongInt(number) => number.to_string(),
        AMQPValue::Float(number) => number.to_string(),
        AMQPValue::Double(number) => number.to_string(),
        AMQPValue::Timestamp(seconds) => seconds.to_string(),
        AMQPValue::DecimalValue(_)
        | AMQPValue::FieldArray(_)
        | AMQPValue::FieldTable(_)
        | AMQPValue::ByteArray(_)
        | AMQPValue::Void => return None,
    })
}
