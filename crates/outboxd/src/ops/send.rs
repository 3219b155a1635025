//! Writes a message, for trying things out and for scripts.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use outbox::{Message, MessageId};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::repair::book;
use super::{Office, Tally, choose_one, log_options, written_down};
use crate::plan::SourcePlan;
use crate::trouble::Trouble;

/// A message to write: with one of `payload`, `payload_text` and `payload_base64`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SendRequest {
    /// The type, as in `order.created`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The key within which order is kept.
    pub key: Option<String>,
    /// Its headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The media type of the payload; `application/json` by default.
    pub content_type: Option<String>,
    /// The payload as JSON, which is kept as it is written here.
    #[serde(default, deserialize_with = "as_written")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// The payload as text.
    pub payload_text: Option<String>,
    /// The payload as any bytes.
    pub payload_base64: Option<String>,
}

/// Also null: a payload can be that.
fn as_written<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(value).map(Some)
}

impl SendRequest {
    /// The message that is meant.
    pub fn into_message(self) -> Result<Message, Trouble> {
        let payload = match (self.payload, self.payload_text, self.payload_base64) {
            (Some(json), None, None) => String::from(Box::<str>::from(json)).into_bytes(),
            (None, Some(text), None) => text.into_bytes(),
            (None, None, Some(base64)) => STANDARD.decode(base64).map_err(|error| {
                let help = "encode it with the usual alphabet and padding";
                Trouble::usage(format!("payload_base64 is no base64: {error}"), help)
            })?,
            (None, None, None) => {
                let help = "give one of payload, payload_text and payload_base64";
                return Err(Trouble::usage("there is no payload", help));
            }
            _ => {
                let help = "give only one of payload, payload_text and payload_base64";
                return Err(Trouble::usage("there are several payloads", help));
            }
        };
        let content_type = self.content_type.unwrap_or_else(|| "application/json".to_owned());
        let mut message = Message::new(self.kind, payload).content_type(content_type);
        message.key = self.key;
        message.headers = self.headers;
        Ok(message)
    }
}

/// A message that was written.
#[derive(Debug, Serialize, ToSchema)]
pub struct Sent {
    /// Where it was written.
    pub source: String,
    /// Its id.
    #[schema(value_type = String)]
    pub id: MessageId,
}

/// The one log that is meant, and the bytes that a payload may have there.
pub fn log_to_send<'p>(office: &'p Office, source: Option<&str>) -> Result<(&'p SourcePlan, usize), Trouble> {
    let source = choose_one(&office.plan, source)?;
    let help = "insert a row as the application does, or choose a source that is a log";
    let options = log_options(source, "its application writes to it", help)?;
    Ok((source, options.limits.payload))
}

/// Writes one message in a transaction of its own.
pub async fn send(office: &Office, source: Option<&str>, message: Message) -> Result<Sent, Trouble> {
    let (source, _) = log_to_send(office, source)?;
    let opened = office.open(source).await?;
    let id = opened.log.enqueue(message).await.map_err(|error| opened.trouble("cannot send", &error))?;
    Ok(Sent { source: source.name.clone(), id })
}

/// The same, written down with who did it.
pub async fn send_by(office: &Office, source: &str, message: Message, by: &str) -> Result<Sent, Trouble> {
    let (source, _) = log_to_send(office, Some(source))?;
    // What cannot be written is no act.
    let limits = log_options(source, "its application writes to it", "choose a source that is a log")?.limits;
    let refused = |error: outbox::Error| Trouble::at_source("cannot send", source, &error);
    limits.check(&message).map_err(refused)?;
    let (book, _) = book(office, by).await?;
    let (id, tally) = (message.id.clone(), Tally::default());
    let detail = json!({ "type": message.kind, "key": message.key });
    let act = async {
        send(office, Some(&source.name), message).await?;
        tally.add(1);
        Ok(())
    };
    let about = ("send", &*source.name, std::slice::from_ref(&id), detail);
    written_down(book.as_ref(), about, &tally, act).await?;
    Ok(Sent { source: source.name.clone(), id })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &str) -> Result<Message, Trouble> {
        serde_json::from_str::<SendRequest>(body).expect(body).into_message()
    }

    #[test]
    fn a_payload_is_json_text_or_bytes() {
        for (body, payload) in [
            (r#"{"type":"a","payload": {"b" : 1.10}}"#, &br#"{"b" : 1.10}"#[..]),
            (r#"{"type":"a","payload":null}"#, b"null"),
            (r#"{"type":"a","payload_text":"hi"}"#, b"hi"),
            (r#"{"type":"a","payload_base64":"AP8="}"#, b"\x00\xff"),
        ] {
            assert_eq!(&message(body).expect(body).payload[..], payload, "{body}");
        }
        for wrong in [
            r#"{"type":"a"}"#,
            r#"{"type":"a","payload":1,"payload_text":"1"}"#,
            r#"{"type":"a","payload_base64":"?"}"#,
        ] {
            assert!(message(wrong).is_err(), "{wrong}");
        }
    }
}
