//! Reads a message that anybody may have made: where its id, type and key stand is told by [`Picks`].

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};
use crate::view::Path;

#[cfg(any(feature = "rabbitmq", feature = "kafka"))]
pub(crate) use raw::{Raw, Read};

/// Where something about a message is taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// What the broker has for it: `message_id` and `type` of AMQP, the key of a record.
    Property,
    /// The attribute of CloudEvents, whichever prefix the broker has for it.
    CloudEvent,
    /// A header.
    Header(String),
    /// A place in a JSON payload.
    Payload(Path),
    /// The routing key or the topic.
    Destination,
    /// A hash of everything that was sent. Two messages that are alike to the last byte are one and the same then: the
    /// second is taken for a repetition.
    Content,
}

impl FromStr for Pick {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "property" => Ok(Self::Property),
            "cloudevent" => Ok(Self::CloudEvent),
            "destination" => Ok(Self::Destination),
            "content" => Ok(Self::Content),
            _ => match (text.strip_prefix("header."), text.strip_prefix("payload.")) {
                (Some(name), _) if !name.is_empty() => Ok(Self::Header(name.to_owned())),
                (_, Some(path)) => Ok(Self::Payload(Path::parse(path)?)),
                _ => {
                    let what = format!("'{text}' is no place in a message");
                    Err(Error::new(ErrorKind::Config, what))
                }
            },
        }
    }
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Property => f.write_str("property"),
            Self::CloudEvent => f.write_str("cloudevent"),
            Self::Destination => f.write_str("destination"),
            Self::Content => f.write_str("content"),
            Self::Header(name) => write!(f, "header.{name}"),
            Self::Payload(path) => write!(f, "payload.{path}"),
        }
    }
}

/// Where id, type and key of a message stand; of each list the first that is there counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picks {
    /// The id. A message without any is set aside: it could not be told from its repetition.
    pub id: Vec<Pick>,
    /// The type; the routing key or topic if nothing else is there.
    pub kind: Vec<Pick>,
    /// The key; a message without has no order.
    pub key: Vec<Pick>,
    /// What it correlates with, besides the header `x-correlation-id`.
    pub correlation: Vec<Pick>,
}

impl Default for Picks {
    fn default() -> Self {
        Self {
            id: vec![Pick::Header(crate::header::EVENT_ID.to_owned()), Pick::CloudEvent, Pick::Property],
            kind: vec![Pick::CloudEvent, Pick::Property, Pick::Destination],
            key: vec![Pick::CloudEvent, Pick::Property],
            correlation: vec![Pick::Property],
        }
    }
}

impl Picks {
    /// Messages in the envelope of MassTransit: a JSON object with the message in it. The payload stays whole.
    pub fn masstransit() -> Self {
        let payload = |path: &str| Path::parse(path).ok().map(Pick::Payload);
        let first = |path: &str, then: Vec<Pick>| payload(path).into_iter().chain(then).collect();
        let Self { id, kind, key, correlation } = Self::default();
        Self {
            id: first("messageId", id),
            kind: first("messageType.0", kind),
            key,
            correlation: payload("correlationId")
                .into_iter()
                .chain(payload("conversationId"))
                .chain(correlation)
                .collect(),
        }
    }
}

#[cfg(any(feature = "rabbitmq", feature = "kafka"))]
mod raw {
    use std::borrow::Cow;

    use bytes::Bytes;
    use jiff::Timestamp;
    use sha2::{Digest, Sha256};

    use super::super::tracks::{RETRY, Tracks};
    use super::{Pick, Picks};
    use crate::message::{Headers, Message, header};
    use crate::sink::{Cause, code};
    use crate::view::View;

    /// What the bindings of CloudEvents put before an attribute.
    const PREFIXES: [&str; 3] = ["cloudEvents_", "cloudEvents:", "ce_"];

    /// What RabbitMQ notes on a message that leaves a retry queue.
    const DEATHS: [&str; 3] = ["x-death", "x-first-death-", "x-last-death-"];

    /// What MassTransit puts before the name of a type.
    const URN: &str = "urn:message:";

    /// A message as a broker hands it over.
    #[derive(Debug, Default)]
    pub(crate) struct Raw<'r> {
        /// The queue or topic that is read, by its own name.
        pub(crate) place: &'r str,
        /// The routing key or topic that it was sent to.
        pub(crate) destination: &'r str,
        pub(crate) id: Option<&'r str>,
        pub(crate) kind: Option<&'r str>,
        pub(crate) key: Option<Cow<'r, str>>,
        pub(crate) correlation: Option<&'r str>,
        pub(crate) content_type: Option<&'r str>,
        pub(crate) at: Option<Timestamp>,
        /// The headers that are text, or can be written as such.
        pub(crate) headers: Headers,
        /// The names of those that cannot.
        pub(crate) odd: Vec<String>,
        pub(crate) payload: Bytes,
    }

    /// A message as it was read, with what its own queue wrote on it before; and why it cannot be handled, if so.
    #[derive(Debug)]
    pub(crate) struct Read {
        pub(crate) message: Message,
        pub(crate) tracks: Tracks,
        /// The routing key or topic that it was first sent to.
        pub(crate) destination: String,
        pub(crate) defect: Option<Cause>,
    }

    impl Raw<'_> {
        /// Reads it. Whatever is wrong with it, it is a message that can be set aside.
        pub(crate) fn read(mut self, picks: &Picks, max_payload: usize) -> Read {
            let mut defect = None;
            if self.payload.len() > max_payload {
                let why = format!("the payload is {} bytes, the limit is {max_payload}", self.payload.len());
                defect = Some(Cause::new(code::TOO_LARGE, why));
            }
            let mut note = |cause: Cause| {
                defect.get_or_insert(cause);
            };
            let destination = self.headers.remove(header::DESTINATION);
            let destination = destination.unwrap_or_else(|| self.destination.to_owned());
            if self.headers.get(header::RETRY_ORIGIN).is_some_and(|origin| origin == self.place) {
                self.headers.retain(|name, _| !is_death(name));
            }
            let content = self.hash(&destination);
            if let Some(name) = self.odd.iter().find(|name| RETRY.contains(&name.as_str())) {
                note(odd_header(name));
            }
            let tracks = Tracks::take(&mut self.headers, self.place).unwrap_or_else(|cause| {
                note(cause);
                Tracks::default()
            });
            // The payload is looked into only where a pick asks for it, and not if it is too large to be read.
            let body = Message::known("", "", self.payload.clone(), Timestamp::UNIX_EPOCH);
            let view = View::new(&body);
            let mut pick = |what: &'static str, picks: &[Pick]| {
                let (found, unread) = self.pick(what, picks, &view, &content, &destination);
                unread.map(&mut note);
                found
            };
            let (id, kind) = (pick("id", &picks.id), pick("type", &picks.kind));
            let (key, correlation) = (pick("key", &picks.key), pick("correlation", &picks.correlation));
            if id.is_none() {
                let places: Vec<String> = picks.id.iter().map(ToString::to_string).collect();
                let why = format!(
                    "the message has no id in any of {}; tell where it stands, or take \"content\"",
                    places.join(", ")
                );
                note(Cause::new(code::NO_ID, why));
            }
            let id = id.unwrap_or(content);
            let kind = kind.unwrap_or_else(|| destination.clone());
            let kind = kind.strip_prefix(URN).map_or_else(|| kind.clone(), str::to_owned);
            let at = self.attribute("time").and_then(|time| time.parse().ok()).or(self.at);
            let at = at.unwrap_or_else(Timestamp::now);
            let mut message = Message::known(id, kind, self.payload.clone(), at);
            message.key = key;
            message.content_type = self.content_type.unwrap_or("application/octet-stream").to_owned();
            message.attempts = tracks.attempts;
            message.headers = self.own_headers(message.id.as_str(), correlation);
            Read { message, tracks, destination, defect }
        }

        /// The first that is there, and what could not be read before it: also of a message that nobody can handle its
        /// own id is told where there is one, lest two of them are taken for one.
        fn pick(
            &self,
            what: &'static str,
            picks: &[Pick],
            view: &View<'_>,
            content: &str,
            destination: &str,
        ) -> (Option<String>, Option<Cause>) {
            let mut unread = None;
            for pick in picks {
                let found = match pick {
                    Pick::Property => match what {
                        "id" => self.id.map(str::to_owned),
                        "type" => self.kind.map(str::to_owned),
                        "key" => self.key.as_deref().map(str::to_owned),
                        _ => self.correlation.map(str::to_owned),
                    },
                    Pick::CloudEvent => {
                        self.attribute(if what == "key" { "partitionkey" } else { what }).map(str::to_owned)
                    }
                    Pick::Header(name) if self.odd.contains(name) => {
                        unread.get_or_insert_with(|| odd_header(name));
                        None
                    }
                    Pick::Header(name) => self.headers.get(name).cloned(),
                    Pick::Payload(path) => view.text(path).unwrap_or_else(|error| {
                        unread.get_or_insert_with(|| Cause::new(code::UNFIT, error.chain()));
                        None
                    }),
                    Pick::Destination => Some(destination.to_owned()),
                    Pick::Content => Some(content.to_owned()),
                };
                if let Some(found) = found.filter(|found| !found.is_empty()) {
                    return (Some(found), unread);
                }
            }
            (None, unread)
        }

        /// The value of a CloudEvents attribute.
        fn attribute(&self, name: &str) -> Option<&str> {
            let header = |prefix: &&str| self.headers.get(&format!("{prefix}{name}")).map(String::as_str);
            PREFIXES.iter().find_map(header)
        }

        /// The headers without what a relay of ours added on the way.
        fn own_headers(&mut self, id: &str, correlation: Option<String>) -> Headers {
            let mut headers = std::mem::take(&mut self.headers);
            headers.retain(|name, _| !PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
            headers.remove(header::EVENT_ID);
            if !headers.contains_key(header::CORRELATION_ID)
                && let Some(correlation) = correlation
            {
                headers.insert(header::CORRELATION_ID.to_owned(), correlation);
            }
            // A message that names none correlates with itself, and a relay writes that down.
            if headers.get(header::CORRELATION_ID).is_some_and(|correlation| correlation == id) {
                headers.remove(header::CORRELATION_ID);
            }
            headers
        }

        /// A hash of all that was sent, the same for every delivery: without what consumers and the broker add.
        fn hash(&self, destination: &str) -> String {
            let mut hash = Sha256::new();
            let mut add = |part: &[u8]| {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            };
            for part in [Some(destination), self.kind, self.correlation, self.content_type] {
                add(part.unwrap_or_default().as_bytes());
            }
            add(self.key.as_deref().unwrap_or_default().as_bytes());
            add(self.at.map(|at| at.to_string()).unwrap_or_default().as_bytes());
            for (name, value) in self.headers.iter().filter(|(name, _)| !is_added(name)) {
                add(name.as_bytes());
                add(value.as_bytes());
            }
            for name in self.odd.iter().filter(|name| !is_added(name)) {
                add(name.as_bytes());
            }
            add(&self.payload);
            let digest = hash.finalize();
            let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
            format!("sha256-{hex}")
        }
    }

    fn is_death(name: &str) -> bool {
        DEATHS.iter().any(|prefix| name.starts_with(prefix))
    }

    fn is_added(name: &str) -> bool {
        is_death(name)
            || ["x-retry-", "x-error-", "x-returned-"].iter().any(|prefix| name.starts_with(prefix))
    }

    fn odd_header(name: &str) -> Cause {
        Cause::new(code::BAD_HEADER, format!("the header '{name}' is of a type that is no text"))
    }
}

#[cfg(all(test, any(feature = "rabbitmq", feature = "kafka")))]
#[path = "picks_tests.rs"]
mod tests;
