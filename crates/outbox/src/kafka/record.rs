//! A record that anybody may have written: kept as it is, and read as a message.

use bytes::Bytes;
use jiff::Timestamp;
use rdkafka::message::{Header, Headers as _, OwnedHeaders};

use super::mark::{self, Spot};
use crate::broker::{Picks, Raw, Read, is_of_death};
use crate::message::{Headers, header};

/// Where the content type of a record stands, as the CloudEvents binding has it.
const CONTENT_TYPE: &str = "content-type";

/// What stands before the hexadecimal digits of a key that is no text.
const HEX: &str = "hex:";

/// A record as it was read: what goes on with it if it is moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) key: Option<Vec<u8>>,
    /// None for a tombstone.
    pub(super) payload: Option<Bytes>,
    headers: Vec<(String, Option<Vec<u8>>)>,
    /// When it was written, as the topic has it.
    pub(super) at: Option<Timestamp>,
}

impl Record {
    /// Takes a record out of the client's memory.
    pub(super) fn copy(message: &impl rdkafka::Message) -> Self {
        let headers = message.headers().map(|headers| {
            let pair = |header: Header<'_, &[u8]>| (header.key.to_owned(), header.value.map(<[u8]>::to_vec));
            headers.iter().map(pair).collect()
        });
        let at = message.timestamp().to_millis().filter(|millis| *millis >= 0);
        Self {
            key: message.key().map(<[u8]>::to_vec),
            payload: message.payload().map(Bytes::copy_from_slice),
            headers: headers.unwrap_or_default(),
            at: at.and_then(|millis| Timestamp::from_millisecond(millis).ok()),
        }
    }

    /// Reads it as a message of `topic`, which is the topic itself also for a record in one of its retry topics.
    ///
    /// A tombstone has an empty payload. A key that is no UTF-8 is `hex:` and its bytes; of two headers of one name the
    /// last counts, and one without a value is none.
    pub(super) fn read(&self, topic: &str, picks: &Picks, max_payload: usize) -> Read {
        let (mut headers, mut odd) = (Headers::new(), Vec::new());
        for (name, value) in &self.headers {
            let Some(value) = value else { continue };
            match std::str::from_utf8(value) {
                Ok(text) => drop(headers.insert(name.clone(), text.to_owned())),
                Err(_) => odd.push(name.clone()),
            }
        }
        let content_type = headers.remove(CONTENT_TYPE);
        let first = headers.remove(header::FIRST_TIME).and_then(|time| time.parse().ok());
        let raw = Raw {
            place: topic,
            destination: topic,
            key: self.key.as_deref().map(|key| match std::str::from_utf8(key) {
                Ok(text) => text.into(),
                Err(_) => hex(key).into(),
            }),
            content_type: content_type.as_deref(),
            at: first.or(self.at),
            headers,
            odd,
            payload: self.payload.clone().unwrap_or_default(),
            ..Raw::default()
        };
        raw.read(picks, max_payload)
    }

    /// The dead letter that a record marks as dealt with; none if it is no mark.
    pub(super) fn mark(message: &impl rdkafka::Message) -> Option<Spot> {
        mark::of(message.headers()?.iter().map(|header| (header.key, header.value)))
    }

    /// Its headers without those that tell of its death, and with `more`.
    pub(super) fn returned(&self, more: &[(&'static str, String)], destination: &str) -> OwnedHeaders {
        let names = self.headers.iter().map(|(name, _)| name.as_str());
        let of_death: Vec<&str> = names.filter(|name| is_of_death(name)).collect();
        self.headers_with(more, destination, &of_death)
    }

    /// When it was first written, whoever has moved it since.
    fn first_time(&self) -> Option<Timestamp> {
        let written = self.headers.iter().rev().find(|(name, _)| name == header::FIRST_TIME);
        let written =
            written.and_then(|(_, value)| std::str::from_utf8(value.as_deref()?).ok()?.parse().ok());
        written.or(self.at)
    }

    /// Its headers with `more`, which take the place of those of their names, and with where and when it was first
    /// written. Nothing else is changed, also what cannot be read.
    pub(super) fn headers_with(
        &self,
        more: &[(&'static str, String)],
        destination: &str,
        without: &[&str],
    ) -> OwnedHeaders {
        let is_ours = |name: &str| {
            [header::DESTINATION, header::FIRST_TIME].contains(&name)
                || without.contains(&name)
                || more.iter().any(|(ours, _)| *ours == name)
        };
        let mut headers = OwnedHeaders::new_with_capacity(self.headers.len() + more.len() + 2);
        for (name, value) in self.headers.iter().filter(|(name, _)| !is_ours(name)) {
            headers = headers.insert(Header { key: name, value: value.as_ref() });
        }
        for (name, value) in more {
            headers = headers.insert(Header { key: name, value: Some(value) });
        }
        headers = headers.insert(Header { key: header::DESTINATION, value: Some(destination) });
        if let Some(time) = self.first_time() {
            headers = headers.insert(Header { key: header::FIRST_TIME, value: Some(&time.to_string()) });
        }
        headers
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(HEX.to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use rdkafka::message::OwnedMessage;

    use super::*;
    use crate::sink::code;

    fn record(key: Option<&[u8]>, payload: Option<&[u8]>, headers: OwnedHeaders) -> Record {
        let at = rdkafka::Timestamp::CreateTime(1_700_000_000_123);
        let owned = |bytes: &[u8]| bytes.to_vec();
        let headers = Some(headers);
        Record::copy(&OwnedMessage::new(
            payload.map(owned),
            key.map(owned),
            "orders".into(),
            at,
            0,
            7,
            headers,
        ))
    }

    fn headers(list: &[(&str, Option<&[u8]>)]) -> OwnedHeaders {
        list.iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: *value }))
    }

    /// The headers of a record after a move.
    fn moved(record: &Record, more: &[(&'static str, String)], without: &[&str]) -> Record {
        Record::copy(&OwnedMessage::new(
            record.payload.as_ref().map(|payload| payload.to_vec()),
            record.key.clone(),
            "orders.retry.1m".into(),
            rdkafka::Timestamp::CreateTime(1_800_000_000_000),
            0,
            9,
            Some(record.headers_with(more, "orders", without)),
        ))
    }

    #[test]
    fn what_is_no_text_is_still_a_message_and_moves_as_it_is() {
        let odd =
            headers(&[("id", Some(b"one")), ("id", Some(b"two")), ("raw", Some(&[0xff])), ("none", None)]);
        let record = record(Some(&[0xff, 0x01]), None, odd);
        let picks = Picks { id: vec!["header.id".parse().unwrap()], ..Picks::default() };
        let read = record.read("orders", &picks, 100);
        assert!(read.defect.is_none(), "{:?}", read.defect);
        assert_eq!((read.message.id.as_str(), read.message.key.as_deref()), ("two", Some("hex:ff01")));
        assert_eq!((read.message.kind.as_str(), read.message.payload.len()), ("orders", 0), "a tombstone");
        assert_eq!(read.message.occurred_at, "2023-11-14T22:13:20.123Z".parse().unwrap());
        assert_eq!(read.message.headers.len(), 1, "{:?}", read.message.headers);
        let copy = moved(&record, &[(header::RETRY_ORIGIN, "orders".into())], &[]);
        assert_eq!((&copy.key, &copy.payload), (&record.key, &None));
        assert_eq!(copy.headers[..4], record.headers[..]);
        let again = copy.read("orders", &picks, 100);
        assert_eq!((again.message, again.destination.as_str()), (read.message, "orders"));
        let wanted = Picks { id: vec!["header.raw".parse().unwrap()], ..Picks::default() };
        let defect = record.read("orders", &wanted, 100).defect.unwrap();
        assert_eq!(defect.code, code::BAD_HEADER);
    }

    #[test]
    fn an_id_made_of_the_content_stays_the_same_through_moves() {
        let picks = Picks { id: vec!["content".parse().unwrap()], ..Picks::default() };
        let record = record(Some(b"k"), Some(b"{}"), headers(&[("a", Some(b"b"))]));
        let id = |record: &Record| record.read("orders", &picks, 100).message.id;
        let once = moved(&record, &[(header::RETRY_ATTEMPTS, "1".into())], &[]);
        let twice = moved(&once, &[(header::RETRY_ATTEMPTS, "2".into())], &[]);
        assert_eq!((id(&once), id(&twice)), (id(&record), id(&record)));
        let names: Vec<_> = twice.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["a", header::RETRY_ATTEMPTS, header::DESTINATION, header::FIRST_TIME],
            "each once"
        );
        let dead = moved(&twice, &[], &[header::RETRY_ATTEMPTS]);
        assert!(dead.headers.iter().all(|(name, _)| name != header::RETRY_ATTEMPTS));
    }
}
