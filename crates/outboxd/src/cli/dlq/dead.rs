//! One dead letter, wherever it lies, and which ones are meant. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use outbox::admin::Entry;
use outbox::letters::Letter;
use outbox::{Cause, Message};
use serde_json::{Value, json};

use super::args::Picked;
use crate::cli::list::without_nulls;

/// A message that is dead at a source.
#[derive(Debug, Clone)]
pub struct Dead {
    /// The name of the source.
    pub source: String,
    /// The queue or topic where it died; the pipe, if an outbox keeps it.
    pub origin: String,
    /// The pipe, if an outbox keeps it.
    pub pipe: Option<String>,
    /// The message. Of an outbox without payload and headers, until they are asked for.
    pub message: Message,
    /// Why.
    pub cause: Option<Cause>,
    /// Attempts spent.
    pub attempts: u32,
    /// When it first failed, if that is known.
    pub first_failed_at: Option<Timestamp>,
    /// When it was given up, if that is known.
    pub failed_at: Option<Timestamp>,
}

impl Dead {
    /// A letter at a broker.
    pub fn letter(source: &str, letter: Letter) -> Self {
        let Letter { message, origin, cause, attempts, first_failed_at, failed_at, .. } = letter;
        let origin = origin.unwrap_or_else(|| "-".to_owned());
        Self {
            source: source.to_owned(),
            origin,
            pipe: None,
            message,
            cause,
            attempts,
            first_failed_at,
            failed_at,
        }
    }

    /// What an outbox has set aside. It does not write down when.
    pub fn entry(source: &str, entry: Entry) -> Self {
        let mut message = Message::new(entry.kind, Vec::new()).id(entry.id).occurred_at(entry.occurred_at);
        message.key = entry.key;
        let pipe = entry.cursor;
        Self {
            source: source.to_owned(),
            origin: pipe.clone().unwrap_or_else(|| "-".to_owned()),
            pipe,
            message,
            cause: entry.cause,
            attempts: entry.attempts,
            first_failed_at: None,
            failed_at: None,
        }
    }

    /// Since when it is dead, or at least there.
    pub fn since(&self) -> Timestamp {
        self.failed_at.unwrap_or(self.message.occurred_at)
    }

    /// For scripts, without headers and payload.
    pub fn to_json(&self) -> Value {
        json!({
            "source": self.source,
            "id": self.message.id,
            "type": self.message.kind,
            "key": self.message.key,
            "origin": self.origin,
            "pipe": self.pipe,
            "cause": self.cause,
            "attempts": self.attempts,
            "occurred_at": self.message.occurred_at,
            "first_failed_at": self.first_failed_at,
            "failed_at": self.failed_at,
        })
    }

    /// For scripts, with headers, and with the payload if asked for: as text if it is UTF-8.
    pub fn to_whole_json(&self, with_payload: bool) -> Value {
        let mut whole = self.to_json();
        whole["content_type"] = json!(self.message.content_type);
        whole["headers"] = json!(self.message.headers);
        whole["payload_bytes"] = json!(self.message.payload.len());
        if with_payload {
            match std::str::from_utf8(&self.message.payload) {
                Ok(text) => whole["payload"] = json!(text),
                Err(_) => whole["payload_base64"] = json!(STANDARD.encode(&self.message.payload)),
            }
        }
        whole
    }
}

/// Which letters are meant.
#[derive(Debug, Clone)]
pub struct Wanted {
    ids: BTreeSet<String>,
    /// Of these flags.
    pub picked: Picked,
}

impl Wanted {
    /// What was typed.
    pub fn new(ids: &[String], picked: &Picked) -> Self {
        Self { ids: ids.iter().cloned().collect(), picked: picked.clone() }
    }

    /// Whether this one is meant.
    pub fn takes(&self, dead: &Dead, now: Timestamp) -> bool {
        let Picked { kind, key, code, older_than, newer_than, .. } = &self.picked;
        let message = &dead.message;
        let age = now.duration_since(dead.since());
        (self.ids.is_empty() || self.ids.contains(message.id.as_str()))
            && kind.as_ref().is_none_or(|kind| is_of_kind(&message.kind, kind))
            && key.as_ref().is_none_or(|key| message.key.as_ref() == Some(key))
            && code
                .as_ref()
                .is_none_or(|code| dead.cause.as_ref().is_some_and(|cause| cause.code == code.as_str()))
            && older_than.is_none_or(|limit| age > signed(limit))
            && newer_than.is_none_or(|limit| age <= signed(limit))
    }

    /// The ids that were asked for by name and are not among these.
    pub fn missing<'d>(&self, found: impl IntoIterator<Item = &'d Dead>) -> Vec<String> {
        let found: BTreeSet<&str> = found.into_iter().map(|dead| dead.message.id.as_str()).collect();
        self.ids.iter().filter(|id| !found.contains(id.as_str())).cloned().collect()
    }

    /// The flags in words, for the record.
    pub fn to_json(&self) -> Value {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        let all = json!({
            "ids": if self.ids.is_empty() { None } else { Some(&self.ids) },
            "source": self.picked.source,
            "type": self.picked.kind,
            "key": self.picked.key,
            "code": self.picked.code,
            "older_than_seconds": seconds(self.picked.older_than),
            "newer_than_seconds": seconds(self.picked.newer_than),
        });
        without_nulls(all)
    }
}

fn is_of_kind(kind: &str, wanted: &str) -> bool {
    wanted.strip_suffix('*').map_or(kind == wanted, |start| kind.starts_with(start))
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

#[cfg(test)]
mod tests {
    use outbox::broker::Died;

    use super::*;

    fn dead(kind: &str, key: &str, code: &'static str, minutes: i64) -> Dead {
        let message = Message::new(kind, "x").key(key).id("1");
        let at =
            Some("2026-01-01T12:00:00Z".parse::<Timestamp>().unwrap() - SignedDuration::from_mins(minutes));
        Dead::letter(
            "q",
            Letter::new(message, Died { cause: Some(Cause::new(code, "")), at, ..Died::default() }),
        )
    }

    #[test]
    fn flags_choose_by_id_type_key_cause_and_age() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let none = Picked {
            source: None,
            kind: None,
            key: None,
            code: None,
            older_than: None,
            newer_than: None,
            most: 1,
        };
        let takes = |ids: &[&str], change: &dyn Fn(&mut Picked)| {
            let mut picked = none.clone();
            change(&mut picked);
            let ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
            Wanted::new(&ids, &picked).takes(&dead("order.created", "k", "HTTP_500", 90), now)
        };
        let hour = Some(Duration::from_secs(3_600));
        assert!(takes(&[], &|_| {}) && takes(&["1", "2"], &|_| {}) && !takes(&["2"], &|_| {}));
        assert!(takes(&[], &|picked| picked.kind = Some("order.*".into())));
        assert!(!takes(&[], &|picked| picked.kind = Some("order".into())));
        assert!(takes(&[], &|picked| picked.key = Some("k".into())));
        assert!(!takes(&[], &|picked| picked.code = Some("HTTP".into())));
        assert!(
            takes(&[], &|picked| picked.older_than = hour) && !takes(&[], &|picked| picked.newer_than = hour)
        );
        let wanted = Wanted::new(&["1".into(), "2".into()], &none);
        assert_eq!(wanted.missing([&dead("a", "k", "X", 1)]), ["2"]);
        assert_eq!(wanted.to_json(), json!({ "ids": ["1", "2"] }));
    }
}
