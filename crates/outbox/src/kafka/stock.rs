//! What was read ahead of all partitions that are ours, and which claims are open. Pure: the clocks come in as arguments.

mod assign;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::catalog::Place;
use super::shelf::{Entry, Item, Now, Shelf};
use crate::broker::{Came, Held, Steps};

/// A claim has no more payload than this, beyond its last message.
const CLAIM_BYTES: usize = 4 * 1024 * 1024;

/// How much may be read ahead, over all partitions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    pub(super) messages: usize,
    pub(super) bytes: usize,
}

/// Messages that are handed out together.
#[derive(Debug)]
pub(super) struct Handed {
    pub(super) number: u64,
    pub(super) items: Vec<Item>,
    /// Whether an earlier message of its key waits; one flag per message.
    pub(super) held: Vec<bool>,
    /// Whether these were set aside, and are the first of their keys that are not done.
    pub(super) set_aside: bool,
}

/// What the client should do about a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fetch {
    On,
    /// There is no room for more.
    Pause,
    /// Read it again, from where [`Stock::again`] tells.
    Again,
}

/// Whose the partitions of a claim are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    Ours,
    /// They were taken from us, and it is not known yet who gets them.
    Unknown,
    /// Some have gone to somebody else, or have come back with other offsets.
    Lost,
}

/// What becomes of a message that was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// Done with: its key goes on.
    Done,
    /// Safe in a retry topic, which is known already.
    Moved,
    /// Back to where it was.
    Back,
    /// To be handed out again then, by us.
    Kept { due: Instant, attempts: u32 },
}

/// What was read ahead, and what is handed out.
#[derive(Debug)]
pub(super) struct Stock {
    shelves: BTreeMap<Place, Shelf>,
    /// The keys that wait, by topic and number of the partition.
    lanes: HashMap<(usize, i32), Held>,
    open: BTreeMap<u64, Vec<Item>>,
    steps: Steps,
    room: Room,
    claims: u64,
    epochs: u64,
    /// The partition after which the next claim begins, so that none starves.
    last: Option<Place>,
    prefer_new: bool,
}

impl Stock {
    pub(super) fn new(steps: Steps, room: Room) -> Self {
        Self {
            shelves: BTreeMap::new(),
            lanes: HashMap::new(),
            open: BTreeMap::new(),
            steps,
            room,
            claims: 0,
            epochs: 0,
            last: None,
            prefer_new: false,
        }
    }

    /// Takes a record in. Tells what the client should do about its partition.
    pub(super) fn push(&mut self, entry: Entry, now: Now) -> Fetch {
        let share = self.share();
        let Some(shelf) = self.shelves.get_mut(&entry.place) else { return Fetch::On };
        let (place, entry) = (entry.place, Arc::new(entry));
        if !shelf.push(entry.clone()) {
            return Fetch::Again;
        }
        let is_full = !shelf.paused && is_over(shelf.load(), share);
        shelf.paused |= is_full;
        if let (Some(step), Some(key)) = (place.step, &entry.message.key) {
            self.lane(&place).found(key, &entry.message.id, step, now.instant);
        }
        if is_full { Fetch::Pause } else { Fetch::On }
    }

    /// What one partition may have of the room.
    fn share(&self) -> Room {
        let count = self.shelves.len().max(1);
        Room { messages: (self.room.messages / count).max(1), bytes: (self.room.bytes / count).max(1) }
    }

    /// The partitions of which the client should fetch again, and whether there are others of which it should not.
    pub(super) fn roomy(&mut self) -> (Vec<Place>, bool) {
        let Room { messages, bytes } = self.share();
        let half = Room { messages: messages / 2 + 1, bytes: bytes / 2 + 1 };
        let mut roomy = Vec::new();
        for (place, shelf) in &mut self.shelves {
            if shelf.paused && !shelf.revoked && !is_over(shelf.load(), half) {
                shelf.paused = false;
                roomy.push(*place);
            }
        }
        (roomy, self.shelves.values().any(|shelf| shelf.paused))
    }

    /// Hands out up to `limit` messages. New ones and those that were set aside take turns.
    pub(super) fn take(&mut self, limit: usize, now: Now) -> Option<Handed> {
        let collect = |this: &mut Self, old: bool| match old {
            true => this.collect_old(limit, now),
            false => (this.collect_new(limit, now), false),
        };
        let mut old = !self.prefer_new;
        let (mut items, mut firsts) = collect(self, old);
        if items.is_empty() {
            old = !old;
            (items, firsts) = collect(self, old);
        }
        self.prefer_new = old && !items.is_empty();
        if items.is_empty() {
            return None;
        }
        let held = items.iter().map(|item| self.is_held(&item.entry)).collect();
        Some(self.hand_out(items, held, firsts))
    }

    /// Hands out messages that have been in their retry topic for long enough and have to wait on.
    pub(super) fn take_early(&mut self, limit: usize, now: Now) -> Option<Handed> {
        let mut items = Vec::new();
        for shelf in self.shelves.values_mut().filter(|shelf| !shelf.revoked) {
            while items.len() < limit && shelf.first_early(now, &self.steps).is_some() {
                items.extend(shelf.pop());
            }
        }
        let held = vec![false; items.len()];
        (!items.is_empty()).then(|| self.hand_out(items, held, true))
    }

    fn hand_out(&mut self, items: Vec<Item>, held: Vec<bool>, set_aside: bool) -> Handed {
        self.claims += 1;
        self.open.insert(self.claims, items.clone());
        Handed { number: self.claims, items, held, set_aside }
    }

    /// Messages of the topics themselves.
    fn collect_new(&mut self, limit: usize, now: Now) -> Vec<Item> {
        let (mut items, mut bytes) = (Vec::new(), 0);
        for place in self.in_turn().into_iter().filter(|place| place.step.is_none()) {
            let Some(shelf) = self.shelves.get_mut(&place).filter(|shelf| !shelf.revoked) else { continue };
            while items.len() < limit && bytes < CLAIM_BYTES {
                let Some(next) = shelf.first(now, &self.steps) else { break };
                bytes += next.weight();
                items.extend(shelf.pop());
                self.last = Some(place);
            }
        }
        items
    }

    /// Messages that waited in retry topics, or here; and whether they are the first of their keys that are not done.
    ///
    /// Some follow one that is handed out already. They are handed out apart from the others: if it fails again, they
    /// have to stay behind it.
    fn collect_old(&mut self, limit: usize, now: Now) -> (Vec<Item>, bool) {
        let (mut items, mut bytes, mut firsts) = (Vec::new(), 0, None);
        for place in self.in_turn() {
            let lane = self.lanes.get(&lane_of(&place));
            let Some(shelf) = self.shelves.get_mut(&place).filter(|shelf| !shelf.revoked) else { continue };
            while items.len() < limit && bytes < CLAIM_BYTES {
                let kept = shelf.first_kept(now);
                let is_kept = kept.is_some();
                let read = place.step.and_then(|_| shelf.first(now, &self.steps));
                let Some(next) = kept.or(read) else { break };
                let key = next.message.key.as_deref();
                let follows = key.zip(lane).is_some_and(|(key, lane)| lane.follows(key, &next.message.id));
                if *firsts.get_or_insert(!follows) == follows {
                    break;
                }
                bytes += next.weight();
                let offset = next.offset;
                items.extend(if is_kept { shelf.pop_kept(offset) } else { shelf.pop() });
                self.last = Some(place);
            }
        }
        (items, firsts.unwrap_or(true))
    }

    /// The partitions, beginning after the one that came last.
    fn in_turn(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self.shelves.keys().copied().collect();
        let first = places.iter().position(|place| self.last.is_none_or(|last| *place > last)).unwrap_or(0);
        places.rotate_left(first);
        places
    }

    fn is_held(&mut self, entry: &Entry) -> bool {
        match &entry.message.key {
            Some(key) if entry.defect.is_none() => {
                self.lane(&entry.place).came(key, &entry.message.id) == Came::Held
            }
            _ => false,
        }
    }

    /// The keys that wait, of a partition and those of the same number in its retry topics.
    pub(super) fn lane(&mut self, place: &Place) -> &mut Held {
        self.lanes.entry(lane_of(place)).or_default()
    }

    /// Whose the partitions of these messages are.
    pub(super) fn standing(&self, items: &[Item]) -> Standing {
        let mut standing = Standing::Ours;
        for item in items {
            match self.shelves.get(&item.entry.place) {
                Some(shelf) if shelf.epoch != item.epoch => return Standing::Lost,
                None => return Standing::Lost,
                Some(shelf) if shelf.revoked => standing = Standing::Unknown,
                Some(_) => {}
            }
        }
        standing
    }

    /// What is to be committed once this is what became of the messages.
    pub(super) fn commits(&self, items: &[Item], ends: &[End]) -> Vec<(Place, i64)> {
        let mut done: BTreeMap<Place, BTreeSet<i64>> = BTreeMap::new();
        let is_done = |end: &End| matches!(end, End::Done | End::Moved);
        let is_current =
            |item: &Item| self.shelves.get(&item.entry.place).is_some_and(|shelf| shelf.epoch == item.epoch);
        for (item, _) in items.iter().zip(ends).filter(|(item, end)| is_done(end) && is_current(item)) {
            done.entry(item.entry.place).or_default().insert(item.entry.offset);
        }
        let commit = |(place, done): (Place, BTreeSet<i64>)| {
            let shelf = self.shelves.get(&place)?;
            let offset = shelf.offsets.after(&done)?;
            (shelf.committed.is_none_or(|committed| committed < offset)).then_some((place, offset))
        };
        done.into_iter().filter_map(commit).collect()
    }

    /// Writes down what became of the messages of a claim.
    pub(super) fn settle(
        &mut self,
        number: u64,
        items: &[Item],
        ends: &[End],
        commits: &[(Place, i64)],
        now: Now,
    ) {
        self.open.remove(&number);
        for (item, end) in items.iter().zip(ends) {
            let (entry, place) = (&item.entry, item.entry.place);
            let Some(shelf) = self.shelves.get_mut(&place).filter(|shelf| shelf.epoch == item.epoch) else {
                continue;
            };
            match end {
                End::Moved => shelf.offsets.done([entry.offset]),
                End::Done => {
                    shelf.offsets.done([entry.offset]);
                    if let Some(key) = &entry.message.key {
                        self.lane(&place).gone(key, &entry.message.id);
                    }
                }
                End::Back => self.put_back(item.clone(), now),
                End::Kept { due, attempts } => shelf.keep(entry.clone(), *due, *attempts),
            }
        }
        for (place, offset) in commits {
            let epoch = items.iter().find(|item| item.entry.place == *place).map(|item| item.epoch);
            // The log may have become another one since: then this was committed of the one that was.
            if let Some(shelf) = self.shelves.get_mut(place).filter(|shelf| Some(shelf.epoch) == epoch) {
                shelf.committed = Some(*offset);
            }
        }
    }

    fn put_back(&mut self, item: Item, now: Now) {
        let entry = item.entry.clone();
        let shelf = self.shelves.get_mut(&entry.place);
        let Some(shelf) = shelf.filter(|shelf| shelf.epoch == item.epoch) else { return };
        shelf.put_back(item, now);
        if let Some(key) = &entry.message.key {
            self.lane(&entry.place).released(key, &entry.message.id, now.instant);
        }
    }

    /// Takes back what was handed out as one claim.
    pub(super) fn take_back(&mut self, number: u64, now: Now) {
        for item in self.open.remove(&number).into_iter().flatten() {
            self.put_back(item, now);
        }
    }

    /// Takes back everything that is handed out: whoever had it has forgotten it.
    pub(super) fn take_back_all(&mut self, now: Now) {
        for number in self.open.keys().copied().collect::<Vec<_>>() {
            self.take_back(number, now);
        }
    }

    /// Whether a claim is neither settled nor taken back.
    pub(super) fn is_open(&self, number: u64) -> bool {
        self.open.contains_key(&number)
    }

    /// How long until something can be handed out, as far as is known.
    pub(super) fn wait(&self, now: Now) -> Option<Duration> {
        let ours = self.shelves.values().filter(|shelf| !shelf.revoked);
        let first = ours.filter_map(|shelf| shelf.ready_at(now)).min()?;
        Some(first.saturating_duration_since(now.instant))
    }
}

/// A partition shares its keys with those of the same number in its retry topics.
fn lane_of(place: &Place) -> (usize, i32) {
    (place.topic, place.partition)
}

fn is_over((messages, bytes): (usize, usize), room: Room) -> bool {
    messages >= room.messages || bytes >= room.bytes
}

#[cfg(test)]
#[path = "stock_tests.rs"]
mod tests;
