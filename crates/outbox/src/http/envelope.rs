//! The headers of a request: those of the message, those of the configuration, and our own. The body is the payload.

use std::fmt::Write as _;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use super::config::EndpointConfig;
use super::sign::signature;
use crate::cloudevents;
use crate::message::{Message, header};
use crate::sink::{Cause, Outcome, code};
use crate::view::View;

/// The prefix of CloudEvents attributes among the headers of a request.
const CLOUD_EVENTS: &str = "ce-";
const WEBHOOK: &str = "webhook-";

/// By this an endpoint, or a gateway before it, knows a repeat.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// Headers by which a request is framed and routed; a wrong one would break it, or smuggle another one in.
const FRAMING: [&str; 12] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers that only the configuration may set: whoever writes a message does not speak for the relay.
const CONFIGURED: [&str; 4] = ["accept-encoding", "authorization", "cookie", "user-agent"];

pub(super) fn is_framing(name: &str) -> bool {
    FRAMING.iter().any(|framing| framing.eq_ignore_ascii_case(name))
}

/// Whether nobody but us may set a header.
pub(super) fn is_ours_alone(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with(CLOUD_EVENTS) || name.starts_with(WEBHOOK)
}

pub(super) fn check_header_name(name: &str) -> Result<(), String> {
    let legal = HeaderName::from_bytes(name.as_bytes()).is_ok();
    if legal { Ok(()) } else { Err(format!("'{}' is no name of a header", name.escape_default())) }
}

/// The headers of the request for a message, or why there can be none. `now` is in seconds since 1970.
pub(super) fn headers(message: &Message, config: &EndpointConfig, now: i64) -> Result<HeaderMap, Outcome> {
    let mut headers = HeaderMap::new();
    for (name, value) in &message.headers {
        // What HTTP cannot carry stays behind: that is no reason to keep the message from its handler.
        if is_framing(name)
            || is_ours_alone(name)
            || CONFIGURED.iter().any(|ours| ours.eq_ignore_ascii_case(name))
        {
            continue;
        }
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value.as_bytes()))
        {
            headers.insert(name, value);
        }
    }
    let id = encode(message.id.as_str());
    insert(&mut headers, header::EVENT_ID, &plain(message.id.as_str()))?;
    insert(&mut headers, header::CORRELATION_ID, &plain(message.correlation_id()))?;
    insert(&mut headers, IDEMPOTENCY_KEY, &id)?;
    if message.content_type.is_empty() {
        headers.remove(CONTENT_TYPE);
    } else {
        insert(&mut headers, CONTENT_TYPE.as_str(), &message.content_type)?;
    }
    let view = View::new(message);
    for (name, template) in &config.headers {
        let value = template
            .render_view(&view)
            .map_err(|error| unfit(format!("header '{name}': {}", error.chain())))?;
        insert(&mut headers, name, &value)?;
    }
    for (name, value) in cloudevents::binary(message, &config.source, CLOUD_EVENTS) {
        insert(&mut headers, &name, &encode(&value))?;
    }
    if !config.secrets.is_empty() {
        insert(&mut headers, "webhook-signature", &signature(&config.secrets, &id, now, &message.payload))?;
        insert(&mut headers, "webhook-timestamp", &now.to_string())?;
        insert(&mut headers, "webhook-id", &id)?;
    }
    Ok(headers)
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Outcome> {
    let illegal =
        || unfit(format!("the header '{}' has a character that HTTP cannot carry", name.escape_default()));
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| illegal())?;
    let mut value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| illegal())?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

/// The text as it is, if HTTP can carry it.
fn plain(text: &str) -> String {
    if HeaderValue::from_bytes(text.as_bytes()).is_ok() { text.to_owned() } else { encode(text) }
}

/// As CloudEvents has its attributes in HTTP: printable ASCII, without space, quotes and percent signs.
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'"' | b'%' => drop(write!(encoded, "%{byte:02X}")),
            b'!'..=b'~' => encoded.push(char::from(byte)),
            _ => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}

fn unfit(why: String) -> Outcome {
    Outcome::defect(Cause::new(code::UNFIT, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Secret;
    use crate::template::Template;

    fn config() -> EndpointConfig {
        EndpointConfig::new("https://shop.example")
    }

    fn value(headers: &HeaderMap, name: &str) -> Option<String> {
        headers.get(name).map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap())
    }

    #[test]
    fn d9_a_message_cannot_break_a_request_nor_speak_for_the_relay() {
        let mut message =
            Message::new("a", "").header("X-Tenant", "Ünï").header("b c", "").header("x-nl", "a\nb");
        let names =
            FRAMING.iter().chain(&CONFIGURED).chain(&["Host", "webhook-signature", "ce-id", "Cookie"]);
        for name in names {
            message = message.header(*name, "theirs");
        }
        message = message.header("content-type", "theirs").header("Idempotency-Key", "theirs");
        let headers = headers(&message, &config(), 0).unwrap();
        assert!(headers.values().all(|value| value.as_bytes() != b"theirs"), "{headers:?}");
        assert_eq!(value(&headers, "x-tenant").as_deref(), Some("Ünï"));
        assert!(!headers.contains_key("x-nl"));
        assert_eq!(value(&headers, "idempotency-key").as_deref(), Some(message.id.as_str()));
    }

    #[test]
    fn d9_an_id_that_no_header_can_hold_is_encoded() {
        let mut config = config();
        config.secrets = vec![Secret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()];
        let message = Message::new("a", "").id("1 \"%\nü").key("Euro € 😀");
        let headers = headers(&message, &config, 5).unwrap();
        for name in ["ce-id", "idempotency-key", "webhook-id", "x-event-id", "x-correlation-id"] {
            assert_eq!(value(&headers, name).as_deref(), Some("1%20%22%25%0A%C3%BC"), "{name}");
        }
        // The example of the CloudEvents binding.
        assert_eq!(value(&headers, "ce-partitionkey").as_deref(), Some("Euro%20%E2%82%AC%20%F0%9F%98%80"));
        assert_eq!(value(&headers, "webhook-timestamp").as_deref(), Some("5"));
    }

    #[test]
    fn what_a_configured_header_lacks_is_told_without_the_rest_of_it() {
        let mut config = config();
        config.headers = vec![("authorization".into(), Template::parse("Bearer canary {key}").unwrap())];
        let outcome = headers(&Message::new("a", ""), &config, 0).unwrap_err();
        let Outcome::Rejected(rejection) = &outcome else { panic!("{outcome:?}") };
        assert!(rejection.permanent && rejection.cause.code == code::UNFIT);
        assert!(
            rejection.cause.detail.contains("header 'authorization': the message has no key"),
            "{outcome:?}"
        );
        assert!(!rejection.cause.detail.contains("canary"));
        let ours = headers(&Message::new("a", "").key("k"), &config, 0).unwrap();
        assert_eq!(value(&ours, "authorization").as_deref(), Some("Bearer canary k"));
        assert!(!format!("{ours:?}").contains("canary"));
        assert!(headers(&Message::new("a", "").key("k\nx"), &config, 0).is_err());
        assert!(headers(&Message::new("a", "").content_type("a\nb"), &self::config(), 0).is_err());
    }
}
