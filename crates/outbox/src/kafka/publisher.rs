//! Writes records and learns what became of each: a whole batch at once, and alone what a bad neighbour may have spoilt.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::OwnedHeaders;
use rdkafka::producer::BaseRecord;
use tokio::time::{Instant, timeout};

use super::batch::{Report, Reports, Ticket};
use super::error::{Fault, Whose, code_of, fault, into_error, setup_words, words};
use super::session::{Found, Session, Slot};
use crate::error::{Error, ErrorKind, Result};
use crate::sink::{Cause, code};

/// The client looks for messages whose time is over once a second; later than that it hangs.
const GRACE: Duration = Duration::from_secs(2);

/// How long a full client is left alone, unless it reports something before.
const FULL: Duration = Duration::from_millis(5);

/// So many topics are asked for at a time.
const QUESTIONS: usize = 16;

/// A record that is to be written.
pub(super) struct Parcel<'m> {
    pub(super) topic: String,
    /// None: by the key.
    pub(super) partition: Option<i32>,
    pub(super) key: Option<&'m [u8]>,
    pub(super) payload: Option<&'m [u8]>,
    /// Taken out when it is sent: they belong to the client then.
    pub(super) headers: Option<OwnedHeaders>,
}

/// Why a record was not written, or is not known to be.
#[derive(Debug, Clone)]
pub(super) struct Failed {
    pub(super) fault: Fault,
    pub(super) cause: Cause,
}

/// What became of a record.
pub(super) type Fate = Result<(), Failed>;

/// What is known of the records of a call so far.
type Fates = Vec<Option<Result<(), (Fault, String)>>>;

/// The producers of one sink or source.
pub(super) struct Publisher {
    /// Sends many records in one request.
    together: Slot,
    /// Sends each record in a request of its own.
    alone: Slot,
    /// The cluster, for every cause.
    place: String,
    timeout: Duration,
}

impl Publisher {
    /// Brokers that are not there are no error here; settings that cannot work are one of kind `Config`.
    pub(super) fn new(settings: ClientConfig, place: String, timeout: Duration) -> Result<Self> {
        let mut lonely = settings.clone();
        lonely.set("batch.num.messages", "1");
        let (together, alone) = (Slot::new(settings), Slot::new(lonely));
        // Now, so that a file of certificates that cannot be read is told before the first message.
        together.session().map_err(|error| {
            Error::new(
                ErrorKind::Config,
                format!("the Kafka client cannot be set up: {}", setup_words(&error)),
            )
        })?;
        Ok(Self { together, alone, place, timeout })
    }

    /// Connects now, and looks whether the topic is there.
    pub(super) async fn check(&self, topic: Option<&str>) -> Result<()> {
        let session = self.together.session().map_err(|error| self.no_session(&error));
        let session = session.map_err(|cause| into_error(&cause))?;
        let looked = session.look_up(topic, self.timeout).await;
        looked.map_err(|error| into_error(&self.cause(topic, &self.explain(&session, error))))
    }

    /// Asks for a topic; none if it is not there.
    pub(super) async fn find(&self, topic: &str) -> Result<Option<Found>, Failed> {
        let fail = |told: (Fault, String)| Failed { fault: told.0, cause: self.cause(Some(topic), &told) };
        let session = self.together.session().map_err(|error| {
            let fault = Fault { whose: Whose::Sink, code: code::UNREACHABLE, permanent: false };
            Failed { fault, cause: self.no_session(&error) }
        })?;
        match session.find(topic, self.timeout).await {
            Ok(found) => Ok(Some(found)),
            Err(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => Ok(None),
            Err(error) => Err(fail(self.explain(&session, error))),
        }
    }

    /// Writes records, in order, and tells of each whether it is written; it ends within twice the time limit, and two
    /// seconds. `again` makes the record of a position anew.
    pub(super) async fn publish<'m>(
        &self,
        mut parcels: Vec<Parcel<'m>>,
        again: impl Fn(usize) -> Option<Parcel<'m>>,
    ) -> Vec<Fate> {
        let limit = Instant::now() + self.timeout * 2 + GRACE;
        let mut fates = self.send(&self.together, &mut parcels, limit).await;
        let is_suspect =
            |at: &usize| matches!(&fates[*at], Some(Err((fault, _))) if fault.whose == Whose::Neighbours);
        let suspects: Vec<usize> = (0..fates.len()).filter(is_suspect).collect();
        if !suspects.is_empty() {
            let mut repeated: Vec<_> = suspects.iter().filter_map(|at| again(*at)).collect();
            for (at, fate) in suspects.into_iter().zip(self.send(&self.alone, &mut repeated, limit).await) {
                fates[at] = fate;
            }
        }
        parcels.iter().zip(fates).map(|(parcel, fate)| self.fate(&parcel.topic, fate)).collect()
    }

    /// Sends records through a session; what is not sent or not reported is told too.
    async fn send(&self, slot: &Slot, parcels: &mut [Parcel<'_>], limit: Instant) -> Fates {
        let session = match slot.session() {
            Ok(session) => session,
            Err(error) => {
                let fault = Fault { whose: Whose::Sink, code: code::UNREACHABLE, permanent: false };
                return vec![Some(Err((fault, setup_words(&error)))); parcels.len()];
            }
        };
        let mut fates: Fates = vec![None; parcels.len()];
        self.look_up(&session, parcels, &mut fates).await;
        let open: Vec<usize> = (0..fates.len()).filter(|at| fates[*at].is_none()).collect();
        if open.is_empty() {
            return fates;
        }
        let reports = Reports::new(open.len());
        for (ticket, at) in open.iter().enumerate() {
            if let Err(error) = enqueue(&session, &mut parcels[*at], reports.ticket(ticket), limit).await {
                // What could not be handed over is nobody's fault but its own: no neighbour was with it.
                let (mut fault, words) = self.explain(&session, error);
                if fault.whose == Whose::Neighbours {
                    fault.whose = Whose::Message;
                }
                fates[*at] = Some(Err((fault, words)));
                reports.ticket(ticket).report(Err(error));
            }
        }
        let patience = (Instant::now() + self.timeout + GRACE).min(limit);
        let hangs = !reports.wait(patience).await;
        for (at, report) in open.into_iter().zip(reports.take()) {
            if fates[at].is_none() {
                fates[at] = Some(self.read(&session, report));
            }
        }
        learn(slot, &session, parcels, &fates, hangs);
        fates
    }

    /// Asks for the topics that are not known to be there, and decides the records of those that are not.
    async fn look_up(&self, session: &Arc<Session>, parcels: &[Parcel<'_>], fates: &mut Fates) {
        let topics: BTreeSet<&str> = parcels.iter().map(|parcel| parcel.topic.as_str()).collect();
        let deadline = Instant::now() + self.timeout / 2;
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
        for (parcel, fate) in parcels.iter().zip(fates) {
            if let Some(explained) = missing.get(parcel.topic.as_str()) {
                *fate = Some(Err(explained.clone()));
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
            code::TIMEOUT => format!("no report within {:?}", self.timeout),
            _ => words(error),
        };
        (known, said)
    }

    fn fate(&self, topic: &str, fate: Option<Result<(), (Fault, String)>>) -> Fate {
        match fate {
            Some(Ok(())) => Ok(()),
            Some(Err(told)) => Err(Failed { fault: told.0, cause: self.cause(Some(topic), &told) }),
            None => {
                let fault = Fault { whose: Whose::Sink, code: code::TIMEOUT, permanent: false };
                let cause = Cause::new(code::TIMEOUT, format!("{}: it was not sent", self.place));
                Err(Failed { fault, cause })
            }
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
}

/// Hands a record to the client; waits while the client is full.
async fn enqueue(
    session: &Session,
    parcel: &mut Parcel<'_>,
    ticket: Box<Ticket>,
    limit: Instant,
) -> Result<(), RDKafkaErrorCode> {
    let mut record: BaseRecord<'_, [u8], [u8], _> = BaseRecord::with_opaque_to(&parcel.topic, ticket);
    (record.partition, record.key, record.payload) = (parcel.partition, parcel.key, parcel.payload);
    record.headers = parcel.headers.take();
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

/// Takes the consequences: what is to be asked for again, and whether the producer is of any more use.
fn learn(slot: &Slot, session: &Arc<Session>, parcels: &[Parcel<'_>], fates: &Fates, hangs: bool) {
    for (parcel, fate) in parcels.iter().zip(fates) {
        match fate {
            Some(Err((fault, _))) if fault.whose == Whose::Sink => session.forget_all(),
            Some(Err((fault, _))) if fault.whose == Whose::Topic => session.forget(&parcel.topic),
            _ => {}
        }
    }
    if hangs || session.fatal().is_some() {
        tracing::debug!(hangs, fatal = ?session.fatal(), "the Kafka producer is made anew");
        slot.replace(session);
    }
}
