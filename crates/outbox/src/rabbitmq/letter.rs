//! A message as it comes from a queue, and as it is sent on to another one.

use std::collections::BTreeMap;

use bytes::Bytes;
use jiff::Timestamp;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};

use super::config::SHORT;
use super::declare::short;
use super::envelope::{Envelope, RESERVED};
use crate::broker::{Died, Picks, Raw, Read, Tracks, is_of_death};
use crate::message::{Headers, MessageId, header};

/// Written to disk before it is confirmed.
const PERSISTENT: u8 = 2;

/// What a quorum queue notes on a message that it hands out again. It is about the delivery, not about the message: were
/// it kept, the same message would look different every time.
const NOTES: [&str; 2] = [HANDED_OUT, "x-acquired-count"];

/// How often a quorum queue has handed a message out before.
const HANDED_OUT: &str = "x-delivery-count";

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

    /// How often its queue has handed it out before; none if it does not count, as only quorum queues do.
    pub(super) fn handed_out(&self) -> Option<u64> {
        text(self.properties.headers().as_ref()?.inner().get(HANDED_OUT)?)?.parse().ok()
    }

    /// What RabbitMQ itself has written about the death of the message, if it did.
    pub(super) fn death(&self) -> Died {
        let deaths = self.properties.headers().as_ref().and_then(|table| table.inner().get("x-death"));
        let Some(AMQPValue::FieldArray(deaths)) = deaths else { return Died::default() };
        let mut tables = deaths.as_slice().iter().filter_map(|death| match death {
            AMQPValue::FieldTable(table) => Some(table.inner()),
            _ => None,
        });
        let number = |table: &BTreeMap<ShortString, AMQPValue>, name: &str| {
            table.get(name).and_then(text).and_then(|text| text.parse::<i64>().ok())
        };
        // The newest stands first.
        let Some(newest) = tables.clone().next() else { return Died::default() };
        let at = number(newest, "time").and_then(|seconds| Timestamp::from_second(seconds).ok());
        let count = tables.next_back().and_then(|first| number(first, "count")).unwrap_or(0);
        Died { at, attempts: u32::try_from(count).unwrap_or(0), ..Died::default() }
    }

    /// The envelope for another queue: all that it came with, and these headers instead of those that an earlier
    /// move wrote on it.
    pub(super) fn envelope(&self, to: &str, known: &Known, added: Vec<(&str, String)>) -> Envelope {
        self.copy(to, known, |name| !is_of_move(name, &added), &added)
    }

    /// The envelope for the queue where it died: all that it came with before it failed there.
    pub(super) fn returned(&self, to: &str, known: &Known, added: &[(&str, String)]) -> Envelope {
        self.copy(
            to,
            known,
            |name| !is_of_death(name) && added.iter().all(|(other, _)| *other != name),
            added,
        )
    }

    /// The envelope for another place in its own queue: with all that is written on it.
    pub(super) fn anew(&self, queue: &str) -> Envelope {
        let headers = self.headers(|_| true);
        let properties = kept(&self.properties).with_delivery_mode(PERSISTENT).with_headers(headers);
        Envelope { routing_key: short(queue), properties, weight: 5 * SHORT }
    }

    fn copy(
        &self,
        to: &str,
        known: &Known,
        keep: impl Fn(&str) -> bool,
        added: &[(&str, String)],
    ) -> Envelope {
        let mut headers = self.headers(keep);
        let destination = (header::DESTINATION, known.destination.clone());
        for (name, value) in added.iter().chain([&destination]) {
            headers.insert(short(name), AMQPValue::LongString(LongString::from(value.as_str())));
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

    /// The headers that go along; never those by which the broker would route a copy elsewhere.
    fn headers(&self, keep: impl Fn(&str) -> bool) -> FieldTable {
        let old = self.properties.headers().as_ref().map(FieldTable::inner);
        let mut headers = FieldTable::default();
        let kept = |name: &ShortString| {
            let name = name.as_str();
            !NOTES.contains(&name) && !RESERVED.contains(&name) && keep(name)
        };
        for (name, value) in old.into_iter().flatten().filter(|(name, _)| kept(name)) {
            headers.insert(name.clone(), value.clone());
        }
        headers
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

/// Whether a header is of an earlier move, or was noted by the broker on the way out of a retry queue.
fn is_of_move(name: &str, added: &[(&str, String)]) -> bool {
    let of_error = added.iter().any(|(name, _)| *name == header::ERROR_ORIGIN);
    name.starts_with("x-retry-")
        || name == "x-death"
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
        if NOTES.contains(&name.as_str()) {
            continue;
        }
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
