//! [`Topic`], the sink: a whole batch at once, and alone what a bad neighbour may have spoilt.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::BaseRecord;
use tokio::time::{Instant, timeout};

use super::batch::{Report, Reports, Ticket};
use super::brokers::Brokers;
use super::config::TopicConfig;
use super::envelope::Envelope;
use super::error::{Fault, Whose, code_of, fault, into_error, setup_words, words};
use super::session::{Session, Slot, settings};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::sink::{Cause, Outcome, Rejection, Sink, code};

/// The client looks for messages whose time is over once a second; later than that it hangs.
const GRACE: Duration = Duration::from_secs(2);

/// How long a full client is left alone, unless it reports something before.
const FULL: Duration = Duration::from_millis(5);

/// So many topics are asked for at a time.
const QUESTIONS: usize = 16;

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
    /// Sends many messages in one request.
    together: Slot,
    /// Sends each message in a request of its own.
    alone: Slot,
    /// The cluster, for every cause.
    place: String,
}

/// What is known of one message of a call.
type Fates = Vec<Option<Result<(), (Fault, String)>>>;

impl Topic {
    /// A sink at these brokers, which are a URL as [`Brokers::parse`] reads it: one that is not there is no error here.
    ///
    /// A malformed URL or configuration is an error of kind [`Config`](ErrorKind::Config).
    pub fn new(brokers: &str, config: TopicConfig) -> Result<Self> {
        config.check()?;
        let brokers = Brokers::parse(brokers)?;
        let settings = settings(&brokers, &config)?;
        let mut lonely = settings.clone();
        lonely.set("batch.num.messages", "1").set("linger.ms", "0");
        let together = Slot::new(settings);
        let alone = Slot::new(lonely);
        // Now, so that a file of certificates that cannot be read is told before the first message.
        together.session().map_err(|error| {
            Error::new(
                ErrorKind::Config,
                format!("the Kafka client cannot be set up: {}", setup_words(&error)),
            )
        })?;
        Ok(Self { config, together, alone, place: brokers.to_string() })
    }

    /// Connects now, and looks whether the topic is there, if it is the same for every message.
    pub async fn check(&self) -> Result<()> {
        let session = self.together.session().map_err(|error| self.no_session(&error));
        let session = session.map_err(|cause| into_error(&cause))?;
        let topic = self.config.topic.as_text();
        let looked = session.look_up(topic, self.config.timeout).await;
        looked.map_err(|error| into_error(&self.cause(topic, &self.explain(&session, error))))
    }

    /// Sends messages through a session; what is not sent or not reported is told too.
    async fn send(&self, slot: &Slot, messages: &mut [(&Message, Envelope)], limit: Instant) -> Fates {
        let session = match slot.session() {
            Ok(session) => session,
            Err(error) => {
                let fault = Fault { whose: Whose::Sink, code: code::UNREACHABLE, permanent: false };
                return vec![Some(Err((fault, setup_words(&error)))); messages.len()];
            }
        };
        let mut fates: Fates = vec![None; messages.len()];
        self.look_up(&session, messages, &mut fates).await;
        let open: Vec<usize> = (0..fates.len()).filter(|at| fates[*at].is_none()).collect();
        if open.is_empty() {
            return fates;
        }
        let reports = Reports::new(open.len());
        for (ticket, at) in open.iter().enumerate() {
            let (message, envelope) = &mut messages[*at];
            if let Err(error) = self.enqueue(&session, message, envelope, reports.ticket(ticket), limit).await
            {
                // What could not be handed over is nobody's fault but its own: no neighbour was with it.
                let (mut fault, words) = self.explain(&session, error);
                if fault.whose == Whose::Neighbours {
                    fault.whose = Whose::Message;
                }
                fates[*at] = Some(Err((fault, words)));
                reports.ticket(ticket).report(Err(error));
            }
        }
        let patience = (Instant::now() + self.config.timeout + GRACE).min(limit);
        let hangs = !reports.wait(patience).await;
        for (at, report) in open.into_iter().zip(reports.take()) {
            if fates[at].is_none() {
                fates[at] = Some(self.read(&session, report));
            }
        }
        self.learn(slot, &session, messages, &fates, hangs);
        fates
    }

    /// Asks for the topics that are not known to be there, and decides the messages of those that are not.
    async fn look_up(&self, session: &Arc<Session>, messages: &[(&Message, Envelope)], fates: &mut Fates) {
        let topics: BTreeSet<&str> = messages.iter().map(|(_, envelope)| envelope.topic.as_str()).collect();
        let deadline = Instant::now() + self.config.timeout / 2;
        let mut missing = HashMap::new();
        let unknown: Vec<&str> = topics.into_iter().filter(|topic| !session.knows(topic)).collect();
        for some in unknown.chunks(QUESTIONS) {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
            let answers = join_all(some.iter().map(|topic| session.look_up(Some(topic), left))).await;
            for (topic, answer) in some.iter().zip(answers) {
                let Err(error) = answer else { continue };
                let explained = self.explain(session, error);
                if explained.0.whose == Whose::Sink {
                    fates.fill(Some(Err(explained)));
                    return;
                }
                missing.insert(*topic, explained);
            }
        }
        for ((_, envelope), fate) in messages.iter().zip(fates) {
            if let Some(explained) = missing.get(envelope.topic.as_str()) {
                *fate = Some(Err(explained.clone()));
            }
        }
    }

    /// Hands a message to the client; waits while the client is full.
    async fn enqueue(
        &self,
        session: &Session,
        message: &Message,
        envelope: &mut Envelope,
        ticket: Box<Ticket>,
        limit: Instant,
    ) -> Result<(), RDKafkaErrorCode> {
        let mut record = BaseRecord::with_opaque_to(&envelope.topic, ticket).payload(&*message.payload);
        record.headers = envelope.headers.take();
        if let Some(key) = &message.key {
            record = record.key(key.as_str());
        }
        loop {
            let mut room = std::pin::pin!(session.ear().room.notified());
            // Before the attempt, so that no report between the two is missed.
            room.as_mut().enable();
            match session.producer().send(record) {
                Ok(()) => return Ok(()),
                Err((error, back)) if code_of(&error) == RDKafkaErrorCode::QueueFull => {
                    record = back;
                    if Instant::now() >= limit {
                        return Err(RDKafkaErrorCode::MessageTimedOut);
                    }
                    // The client tells of a message before it makes the room: who comes too soon looks again.
                    let _ = timeout(FULL, room).await;
                }
                Err((error, _)) => return Err(code_of(&error)),
            }
        }
    }

    /// What a report says; no report is a time-out.
    fn read(&self, session: &Session, report: Report) -> Result<(), (Fault, String)> {
        match report {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(self.explain(session, error)),
            None => Err(self.explain(session, RDKafkaErrorCode::MessageTimedOut)),
        }
    }

    /// What a code means, with what has been heard of the way to the cluster.
    fn explain(&self, session: &Session, error: RDKafkaErrorCode) -> (Fault, String) {
        let error = match error {
            RDKafkaErrorCode::Fatal => session.fatal().unwrap_or(error),
            error => error,
        };
        let known = fault(error);
        let is_way = known.whose == Whose::Sink && [code::TIMEOUT, code::UNREACHABLE].contains(&known.code);
        if is_way && let Some((heard, reason)) = session.ear().trouble() {
            let heard = fault(heard);
            if heard.whose == Whose::Sink && heard.code != code::TIMEOUT {
                return (heard, reason);
            }
        }
        let said = match known.code {
            code::TIMEOUT => format!("no report within {:?}", self.config.timeout),
            _ => words(error),
        };
        (known, said)
    }

    /// Takes the consequences: what is to be asked for again, and whether the producer is of any more use.
    fn learn(
        &self,
        slot: &Slot,
        session: &Arc<Session>,
        messages: &[(&Message, Envelope)],
        fates: &Fates,
        hangs: bool,
    ) {
        for ((_, envelope), fate) in messages.iter().zip(fates) {
            match fate {
                Some(Err((fault, _))) if fault.whose == Whose::Sink => session.forget_all(),
                Some(Err((fault, _))) if fault.whose == Whose::Topic => session.forget(&envelope.topic),
                _ => {}
            }
        }
        if hangs || session.fatal().is_some() {
            tracing::debug!(hangs, fatal = ?session.fatal(), "the Kafka producer is made anew");
            slot.replace(session);
        }
    }

    fn cause(&self, topic: Option<&str>, (fault, words): &(Fault, String)) -> Cause {
        let place = &self.place;
        match topic {
            Some(topic) if fault.whose != Whose::Sink => {
                Cause::new(fault.code, format!("topic '{topic}' at {place}: {words}"))
            }
            _ => Cause::new(fault.code, format!("{place}: {words}")),
        }
    }

    fn no_session(&self, error: &KafkaError) -> Cause {
        Cause::new(code::UNREACHABLE, format!("{}: {}", self.place, setup_words(error)))
    }

    fn outcome(&self, topic: &str, fate: Option<Result<(), (Fault, String)>>) -> Outcome {
        match fate {
            Some(Ok(())) => Outcome::Delivered,
            Some(Err(told)) if told.0.whose == Whose::Sink => {
                Outcome::Unavailable(self.cause(Some(topic), &told))
            }
            Some(Err(told)) => {
                let (cause, permanent) = (self.cause(Some(topic), &told), told.0.permanent);
                Outcome::Rejected(Rejection { cause, permanent, retry_after: None })
            }
            None => {
                Outcome::Unavailable(Cause::new(code::TIMEOUT, format!("{}: it was not sent", self.place)))
            }
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
        let limit = Instant::now() + self.config.timeout * 2 + GRACE;
        let mut outcomes: Vec<Option<Outcome>> = Vec::with_capacity(messages.len());
        let (mut places, mut parcels) = (Vec::new(), Vec::new());
        for (at, message) in messages.iter().enumerate() {
            match Envelope::new(message, &self.config) {
                Ok(envelope) => {
                    places.push(at);
                    parcels.push((message, envelope));
                    outcomes.push(None);
                }
                Err(outcome) => outcomes.push(Some(outcome)),
            }
        }
        let mut fates = self.send(&self.together, &mut parcels, limit).await;
        let is_suspect = |fate: &Option<Result<(), (Fault, String)>>| matches!(fate, Some(Err((fault, _))) if fault.whose == Whose::Neighbours);
        let suspects: Vec<usize> = (0..fates.len()).filter(|at| is_suspect(&fates[*at])).collect();
        if !suspects.is_empty() {
            let again =
                |at: &usize| Some((parcels[*at].0, Envelope::new(parcels[*at].0, &self.config).ok()?));
            let mut again: Vec<_> = suspects.iter().filter_map(again).collect();
            for (at, fate) in suspects.into_iter().zip(self.send(&self.alone, &mut again, limit).await) {
                fates[at] = fate;
            }
        }
        for ((at, (_, envelope)), fate) in places.into_iter().zip(&parcels).zip(fates) {
            outcomes[at] = Some(self.outcome(&envelope.topic, fate));
        }
        outcomes.into_iter().flatten().collect()
    }
}
