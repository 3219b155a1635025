//! The producer: what it has heard, and when it is replaced.
//!
//! A producer heals by itself after most troubles. It is made anew when it has given up for good (an idempotent
//! producer that lost its numbers) or when it does not answer in its own time.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, Producer, ProducerContext, PurgeConfig};
use tokio::sync::Notify;

use super::batch::Ticket;
use super::error::code_of;
use super::thread::on_thread;

/// Where a session is, or will be when it is needed.
pub(super) struct Slot {
    settings: ClientConfig,
    session: Mutex<Option<Arc<Session>>>,
}

impl Slot {
    /// Nothing yet.
    pub(super) fn new(settings: ClientConfig) -> Self {
        Self { settings, session: Mutex::default() }
    }

    /// The session that is in use, or a new one.
    pub(super) fn session(&self) -> Result<Arc<Session>, KafkaError> {
        let mut slot = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(session) => Ok(Arc::clone(session)),
            None => Ok(Arc::clone(slot.insert(Session::open(&self.settings)?))),
        }
    }

    /// Lets the next call make a new producer, unless one has already.
    pub(super) fn replace(&self, old: &Arc<Session>) {
        let mut slot = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        slot.take_if(|current| Arc::ptr_eq(current, old));
    }
}

/// How long the thread that hears the reports does not look whether it should end. Not shorter: the client spins for the
/// last millisecond of each wait, which in tenths of a second is a hundredth of a core.
const POLL: Duration = Duration::from_secs(1);

/// A producer and what is known through it.
pub(super) struct Session {
    producer: Arc<BaseProducer<Ear>>,
    /// Topics that were there when they were last asked for, and gave no trouble since.
    known: Mutex<HashSet<String>>,
}

impl Session {
    /// Makes a producer, which begins to connect; a broker that is not there is no error.
    fn open(settings: &ClientConfig) -> KafkaResult<Arc<Self>> {
        let producer: Arc<BaseProducer<Ear>> = Arc::new(settings.create_with_context(Ear::default())?);
        let heard = Arc::clone(&producer);
        let hearing = thread::Builder::new().name("kafka reports".to_owned()).spawn(move || hear(&heard));
        hearing.map_err(|error| KafkaError::ClientCreation(format!("no thread to be had: {error}")))?;
        Ok(Arc::new(Self { producer, known: Mutex::default() }))
    }

    /// The producer itself.
    pub(super) fn producer(&self) -> &BaseProducer<Ear> {
        &self.producer
    }

    /// What has been heard from the cluster.
    pub(super) fn ear(&self) -> &Ear {
        self.producer().client().context()
    }

    /// Why this producer will never write again, if that is so.
    pub(super) fn fatal(&self) -> Option<RDKafkaErrorCode> {
        self.producer().client().fatal_error().map(|(code, _)| code)
    }

    /// Whether the topic was there when it was last asked for.
    pub(super) fn knows(&self, topic: &str) -> bool {
        self.known().contains(topic)
    }

    /// Asks for a topic again before anything more is sent there.
    pub(super) fn forget(&self, topic: &str) {
        self.known().remove(topic);
    }

    /// Asks for every topic again: nothing is to be sent into the void after an outage.
    pub(super) fn forget_all(&self) {
        self.known().clear();
    }

    fn known(&self) -> MutexGuard<'_, HashSet<String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the cluster for a topic, or only whether it is there. What the client believes of the topic is renewed by
    /// the answer: else it would go on refusing one that was missing or forbidden for minutes.
    pub(super) async fn look_up(
        self: &Arc<Self>,
        topic: Option<&str>,
        limit: Duration,
    ) -> Result<(), RDKafkaErrorCode> {
        let Some(topic) = topic else {
            let session = Arc::clone(self);
            let asked = on_thread(move || session.producer().client().fetch_metadata(None, limit).map(drop));
            let asked = asked.await.unwrap_or(Err(KafkaError::Canceled));
            asked.map_err(|error| code_of(&error))?;
            self.ear().is_well();
            return Ok(());
        };
        self.find(topic, limit).await.map(drop)
    }

    /// Asks the cluster for a topic.
    pub(super) async fn find(
        self: &Arc<Self>,
        topic: &str,
        limit: Duration,
    ) -> Result<Found, RDKafkaErrorCode> {
        // The session goes with the call: whoever waits may be the last but it to hold one.
        let (session, name) = (Arc::clone(self), topic.to_owned());
        let asked = on_thread(move || ask(session.producer(), &name, limit)).await;
        let found = asked.unwrap_or(Err(RDKafkaErrorCode::Fail))?;
        self.ear().is_well();
        self.known().insert(topic.to_owned());
        Ok(found)
    }
}

/// What is known of a topic that is there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub(super) partitions: i32,
    pub(super) replicas: i32,
}

/// Hears the reports for as long as somebody else has the producer too. So it is here that the producer ends, which joins
/// its own threads, one of which may be looking up a name: nobody should wait for that.
fn hear(producer: &Arc<BaseProducer<Ear>>) {
    while Arc::strong_count(producer) > 1 {
        producer.poll(POLL);
    }
}

fn ask(producer: &BaseProducer<Ear>, topic: &str, limit: Duration) -> Result<Found, RDKafkaErrorCode> {
    let metadata = producer.client().fetch_metadata(Some(topic), limit).map_err(|error| code_of(&error))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let found = found.ok_or(RDKafkaErrorCode::UnknownTopic)?;
    if let Some(error) = found.error() {
        return Err(error.into());
    }
    let count = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let replicas = found.partitions().first().map_or(1, |first| first.replicas().len());
    Ok(Found { partitions: count(found.partitions().len()), replicas: count(replicas.max(1)) })
}

impl Drop for Session {
    fn drop(&mut self) {
        // Nobody waits for what is still in it, and nothing of it may come after what a new session sends. On a thread,
        // because the client answers only once whoever looks up a name of a broker has found it.
        let producer = Arc::clone(&self.producer);
        let purge = move || producer.purge(PurgeConfig::default().queue().inflight());
        let _ = thread::Builder::new().name("kafka end".to_owned()).spawn(purge);
    }
}

/// Hears what the client reports.
#[derive(Default)]
pub(super) struct Ear {
    /// What is wrong with the way to the cluster, since it last answered.
    trouble: Mutex<Option<(RDKafkaErrorCode, String)>>,
    is_troubled: AtomicBool,
    /// Told with every report: there may be room for more.
    pub(super) room: Notify,
}

impl Ear {
    /// What is wrong with the way to the cluster, as far as it has been heard.
    pub(super) fn trouble(&self) -> Option<(RDKafkaErrorCode, String)> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Forgets it: the cluster has answered.
    pub(super) fn is_well(&self) {
        if self.is_troubled.swap(false, Ordering::Relaxed) {
            *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

impl ClientContext for Ear {
    fn log(&self, _level: RDKafkaLogLevel, facility: &str, line: &str) {
        tracing::debug!(facility, "{line}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, "{reason}");
        let code = code_of(&error);
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        // That all are down follows from what was said of each, which tells more.
        if code != RDKafkaErrorCode::AllBrokersDown || trouble.is_none() {
            *trouble = Some((code, short(reason)));
            self.is_troubled.store(true, Ordering::Relaxed);
        }
    }
}

/// The reason without the client's notes for its own developers.
fn short(reason: &str) -> String {
    reason.split(" (after ").next().unwrap_or(reason).to_owned()
}

impl ProducerContext for Ear {
    type DeliveryOpaque = Box<Ticket>;

    fn delivery(&self, result: &DeliveryResult<'_>, ticket: Self::DeliveryOpaque) {
        match result {
            Ok(_) => {
                self.is_well();
                ticket.report(Ok(()));
            }
            Err((error, _)) => ticket.report(Err(code_of(error))),
        }
        self.room.notify_waiters();
    }
}
