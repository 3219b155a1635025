//! Messages of RabbitMQ with headers of any type: they can always be read, and a retry queue changes nothing of them. What
//! we send ourselves, we read as it was.

use lapin::BasicProperties;
use lapin::types::ShortString;
use lapin::types::parsing::parse_field_table;
use outbox::broker::Picks;
use outbox::rabbitmq::fuzz::{carried, retried};

use crate::input::Input;
use crate::kafka::{is_carried, is_unchanged};

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
    let (key, id, kind, payload) =
        (input.text(), input.text(), input.text(), input.part().unwrap_or_default());
    let mut properties = BasicProperties::default();
    if let Ok(id) = ShortString::try_new(id.as_str()) {
        properties = properties.with_message_id(id);
    }
    if let Ok(kind) = ShortString::try_new(kind.as_str()) {
        properties = properties.with_type(kind);
    }
    // As it stands on the wire: four bytes of length, then names and typed values.
    let table = input.rest();
    let wire = [&u32::try_from(table.len()).unwrap_or(u32::MAX).to_be_bytes()[..], table].concat();
    if let Ok((_, table)) = parse_field_table(&wire[..]) {
        properties = properties.with_headers(table);
    }
    let picks = if first & 2 == 0 { Picks::default() } else { Picks::masstransit() };
    let attempts = u32::from(first >> 2);
    if let Some(seen) = retried(&key, properties, payload, &picks, attempts) {
        is_unchanged(seen, attempts);
    }
}
