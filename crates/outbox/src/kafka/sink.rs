//! [`Topic`], the sink.

use std::fmt;

use async_trait::async_trait;

use super::brokers::Brokers;
use super::config::TopicConfig;
use super::envelope::Envelope;
use super::error::Whose;
use super::publisher::{Fate, Parcel, Publisher};
use super::settings;
use crate::error::Result;
use crate::message::Message;
use crate::sink::{Outcome, Rejection, Sink};

/// A topic of Kafka, or several: the topic of a message is made by a template.
///
/// Delivered means that every in-sync replica has it (`acks=all`). The producer is idempotent, so that its own repeats
/// leave neither gaps nor duplicates; a repeat by a pipe, after a crash or a time-out, does, and a consumer knows it by
/// its id. The key of a message is that of the record, its headers are those of the record, and its other attributes
/// are there as CloudEvents in the binary form (`ce_id`, `ce_type`, `ce_time`, …, `content-type`).
///
/// | what happens | outcome |
/// | --- | --- |
/// | written to all in-sync replicas | delivered |
/// | the topic does not exist | rejected `NO_TOPIC` |
/// | the user may not write to the topic | rejected `FORBIDDEN` |
/// | the payload is larger than `max_message`, or the record than the broker's limit | refused `TOO_LARGE` |
/// | no topic can be made of it, a header with a zero byte, a record that the broker calls invalid | refused `UNFIT` |
/// | the broker answers something else that is about this record | rejected `REFUSED` |
/// | the login fails, or the user may not use the cluster | unavailable `FORBIDDEN` |
/// | too few replicas, a full disk, a quota | unavailable `REFUSED` |
/// | no connection, or it is lost before the report | unavailable `UNREACHABLE` |
/// | no report in time | unavailable `TIMEOUT` |
///
/// A topic is asked for before the first message goes there, and again after trouble: so one that does not exist is
/// told within a round trip, none is ever made by accident, and nothing is queued for a cluster that is not there.
/// Brokers check a whole request: when one is refused for a message in it, its messages are sent again, each alone.
///
/// The client connects by itself and again after the connection was lost. It logs to `tracing` at debug.
pub struct Topic {
    config: TopicConfig,
    publisher: Publisher,
    /// The cluster, for whoever looks at it.
    place: String,
}

impl Topic {
    /// A sink at these brokers, which are a URL as [`Brokers::parse`] reads it: one that is not there is no error here.
    ///
    /// A malformed URL or configuration is an error of kind [`Config`](crate::ErrorKind::Config).
    pub fn new(brokers: &str, config: TopicConfig) -> Result<Self> {
        config.check()?;
        let brokers = Brokers::parse(brokers)?;
        let place = brokers.to_string();
        let publisher = Publisher::new(settings::sink(&brokers, &config)?, place.clone(), config.timeout)?;
        Ok(Self { config, publisher, place })
    }

    /// Connects now, and looks whether the topic is there, if it is the same for every message.
    pub async fn check(&self) -> Result<()> {
        self.publisher.check(self.config.topic.as_text()).await
    }
}

fn parcel(message: &Message, envelope: Envelope) -> Parcel<'_> {
    let Envelope { topic, headers } = envelope;
    let key = message.key.as_ref().map(String::as_bytes);
    Parcel { topic, partition: None, key, payload: Some(&message.payload), headers: Some(headers) }
}

fn outcome(fate: Fate) -> Outcome {
    match fate {
        Ok(()) => Outcome::Delivered,
        Err(failed) if failed.fault.whose == Whose::Sink => Outcome::Unavailable(failed.cause),
        Err(failed) => {
            let (cause, permanent) = (failed.cause, failed.fault.permanent);
            Outcome::Rejected(Rejection { cause, permanent, retry_after: None, defect: false })
        }
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Topic({} at {})", self.config.topic, self.place)
    }
}

#[async_trait]
impl Sink for Topic {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let mut outcomes: Vec<Option<Outcome>> = Vec::with_capacity(messages.len());
        let (mut places, mut parcels) = (Vec::new(), Vec::new());
        for (at, message) in messages.iter().enumerate() {
            match Envelope::new(message, &self.config) {
                Ok(envelope) => {
                    places.push(at);
                    parcels.push(parcel(message, envelope));
                    outcomes.push(None);
                }
                Err(outcome) => outcomes.push(Some(outcome)),
            }
        }
        let again = |at: usize| {
            let message = &messages[places[at]];
            Some(parcel(message, Envelope::new(message, &self.config).ok()?))
        };
        let fates = self.publisher.publish(parcels, again).await;
        for (at, fate) in places.iter().zip(fates) {
            outcomes[*at] = Some(outcome(fate));
        }
        outcomes.into_iter().flatten().collect()
    }
}
