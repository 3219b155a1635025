//! A message that arrived from an error queue, as a record. Pure.

use jiff::{Timestamp, Unit};
use uuid::Uuid;

use super::{ErrorRecord, Resolution};
use crate::message::{Headers, Message, header};
use crate::sink::Cause;

/// Where a message came from that does not say so.
const UNKNOWN: &str = "unknown";

/// Headers of others. MassTransit's begin with MT.
mod foreign {
    pub(super) const TEXT: &str = "MT-Fault-Message";
    pub(super) const EXCEPTION: &str = "MT-Fault-ExceptionType";
    pub(super) const INPUT: &str = "MT-Fault-InputAddress";
    pub(super) const TIME: &str = "MT-Fault-Timestamp";
    pub(super) const RETRIES: &str = "MT-Fault-RetryCount";
    pub(super) const REASON: &str = "MT-Reason";
    /// Long, and of use to nobody in a table.
    pub(super) const STACK: &str = "MT-Fault-StackTrace";
    pub(super) const DEATH_QUEUE: &str = "x-first-death-queue";
    pub(super) const DEATH_REASON: &str = "x-first-death-reason";
}

impl ErrorRecord {
    /// The record of a message from an error queue; `now` is when it came.
    ///
    /// What outboxd says of a dead letter (`x-error-…`) counts first, then what MassTransit and RabbitMQ say. Of a
    /// message that says nothing the origin is `unknown` and the code `UNKNOWN`.
    pub fn of(message: &Message, now: Timestamp) -> Self {
        let get = |name: &str| {
            message.headers.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
        };
        let time = |name: &str| get(name).and_then(|value| value.parse::<Timestamp>().ok());
        let number = |name: &str| get(name).and_then(|value| value.parse::<u32>().ok());
        let last_seen = time(header::ERROR_AT).or_else(|| time(foreign::TIME)).unwrap_or(now);
        let first_seen = time(header::ERROR_FIRST_AT).unwrap_or(last_seen).min(last_seen);
        let attempts = number(header::ERROR_ATTEMPTS)
            .or_else(|| number(foreign::RETRIES).map(|retries| retries.saturating_add(1)))
            .unwrap_or(message.attempts);
        let mut headers = message.headers.clone();
        headers.remove(foreign::STACK);
        Self {
            id: Uuid::now_v7().hyphenated().to_string(),
            message_id: message.id.clone(),
            kind: message.kind.clone(),
            key: message.key.clone(),
            origin: origin(&message.headers),
            cause: cause(&message.headers),
            attempts,
            payload: message.payload.clone(),
            original_payload: None,
            content_type: message.content_type.clone(),
            headers,
            first_seen: rounded(first_seen),
            last_seen: rounded(last_seen),
            resolution: Resolution::Open,
            resolved_by: None,
            resolved_at: None,
            note: None,
        }
    }
}

/// To what every store keeps, so that one failure is of one moment whenever it is written.
pub(super) fn rounded(time: Timestamp) -> Timestamp {
    let whole = jiff::TimestampRound::new().smallest(Unit::Millisecond).mode(jiff::RoundMode::Trunc);
    time.round(whole).unwrap_or(time)
}

fn origin(headers: &Headers) -> String {
    let get = |name: &str| headers.get(name).map(String::as_str).filter(|value| !value.is_empty());
    // rabbitmq://host/vhost/queue?options
    let queue = |address: &'_ str| {
        let path = address.split('?').next().unwrap_or(address);
        path.rsplit('/').next().filter(|queue| !queue.is_empty()).map(str::to_owned)
    };
    let ours = get(header::ERROR_ORIGIN).or_else(|| get(header::RETRY_ORIGIN)).map(str::to_owned);
    ours.or_else(|| get(foreign::INPUT).and_then(queue))
        .or_else(|| get(foreign::DEATH_QUEUE).map(str::to_owned))
        .unwrap_or_else(|| UNKNOWN.to_owned())
}

fn cause(headers: &Headers) -> Cause {
    let get = |name: &str| headers.get(name).map(String::as_str).filter(|value| !value.is_empty());
    let own = |text: &str| text.to_owned();
    if let Some(code) = get(header::ERROR_CODE) {
        return Cause::new(own(code), get(header::ERROR_TEXT).unwrap_or(""));
    }
    if let Some(text) = get(header::ERROR_TEXT) {
        return Cause::new("UNKNOWN", text);
    }
    match (get(foreign::EXCEPTION), get(foreign::TEXT), get(foreign::REASON), get(foreign::DEATH_REASON)) {
        (Some(exception), text, ..) => Cause::new(own(exception), text.unwrap_or("")),
        (None, Some(text), reason, _) => Cause::new(reason.map_or("UNKNOWN".to_owned(), own), text),
        (None, None, Some(reason), _) => Cause::new(own(reason), "MassTransit gives no more of a reason"),
        (None, None, None, Some(reason)) => {
            Cause::new(reason.to_uppercase(), "the broker has dead-lettered it")
        }
        _ => Cause::new("UNKNOWN", "the message does not say why it is here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(headers: &[(&str, &str)]) -> String {
        let message = headers
            .iter()
            .fold(Message::new("a", "x"), |message, (name, value)| message.header(*name, *value));
        let record = ErrorRecord::of(&message, Timestamp::UNIX_EPOCH);
        assert!(!record.headers.contains_key("MT-Fault-StackTrace"));
        let ErrorRecord { origin, cause, attempts, first_seen, last_seen, .. } = record;
        format!("{origin} {} '{}' {attempts} {first_seen} {last_seen}", cause.code, cause.detail)
    }

    #[test]
    fn what_is_said_of_a_failure_is_found_whoever_says_it() {
        let epoch = "1970-01-01T00:00:00Z";
        let ours = [
            (header::ERROR_ORIGIN, "orders"),
            (header::ERROR_CODE, "HANDLER"),
            (header::ERROR_TEXT, "no stock"),
            (header::ERROR_ATTEMPTS, "3"),
            (header::ERROR_FIRST_AT, "2026-01-01T00:00:00.1239Z"),
            (header::ERROR_AT, "2026-01-01T00:00:10Z"),
            ("MT-Fault-Message", "not this one"),
        ];
        assert_eq!(told(&ours), "orders HANDLER 'no stock' 3 2026-01-01T00:00:00.123Z 2026-01-01T00:00:10Z");
        let theirs = [
            ("MT-Fault-Message", "no stock"),
            ("MT-Fault-ExceptionType", "System.InvalidOperationException"),
            ("MT-Fault-InputAddress", "rabbitmq://localhost/shop/product-created-queue?durable=true"),
            ("MT-Fault-RetryCount", "2"),
            ("MT-Fault-Timestamp", "2026-01-01T00:00:10.0000000Z"),
            ("MT-Fault-StackTrace", "at …"),
            ("MT-Reason", "fault"),
        ];
        let expected = "product-created-queue System.InvalidOperationException 'no stock' 3 2026-01-01T00:00:10Z 2026-01-01T00:00:10Z";
        assert_eq!(told(&theirs), expected);
        let broker = [("x-first-death-queue", "orders"), ("x-first-death-reason", "expired")];
        assert_eq!(
            told(&broker),
            format!("orders EXPIRED 'the broker has dead-lettered it' 0 {epoch} {epoch}")
        );
        let nobody = format!("unknown UNKNOWN 'the message does not say why it is here' 0 {epoch} {epoch}");
        assert_eq!(told(&[]), nobody);
        let odd =
            [(header::ERROR_ATTEMPTS, "many"), (header::ERROR_AT, "yesterday"), (header::ERROR_ORIGIN, "")];
        assert_eq!(told(&odd), nobody);
    }
}
