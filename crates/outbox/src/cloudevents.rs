//! CloudEvents 1.0: the attributes of a message, in the binary and in the structured form.
//!
//! | attribute | comes from |
//! | --- | --- |
//! | `id`, `type`, `time` | the message |
//! | `source` | the configuration of the sink |
//! | `datacontenttype` | the content type (in the binary form the binding's own content type) |
//! | `partitionkey` | the key |
//! | `traceparent`, `tracestate` | the headers of those names |
//! | `correlationid`, `causationid`, `sagaid`, `sagastep` | the headers `x-correlation-id` and so on; structured form only |
//! | `headers` | every other header, as a JSON object written into a string; structured form only |
//!
//! In the binary form the headers of a message travel as the binding's own headers and need no attribute. An
//! extension attribute must be a plain value with a name of lower-case letters and digits, which the name of a
//! header seldom is: hence the one string `headers`, from which [`parse`] restores them all.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Headers, Message, header};

/// The version of the specification that we write.
pub const SPEC_VERSION: &str = "1.0";

/// The media type of the structured form.
pub const STRUCTURED: &str = "application/cloudevents+json";

/// The `source` of messages when the configuration names none.
pub const DEFAULT_SOURCE: &str = "outboxd";

/// Headers that are attributes in both forms.
const TRACE: [(&str, &str); 2] = [(header::TRACEPARENT, "traceparent"), (header::TRACESTATE, "tracestate")];

/// Headers that are attributes in the structured form.
const KNOWN: [(&str, &str); 6] = [
    TRACE[0],
    TRACE[1],
    (header::CORRELATION_ID, "correlationid"),
    (header::CAUSATION_ID, "causationid"),
    (header::SAGA_ID, "sagaid"),
    (header::SAGA_STEP, "sagastep"),
];

/// The attributes of the binary form, without prefix: a binding writes `ce_`, `ce-` or `cloudEvents_` before
/// each and carries the content type, the headers and the payload as its own.
pub fn attributes<'a>(message: &'a Message, source: &'a str) -> Vec<(&'static str, Cow<'a, str>)> {
    let mut attributes = vec![
        ("specversion", Cow::Borrowed(SPEC_VERSION)),
        ("id", Cow::Borrowed(message.id.as_str())),
        ("source", Cow::Borrowed(source)),
        ("type", Cow::Borrowed(message.kind.as_str())),
        ("time", Cow::Owned(message.occurred_at.to_string())),
    ];
    attributes.extend(message.key.as_deref().map(|key| ("partitionkey", Cow::Borrowed(key))));
    attributes.extend(TRACE.iter().filter_map(|(header, attribute)| {
        message.headers.get(*header).map(|value| (*attribute, Cow::Borrowed(value.as_str())))
    }));
    attributes
}

/// The attributes of the binary form with the prefix of a binding.
pub fn binary<'a>(
    message: &'a Message,
    source: &'a str,
    prefix: &'a str,
) -> impl Iterator<Item = (String, Cow<'a, str>)> {
    attributes(message, source).into_iter().map(move |(name, value)| (format!("{prefix}{name}"), value))
}

#[derive(Serialize)]
struct Structured<'a> {
    specversion: &'a str,
    id: &'a str,
    source: &'a str,
    r#type: &'a str,
    time: String,
    datacontenttype: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    partitionkey: Option<&'a str>,
    #[serde(flatten)]
    known: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<String>,
}

/// The message as one CloudEvents JSON object, on one line.
///
/// The payload is never changed: JSON that stands on one line is embedded as it is written, to the last digit
/// (`data`); text is a string (`data`); all else is `data_base64`.
pub fn structured(message: &Message, source: &str) -> Result<String> {
    let unfit = |error: serde_json::Error| {
        Error::new(ErrorKind::Invalid, format!("message {} cannot be written as a CloudEvent", message.id))
            .caused_by(error)
    };
    let known = KNOWN
        .iter()
        .filter_map(|(header, attribute)| Some((*attribute, message.headers.get(*header)?.as_str())))
        .collect();
    let others: BTreeMap<&str, &str> = message
        .headers
        .iter()
        .filter(|(name, _)| KNOWN.iter().all(|(header, _)| header != name))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    let headers = if others.is_empty() { None } else { Some(serde_json::to_string(&others).map_err(unfit)?) };
    let event = Structured {
        specversion: SPEC_VERSION,
        id: message.id.as_str(),
        source,
        r#type: &message.kind,
        time: message.occurred_at.to_string(),
        datacontenttype: &message.content_type,
        partitionkey: message.key.as_deref(),
        known,
        headers,
    };
    let mut text = serde_json::to_string(&event).map_err(unfit)?;
    // The payload is appended as text, so that no serializer can touch it.
    text.pop();
    match body(message) {
        Body::Json(json) => text.extend([",\"data\":", json]),
        Body::Text(words) => {
            text.extend([",\"data\":", serde_json::to_string(words).map_err(unfit)?.as_str()]);
        }
        Body::Bytes => text.extend([",\"data_base64\":\"", BASE64.encode(&message.payload).as_str(), "\""]),
    }
    text.push('}');
    Ok(text)
}

enum Body<'a> {
    Json(&'a str),
    Text(&'a str),
    Bytes,
}

fn body(message: &Message) -> Body<'_> {
    let Ok(text) = std::str::from_utf8(&message.payload) else { return Body::Bytes };
    if is_json(&message.content_type) {
        // A raw value loses the space around it, and a line break would end the line: both go as base64.
        match serde_json::from_str::<&RawValue>(text) {
            Ok(raw) if raw.get().len() == text.len() && !text.contains(['\n', '\r']) => Body::Json(text),
            _ => Body::Bytes,
        }
    } else if media_type(&message.content_type).starts_with("text/") {
        Body::Text(text)
    } else {
        Body::Bytes
    }
}

fn media_type(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether a content type says JSON: `application/json`, `text/json`, or anything `+json`.
pub fn is_json(content_type: &str) -> bool {
    let media = media_type(content_type);
    media == "application/json" || media == "text/json" || media.ends_with("+json")
}

/// The name of the header that an extension attribute becomes: one of ours if it is known, else its own.
pub fn header_of(attribute: &str) -> &str {
    KNOWN.iter().find(|(_, known)| *known == attribute).map_or(attribute, |(header, _)| header)
}

/// A structured event read back: the message, and the `source` that it names.
///
/// Of what [`structured`] wrote it restores the message exactly; extension attributes of somebody else's event
/// become headers.
pub fn parse(event: &[u8]) -> Result<(Message, String)> {
    let mut members: BTreeMap<String, Box<RawValue>> =
        serde_json::from_slice(event).map_err(|error| broken("it is not a JSON object").caused_by(error))?;
    let mut text = |name: &str| -> Result<Option<String>> {
        members.remove(name).map(|value| plain(name, &value)).transpose()
    };
    let mut required = |name: &str| text(name)?.ok_or_else(|| broken(&format!("it has no '{name}'")));
    let version = required("specversion")?;
    if version != SPEC_VERSION {
        return Err(broken(&format!("its version is '{version}', not {SPEC_VERSION}")));
    }
    let (id, kind, source) = (required("id")?, required("type")?, required("source")?);
    let occurred_at = match text("time")? {
        Some(time) => time.parse().map_err(|error| broken("its 'time' is not RFC 3339").caused_by(error))?,
        None => Timestamp::now(),
    };
    let content_type = text("datacontenttype")?.unwrap_or_else(|| "application/json".to_owned());
    let key = text("partitionkey")?;
    let mut headers: Headers = match text("headers")? {
        Some(json) => serde_json::from_str(&json)
            .map_err(|error| broken("its 'headers' are not a JSON object of strings").caused_by(error))?,
        None => Headers::new(),
    };
    let payload = payload(&content_type, members.remove("data"), members.remove("data_base64"))?;
    for (name, value) in &members {
        headers.insert(header_of(name).to_owned(), plain(name, value)?);
    }
    let mut message = Message::known(id, kind, payload, occurred_at).content_type(content_type);
    message.key = key;
    message.headers = headers;
    Ok((message, source))
}

fn payload(
    content_type: &str,
    data: Option<Box<RawValue>>,
    base64: Option<Box<RawValue>>,
) -> Result<Vec<u8>> {
    match (data, base64) {
        (Some(_), Some(_)) => Err(broken("it has both 'data' and 'data_base64'")),
        (None, None) => Ok(Vec::new()),
        (None, Some(base64)) => BASE64
            .decode(plain("data_base64", &base64)?)
            .map_err(|error| broken("its 'data_base64' is not base64").caused_by(error)),
        (Some(data), None) if is_json(content_type) => Ok(data.get().as_bytes().to_vec()),
        (Some(data), None) => Ok(plain("data", &data)?.into_bytes()),
    }
}

/// The value of an attribute as text: a string without its quotes, a number or boolean as written.
fn plain(name: &str, value: &RawValue) -> Result<String> {
    let json = value.get();
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json)
            .map_err(|error| broken(&format!("its '{name}' is not a string")).caused_by(error)),
        Some(b'{' | b'[') => Err(broken(&format!("its '{name}' is not a plain value"))),
        _ => Ok(json.to_owned()),
    }
}

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Invalid, format!("this is not a CloudEvent that can be read: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(message: &Message) -> String {
        let text = structured(message, "shop").unwrap();
        assert!(!text.contains('\n'), "one line: {text}");
        text
    }

    #[test]
    fn json_is_embedded_to_the_last_digit() {
        let payload = r#"{"price": 1.10000000000000000001, "n":12345678901234567890123}"#;
        let message = Message::new("a", payload).content_type("application/vnd.shop+json; charset=utf-8");
        let text = written(&message);
        assert!(text.ends_with(&format!(",\"data\":{payload}}}")), "{text}");
        assert_eq!(parse(text.as_bytes()).unwrap(), (message, "shop".to_owned()));
    }

    #[test]
    fn what_cannot_stand_in_a_line_unchanged_is_base64() {
        for payload in ["{\n}", " 1", "{broken", ""] {
            let message = Message::new("a", payload).content_type("application/json");
            let text = written(&message);
            assert!(text.contains("data_base64"), "{text}");
            assert_eq!(parse(text.as_bytes()).unwrap().0, message);
        }
    }

    #[test]
    fn c7_saga_and_correlation_are_attributes_and_the_rest_is_kept() {
        let message = Message::new("a", "hällo")
            .content_type("text/plain")
            .key("k")
            .saga("s1", "pay")
            .correlation("c")
            .header("X Odd", "1")
            .header(header::TRACEPARENT, "00-1-2-01");
        let text = written(&message);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["sagaid"], "s1");
        assert_eq!(json["sagastep"], "pay");
        assert_eq!(json["correlationid"], "c");
        assert_eq!(json["partitionkey"], "k");
        assert_eq!(json["traceparent"], "00-1-2-01");
        assert_eq!(json["headers"], r#"{"X Odd":"1"}"#);
        assert_eq!(json["data"], "hällo");
        assert_eq!(parse(text.as_bytes()).unwrap().0, message);
    }

    #[test]
    fn the_binary_form_bears_the_prefix_of_its_binding() {
        let message = Message::new("order.created", "").id("1").key("k");
        let names: Vec<String> = binary(&message, "shop", "ce_").map(|(name, _)| name).collect();
        assert_eq!(names, ["ce_specversion", "ce_id", "ce_source", "ce_type", "ce_time", "ce_partitionkey"]);
    }

    #[test]
    fn an_event_of_somebody_else_is_read_and_a_broken_one_is_told() {
        let event = br#"{"specversion":"1.0","id":"1","source":"/s","type":"t","region":"eu","count":3,"data":{"a":[1]}}"#;
        let (message, source) = parse(event).unwrap();
        assert_eq!(
            (source.as_str(), message.kind.as_str(), message.content_type.as_str()),
            ("/s", "t", "application/json")
        );
        assert_eq!(message.headers["region"], "eu");
        assert_eq!(message.headers["count"], "3");
        assert_eq!(message.payload, r#"{"a":[1]}"#);
        for (event, told) in [
            ("[]", "not a JSON object"),
            (r#"{"specversion":"0.3"}"#, "version is '0.3'"),
            (r#"{"specversion":"1.0"}"#, "no 'id'"),
            (r#"{"specversion":"1.0","id":"1","type":"t","source":"s","time":"noon"}"#, "not RFC 3339"),
            (r#"{"specversion":"1.0","id":"1","type":"t","source":"s","data_base64":"!"}"#, "not base64"),
        ] {
            let error = parse(event.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_message_comes_back_as_it_was(
            payload in proptest::collection::vec(any::<u8>(), 0..64),
            text in any::<Option<String>>(),
            content_type in prop_oneof![Just("application/json"), Just("text/plain"), Just("image/png"), Just("")],
            (kind, id, key) in any::<(String, String, Option<String>)>(),
            mut headers in proptest::collection::btree_map(any::<String>(), any::<String>(), 0..4),
            known in proptest::option::of(any::<String>()),
            nanos in -377_705_023_201_000_000_000i128..253_402_207_200_999_999_999,
        ) {
            headers.extend(known.map(|value| (header::SAGA_ID.to_owned(), value)));
            let payload = text.map_or(payload, String::into_bytes);
            let mut message = Message::new(kind, payload)
                .id(id)
                .content_type(content_type)
                .occurred_at(Timestamp::from_nanosecond(nanos).unwrap());
            message.key = key;
            message.headers = headers;
            prop_assert_eq!(parse(written(&message).as_bytes()).unwrap().0, message);
        }
    }
}
