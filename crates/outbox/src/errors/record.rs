//! A message that arrived from an error queue, as a record. Pure.

use jiff::{Timestamp, Unit};
use uuid::Uuid;

use super::{ErrorRecord, Resolution};
use crate::broker::{Died, is_of_death};
use crate::message::{Message, header};
use crate::sink::Cause;

/// Where a message came from that does not say so.
const UNKNOWN: &str = "unknown";

/// Long, and of use to nobody in a table.
const STACK: &str = "MT-Fault-StackTrace";

impl ErrorRecord {
    /// The record of a message from an error queue; `now` is when it came.
    ///
    /// What outboxd says of a dead letter (`x-error-…`) counts first, then what MassTransit and RabbitMQ say, then what is
    /// wrong with the message itself. Of a message that says nothing the origin is `unknown` and the code `UNKNOWN`.
    pub fn of(message: &Message, now: Timestamp) -> Self {
        let Died { origin, cause, attempts, first_at, at } = Died::read(&message.headers);
        let last_seen = at.unwrap_or(now);
        let first_seen = first_at.unwrap_or(last_seen).min(last_seen);
        let retried_at =
            || message.headers.get(header::RETRY_ORIGIN).filter(|name| !name.is_empty()).cloned();
        let mut headers = message.headers.clone();
        headers.remove(STACK);
        Self {
            id: Uuid::now_v7().hyphenated().to_string(),
            message_id: message.id.clone(),
            kind: message.kind.clone(),
            key: message.key.clone(),
            origin: origin
                .filter(|origin| !origin.is_empty())
                .or_else(retried_at)
                .unwrap_or_else(|| UNKNOWN.to_owned()),
            cause: cause
                .or_else(|| defect(message))
                .unwrap_or_else(|| Cause::new("UNKNOWN", "the message does not say why it is here")),
            attempts: if attempts == 0 { message.attempts } else { attempts },
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

    /// The message as it is sent back to where it failed: with the payload as it is now, without what tells of its
    /// failure, and with who sends it and when.
    pub fn returned(&self, by: &str, now: Timestamp) -> Message {
        let mut message = Message::new(&self.kind, self.payload.clone()).id(self.message_id.clone());
        message.key.clone_from(&self.key);
        if !self.content_type.is_empty() {
            message.content_type.clone_from(&self.content_type);
        }
        message.headers = self.headers.clone();
        message.headers.retain(|name, _| !is_of_death(name));
        message.header(header::RETURNED_BY, by).header(header::RETURNED_AT, now.to_string())
    }
}

/// What its source found wrong with the message.
fn defect(message: &Message) -> Option<Cause> {
    let (code, detail) = message.headers.get(header::ERROR_DEFECT)?.split_once(": ")?;
    Some(Cause::new(code.to_owned(), detail))
}

/// To what every store keeps, so that one failure is of one moment whenever it is written.
pub(super) fn rounded(time: Timestamp) -> Timestamp {
    let whole = jiff::TimestampRound::new().smallest(Unit::Millisecond).mode(jiff::RoundMode::Trunc);
    time.round(whole).unwrap_or(time)
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
            format!("orders EXPIRED 'the queue 'orders' gave it up: expired' 0 {epoch} {epoch}")
        );
        let defective = [(header::ERROR_DEFECT, "NO_ID: it has none: nowhere")];
        assert_eq!(told(&defective), format!("unknown NO_ID 'it has none: nowhere' 0 {epoch} {epoch}"));
        let dead = [defective[0], (header::ERROR_CODE, "BAD_HEADER"), (header::ERROR_TEXT, "an odd one")];
        assert_eq!(told(&dead), format!("unknown BAD_HEADER 'an odd one' 0 {epoch} {epoch}"));
        let nobody = format!("unknown UNKNOWN 'the message does not say why it is here' 0 {epoch} {epoch}");
        assert_eq!(told(&[]), nobody);
        let odd =
            [(header::ERROR_ATTEMPTS, "many"), (header::ERROR_AT, "yesterday"), (header::ERROR_ORIGIN, "")];
        assert_eq!(told(&odd), nobody);
    }

    #[test]
    fn e7_what_goes_back_says_who_sends_it_and_nothing_of_its_failure() {
        let message = Message::new("a", "x").key("k").header("team", "b").header(header::ERROR_CODE, "X");
        let mut record = ErrorRecord::of(&message, Timestamp::UNIX_EPOCH);
        record.payload = "edited".into();
        let back = record.returned("ann", Timestamp::UNIX_EPOCH);
        assert_eq!((&back.id, &back.kind, &back.key), (&message.id, &message.kind, &message.key));
        assert_eq!(back.payload, "edited");
        let names: Vec<&str> = back.headers.keys().map(String::as_str).collect();
        assert_eq!(names, ["team", header::RETURNED_AT, header::RETURNED_BY]);
    }
}
