//! One dead letter, wherever it lies, and how it is told. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outbox::admin::Entry;
use outbox::letters;
use outbox::{Cause, Message, MessageId};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::ops::messages::Why;
use crate::ops::told::Payload;

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
    pub fn letter(source: &str, letter: letters::Letter) -> Self {
        let letters::Letter { message, origin, cause, attempts, first_failed_at, failed_at, .. } = letter;
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

    /// As it is told, without headers and payload.
    pub fn told(&self) -> Letter {
        Letter {
            source: self.source.clone(),
            id: self.message.id.clone(),
            kind: self.message.kind.clone(),
            key: self.message.key.clone(),
            origin: self.origin.clone(),
            pipe: self.pipe.clone(),
            cause: self.cause.clone(),
            attempts: self.attempts,
            occurred_at: self.message.occurred_at,
            first_failed_at: self.first_failed_at,
            failed_at: self.failed_at,
        }
    }

    /// The same with headers, and with the payload if asked for.
    pub fn whole(&self, place: &str, with_payload: bool) -> WholeLetter {
        WholeLetter {
            letter: self.told(),
            place: place.to_owned(),
            content_type: self.message.content_type.clone(),
            headers: self.message.headers.clone(),
            payload_bytes: self.message.payload.len(),
            payload: if with_payload { Payload::of(&self.message.payload) } else { Payload::default() },
        }
    }

    /// For scripts, without headers and payload.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self.told()).unwrap_or_default()
    }
}

/// A dead letter.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = DeadLetter)]
pub struct Letter {
    /// The name of the source.
    pub source: String,
    /// The id of the message.
    #[schema(value_type = String)]
    pub id: MessageId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its key.
    pub key: Option<String>,
    /// The queue or topic where it died; the pipe, if an outbox keeps it.
    pub origin: String,
    /// The pipe, if an outbox keeps it.
    pub pipe: Option<String>,
    /// Why.
    #[schema(value_type = Option<Why>)]
    pub cause: Option<Cause>,
    /// Attempts spent.
    pub attempts: u32,
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    pub occurred_at: Timestamp,
    /// When it first failed, if that is known.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub first_failed_at: Option<Timestamp>,
    /// When it was given up, if that is known.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub failed_at: Option<Timestamp>,
}

impl Letter {
    /// Since when it is dead, or at least there.
    pub fn since(&self) -> Timestamp {
        self.failed_at.unwrap_or(self.occurred_at)
    }
}

/// A dead letter with all that is known of it.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = WholeDeadLetter)]
pub struct WholeLetter {
    /// The letter.
    #[serde(flatten)]
    pub letter: Letter,
    /// The queue, topic or source where it lies, for people.
    pub place: String,
    /// The media type of the payload.
    pub content_type: String,
    /// Its headers.
    pub headers: BTreeMap<String, String>,
    /// How long the payload is.
    pub payload_bytes: usize,
    /// The payload, if it was asked for.
    #[serde(flatten)]
    pub payload: Payload,
}
