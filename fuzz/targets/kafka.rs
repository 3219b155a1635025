//! Records of Kafka with any bytes as headers: they can always be read, and a retry topic changes nothing of them. What we
//! send ourselves, we read as it was.

use outbox::broker::Picks;
use outbox::kafka::fuzz::{Pair, Seen, carried, retried};
use outbox::{Message, header};

use crate::input::Input;

pub fn target(data: &[u8]) {
    let Some((first, data)) = data.split_first() else { return };
    if first & 1 == 0 {
        let message = Input::new(data).message();
        if let Ok(seen) = carried(&message) {
            is_carried(&message, seen);
        }
        return;
    }
    let mut input = Input::new(data);
    let (key, payload) = (input.part(), input.part());
    let mut pairs: Vec<Pair> = Vec::new();
    while let Some(name) = input.part() {
        // The client hands names over as C strings.
        let name = String::from_utf8_lossy(name).replace('\0', "");
        pairs.push((name, input.part().map(<[u8]>::to_vec)));
    }
    let picks = if first & 2 == 0 { Picks::default() } else { Picks::masstransit() };
    let attempts = u32::from(first >> 2);
    is_unchanged(retried(key, payload, &pairs, &picks, attempts), attempts);
}

/// A retry queue or topic had it: it is still the same message, with its attempts.
pub fn is_unchanged([once, twice]: [Seen; 2], attempts: u32) {
    let ((was, sent_to, defect), (is, still_to, same_defect)) = (once, twice);
    // What nobody can handle is dead, and waits for nothing.
    if defect.is_some() {
        return;
    }
    assert_eq!(same_defect, None);
    assert_eq!(is.attempts, attempts);
    assert_eq!((is.id, is.kind, is.key), (was.id, was.kind, was.key));
    assert_eq!((is.payload, is.content_type), (was.payload, was.content_type));
    assert_eq!(still_to, sent_to);
}

/// Our own consumer reads what our own relay sent.
pub fn is_carried(sent: &Message, (read, _, defect): Seen) {
    // What has no id or type is told by the limits; this prefix is MassTransit's, and is taken off.
    if sent.id.as_str().is_empty() || sent.kind.is_empty() || sent.kind.starts_with("urn:message:") {
        return;
    }
    // A message that carries the tracks of a move is read as one that was moved.
    let is_ours = |name: &str| {
        ["x-retry-", "ce_", "cloudEvents_", "cloudEvents:"].iter().any(|ours| name.starts_with(ours))
            || [header::DESTINATION, header::FIRST_TIME, header::EVENT_ID, "content-type"].contains(&name)
            || name.starts_with("x-death")
    };
    if sent.headers.keys().any(|name| is_ours(name)) {
        return;
    }
    assert_eq!(defect, None);
    assert_eq!((&read.id, &read.kind, &read.key), (&sent.id, &sent.kind, &sent.key));
    assert_eq!((&read.payload, &read.content_type), (&sent.payload, &sent.content_type));
    assert_eq!(read.occurred_at, sent.occurred_at);
    let correlation = |message: &Message| message.correlation_id().to_owned();
    assert_eq!(correlation(&read), correlation(sent));
}
