//! What was read ahead of one partition, and what of it is not done. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::catalog::Place;
use super::offsets::Offsets;
use super::record::Record;
use crate::broker::{Picks, Read, Steps, Tracks};
use crate::message::{Message, MessageId};
use crate::sink::Cause;

/// What a record weighs besides its payload, about.
const OVERHEAD: usize = 512;

/// The same moment on both clocks: records tell times of the day, waiting is counted on one that nobody sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) clock: Timestamp,
    pub(super) instant: Instant,
}

impl Now {
    pub(super) fn get() -> Self {
        Self { clock: Timestamp::now(), instant: Instant::now() }
    }
}

/// A record that was read: where it stands, as it is, and as a message.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) place: Place,
    pub(super) offset: i64,
    pub(super) record: Record,
    pub(super) message: Message,
    pub(super) tracks: Tracks,
    pub(super) destination: String,
    pub(super) defect: Option<Cause>,
    /// When it may leave its retry topic: when it is due, or when it has been there for the delay of the topic.
    ready: Option<Timestamp>,
}

impl Entry {
    /// Reads a record; `topic` is the one that is read, also for a record in a retry topic of it.
    pub(super) fn new(
        place: Place,
        offset: i64,
        record: Record,
        topic: &str,
        picks: &Picks,
        max_payload: usize,
    ) -> Self {
        let Read { message, tracks, destination, defect } = record.read(topic, picks, max_payload);
        let ready = place.step.and_then(|step| {
            let through = record.at?.checked_add(SignedDuration::try_from(step).ok()?).ok()?;
            Some(tracks.due.map_or(through, |due| due.min(through)))
        });
        Self { place, offset, record, message, tracks, destination, defect, ready }
    }

    pub(super) fn weight(&self) -> usize {
        OVERHEAD + self.message.payload.len()
    }

    fn is_ready(&self, now: Now) -> bool {
        self.ready.is_none_or(|ready| ready <= now.clock)
    }
}

/// A message that waits here for its next try.
#[derive(Debug)]
struct Kept {
    entry: Arc<Entry>,
    due: Instant,
    attempts: u32,
}

/// A message that is handed out, with what is needed to take it back.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) entry: Arc<Entry>,
    /// The shelf that it was taken from: another of the same partition is not the same.
    pub(super) epoch: u64,
    /// Attempts spent, as far as they are known.
    pub(super) attempts: u32,
    /// Whether it had waited here for its next try.
    pub(super) kept: bool,
}

/// What was read ahead of one partition.
#[derive(Debug)]
pub(super) struct Shelf {
    pub(super) epoch: u64,
    /// What the group has committed, as far as we know; none if nothing.
    pub(super) committed: Option<i64>,
    /// The partition is not ours for the moment, and nobody knows yet whose it will be.
    pub(super) revoked: bool,
    /// The client has been told to fetch no more.
    pub(super) paused: bool,
    pub(super) offsets: Offsets,
    /// The log is another than it was, and has to be read from here again.
    pub(super) again: Option<i64>,
    ahead: BTreeMap<i64, Arc<Entry>>,
    /// What is here weighs this much, also what waits for its next try.
    bytes: usize,
    kept: BTreeMap<i64, Kept>,
}

impl Shelf {
    pub(super) fn new(epoch: u64, committed: Option<i64>) -> Self {
        Self {
            epoch,
            committed,
            revoked: false,
            paused: false,
            offsets: Offsets::default(),
            again: None,
            ahead: BTreeMap::new(),
            bytes: 0,
            kept: BTreeMap::new(),
        }
    }

    /// Takes a record in. Not one that is behind what was read: the topic was made anew, or its log was cut off, and what
    /// is here is of the log that was.
    pub(super) fn push(&mut self, entry: Arc<Entry>) -> bool {
        if self.again.is_some() || self.offsets.is_behind(entry.offset) {
            self.again.get_or_insert(entry.offset);
            return false;
        }
        if self.committed.is_some_and(|committed| entry.offset < committed) {
            // It was committed of the log that was.
            self.committed = None;
        }
        self.offsets.read(entry.offset);
        self.bytes += entry.weight();
        self.ahead.insert(entry.offset, entry);
        true
    }

    /// Keys and ids of what lies on it and was not handed out.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&str, &MessageId)> {
        self.ahead.values().filter_map(|entry| Some((entry.message.key.as_deref()?, &entry.message.id)))
    }

    /// How much is on it. What waits for its next try takes as much memory as what was not handed out yet.
    pub(super) fn load(&self) -> (usize, usize) {
        (self.ahead.len() + self.kept.len(), self.bytes)
    }

    /// The next message that may be handed out; one of a retry topic must be ready, and done with waiting.
    pub(super) fn first(&self, now: Now, steps: &Steps) -> Option<&Entry> {
        let (_, first) = self.ahead.first_key_value()?;
        (first.is_ready(now) && !is_early(first, now, steps)).then_some(first)
    }

    /// The next message that has been in its retry topic for long enough and has to wait on.
    pub(super) fn first_early(&self, now: Now, steps: &Steps) -> Option<&Entry> {
        let (_, first) = self.ahead.first_key_value()?;
        (first.is_ready(now) && is_early(first, now, steps)).then_some(first)
    }

    /// Hands out the next message.
    pub(super) fn pop(&mut self) -> Option<Item> {
        let (_, entry) = self.ahead.pop_first()?;
        self.bytes = self.bytes.saturating_sub(entry.weight());
        let attempts = entry.message.attempts;
        Some(Item { entry, epoch: self.epoch, attempts, kept: false })
    }

    /// The next message that waited here and is due.
    pub(super) fn first_kept(&self, now: Now) -> Option<&Entry> {
        self.kept.values().find(|kept| kept.due <= now.instant).map(|kept| &*kept.entry)
    }

    /// Hands out a message that waited here.
    pub(super) fn pop_kept(&mut self, offset: i64) -> Option<Item> {
        let Kept { entry, attempts, .. } = self.kept.remove(&offset)?;
        self.bytes = self.bytes.saturating_sub(entry.weight());
        Some(Item { entry, epoch: self.epoch, attempts, kept: true })
    }

    /// Takes a message back as it was.
    pub(super) fn put_back(&mut self, item: Item, now: Now) {
        if item.kept {
            return self.keep(item.entry, now.instant, item.attempts);
        }
        self.bytes += item.entry.weight();
        self.ahead.insert(item.entry.offset, item.entry);
    }

    /// Keeps a message here until its next try.
    pub(super) fn keep(&mut self, entry: Arc<Entry>, due: Instant, attempts: u32) {
        self.bytes += entry.weight();
        self.kept.insert(entry.offset, Kept { entry, due, attempts });
    }

    /// When something can be handed out: at the latest at this time on either clock. None if nothing is here.
    pub(super) fn ready_at(&self, now: Now) -> Option<Instant> {
        let first = self.ahead.first_key_value().map(|(_, first)| {
            let wait = first.ready.map(|ready| ready.duration_since(now.clock)).unwrap_or_default();
            now.instant + std::time::Duration::try_from(wait).unwrap_or_default()
        });
        self.kept.values().map(|kept| kept.due).chain(first).min()
    }
}

/// Whether a message of a retry topic has to wait on.
fn is_early(entry: &Entry, now: Now, steps: &Steps) -> bool {
    entry.place.step.is_some() && steps.is_early(entry.tracks.left(now.clock))
}
