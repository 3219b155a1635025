//! The life of a message, for scripts.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use outbox::admin::Entry;
use outbox::letters::Waiting;
use outbox::{Handled, Message};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::life::{Life, Written};
use crate::cli::dlq::Dead;
use crate::cli::errors::error_json;
use crate::ops::messages::Why;
use crate::plan::Plan;

/// All that is known of a message.
#[derive(Debug, Serialize, ToSchema)]
pub struct Shown {
    /// Its id.
    pub id: String,
    /// Where it is, in a word or a few.
    pub state: &'static str,
    /// The outbox that it was written to.
    pub source: Option<String>,
    /// How it stands on each pipe of its outboxes.
    pub pipes: Vec<OnPipe>,
    /// What consumers did with it.
    pub handled: Vec<HandledBy>,
    /// Where it waits for a retry.
    pub retries: Vec<Retry>,
    /// The dead letters at brokers that it is.
    #[schema(value_type = Vec<Object>)]
    pub letters: Vec<Value>,
    /// The errors that it is in error tables.
    #[schema(value_type = Vec<Object>)]
    pub errors: Vec<Value>,
    /// Where it could not be looked, and why.
    pub unseen: Vec<String>,
    /// The message itself, if some place has it.
    #[serde(flatten)]
    pub message: Option<Letter>,
}

/// A message itself.
#[derive(Debug, Serialize, ToSchema)]
pub struct Letter {
    /// Its type.
    #[serde(rename = "type")]
    #[schema(required = false)]
    pub kind: String,
    /// Its key.
    pub key: Option<String>,
    /// When it happened.
    #[schema(value_type = String, format = DateTime, required = false)]
    pub occurred_at: Timestamp,
    /// The media type of its payload.
    #[schema(required = false)]
    pub content_type: String,
    /// Its headers.
    #[schema(required = false)]
    pub headers: BTreeMap<String, String>,
    /// The size of its payload.
    #[schema(required = false)]
    pub payload_bytes: usize,
    /// Its payload, if that is text and was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// Its payload, if that is no text and was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
}

/// How a message stands on a pipe.
#[derive(Debug, Serialize, ToSchema)]
pub struct OnPipe {
    /// The name of the source.
    pub source: String,
    /// Its place in the source.
    pub position: u64,
    /// The pipe.
    pub pipe: Option<String>,
    /// Where it stands there.
    pub state: &'static str,
    /// Attempts spent.
    pub attempts: u32,
    /// When it is due again.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub due: Option<Timestamp>,
    /// Why it is set aside.
    pub cause: Option<Why>,
}

/// What a consumer did with it.
#[derive(Debug, Serialize, ToSchema)]
pub struct HandledBy {
    /// Who handled it, or tried to.
    pub consumer: String,
    /// When.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
    /// The failed attempt; not there if it was handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failed>,
}

/// An attempt that failed.
#[derive(Debug, Serialize, ToSchema)]
pub struct Failed {
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// Why it failed.
    pub cause: Why,
    /// Whether trying again cannot help.
    pub dead: bool,
}

/// Where it waits for a retry.
#[derive(Debug, Serialize, ToSchema)]
pub struct Retry {
    /// The queue or topic in which it waits.
    pub place: String,
    /// Attempts spent so far.
    pub attempts: u32,
    /// Why the last one failed.
    pub cause: Option<Why>,
    /// When the last one failed.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub failed_at: Option<Timestamp>,
    /// When it is due again.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub due: Option<Timestamp>,
}

impl Shown {
    /// A life in data; its payload only if that was asked for, since it may hold what not everybody should see.
    pub fn new(id: &str, life: &Life, plan: &Plan, with_payload: bool) -> Self {
        Self {
            id: id.to_owned(),
            state: life.state(plan).as_str(),
            source: life.written.first().map(|written| written.source.clone()),
            pipes: life.written.iter().flat_map(on_pipes).collect(),
            handled: life.handled.iter().map(handled).collect(),
            retries: life.retries.iter().map(retry).collect(),
            letters: life.letters.iter().map(letter).collect(),
            errors: life.errors.iter().map(|(sink, record)| error_json(sink, record)).collect(),
            unseen: life.unseen.clone(),
            message: life.message.as_ref().map(|message| itself(message, with_payload)),
        }
    }
}

fn itself(message: &Message, with_payload: bool) -> Letter {
    let text = std::str::from_utf8(&message.payload).ok().filter(|_| with_payload);
    let bytes = with_payload && text.is_none();
    Letter {
        kind: message.kind.clone(),
        key: message.key.clone(),
        occurred_at: message.occurred_at,
        content_type: message.content_type.clone(),
        headers: message.headers.clone(),
        payload_bytes: message.payload.len(),
        payload: text.map(str::to_owned),
        payload_base64: bytes.then(|| STANDARD.encode(&message.payload)),
    }
}

fn on_pipes(written: &Written) -> impl Iterator<Item = OnPipe> {
    written.entries.iter().map(|entry: &Entry| OnPipe {
        source: written.source.clone(),
        position: entry.position,
        pipe: entry.cursor.clone(),
        state: entry.stand.as_str(),
        attempts: entry.attempts,
        due: entry.due,
        cause: entry.cause.as_ref().map(Why::from),
    })
}

fn handled(one: &Handled) -> HandledBy {
    let failed = one.failed.as_ref().map(|failed| Failed {
        attempt: failed.attempt,
        cause: Why::from(&failed.cause),
        dead: failed.dead,
    });
    HandledBy { consumer: one.consumer.clone(), at: one.at, failed }
}

fn retry(waiting: &Waiting) -> Retry {
    Retry {
        place: waiting.place.clone(),
        attempts: waiting.attempts,
        cause: waiting.cause.as_ref().map(Why::from),
        failed_at: waiting.failed_at,
        due: waiting.due,
    }
}

fn letter((place, dead): &(String, Dead)) -> Value {
    let Value::Object(mut fields) = dead.to_json() else { return Value::Null };
    let kept = ["source", "origin", "attempts", "cause", "first_failed_at", "failed_at"];
    fields.retain(|name, _| kept.contains(&name.as_str()));
    fields.insert("place".to_owned(), json!(place));
    Value::Object(fields)
}
