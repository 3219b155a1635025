//! The log and its cursors: the [`Source`].

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::LogStore;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Limits, Message, MessageId};
use crate::policy::{Verdict, written};
use crate::source::{Claim, Source};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting { due: Instant },
    Behind,
    Dead { holds: bool },
}

/// A message that is set aside on a cursor.
#[derive(Debug)]
struct Parked {
    key: Option<String>,
    attempts: u32,
    state: State,
    claimed: bool,
}

#[derive(Debug, Default)]
struct CursorState {
    /// Counts the owners; a claim of an earlier one is lost.
    epoch: u64,
    owner: Option<u64>,
    /// Everything up to here is done or parked.
    done: usize,
    /// Everything up to here is done, parked or in an open claim.
    read: usize,
    parked: BTreeMap<usize, Parked>,
    claims: u64,
    settled: u64,
    prefer_log: bool,
}

#[derive(Debug, Default)]
struct Store {
    log: Vec<Message>,
    cursors: HashMap<String, CursorState>,
    owners: u64,
}

/// An append-only log in memory.
#[derive(Debug, Clone, Default)]
pub struct Outbox {
    store: Arc<Mutex<Store>>,
    limits: Limits,
    written: Arc<Notify>,
}

impl Outbox {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes messages, all or none.
    pub fn enqueue_all(&self, messages: Vec<Message>) -> Result<()> {
        messages.iter().try_for_each(|message| self.limits.check(message))?;
        self.lock().log.extend(messages);
        self.written.notify_waiters();
        Ok(())
    }

    /// Writes a message.
    pub fn enqueue(&self, message: Message) -> Result<MessageId> {
        let id = message.id.clone();
        self.enqueue_all(vec![message])?;
        Ok(id)
    }

    /// A new owner for the cursor `name`; it stands by while another holds the cursor.
    pub fn cursor(&self, name: impl Into<String>) -> Cursor {
        let mut store = self.lock();
        store.owners += 1;
        Cursor { outbox: self.clone(), name: name.into(), owner: store.owners }
    }

    /// Where a [`Publisher`](crate::Publisher) keeps what it cannot send; the pipe of this name delivers it.
    pub fn store(&self, pipe: impl Into<String>) -> LogStore {
        LogStore::new(self.clone(), pipe.into())
    }

    pub(super) fn message_limits(&self) -> Limits {
        self.limits
    }

    /// Whether a message of this id was ever written.
    pub(super) fn has(&self, id: &MessageId) -> bool {
        self.lock().log.iter().any(|message| message.id == *id)
    }

    /// Whether a message of the key is not done on the cursor, or holds its key there.
    pub(super) fn is_undone(&self, cursor: &str, key: &str) -> bool {
        let store = self.lock();
        let cursor = store.cursors.get(cursor);
        let pending = &store.log[cursor.map_or(0, |cursor| cursor.done)..];
        pending.iter().any(|message| message.key.as_deref() == Some(key))
            || cursor.is_some_and(|cursor| cursor.is_held(Some(key)))
    }

    /// Ends whatever lease there is on the cursor, as time would.
    pub fn expire(&self, cursor: &str) {
        if let Some(cursor) = self.lock().cursors.get_mut(cursor) {
            cursor.owner = None;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One reader of the log, with its own pace and its own failures.
#[derive(Debug)]
pub struct Cursor {
    outbox: Outbox,
    name: String,
    owner: u64,
}

/// What a claim must remember: which owner made it, its number, and where each message stands.
struct Token {
    epoch: u64,
    number: u64,
    places: Vec<usize>,
    keys: Vec<Option<String>>,
    /// Where reading began, for a page of the log; parked messages have none.
    page_after: Option<usize>,
}

impl CursorState {
    fn take(&mut self, owner: u64) -> bool {
        if self.owner == Some(owner) {
            return true;
        }
        if self.owner.is_some() {
            return false;
        }
        self.owner = Some(owner);
        self.epoch += 1;
        self.read = self.done;
        self.claims = 0;
        self.settled = 0;
        self.parked.values_mut().for_each(|parked| parked.claimed = false);
        true
    }

    fn is_held(&self, key: Option<&str>) -> bool {
        let holds = |parked: &Parked| parked.state != State::Dead { holds: false };
        key.is_some() && self.parked.values().any(|parked| holds(parked) && parked.key.as_deref() == key)
    }

    /// Due messages that were set aside, each with those that wait behind it.
    fn due(&self, limit: usize) -> Vec<usize> {
        let now = Instant::now();
        let mut places = Vec::new();
        for (place, parked) in &self.parked {
            if parked.claimed || !matches!(parked.state, State::Waiting { due } if due <= now) {
                continue;
            }
            places.push(*place);
            let followers = self.parked.range(place + 1..).filter(|(_, next)| {
                parked.key.is_some() && next.key == parked.key && next.state == State::Behind && !next.claimed
            });
            places.extend(followers.map(|(place, _)| *place));
        }
        places.truncate(limit);
        places.sort_unstable();
        places
    }

    /// Keeps the invariant: among those of a key that hold it, the first is never behind.
    fn promote(&mut self) {
        let mut held = std::collections::HashSet::new();
        for parked in self.parked.values_mut() {
            let Some(key) = &parked.key else { continue };
            if parked.state == (State::Dead { holds: false }) {
                continue;
            }
            if held.insert(key.clone()) && parked.state == State::Behind {
                parked.state = State::Waiting { due: Instant::now() };
            }
        }
    }

    fn park(&mut self, place: usize, key: Option<String>, ordered: bool, verdict: &Verdict) {
        let now = Instant::now();
        let attempts = self.parked.get(&place).map_or(0, |parked| parked.attempts);
        let (state, attempts) = match verdict {
            Verdict::Done => {
                self.parked.remove(&place);
                return;
            }
            Verdict::Retry { after, attempts, .. } => (State::Waiting { due: now + *after }, *attempts),
            Verdict::Dead { attempts, holds, .. } => (State::Dead { holds: *holds }, *attempts),
            Verdict::Behind => (State::Behind, attempts),
            Verdict::Released => match self.parked.get(&place).map(|parked| parked.state) {
                // It still is what it was.
                Some(state) => (state, attempts),
                None if ordered && self.is_held(key.as_deref()) => (State::Behind, attempts),
                None => (State::Waiting { due: now }, attempts),
            },
        };
        self.parked.insert(place, Parked { key, attempts, state, claimed: false });
    }
}

#[async_trait]
impl Source for Cursor {
    async fn claim(&self, limit: usize) -> Result<Claim> {
        let mut guard = self.outbox.lock();
        let store = &mut *guard;
        let cursor = store.cursors.entry(self.name.clone()).or_default();
        if !cursor.take(self.owner) {
            return Ok(Claim::empty());
        }
        let due = if cursor.prefer_log { Vec::new() } else { cursor.due(limit) };
        cursor.prefer_log = !due.is_empty();
        let page_after = due.is_empty().then_some(cursor.read);
        let places = if due.is_empty() {
            (cursor.read..store.log.len().min(cursor.read + limit)).collect()
        } else {
            due
        };
        if places.is_empty() {
            return Ok(Claim::empty());
        }
        let mut messages: Vec<Message> = places.iter().map(|place| store.log[*place].clone()).collect();
        let mut held = Vec::new();
        if page_after.is_some() {
            held = messages.iter().map(|message| cursor.is_held(message.key.as_deref())).collect();
            cursor.read += places.len();
        } else {
            for (message, place) in messages.iter_mut().zip(&places) {
                if let Some(parked) = cursor.parked.get_mut(place) {
                    parked.claimed = true;
                    message.attempts = parked.attempts;
                }
            }
        }
        cursor.claims += 1;
        let keys = messages.iter().map(|message| message.key.clone()).collect();
        let token = Token { epoch: cursor.epoch, number: cursor.claims, places, keys, page_after };
        let set_aside = token.page_after.is_none();
        let claim = Claim::new(messages, token).with_held(held);
        Ok(if set_aside { claim.of_set_aside() } else { claim })
    }

    async fn settle(&self, claim: &Claim, verdicts: &[Verdict]) -> Result<()> {
        let token: &Token = claim.token()?;
        let mut store = self.outbox.lock();
        let cursor = store.cursors.entry(self.name.clone()).or_default();
        if cursor.owner != Some(self.owner) || cursor.epoch != token.epoch {
            return Err(Error::new(ErrorKind::Lost, format!("cursor '{}' has another owner", self.name)));
        }
        if token.number <= cursor.settled {
            return Ok(());
        }
        let count = match token.page_after {
            Some(_) => written(verdicts, cursor.claims > token.number),
            None => verdicts.len(),
        };
        for (index, verdict) in verdicts.iter().enumerate().take(count) {
            let place = token.places[index];
            cursor.park(place, token.keys[index].clone(), claim.is_ordered(), verdict);
        }
        if let Some(after) = token.page_after {
            cursor.done = after + count;
            if count < verdicts.len() {
                cursor.read = cursor.done;
            }
        }
        cursor.promote();
        cursor.settled = token.number;
        Ok(())
    }

    async fn wait(&self, idle: Duration) {
        let _ = tokio::time::timeout(idle, self.outbox.written.notified()).await;
    }

    async fn close(&self) -> Result<()> {
        let mut store = self.outbox.lock();
        if let Some(cursor) = store.cursors.get_mut(&self.name)
            && cursor.owner == Some(self.owner)
        {
            cursor.owner = None;
        }
        Ok(())
    }
}
