//! What one connection has handed over: read, claimed, acknowledged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lapin::Channel;
use lapin::options::BasicAckOptions;
use tokio::time::Instant;

use super::connection::Session;
use super::letter::Letter;
use super::reading;
use crate::broker::Read;
use crate::error::{Error, ErrorKind, Result};

/// A message with what is known of it.
pub(super) struct Taken {
    pub(super) letter: Letter,
    pub(super) read: Read,
}

/// The messages of one connection. It ends with the connection, and what it knows with it.
pub(super) struct Desk {
    pub(super) session: Arc<Session>,
    channel: Channel,
    /// To be claimed, by the order in which the broker gave it.
    waiting: Mutex<BTreeMap<u64, Taken>>,
    /// To be claimed later. Only for a queue without retry queues.
    later: Mutex<Vec<(Instant, Taken)>>,
    /// Given by the broker and not acknowledged.
    open: Mutex<BTreeSet<u64>>,
    closed: AtomicBool,
}

impl Desk {
    pub(super) fn new(session: Arc<Session>, channel: Channel) -> Self {
        Self {
            session,
            channel,
            waiting: Mutex::default(),
            later: Mutex::default(),
            open: Mutex::default(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn is_lost(&self) -> bool {
        self.closed.load(Ordering::Acquire)
            || !self.session.is_connected()
            || !self.channel.status().connected()
    }

    /// Nothing of it can be settled any more.
    pub(super) fn lose(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether the broker has given nothing that is not acknowledged.
    pub(super) fn is_idle(&self) -> bool {
        lock(&self.open).is_empty()
    }

    /// Whether anything is claimed and not settled.
    pub(super) fn is_in_use(&self) -> bool {
        let here = lock(&self.waiting).len() + lock(&self.later).len();
        lock(&self.open).len() > here
    }

    /// How many messages are left in its queue.
    pub(super) async fn count(&self, queue: &str, limit: Duration) -> Result<u32> {
        reading::count(&self.channel, queue, limit).await.map(|(messages, _)| messages)
    }

    /// Ends it. What is not acknowledged goes back to the queue with the channel.
    pub(super) async fn close(&self) -> lapin::Result<()> {
        self.lose();
        self.channel.close(200, "done".into()).await
    }

    /// The broker has given a message.
    pub(super) fn give(&self, taken: Taken) {
        lock(&self.open).insert(taken.letter.tag);
        self.put_back(taken);
    }

    /// A message is to be claimed again.
    pub(super) fn put_back(&self, taken: Taken) {
        lock(&self.waiting).insert(taken.letter.tag, taken);
    }

    /// A message is to be claimed again from `due` on.
    pub(super) fn put_off(&self, taken: Taken, due: Instant) {
        lock(&self.later).push((due, taken));
    }

    /// What can be claimed now, in order.
    pub(super) fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, Taken>> {
        let mut waiting = lock(&self.waiting);
        let now = Instant::now();
        for (_, taken) in lock(&self.later).extract_if(.., |(due, _)| *due <= now) {
            waiting.insert(taken.letter.tag, taken);
        }
        waiting
    }

    /// When the next that was put off is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        lock(&self.later).iter().map(|(due, _)| *due).min()
    }

    /// Tells the broker that these are done with.
    pub(super) async fn acknowledge(&self, tags: &[u64]) -> Result<()> {
        let Some(last) = tags.iter().max().copied() else { return Ok(()) };
        let nothing_before = {
            let mut open = lock(&self.open);
            for tag in tags {
                open.remove(tag);
            }
            open.first().is_none_or(|first| *first > last)
        };
        let lost =
            |error: lapin::Error| Error::new(ErrorKind::Lost, "could not acknowledge").caused_by(error);
        if nothing_before {
            return self.channel.basic_ack(last, BasicAckOptions { multiple: true }).await.map_err(lost);
        }
        let one = |tag: &u64| self.channel.basic_ack(*tag, BasicAckOptions { multiple: false });
        futures_util::future::try_join_all(tags.iter().map(one)).await.map(drop).map_err(lost)
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
