//! A request to a message: our JSON, or a CloudEvent in either form. Pure.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, StatusCode, header as http};
use bytes::Bytes;
use outbox::{Message, cloudevents, header};
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::answer::Refusal;

/// The header under which a client may give the id beside the body.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Attributes of the binary form begin so.
const PREFIX: &str = "ce-";

const FORMS: &str = "send application/json with type and payload, application/cloudevents+json, or any body with the headers ce-type and ce-id";

/// Headers of the request that are headers of the message too, if that has none of the name.
const CARRIED: [&str; 6] = [
    header::TRACEPARENT,
    header::TRACESTATE,
    header::CORRELATION_ID,
    header::CAUSATION_ID,
    header::SAGA_ID,
    header::SAGA_STEP,
];

/// A message, in our own form.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Given {
    /// What happened, as in `order.created`.
    #[schema(required)]
    r#type: Option<String>,
    /// Messages of one key keep their order.
    key: Option<String>,
    /// Any JSON; it travels as it is written.
    #[serde(default, deserialize_with = "as_written")]
    #[schema(value_type = serde_json::Value, required)]
    payload: Option<Box<RawValue>>,
    /// Headers of the message.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Its id; a new one by default.
    id: Option<String>,
    /// What the payload is; JSON by default.
    content_type: Option<String>,
}

/// Also null: a payload can be that.
fn as_written<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(value).map(Some)
}

/// Reads a message; what is wrong is told in one line.
pub(super) fn read(headers: &HeaderMap, body: Bytes) -> Result<Message, Refusal> {
    let content_type = text(headers, http::CONTENT_TYPE.as_str())?;
    let media = content_type.as_deref().unwrap_or_default().split(';').next().unwrap_or_default();
    let media = media.trim().to_ascii_lowercase();
    let mut message = if media == cloudevents::STRUCTURED {
        structured(&body)?
    } else if headers.contains_key("ce-type") || headers.contains_key("ce-specversion") {
        binary(headers, content_type, body)?
    } else if media == "application/json" {
        json(headers, &body)?
    } else {
        let error = match media.as_str() {
            "" => "there is no Content-Type".to_owned(),
            other => format!("'{}' cannot be read as a message", other.chars().take(80).collect::<String>()),
        };
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, error, FORMS));
    };
    for name in CARRIED {
        if let Some(value) = text(headers, name)? {
            message.headers.entry(name.to_owned()).or_insert(value);
        }
    }
    Ok(message)
}

/// A header of the request as text.
fn text(headers: &HeaderMap, name: &str) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    match std::str::from_utf8(value.as_bytes()) {
        Ok(value) => Ok(Some(value.trim().to_owned())),
        Err(_) => Err(Refusal::bad(format!("the header '{name}' is not UTF-8"), "write it in UTF-8")),
    }
}

/// The id beside the body; with or without the quotes that the header is said to have.
fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(key) = text(headers, IDEMPOTENCY_KEY)? else { return Ok(None) };
    let bare = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or(&key);
    if bare.is_empty() {
        return Err(Refusal::bad("the header 'Idempotency-Key' is empty", "give the id, or leave it out"));
    }
    Ok(Some(bare.to_owned()))
}

fn json(headers: &HeaderMap, body: &[u8]) -> Result<Message, Refusal> {
    let help = "write {\"type\": \"order.created\", \"key\": \"order-1\", \"payload\": {…}}";
    // A list would be read as the members in their order.
    match body.trim_ascii_start().first() {
        Some(b'{') => {}
        Some(_) => return Err(Refusal::bad("the body is no JSON object", help)),
        None => return Err(Refusal::bad("the body is empty", help)),
    }
    let given: Given = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad(format!("the body cannot be read: {error}"), help))?;
    let missing = |what: &str| Refusal::bad(format!("the body has no '{what}'"), help);
    let kind = given.r#type.ok_or_else(|| missing("type"))?;
    let payload = given.payload.ok_or_else(|| missing("payload"))?;
    let content_type = given.content_type.unwrap_or_else(|| "application/json".to_owned());
    if !cloudevents::is_json(&content_type) {
        let shown: String = content_type.chars().take(80).collect();
        let error = format!("'content_type' is '{shown}', and what stands under 'payload' is JSON");
        let help = "send another payload as the body itself, with the headers ce-type and ce-id";
        return Err(Refusal::bad(error, help));
    }
    // As it was written there, to the byte.
    let payload = String::from(Box::<str>::from(payload));
    let mut message = Message::new(kind, payload).content_type(content_type);
    message.key = given.key;
    message.headers = given.headers;
    with_id(message, given.id, headers)
}

fn with_id(message: Message, id: Option<String>, headers: &HeaderMap) -> Result<Message, Refusal> {
    match id {
        Some(id) if id.is_empty() => Err(Refusal::bad("the id is empty", "give one, or leave it out")),
        Some(id) => Ok(message.id(id)),
        None => Ok(match idempotency_key(headers)? {
            Some(id) => message.id(id),
            None => message,
        }),
    }
}

fn structured(body: &[u8]) -> Result<Message, Refusal> {
    let help = "see CloudEvents 1.0: specversion, id, source and type are required";
    let (message, _) = cloudevents::parse(body).map_err(|error| Refusal::bad(error.chain(), help))?;
    Ok(message)
}

/// The attributes are headers, and the body is the payload as it is.
fn binary(headers: &HeaderMap, content_type: Option<String>, body: Bytes) -> Result<Message, Refusal> {
    let mut attributes = attributes(headers)?;
    if let Some(version) = attributes.remove("specversion")
        && version != cloudevents::SPEC_VERSION
    {
        let error = format!("'ce-specversion' is '{version}', not {}", cloudevents::SPEC_VERSION);
        return Err(Refusal::bad(error, "write ce-specversion: 1.0"));
    }
    let Some(kind) = attributes.remove("type") else {
        return Err(Refusal::bad(
            "there is no header 'ce-type'",
            "say what happened: ce-type: order.created",
        ));
    };
    // Each sink names its own.
    attributes.remove("source");
    let content_type = content_type.unwrap_or_else(|| "application/octet-stream".to_owned());
    let mut message = Message::new(kind, body).content_type(content_type);
    if let Some(time) = attributes.remove("time") {
        let Ok(at) = time.parse() else {
            return Err(Refusal::bad("'ce-time' is not RFC 3339", "write it as in 2026-01-31T12:00:00Z"));
        };
        message = message.occurred_at(at);
    }
    message.key = attributes.remove("partitionkey");
    let id = attributes.remove("id");
    for (name, value) in attributes {
        message = message.header(cloudevents::header_of(&name), value);
    }
    with_id(message, id, headers)
}

fn attributes(headers: &HeaderMap) -> Result<BTreeMap<String, String>, Refusal> {
    let mut attributes = BTreeMap::new();
    for name in headers.keys() {
        let Some(attribute) = name.as_str().strip_prefix(PREFIX) else { continue };
        let value = text(headers, name.as_str())?.unwrap_or_default();
        // What a header cannot hold is percent-encoded in it.
        let Ok(value) = percent_decode_str(&value).decode_utf8() else {
            return Err(Refusal::bad(format!("the header '{name}' is not UTF-8"), "encode it in UTF-8"));
        };
        attributes.insert(attribute.to_owned(), value.into_owned());
    }
    Ok(attributes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that fails should say where")]
mod tests {
    use super::*;

    fn request(headers: &[(&'static str, &str)], body: &str) -> Result<Message, (u16, String)> {
        let headers = headers.iter().map(|(name, value)| {
            (axum::http::HeaderName::from_static(name), value.parse().expect("a header"))
        });
        read(&headers.collect(), Bytes::copy_from_slice(body.as_bytes())).map_err(|refusal| {
            let (status, error) = refusal.told();
            (status, error.to_owned())
        })
    }

    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

    #[test]
    fn the_payload_stays_as_the_client_wrote_it() {
        let payload = "{ \"b\":1.10,  \"a\" : [1e3, \"\\u00e4\"],\n \"big\": 12345678901234567890123 }";
        let body = format!(
            "{{\"type\": \"a\", \"payload\":  {payload} , \"key\": \"k\", \"headers\": {{\"h\": \"v\"}}, \"id\": \"1\"}}"
        );
        let message = request(&[JSON, ("idempotency-key", "2")], &body).unwrap();
        assert_eq!(message.payload, payload);
        let Message { id, kind, key, content_type, headers, .. } = message;
        assert_eq!((id.as_str(), &*kind, key.as_deref()), ("1", "a", Some("k")), "the body has the say");
        assert_eq!((&*content_type, &*headers["h"]), ("application/json", "v"));
        for payload in ["null", "\"text\"", "7", "[]"] {
            let message = request(&[JSON], &format!("{{\"type\":\"a\",\"payload\":{payload}}}")).unwrap();
            assert_eq!(message.payload, payload);
        }
    }

    #[test]
    fn a_cloud_event_comes_in_either_form() {
        let binary = request(
            &[
                ("content-type", "image/png"),
                ("ce-specversion", "1.0"),
                ("ce-type", "a"),
                ("ce-id", "1"),
                ("ce-source", "/shop"),
                ("ce-time", "2024-02-29T12:00:00Z"),
                ("ce-partitionkey", "k%20%E2%82%AC"),
                ("ce-correlationid", "c"),
                ("ce-region", "eu"),
                ("traceparent", "00-1-2-01"),
            ],
            "\u{1}\0 any",
        )
        .unwrap();
        assert_eq!((binary.id.as_str(), &*binary.kind, binary.key.as_deref()), ("1", "a", Some("k €")));
        assert_eq!((&*binary.content_type, &*binary.payload), ("image/png", &b"\x01\0 any"[..]));
        assert_eq!(binary.occurred_at.to_string(), "2024-02-29T12:00:00Z");
        let headers: Vec<_> = binary.headers.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(headers, ["region=eu", "traceparent=00-1-2-01", "x-correlation-id=c"]);
        let event =
            r#"{"specversion":"1.0","id":"1","source":"/s","type":"a","partitionkey":"k","data":{"a": 1}}"#;
        let structured = request(&[("content-type", "application/cloudevents+json")], event).unwrap();
        assert_eq!((structured.id.as_str(), &*structured.payload), ("1", &br#"{"a": 1}"#[..]));
    }

    #[test]
    fn the_id_may_stand_beside_the_body() {
        let body = r#"{"type":"a","payload":1}"#;
        for (given, id) in [("abc", "abc"), ("\"abc\"", "abc")] {
            assert_eq!(request(&[JSON, ("idempotency-key", given)], body).unwrap().id.as_str(), id);
        }
        assert_eq!(request(&[JSON], body).unwrap().id.as_str().len(), 36);
        let told = request(&[JSON, ("idempotency-key", "\"\"")], body).unwrap_err();
        assert_eq!(told, (400, "the header 'Idempotency-Key' is empty".to_owned()));
    }

    #[test]
    fn what_is_no_message_is_told_in_one_line() {
        let ce = ("ce-type", "a");
        for (headers, body, status, told) in [
            (vec![JSON], " ", 400, "the body is empty"),
            (vec![JSON], "{\"type\": \"a\",", 400, "the body cannot be read: EOF"),
            (vec![JSON], "[1]", 400, "the body is no JSON object"),
            (vec![JSON], "{\"payload\": 1}", 400, "the body has no 'type'"),
            (vec![JSON], "{\"type\": \"a\"}", 400, "the body has no 'payload'"),
            (
                vec![JSON],
                "{\"type\": 1, \"payload\": 1}",
                400,
                "the body cannot be read: invalid type: integer",
            ),
            (vec![JSON], "{\"typ\": \"a\"}", 400, "the body cannot be read: unknown field `typ`"),
            (
                vec![JSON],
                "{\"type\":\"a\",\"type\":\"b\"}",
                400,
                "the body cannot be read: duplicate field `type`",
            ),
            (vec![JSON], "{\"type\":\"a\",\"payload\":1,\"id\":\"\"}", 400, "the id is empty"),
            (
                vec![JSON],
                "{\"type\":\"a\",\"payload\":1,\"headers\":{\"n\":1}}",
                400,
                "the body cannot be read: invalid type",
            ),
            (
                vec![JSON],
                "{\"type\":\"a\",\"payload\":1,\"content_type\":\"text/plain\"}",
                400,
                "'content_type' is 'text/plain'",
            ),
            (vec![], "{}", 415, "there is no Content-Type"),
            (vec![("content-type", "text/xml")], "<a/>", 415, "'text/xml' cannot be read as a message"),
            (
                vec![("content-type", "application/cloudevents-batch+json")],
                "[]",
                415,
                "'application/cloudevents-batch+json'",
            ),
            (vec![("content-type", "application/cloudevents+json")], "{}", 400, "it has no 'specversion'"),
            (vec![("ce-specversion", "1.0")], "", 400, "there is no header 'ce-type'"),
            (vec![ce, ("ce-specversion", "0.3")], "", 400, "'ce-specversion' is '0.3', not 1.0"),
            (vec![ce, ("ce-time", "noon")], "", 400, "'ce-time' is not RFC 3339"),
            (vec![ce, ("ce-subject", "%ff")], "", 400, "the header 'ce-subject' is not UTF-8"),
        ] {
            let (found, error) = request(&headers, body).unwrap_err();
            assert!(found == status && error.contains(told) && !error.contains('\n'), "{found} {error}");
        }
    }
}
