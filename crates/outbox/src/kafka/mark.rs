//! What is written behind a dead letter that a person has dealt with: a topic cannot lose a single record. Pure.

use jiff::Timestamp;
use serde_json::json;

use crate::letters::Act;
use crate::message::header;

/// A place in a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Spot {
    pub(super) partition: i32,
    pub(super) offset: i64,
}

impl Spot {
    /// As it is written in the header of a mark.
    pub(super) fn to_text(self) -> String {
        format!("{}:{}", self.partition, self.offset)
    }

    fn parse(text: &str) -> Option<Self> {
        let (partition, offset) = text.split_once(':')?;
        Some(Self { partition: partition.parse().ok()?, offset: offset.parse().ok()? })
    }
}

/// The letter that a record with these headers says is dealt with; none if it is no mark.
pub(super) fn of<'h>(headers: impl IntoIterator<Item = (&'h str, Option<&'h [u8]>)>) -> Option<Spot> {
    let mut marks = headers.into_iter().filter(|(name, _)| *name == header::SETTLED);
    Spot::parse(std::str::from_utf8(marks.next()?.1?).ok()?)
}

/// A mark: its key, which no other record has, so that a topic that is compacted keeps it; its text, for people; and its
/// headers.
pub(super) struct Mark {
    pub(super) key: String,
    pub(super) text: String,
    pub(super) headers: Vec<(&'static str, String)>,
}

impl Mark {
    pub(super) fn new(spot: Spot, act: Act, by: &str, now: Timestamp) -> Self {
        let (place, now) = (spot.to_text(), now.to_string());
        let did = match act {
            Act::Return => "returned",
            Act::Discard => "discarded",
        };
        Self {
            key: format!("outboxd:settled:{place}"),
            text: json!({ "settled": place, "act": did, "by": by, "at": now }).to_string(),
            headers: vec![
                (header::SETTLED, place),
                (header::RETURNED_BY, by.to_owned()),
                (header::RETURNED_AT, now),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_known_by_its_header() {
        let spot = Spot { partition: 3, offset: 17 };
        let mark = Mark::new(spot, Act::Discard, "ann", Timestamp::UNIX_EPOCH);
        let headers = mark.headers.iter().map(|(name, value)| (*name, Some(value.as_bytes())));
        assert_eq!(of(headers), Some(spot));
        assert!(mark.text.contains("\"discarded\"") && mark.key.ends_with("3:17"), "{}", mark.text);
        for value in [None, Some(&b""[..]), Some(b"3"), Some(b"a:b"), Some(&[0xff])] {
            assert_eq!(of([(header::SETTLED, value)]), None, "{value:?}");
        }
        assert_eq!(of([("other", Some(&b"3:17"[..]))]), None);
    }
}
