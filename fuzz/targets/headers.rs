//! Headers of HTTP: what we post is what we read when it is posted to us, and what anybody posts is a message or refused.

use outbox::Outcome;
use outbox::http::fuzz::headers;
use outboxd::fuzz::request;

use crate::input::Input;

pub fn target(data: &[u8]) {
    let message = Input::new(data).message();
    match headers(&message, Vec::new(), 5) {
        Ok(headers) => {
            for framing in ["host", "content-length", "transfer-encoding", "connection", "authorization"] {
                assert!(!headers.contains_key(framing), "a message must not set '{framing}'");
            }
            if message.kind.is_empty() || message.id.as_str().is_empty() {
                return;
            }
            let read = request(&headers, &message.payload);
            // In the structured form the body is the event itself, which this one is not.
            let is_event =
                message.content_type.trim().to_ascii_lowercase().starts_with("application/cloudevents+json");
            if is_event {
                return;
            }
            let read = read.unwrap_or_else(|refusal| panic!("{message:?} is refused: {refusal}"));
            assert_eq!((&read.id, &read.kind, &read.key), (&message.id, &message.kind, &message.key));
            assert_eq!((&read.payload, read.occurred_at), (&message.payload, message.occurred_at));
        }
        Err(Outcome::Rejected(rejection)) => assert!(rejection.permanent && rejection.defect),
        Err(other) => panic!("{other:?}"),
    }
}
