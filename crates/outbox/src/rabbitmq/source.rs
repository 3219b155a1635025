//! [`WorkQueue`], the source: a queue that is read, with its retries and dead letters kept by the broker.
//!
//! Messages are acknowledged when they are settled: done, or arrived in another queue. Until then they are the
//! broker's, which hands them to somebody else when the connection is lost.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use lapin::Consumer;
use lapin::message::Delivery;
use lapin::options::{BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, timeout, timeout_at};

use super::connection::{Link, Session};
use super::declare::short;
use super::desk::{Desk, Taken, lock};
use super::error::{into_error, publish_fault};
use super::letter::{Known, Letter};
use super::moves::{self, Move};
use super::settle::{Entry, Token};
use super::tide::Tide;
use super::work_config::WorkQueueConfig;
use crate::broker::{Came, Held, Steps, retry_name};
use crate::error::{Error, ErrorKind, Result};
use crate::policy::Verdict;
use crate::source::{Claim, Source};

/// A queue of RabbitMQ.
///
/// | verdict | what happens |
/// | --- | --- |
/// | done | acknowledged |
/// | retry | sent to the retry queue of its delay, confirmed, then acknowledged; the broker sends it back |
/// | behind | the same, into the retry queue where the first of its key waits, without an attempt |
/// | dead | sent to the queue of dead letters, confirmed, then acknowledged; its key goes on |
/// | released | kept here, not acknowledged, and handed out again |
///
/// Attempts, cause, time and origin travel in headers, see [`header`](crate::header). A retry that shall come later
/// than the delay of its queue goes round again without an attempt. Order per key holds through retries as long as
/// one consumer reads the queue: another one does not know what waits (`single_active` sees to it that there is one;
/// when that one dies, what waits in a retry queue at that moment can be overtaken).
///
/// It connects when it is first asked, and again after the connection was lost.
pub struct WorkQueue {
    pub(super) link: Link,
    pub(super) config: Arc<WorkQueueConfig>,
    pub(super) steps: Steps,
    /// Queue and broker, for every error.
    pub(super) place: String,
    reader: AsyncMutex<Option<Reader>>,
    pub(super) held: Mutex<Held>,
    /// It has worked once.
    has_read: AtomicBool,
}

/// One connection's reading.
struct Reader {
    consumer: Consumer,
    desk: Arc<Desk>,
    tide: Tide,
}

impl WorkQueue {
    /// A source that connects when it is first used: a broker that is not there is no error here.
    ///
    /// A malformed URL or configuration is an error of kind [`Config`](ErrorKind::Config).
    pub fn new(url: &str, config: WorkQueueConfig) -> Result<Self> {
        config.check()?;
        let config = Arc::new(config);
        let link = Link::new(url, Arc::<WorkQueueConfig>::clone(&config))?;
        let place = format!("queue '{}' at {}", config.queue, link.shown());
        let steps = Steps::new(&config.retry);
        Ok(Self {
            link,
            config,
            steps,
            place,
            reader: AsyncMutex::default(),
            held: Mutex::default(),
            has_read: AtomicBool::new(false),
        })
    }

    /// Connects now, if need be, and declares or checks the topology.
    pub async fn check(&self) -> Result<()> {
        self.link.session().await.map(drop).map_err(|cause| into_error(&cause))
    }

    /// Begins to read, unless that goes on already.
    async fn read<'r>(&self, reader: &'r mut Option<Reader>) -> Result<&'r mut Reader> {
        if let Some(lost) = reader.take_if(|reader| reader.desk.is_lost()) {
            lost.desk.lose();
            self.link.forget(&lost.desk.session).await;
            lock(&self.held).lose(Instant::now());
            if lost.desk.is_in_use() {
                return Err(self.lost());
            }
        }
        match reader {
            Some(reader) => Ok(reader),
            None => {
                let opened = self.connect().await.map_err(|error| self.after_success(error))?;
                self.has_read.store(true, Ordering::Relaxed);
                Ok(reader.insert(opened))
            }
        }
    }

    async fn connect(&self) -> Result<Reader> {
        let session = self.link.session().await.map_err(|cause| into_error(&cause))?;
        let opened = timeout(self.config.connect_timeout, self.open(&session)).await;
        let silent =
            || Err(Error::new(ErrorKind::Timeout, format!("{}: the broker does not answer", self.place)));
        let opened = opened.unwrap_or_else(|_| silent());
        if opened.is_err() {
            self.link.forget(&session).await;
        }
        opened
    }

    /// What worked before is expected to work again: a broker that is just starting refuses this and that.
    fn after_success(&self, error: Error) -> Error {
        if error.is_temporary() || !self.has_read.load(Ordering::Relaxed) {
            return error;
        }
        Error::new(ErrorKind::Busy, self.place.clone()).caused_by(error)
    }

    pub(super) fn lost(&self) -> Error {
        Error::new(ErrorKind::Lost, format!("{}: the connection was lost", self.place))
    }

    async fn open(&self, session: &Arc<Session>) -> Result<Reader> {
        let fault = |error: lapin::Error| into_error(&publish_fault(&self.place, &error).into_cause());
        let channel = session.reading().await.map_err(fault)?;
        channel.basic_qos(self.config.prefetch, BasicQosOptions::default()).await.map_err(fault)?;
        let (queue, options) = (short(&self.config.queue), BasicConsumeOptions::default());
        let consumer =
            channel.basic_consume(queue, "".into(), options, FieldTable::default()).await.map_err(fault)?;
        let desk = Arc::new(Desk::new(Arc::clone(session), channel));
        Ok(Reader { consumer, desk, tide: Tide::new(Instant::now()) })
    }

    fn take(&self, reader: &mut Reader, delivery: Delivery) {
        let Delivery { delivery_tag: tag, routing_key, properties, data, .. } = delivery;
        let letter = Letter::new(tag, routing_key, properties, data);
        let read = letter.read(&self.config.queue, &self.config.picks, self.config.max_payload);
        reader.tide.gave(tag, Instant::now());
        reader.desk.give(Taken { letter, read });
    }

    /// Takes what the broker has handed over, without waiting for more.
    fn take_all(&self, reader: &mut Reader) {
        while let Some(next) = reader.consumer.next().now_or_never() {
            match next {
                Some(Ok(delivery)) => self.take(reader, delivery),
                // Cancelled by the broker, or the channel is gone.
                Some(Err(_)) | None => return reader.desk.lose(),
            }
        }
    }

    /// Keys wait for messages that another consumer may have got: those are not waited for without end.
    async fn forget_lost(&self, reader: &mut Reader) -> Result<()> {
        let now = Instant::now();
        if reader.desk.is_lost() || !reader.tide.is_to_look(now) || !lock(&self.held).is_overdue(now) {
            return Ok(());
        }
        if reader.tide.is_to_ask(now) {
            let asked = reader.desk.count(&self.config.queue, self.config.timeout).await;
            let messages = asked.map_err(|error| self.not_moved(&reader.desk, error))?;
            reader.tide.had(messages.into(), self.config.prefetch.into(), now);
        }
        let first = reader.desk.waiting().first_key_value().map(|(tag, _)| *tag);
        if let Some(until) = reader.tide.claimed(first, reader.desk.is_idle(), now) {
            lock(&self.held).drained(until);
        }
        Ok(())
    }

    /// Sends what came back before its time round once more.
    async fn send_on(&self, desk: &Desk) -> Result<()> {
        let now = Timestamp::now();
        let is_early =
            |taken: &Taken| taken.read.defect.is_none() && self.steps.is_early(taken.read.tracks.left(now));
        let mut early: Vec<(u64, Move)> = Vec::new();
        for (tag, taken) in desk.waiting().iter().filter(|(_, taken)| is_early(taken)) {
            let left = taken.read.tracks.left(now);
            let Some(step) = self.steps.best(left) else { continue };
            let known = Known::of(&taken.read);
            let headers = known.tracks.waiting(now, left).headers(&self.config.queue);
            let envelope = taken.letter.envelope(&self.retry_queue(step), &known, headers);
            early.push((*tag, Move { at: early.len(), envelope, payload: taken.letter.payload.clone() }));
        }
        if early.is_empty() {
            return Ok(());
        }
        let (tags, moves): (Vec<u64>, Vec<Move>) = early.into_iter().unzip();
        let (arrived, error) = moves::send(&desk.session, &self.place, &moves, self.deadline()).await;
        let gone: Vec<u64> = arrived.into_iter().map(|at| tags[at]).collect();
        for tag in &gone {
            let Some(taken) = desk.waiting().remove(tag) else { continue };
            if let (Some(key), Some(step)) =
                (&taken.read.message.key, self.steps.best(taken.read.tracks.left(now)))
            {
                lock(&self.held).moved(key, &taken.read.message.id, step, Instant::now());
            }
        }
        desk.acknowledge(&gone).await?;
        error.map_or(Ok(()), |error| Err(self.not_moved(desk, error)))
    }

    /// What it means that messages could not be moved. A queue that is gone is declared with the next connection.
    pub(super) fn not_moved(&self, desk: &Desk, error: Error) -> Error {
        if error.kind() == ErrorKind::NotFound {
            tracing::warn!(error = error.chain(), "connecting anew, to declare what is missing");
            desk.lose();
        }
        if desk.is_lost() { self.lost().caused_by(error) } else { error }
    }

    /// Up to `limit` messages from the front that may be in one claim: all new, or all back from a retry.
    fn pick(&self, desk: &Arc<Desk>, limit: usize) -> Claim {
        let mut waiting = desk.waiting();
        let mut held = lock(&self.held);
        let (mut messages, mut entries, mut flags, mut defects) = (vec![], vec![], vec![], vec![]);
        let (mut set_aside, mut keys) = (None, HashSet::new());
        while let Some(front) = waiting.first_entry().filter(|_| messages.len() < limit) {
            let message = &front.get().read.message;
            let came = message.key.as_ref().map_or(Came::New, |key| held.came(key, &message.id));
            let is_back = match &message.key {
                None => message.attempts > 0,
                // The one before it, in an earlier claim, may yet fail: then it must stay back.
                Some(key) => {
                    came == Came::Back && (!held.follows(key, &message.id) || keys.contains(key.as_str()))
                }
            };
            if *set_aside.get_or_insert(is_back) != is_back {
                break;
            }
            let Taken { letter, read } = front.remove();
            keys.extend(read.message.key.clone());
            let known = Known::of(&read);
            defects.extend(read.defect.map(|cause| (messages.len(), cause)));
            flags.push(came == Came::Held);
            messages.push(read.message);
            entries.push(Entry { letter: Some(letter), known, moved: false });
        }
        let token = Token { desk: Arc::clone(desk), entries: Mutex::new(entries) };
        let claim = Claim::new(messages, token).with_held(flags).with_defects(defects);
        if set_aside == Some(true) { claim.of_set_aside() } else { claim }
    }

    pub(super) fn retry_queue(&self, step: Duration) -> String {
        retry_name(&self.config.queue, step)
    }

    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.config.timeout
    }
}

#[async_trait]
impl Source for WorkQueue {
    async fn claim(&self, limit: usize) -> Result<Claim> {
        let mut reader = self.reader.lock().await;
        let reader = self.read(&mut reader).await?;
        self.take_all(reader);
        self.forget_lost(reader).await?;
        self.send_on(&reader.desk).await?;
        Ok(self.pick(&reader.desk, limit))
    }

    async fn settle(&self, claim: &Claim, verdicts: &[Verdict]) -> Result<()> {
        self.settle_claim(claim.token()?, verdicts).await
    }

    async fn wait(&self, idle: Duration) {
        let Ok(mut reader) = timeout(idle, self.reader.lock()).await else { return };
        let Some(reader) = reader.as_mut() else { return tokio::time::sleep(idle).await };
        if !reader.desk.waiting().is_empty() || reader.desk.is_lost() {
            return;
        }
        let end = Instant::now() + idle;
        let end = reader.desk.next_due().map_or(end, |due| due.min(end));
        match timeout_at(end, reader.consumer.next()).await {
            Ok(Some(Ok(delivery))) => self.take(reader, delivery),
            Ok(Some(Err(_)) | None) => reader.desk.lose(),
            Err(_) => {}
        }
    }

    async fn close(&self) -> Result<()> {
        let Some(Reader { consumer, desk, .. }) = self.reader.lock().await.take() else { return Ok(()) };
        drop(consumer);
        lock(&self.held).lose(Instant::now());
        let closed = desk.close().await;
        self.link.forget(&desk.session).await;
        closed.map_err(|error| into_error(&publish_fault(&self.place, &error).into_cause()))
    }
}

impl fmt::Debug for WorkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WorkQueue({})", self.place)
    }
}
