use std::path::Path;

use outbox::{Attempt, Cause, MessageId};

use super::*;

const CONFIG: &str = r#"
[connections]
shop = "sqlite:shop.db"
rabbit = "amqp://localhost"
far = "amqps://far.example.com"
[sources.orders]
on = "shop"
[sinks.events]
on = "rabbit"
exchange = "shop.events"
[sinks.away]
on = "far"
exchange = "shop.events"
[sinks.lines]
file = "out.jsonl"
[pipes.relay]
from = "orders"
to = "events"
[pipes.export]
from = "orders"
to = "away"
[pipes.direct]
from = "orders"
to = "lines"
[sources.work]
on = "rabbit"
queue = "work"
[pipes.handle]
from = "work"
to = "lines"
"#;

fn state(life: &Life) -> &'static str {
    let plan = Plan::parse(Path::new("outboxd.toml"), CONFIG, &|_| None).expect("it is valid").plan;
    life.state(&plan).as_str()
}

fn entry(pipe: &str, stand: Stand, attempts: u32) -> Entry {
    Entry {
        position: 1,
        id: MessageId::from("1"),
        kind: "a".to_owned(),
        key: None,
        occurred_at: Timestamp::UNIX_EPOCH,
        cursor: Some(pipe.to_owned()),
        stand,
        attempts,
        due: None,
        cause: None,
    }
}

fn written(entries: Vec<Entry>) -> Life {
    let written = Written { source: "orders".to_owned(), entries };
    Life { message: Some(Message::new("a", "x")), written: vec![written], ..Life::default() }
}

fn handled(failed: bool) -> Handled {
    let attempt = Attempt { attempt: 1, cause: Cause::new("X", ""), dead: false };
    Handled { consumer: "handle".to_owned(), at: None, failed: failed.then_some(attempt) }
}

#[test]
fn e5_there_is_one_word_for_where_a_message_is() {
    use Stand::{Behind, Dead, Done, Pending, Waiting};
    for (stands, word) in [
        (vec![], "pending"),
        (vec![("relay", Pending, 0)], "pending"),
        (vec![("relay", Behind, 0), ("export", Waiting, 0)], "pending"),
        (vec![("relay", Done, 0), ("export", Pending, 0)], "in process"),
        (vec![("relay", Done, 0), ("export", Waiting, 2)], "retrying"),
        (vec![("relay", Done, 0), ("export", Dead, 2)], "in the error queue"),
        (vec![("relay", Done, 0)], "in process"),
        (vec![("export", Done, 0)], "sent"),
        (vec![("direct", Done, 0)], "processed"),
    ] {
        let life =
            written(stands.iter().map(|(pipe, stand, attempts)| entry(pipe, *stand, *attempts)).collect());
        assert_eq!(state(&life), word, "{stands:?}");
    }
    assert_eq!(state(&Life::default()), "unknown");
}

#[test]
fn e5_what_consumers_say_goes_beyond_what_the_relay_knows() {
    let relayed = || written(vec![entry("relay", Stand::Done, 0)]);
    assert_eq!(state(&Life { handled: vec![handled(true)], ..relayed() }), "in process");
    assert_eq!(state(&Life { handled: vec![handled(true), handled(false)], ..relayed() }), "processed");
    assert_eq!(state(&Life { handled: vec![handled(false)], ..Life::default() }), "processed");
    let waiting = Waiting {
        message: Message::new("a", "x"),
        place: "work.retry.1m".to_owned(),
        attempts: 1,
        cause: None,
        failed_at: None,
        due: None,
    };
    let retrying = Life { retries: vec![waiting], handled: vec![handled(true)], ..relayed() };
    assert_eq!(state(&retrying), "retrying");
    let dead = crate::cli::dlq::Dead::letter(
        "work",
        outbox::letters::Letter::new(Message::new("a", "x"), outbox::broker::Died::default()),
    );
    let letters = vec![("queue 'work.dlq'".to_owned(), dead)];
    assert_eq!(state(&Life { letters, handled: vec![handled(false)], ..relayed() }), "in the error queue");
}

#[test]
fn e5_an_error_counts_until_it_was_sent_back_or_resolved_and_handled() {
    let with = |resolution, handled: Vec<Handled>| {
        let mut record = ErrorRecord::of(&Message::new("a", "x"), Timestamp::UNIX_EPOCH);
        record.resolution = resolution;
        let life = written(vec![entry("relay", Stand::Done, 0)]);
        state(&Life { errors: vec![("errors".to_owned(), record)], handled, ..life })
    };
    let (failed, done) = (|| vec![handled(true)], || vec![handled(true), handled(false)]);
    assert_eq!(with(Resolution::Open, failed()), "processed as error");
    assert_eq!(with(Resolution::Open, done()), "processed as error", "another consumer has handled it");
    assert_eq!(with(Resolution::Returned, failed()), "in process");
    assert_eq!(with(Resolution::Returned, done()), "processed");
    assert_eq!(with(Resolution::Resolved, failed()), "processed as error", "for good");
    assert_eq!(with(Resolution::Resolved, done()), "processed", "a flag does not tell that it was sent back");
}

/// A topic keeps its records, also those that an error table has taken down.
#[test]
fn e5_a_dead_letter_counts_until_an_error_table_has_it() {
    let at = |second: i64| Timestamp::from_second(second).expect("a time");
    let died = |second| outbox::broker::Died {
        origin: Some("orders".to_owned()),
        at: Some(at(second)),
        ..Default::default()
    };
    let letter = |second| {
        let letter = outbox::letters::Letter::new(Message::new("a", "x"), died(second));
        ("topic 'orders.dlq'".to_owned(), crate::cli::dlq::Dead::letter("work", letter))
    };
    let with = |second, origin: &str, resolution| {
        let mut record = ErrorRecord::of(&Message::new("a", "x"), at(10));
        (record.origin, record.resolution) = (origin.to_owned(), resolution);
        let errors = vec![("errors".to_owned(), record)];
        let life = written(vec![entry("relay", Stand::Done, 0)]);
        state(&Life { letters: vec![letter(second)], errors, ..life })
    };
    assert_eq!(with(10, "orders", Resolution::Open), "processed as error");
    assert_eq!(with(10, "orders", Resolution::Returned), "in process");
    assert_eq!(with(10, "unknown", Resolution::Open), "processed as error", "a table without a column of it");
    assert_eq!(with(11, "orders", Resolution::Returned), "in the error queue", "it has died again since");
    assert_eq!(with(10, "bills", Resolution::Open), "in the error queue", "that was elsewhere");
}
