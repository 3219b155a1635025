//! A message as Kafka carries it: topic and headers. Key and value are the message's own.

use rdkafka::message::{Header, OwnedHeaders};

use super::config::{TopicConfig, check_topic_name};
use crate::cloudevents;
use crate::message::{Message, header};
use crate::sink::{Cause, Outcome, code};

/// The prefix of CloudEvents attributes among the headers of a record.
const CLOUD_EVENTS: &str = "ce_";

/// Where the CloudEvents binding to Kafka has the content type.
const CONTENT_TYPE: &str = "content-type";

/// Everything about a message but its key and its value.
///
/// The time of a message travels as `ce_time` and not as the time of the record: by the latter Kafka removes old
/// records, and what waited long in an outbox, or was replayed, would be gone before anybody has read it.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) topic: String,
    pub(super) headers: OwnedHeaders,
}

impl Envelope {
    /// The envelope of a message, or why the message cannot have one.
    pub(super) fn new(message: &Message, config: &TopicConfig) -> Result<Self, Outcome> {
        if message.payload.len() > config.max_message {
            let (size, limit) = (message.payload.len(), config.max_message);
            let detail = format!("the payload is {size} bytes, the limit is {limit}");
            return Err(Outcome::defect(Cause::new(code::TOO_LARGE, detail)));
        }
        let topic = config.topic.render(message).map_err(|error| unfit(error.chain()))?;
        if let Err(rule) = check_topic_name(&topic) {
            let shown: String = topic.chars().take(80).collect();
            return Err(unfit(format!("'{shown}' is no name of a topic: it {rule}")));
        }
        Ok(Self { topic: topic.into_owned(), headers: headers(message, config)? })
    }
}

fn headers(message: &Message, config: &TopicConfig) -> Result<OwnedHeaders, Outcome> {
    // Kafka would keep two headers of one name, and consumers differ in which of them they see.
    let is_ours = |name: &str| {
        [CONTENT_TYPE, header::EVENT_ID, header::CORRELATION_ID].contains(&name)
            || name.starts_with(CLOUD_EVENTS)
            || config.headers.iter().any(|(ours, _)| ours == name)
    };
    let mut headers = OwnedHeaders::new_with_capacity(message.headers.len() + config.headers.len() + 12);
    for (name, value) in message.headers.iter().filter(|(name, _)| !is_ours(name)) {
        if name.contains('\0') {
            return Err(unfit(format!("the name of the header '{}' has a zero byte", name.escape_default())));
        }
        headers = headers.insert(Header { key: name, value: Some(value) });
    }
    for (name, template) in &config.headers {
        let value = template.render(message).map_err(|error| unfit(error.chain()))?;
        headers = headers.insert(Header { key: name, value: Some(&*value) });
    }
    let ours = [
        (CONTENT_TYPE, message.content_type.as_str()),
        (header::EVENT_ID, message.id.as_str()),
        (header::CORRELATION_ID, message.correlation_id()),
    ];
    // A header of the configuration may take the place of one of ours.
    for (name, value) in ours {
        if !config.headers.iter().any(|(theirs, _)| theirs == name) {
            headers = headers.insert(Header { key: name, value: Some(value) });
        }
    }
    for (name, value) in cloudevents::binary(message, &config.source, CLOUD_EVENTS) {
        if !config.headers.iter().any(|(theirs, _)| *theirs == name) {
            headers = headers.insert(Header { key: &name, value: Some(&*value) });
        }
    }
    Ok(headers)
}

fn unfit(why: String) -> Outcome {
    Outcome::defect(Cause::new(code::UNFIT, why))
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Headers as _;

    use super::*;
    use crate::template::Template;

    fn config(topic: &str) -> TopicConfig {
        TopicConfig::new(Template::parse(topic).unwrap())
    }

    fn refusal(message: &Message, config: &TopicConfig) -> Cause {
        match Envelope::new(message, config) {
            Err(Outcome::Rejected(rejection)) if rejection.permanent => rejection.cause,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_kafka_cannot_carry_is_refused_before_it_is_sent() {
        let mut small = config("a");
        small.max_message = 4;
        assert!(Envelope::new(&Message::new("a", "1234"), &small).is_ok());
        assert_eq!(refusal(&Message::new("a", "12345"), &small).code, code::TOO_LARGE);
        assert_eq!(refusal(&Message::new("a", "").header("h\0", ""), &config("a")).code, code::UNFIT);
        let cause = refusal(&Message::new("order created", ""), &config("{type}"));
        assert!(cause.code == code::UNFIT && cause.detail.contains("'order created'"), "{cause}");
        let cause = refusal(&Message::new("a", ""), &config("{key}"));
        assert!(cause.code == code::UNFIT && cause.detail.contains("has no key"), "{cause}");
    }

    #[test]
    fn every_header_is_there_once() {
        let mut config = config("a");
        config.headers.push(("Type".into(), Template::parse("{type}").unwrap()));
        config.headers.push(("content-type".into(), Template::parse("text/x").unwrap()));
        let message =
            Message::new("t", "").header("Type", "theirs").header("ce_id", "theirs").header("x", "y");
        let envelope = Envelope::new(&message, &config).unwrap();
        let value = |name: &str| {
            let all: Vec<_> = envelope.headers.iter().filter(|header| header.key == name).collect();
            assert_eq!(all.len(), 1, "{name}");
            String::from_utf8(all[0].value.unwrap().to_vec()).unwrap()
        };
        assert_eq!([value("Type"), value("content-type"), value("x")], ["t", "text/x", "y"]);
        assert_eq!(value("ce_id"), message.id.as_str());
    }
}
