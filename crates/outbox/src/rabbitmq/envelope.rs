//! A message as AMQP 0-9-1 carries it: routing key, properties and headers. The body is the payload itself.

use std::borrow::Cow;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};

use super::config::{ExchangeConfig, SHORT};
use crate::cloudevents;
use crate::message::{Message, header};
use crate::sink::{Cause, Outcome, code};

/// Headers by which RabbitMQ routes; it closes the channel on one that is not a list of keys.
pub(super) const RESERVED: [&str; 2] = ["CC", "BCC"];

/// The prefix of CloudEvents attributes among AMQP headers.
const CLOUD_EVENTS: &str = "cloudEvents_";

/// Written to disk before it is confirmed.
const PERSISTENT: u8 = 2;

/// What the properties take besides their texts; more than that.
const OVERHEAD: usize = 64;

/// Everything about a message but its body.
#[derive(Debug, Clone)]
pub(super) struct Envelope {
    pub(super) routing_key: ShortString,
    pub(super) properties: BasicProperties,
    /// About how many bytes the properties take; they must fit in one frame.
    pub(super) weight: usize,
}

impl Envelope {
    /// The envelope of a message, or why the message cannot have one.
    pub(super) fn new(message: &Message, config: &ExchangeConfig) -> Result<Self, Outcome> {
        if message.payload.len() > config.max_message {
            let (size, limit) = (message.payload.len(), config.max_message);
            let detail = format!("the payload is {size} bytes, the limit is {limit}");
            return Err(Outcome::defect(Cause::new(code::TOO_LARGE, detail)));
        }
        let key = config.routing_key.render(message).map_err(|error| unfit(error.chain()))?;
        let routing_key = short("routing key", key)?;
        let id = short("id", message.id.as_str())?;
        let kind = short("type", &message.kind)?;
        let content_type = short("content type", &message.content_type)?;
        let (headers, mut weight) = headers(message, config)?;
        weight += OVERHEAD + id.as_str().len() + kind.as_str().len() + content_type.as_str().len();
        let mut properties = BasicProperties::default()
            .with_message_id(id)
            .with_type(kind)
            .with_content_type(content_type)
            .with_delivery_mode(PERSISTENT)
            .with_app_id("outboxd".into())
            .with_headers(headers);
        // These two are also among the headers, complete; the properties are for those who look only there.
        if let Ok(correlation) = ShortString::try_new(message.correlation_id()) {
            weight += correlation.as_str().len();
            properties = properties.with_correlation_id(correlation);
        }
        if let Ok(seconds) = u64::try_from(message.occurred_at.as_second()) {
            properties = properties.with_timestamp(seconds);
        }
        Ok(Self { routing_key, properties, weight })
    }
}

fn headers(message: &Message, config: &ExchangeConfig) -> Result<(FieldTable, usize), Outcome> {
    let mut table = FieldTable::default();
    let mut weight = 0;
    let mut insert = |name: ShortString, value: Cow<'_, str>| {
        weight += name.as_str().len() + value.len() + 6;
        table.insert(name, AMQPValue::LongString(LongString::from(value.into_owned())));
    };
    for (name, value) in &message.headers {
        if RESERVED.contains(&name.as_str()) {
            return Err(unfit(format!("RabbitMQ keeps the header '{name}' for itself")));
        }
        insert(short("name of a header", name)?, value.into());
    }
    for (name, template) in &config.headers {
        let value = template.render(message).map_err(|error| unfit(error.chain()))?;
        insert(short("name of a header", name)?, value);
    }
    for (name, value) in cloudevents::binary(message, &config.source, CLOUD_EVENTS) {
        insert(short("name of a header", name)?, value);
    }
    insert(header::EVENT_ID.into(), message.id.as_str().into());
    insert(header::CORRELATION_ID.into(), message.correlation_id().into());
    Ok((table, weight))
}

fn short(what: &str, text: impl Into<String>) -> Result<ShortString, Outcome> {
    let text = text.into();
    let length = text.len();
    ShortString::try_new(text)
        .map_err(|_| unfit(format!("the {what} is {length} bytes, RabbitMQ takes no more than {SHORT}")))
}

fn unfit(why: String) -> Outcome {
    Outcome::defect(Cause::new(code::UNFIT, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Template;

    fn refusal(message: &Message, config: &ExchangeConfig) -> Cause {
        match Envelope::new(message, config) {
            Err(Outcome::Rejected(rejection)) if rejection.permanent => rejection.cause,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_amqp_cannot_carry_is_refused_before_it_is_sent() {
        let mut config = ExchangeConfig::new("x");
        config.max_message = 4;
        assert!(Envelope::new(&Message::new("a".repeat(255), "1234"), &config).is_ok());
        assert_eq!(refusal(&Message::new("a", "12345"), &config).code, code::TOO_LARGE);
        for message in [
            Message::new("a".repeat(256), ""),
            Message::new("a", "").id("i".repeat(256)),
            Message::new("a", "").content_type("c".repeat(256)),
            Message::new("a", "").header("h".repeat(256), ""),
            Message::new("a", "").header("CC", "x"),
        ] {
            assert_eq!(refusal(&message, &config).code, code::UNFIT);
        }
        assert!(Envelope::new(&Message::new("a", "").correlation("c".repeat(300)), &config).is_ok());
        config.routing_key = Template::parse("{key}").unwrap();
        let cause = refusal(&Message::new("a", ""), &config);
        assert!(cause.code == code::UNFIT && cause.detail.contains("has no key"), "{cause}");
    }
}
