use super::*;
use crate::message::{Headers, header};
use crate::sink::code;

const LIMIT: usize = 1 << 20;

fn headers(list: &[(&str, &str)]) -> Headers {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn raw<'r>(payload: &'static str) -> Raw<'r> {
    Raw { place: "q", destination: "order.created", payload: payload.into(), ..Raw::default() }
}

#[test]
fn what_a_relay_of_ours_sent_is_read_as_it_was_written() {
    let sent = Raw {
        id: Some("7"),
        headers: headers(&[
            ("cloudEvents_id", "7"),
            ("cloudEvents_type", "order.created"),
            ("cloudEvents_time", "2026-01-02T03:04:05.5Z"),
            ("cloudEvents_partitionkey", "order-1"),
            (header::EVENT_ID, "7"),
            (header::CORRELATION_ID, "7"),
            ("region", "eu"),
        ]),
        ..raw("{}")
    };
    let read = sent.read(&Picks::default(), LIMIT);
    assert!(read.defect.is_none(), "{:?}", read.defect);
    let message = read.message;
    assert_eq!((message.id.as_str(), &*message.kind), ("7", "order.created"));
    assert_eq!(message.key.as_deref(), Some("order-1"));
    assert_eq!(message.headers, headers(&[("region", "eu")]));
    assert_eq!(message.occurred_at, "2026-01-02T03:04:05.5Z".parse().unwrap());
}

#[test]
fn the_id_of_a_foreign_message_is_found_where_told() {
    let pick = |text: &str| Picks { id: vec![text.parse().unwrap()], ..Picks::default() };
    let body = r#"{"order": {"id": 42}}"#;
    let read = raw(body).read(&pick("payload.order.id"), LIMIT);
    assert_eq!((read.message.id.as_str(), &*read.message.kind), ("42", "order.created"));
    let with = || Raw { headers: headers(&[("X-Id", "abc")]), ..raw(body) };
    assert_eq!(with().read(&pick("header.X-Id"), LIMIT).message.id.as_str(), "abc");
    let one = raw(body).read(&pick("content"), LIMIT).message.id;
    assert_eq!(one, raw(body).read(&pick("content"), LIMIT).message.id, "the same for every delivery");
    assert_ne!(one, raw("{}").read(&pick("content"), LIMIT).message.id);
    // As it comes out of a retry queue.
    let retried = headers(&[
        (header::RETRY_ORIGIN, "q"),
        (header::RETRY_ATTEMPTS, "2"),
        (header::DESTINATION, "order.created"),
        ("x-first-death-queue", "q.retry.5s"),
    ]);
    let retried = Raw { headers: retried, destination: "q", id: Some(one.as_str()), ..raw(body) };
    let read = retried.read(&pick("content"), LIMIT);
    assert_eq!((&read.message.id, read.message.attempts, &*read.destination), (&one, 2, "order.created"));
    assert_eq!((&*read.message.kind, read.message.headers.len()), ("order.created", 0), "also of a retry");
}

#[test]
fn a_message_in_the_envelope_of_masstransit_is_read() {
    let body = r#"{"messageId": "m-1", "correlationId": "c-1", "messageType": ["urn:message:Shop.Events:ProductCreated"],
        "message": {"sku": 7}}"#;
    let read = raw(body).read(&Picks::masstransit(), LIMIT);
    assert!(read.defect.is_none(), "{:?}", read.defect);
    assert_eq!((read.message.id.as_str(), &*read.message.kind), ("m-1", "Shop.Events:ProductCreated"));
    assert_eq!(read.message.correlation_id(), "c-1");
    assert_eq!(read.message.payload, body, "the payload stays whole");
}

#[test]
fn what_cannot_be_handled_is_told_and_is_still_a_message() {
    let cases = [
        (raw("{}"), Picks::default(), code::NO_ID, "x-event-id"),
        (Raw { id: Some("1"), ..raw("{}") }, Picks::masstransit(), "", ""),
        (raw(""), Picks::masstransit(), code::UNFIT, "empty"),
        (raw("{"), Picks::masstransit(), code::UNFIT, "no JSON"),
        (
            Raw { odd: vec![header::EVENT_ID.to_owned()], ..raw("{}") },
            Picks::default(),
            code::BAD_HEADER,
            "'x-event-id'",
        ),
        (
            Raw { id: Some("1"), odd: vec![header::RETRY_ATTEMPTS.to_owned()], ..raw("{}") },
            Picks::default(),
            code::BAD_HEADER,
            "'x-retry-attempts'",
        ),
        (
            Raw {
                id: Some("1"),
                headers: headers(&[(header::RETRY_ORIGIN, "q"), (header::RETRY_ATTEMPTS, "many")]),
                ..raw("{}")
            },
            Picks::default(),
            code::BAD_HEADER,
            "'x-retry-attempts'",
        ),
    ];
    for (raw, picks, code, words) in cases {
        let read = raw.read(&picks, LIMIT);
        assert!(!read.message.id.as_str().is_empty());
        match read.defect {
            None => assert_eq!(code, ""),
            Some(cause) => assert!(cause.code == code && cause.detail.contains(words), "{cause}"),
        }
    }
    let large = Raw { id: Some("1"), ..raw("12345") }.read(&Picks::default(), 4);
    assert_eq!(large.defect.map(|cause| cause.code.into_owned()).as_deref(), Some(code::TOO_LARGE));
}

#[test]
fn a_place_is_written_as_it_is_read() {
    for text in ["property", "cloudevent", "destination", "content", "header.X-Id", "payload.a.0.b"] {
        assert_eq!(text.parse::<Pick>().unwrap().to_string(), text);
    }
    for wrong in ["", "header.", "payload.", "payload.a..b", "body"] {
        assert_eq!(wrong.parse::<Pick>().unwrap_err().kind(), ErrorKind::Config, "{wrong}");
    }
}

#[test]
fn two_messages_that_nobody_can_handle_are_not_taken_for_one() {
    let read = |raw: Raw<'_>| raw.read(&Picks::default(), 1_000);
    let odd = || vec![header::EVENT_ID.to_owned()];
    let named = read(Raw { id: Some("1"), odd: odd(), ..raw("{}") });
    assert_eq!((named.message.id.as_str(), &*named.defect.unwrap().code), ("1", code::BAD_HEADER));
    let (unnamed, bare) = (read(Raw { odd: odd(), ..raw("{}") }), read(raw("{}")));
    assert_eq!(
        (&*unnamed.defect.unwrap().code, &*bare.defect.unwrap().code),
        (code::BAD_HEADER, code::NO_ID)
    );
    assert_ne!(unnamed.message.id, bare.message.id, "one has a header that the other has not");
}
