//! What is written on a dead letter: where it died, why, when and after how many attempts. By us, by MassTransit, or by
//! RabbitMQ itself when a queue gave a message up.

use jiff::Timestamp;

use crate::message::{Headers, header};
use crate::sink::Cause;

/// Prefixes of the headers that tell of a death or of a retry before it, and have no meaning for whoever handles the
/// message again.
const TELLING: [&str; 6] =
    ["x-retry-", "x-error-", "x-death", "x-first-death-", "x-last-death-", "MT-Fault-"];

/// What MassTransit says when it moves a message that it had no consumer for.
const MT_REASON: &str = "MT-Reason";

/// The code of a cause that has none.
const UNKNOWN: &str = "UNKNOWN";

/// What is known of the death of a message; nothing of it need be there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Died {
    /// The queue or topic where it died.
    pub origin: Option<String>,
    /// Why.
    pub cause: Option<Cause>,
    /// Attempts that were spent on it; 0 if nobody counted.
    pub attempts: u32,
    /// When it first failed.
    pub first_at: Option<Timestamp>,
    /// When it was given up.
    pub at: Option<Timestamp>,
}

impl Died {
    /// Reads the headers of a dead letter. Of what several have written, ours counts first, and that of the broker last.
    pub fn read(headers: &Headers) -> Self {
        ours(headers).or(masstransit(headers)).or(rabbitmq(headers))
    }

    /// What this does not know is taken from another.
    #[must_use]
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            origin: self.origin.or(other.origin),
            cause: self.cause.or(other.cause),
            attempts: if self.attempts == 0 { other.attempts } else { self.attempts },
            first_at: self.first_at.or(other.first_at),
            at: self.at.or(other.at),
        }
    }
}

/// Whether a header tells of a death, or of the retries before it.
pub fn is_of_death(name: &str) -> bool {
    name == MT_REASON || TELLING.iter().any(|prefix| name.starts_with(prefix))
}

fn ours(headers: &Headers) -> Died {
    Died {
        origin: text(headers, header::ERROR_ORIGIN).map(str::to_owned),
        cause: caused(text(headers, header::ERROR_CODE), text(headers, header::ERROR_TEXT)),
        attempts: parsed(headers, header::ERROR_ATTEMPTS).unwrap_or(0),
        first_at: parsed(headers, header::ERROR_FIRST_AT),
        at: parsed(headers, header::ERROR_AT),
    }
}

/// The code of a fault is the type of its exception.
fn masstransit(headers: &Headers) -> Died {
    let detail = text(headers, "MT-Fault-Message");
    let fault = text(headers, "MT-Fault-ExceptionType");
    let reason = text(headers, MT_REASON);
    let cause = match (fault, detail, reason) {
        (None, None, Some(reason)) => caused(Some(reason), Some("MassTransit gives no more of a reason")),
        (fault, detail, reason) => caused(fault.or(reason.filter(|_| detail.is_some())), detail),
    };
    let retries = parsed::<u32>(headers, "MT-Fault-RetryCount");
    Died {
        origin: text(headers, "MT-Fault-InputAddress").and_then(queue_of),
        cause,
        attempts: retries.map_or(0, |retries| retries.saturating_add(1)),
        first_at: None,
        at: parsed(headers, "MT-Fault-Timestamp"),
    }
}

/// A queue that gives a message up says which it was and why: rejected, expired, maxlen, delivery_limit.
fn rabbitmq(headers: &Headers) -> Died {
    let queue = text(headers, "x-first-death-queue");
    let cause = text(headers, "x-first-death-reason").map(|reason| {
        let place = queue.map(|queue| format!(" '{queue}'")).unwrap_or_default();
        Cause::new(reason.to_uppercase(), format!("the queue{place} gave it up: {reason}"))
    });
    Died { origin: queue.map(str::to_owned), cause, ..Died::default() }
}

fn caused(code: Option<&str>, detail: Option<&str>) -> Option<Cause> {
    if code.is_none() && detail.is_none() {
        return None;
    }
    Some(Cause::new(code.unwrap_or(UNKNOWN).to_owned(), detail.unwrap_or_default()))
}

/// The name of the queue in the address of an endpoint, as in `rabbitmq://host/vhost/queue?bind=true`.
fn queue_of(address: &str) -> Option<String> {
    let path = address.split(['?', '#']).next().unwrap_or(address);
    path.trim_end_matches('/').rsplit('/').next().filter(|queue| !queue.is_empty()).map(str::to_owned)
}

fn text<'h>(headers: &'h Headers, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
}

fn parsed<T: std::str::FromStr>(headers: &Headers, name: &str) -> Option<T> {
    text(headers, name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &[(&str, &str)]) -> Died {
        Died::read(&list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn e3_what_we_wrote_is_read() {
        let died = read(&[
            (header::ERROR_ORIGIN, "orders"),
            (header::ERROR_CODE, "HTTP_500"),
            (header::ERROR_TEXT, "it said no"),
            (header::ERROR_ATTEMPTS, "4"),
            (header::ERROR_FIRST_AT, "2026-01-02T03:04:05Z"),
            (header::ERROR_AT, "2026-01-02T03:25:05Z"),
            ("x-first-death-queue", "elsewhere"),
        ]);
        assert_eq!((died.origin.as_deref(), died.attempts), (Some("orders"), 4));
        assert_eq!(died.cause, Some(Cause::new("HTTP_500", "it said no")));
        assert_eq!(died.first_at, Some("2026-01-02T03:04:05Z".parse().unwrap()));
        assert_eq!(died.at, Some("2026-01-02T03:25:05Z".parse().unwrap()));
        assert_eq!(read(&[]), Died::default());
        assert_eq!(read(&[(header::ERROR_ATTEMPTS, "many"), (header::ERROR_AT, "soon")]), Died::default());
    }

    #[test]
    fn e3_a_fault_of_masstransit_is_read() {
        let died = read(&[
            ("MT-Fault-Message", "no stock"),
            ("MT-Fault-ExceptionType", "Shop.Stock.StockException"),
            ("MT-Fault-InputAddress", "rabbitmq://broker/shop/product-created-queue?bind=true"),
            ("MT-Fault-Timestamp", "2026-01-02T03:04:05.0000000Z"),
            ("MT-Fault-RetryCount", "3"),
            ("MT-Reason", "fault"),
        ]);
        assert_eq!((died.origin.as_deref(), died.attempts), (Some("product-created-queue"), 4));
        assert_eq!(died.cause, Some(Cause::new("Shop.Stock.StockException", "no stock")));
        assert_eq!(died.at, Some("2026-01-02T03:04:05Z".parse().unwrap()));
        assert_eq!(
            read(&[("MT-Reason", "dead-letter")]).cause,
            Some(Cause::new("dead-letter", "MassTransit gives no more of a reason"))
        );
    }

    #[test]
    fn e3_what_a_queue_of_rabbitmq_gave_up_is_read() {
        assert_eq!(read(&[("MT-Fault-Message", "x")]).cause, Some(Cause::new("UNKNOWN", "x")));
        let died = read(&[("x-first-death-queue", "orders"), ("x-first-death-reason", "delivery_limit")]);
        assert_eq!(died.origin.as_deref(), Some("orders"));
        assert_eq!(died.cause.unwrap().code, "DELIVERY_LIMIT");
    }

    #[test]
    fn headers_of_a_death_are_told_from_others() {
        for name in
            ["x-error-code", "x-retry-due", "x-death", "x-first-death-queue", "MT-Fault-Message", "MT-Reason"]
        {
            assert!(is_of_death(name), "{name}");
        }
        for name in ["x-event-id", "x-returned-by", "MT-Activity-Id", "x-first-destination", "team"] {
            assert!(!is_of_death(name), "{name}");
        }
    }
}
