//! [`Publisher`]: sends at once, and keeps what cannot be sent now.
//!
//! `line.rs` says who may go next, `gate.rs` whether the sink is asked at all, `round.rs` is the way of one batch: ask the
//! store, send, keep.

mod gate;
mod line;
mod round;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Limits, Message};
use crate::policy::Backoff;
use crate::sink::{Cause, Sink};
use crate::store::Store;
use gate::Gate;
use line::{Keyed, Line};

/// Messages that go to the sink together.
const BATCH: usize = 100;

/// Batches that are out at a time: enough that a message seldom waits, few enough that they are worth a round trip.
const BATCHES: usize = 4;

/// What may wait in memory, in units of [`UNIT`] bytes of payload and at least one for each message.
const ROOM: u32 = 64 * 1024;
const UNIT: usize = 1024;

/// Publishes at once; what the sink does not take in time is kept durably, and delivered later by an ordinary pipe.
///
/// ```
/// use std::sync::Arc;
///
/// use outbox::memory::{Outbox, Recorder};
/// use outbox::{Message, Published, Publisher};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> outbox::Result<()> {
/// let (outbox, broker) = (Outbox::new(), Recorder::new());
/// let publisher = Publisher::new(Arc::new(broker), Arc::new(outbox.store("later")));
/// let published = publisher.publish(Message::json("product.created", &7)?.key(7)).await?;
/// assert_eq!(published, Published::Confirmed);
/// // A pipe carries what was kept: Pipe::new(outbox.cursor("later"), broker).
/// # Ok(())
/// # }
/// ```
///
/// | what happens | answer |
/// | --- | --- |
/// | the sink takes it | [`Confirmed`](Published::Confirmed) |
/// | the sink is out of reach, blocked, or does not answer in time | [`Kept`](Published::Kept), with the cause |
/// | the sink rejects it for something that may be mended (no route, a full queue) | `Kept`, with the cause |
/// | the sink is known to be down | `Kept` at once, without a try |
/// | an earlier message of its key is kept and not delivered | `Kept` [behind](Kept::Behind) it, without a try |
/// | it breaks a limit, or the sink refuses it for good (too large, unfit) | error of kind [`Invalid`](ErrorKind::Invalid) |
/// | it could not be sent, and the store does not take it either | the error of the store: it may be published again |
/// | the store cannot tell whether one of its key is kept | the same; a message without key is sent all the same |
///
/// **Order.** Messages of a key go one after the other, and a later one never overtakes an earlier one that is kept, by
/// whichever process. Two processes that publish one key at the same moment have no order between them.
///
/// **Twice.** No answer in time means that nobody knows: the message is kept, and may have arrived as well. It then comes
/// twice, with the same id, which an inbox absorbs. So does a message that is published again, under its id, after an error.
///
/// A call that is dropped half-way is carried out all the same. `publish` needs a running tokio.
pub struct Publisher {
    shared: Arc<Shared>,
}

/// What became of a message that was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// The other side has it for good.
    Confirmed,
    /// It is kept, and a pipe will deliver it.
    Kept(Kept),
}

/// Why a message was kept instead of sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// An earlier message of its key is kept and not delivered yet.
    Behind,
    /// The sink did not take it, for this cause.
    Cause(Cause),
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Behind => f.write_str("BEHIND: an earlier message of its key is not delivered yet"),
            Self::Cause(cause) => cause.fmt(f),
        }
    }
}

struct Shared {
    sink: Arc<dyn Sink>,
    store: Arc<dyn Store>,
    timeout: Duration,
    gate: Gate,
    line: Mutex<Line<Entry>>,
    room: Arc<Semaphore>,
    /// How many wait for room.
    crowd: AtomicUsize,
}

/// One more, as long as it lives.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A message on its way, with whom to tell.
struct Entry {
    message: Message,
    since: Instant,
    answer: oneshot::Sender<Result<Published>>,
    _room: OwnedSemaphorePermit,
}

impl Keyed for Entry {
    fn key(&self) -> Option<&str> {
        self.message.key.as_deref()
    }
}

impl Entry {
    /// Tells what became of it; a caller that has gone need not hear it.
    fn tell(self, answer: Result<Published>) {
        let _ = self.answer.send(answer);
    }
}

impl Publisher {
    /// A publisher to this sink that keeps in this store what it cannot send.
    pub fn new(sink: Arc<dyn Sink>, store: Arc<dyn Store>) -> Self {
        let shared = Shared {
            sink,
            store,
            timeout: Duration::from_secs(2),
            gate: Gate::new(Backoff { first: Duration::from_millis(500), most: Duration::from_secs(5) }),
            line: Mutex::new(Line::new()),
            room: Arc::new(Semaphore::new(ROOM as usize)),
            crowd: AtomicUsize::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Sets how long the sink may take (2 s); no longer a message waits for its turn, either.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|shared| shared.timeout = timeout)
    }

    /// Sets how often a sink that is down is tried (after 500 ms, doubling to 5 s). A try costs one caller the time-out.
    #[must_use]
    pub fn probe(self, probe: Backoff) -> Self {
        self.with(|shared| shared.gate = Gate::new(probe))
    }

    fn with(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        // Nothing was published yet, so nobody else has a copy.
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            change(shared);
        }
        self
    }

    /// What a message may weigh.
    pub fn limits(&self) -> Limits {
        self.shared.store.limits()
    }

    /// The message as it would be published, its id in the form in which the store keeps it; or why it cannot be. It is
    /// asked beforehand, so that the answer does not depend on how the sink is today.
    pub fn check(&self, message: Message) -> Result<Message> {
        self.shared.store.admit(message)
    }

    /// Publishes a message: confirmed, or kept, or an error.
    pub async fn publish(&self, message: Message) -> Result<Published> {
        let message = self.check(message)?;
        let room = self.shared.room_for(&message).await?;
        let (answer, told) = oneshot::channel();
        self.shared.line().push(Entry { message, since: Instant::now(), answer, _room: room });
        self.shared.pump();
        told.await.unwrap_or_else(|_| {
            let what = "publishing ended by a bug: whether the message was sent is not known";
            Err(Error::new(ErrorKind::Unexpected, what))
        })
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("timeout", &self.shared.timeout).finish_non_exhaustive()
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, Line<Entry>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room in memory. Where there is, nothing is awaited: whoever calls first is first in line.
    async fn room_for(&self, message: &Message) -> Result<OwnedSemaphorePermit> {
        let units = u32::try_from(message.payload.len() / UNIT + 1).unwrap_or(ROOM).min(ROOM);
        if self.crowd.load(Ordering::Relaxed) == 0
            && let Ok(permit) = Arc::clone(&self.room).try_acquire_many_owned(units)
        {
            return Ok(permit);
        }
        // Nobody shall slip in before those who wait.
        let _one_more = Counted::new(&self.crowd);
        let permit = Arc::clone(&self.room).acquire_many_owned(units);
        match tokio::time::timeout(self.timeout, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => {
                let what = format!("message {}: too many wait to be published already", message.id);
                Err(Error::new(ErrorKind::Busy, what))
            }
        }
    }

    /// Sends out whatever may go.
    fn pump(self: &Arc<Self>) {
        loop {
            let Some(batch) = self.line().take(BATCH, BATCHES) else { return };
            let shared = Arc::clone(self);
            tokio::spawn(async move {
                let keys: Vec<String> = batch.iter().filter_map(|entry| entry.message.key.clone()).collect();
                let round = std::panic::AssertUnwindSafe(round::run(&shared, batch)).catch_unwind();
                // Also after a panic: the keys must be free again.
                if round.await.is_err() {
                    tracing::error!("publishing a batch ended by a bug");
                }
                shared.line().done(&keys);
                shared.pump();
            });
        }
    }
}
