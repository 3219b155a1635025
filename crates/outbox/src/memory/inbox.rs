//! The inbox: ids in a set, effects in whatever the transaction holds.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use crate::error::Result;
use crate::inbox::{Attempt, Failed, Handled};
use crate::message::MessageId;

type Ids = HashMap<(String, MessageId), (Instant, Timestamp)>;

#[derive(Debug, Default)]
struct Store {
    handled: Ids,
    effects: Vec<String>,
}

/// An inbox in memory, beside a list of effects that handlers write to.
#[derive(Debug, Clone, Default)]
pub struct Inbox {
    store: Arc<Mutex<Store>>,
    /// Apart from the rest: a note does not wait for a transaction.
    notes: Arc<Mutex<Vec<Note>>>,
}

#[derive(Debug)]
struct Note {
    id: MessageId,
    noted: Instant,
    what: Handled,
}

impl Inbox {
    /// An empty inbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// What handlers have written and committed.
    pub async fn effects(&self) -> Vec<String> {
        self.store.lock().await.effects.clone()
    }
}

/// An open transaction: it holds the lock, so there is one at a time.
#[derive(Debug)]
pub struct Tx {
    store: OwnedMutexGuard<Store>,
    handled: Ids,
    effects: Vec<String>,
    marked: usize,
}

impl Deref for Tx {
    type Target = Vec<String>;
    fn deref(&self) -> &Vec<String> {
        &self.effects
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut Vec<String> {
        &mut self.effects
    }
}

#[async_trait]
impl crate::Inbox for Inbox {
    type Tx = Tx;

    async fn begin(&self) -> Result<Tx> {
        let store = self.store.clone().lock_owned().await;
        let (handled, effects) = (store.handled.clone(), store.effects.clone());
        Ok(Tx { store, handled, effects, marked: 0 })
    }

    async fn record(&self, tx: &mut Tx, consumer: &str, ids: &[&MessageId]) -> Result<Vec<bool>> {
        let now = (Instant::now(), Timestamp::now());
        let mut record = |id: &MessageId| match tx.handled.entry((consumer.to_owned(), id.clone())) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(now);
                true
            }
        };
        Ok(ids.iter().map(|id| record(id)).collect())
    }

    async fn mark(&self, tx: &mut Tx) -> Result<()> {
        tx.marked = tx.effects.len();
        Ok(())
    }

    async fn undo(&self, tx: &mut Tx, consumer: &str, id: &MessageId) -> Result<()> {
        tx.effects.truncate(tx.marked);
        tx.handled.remove(&(consumer.to_owned(), id.clone()));
        Ok(())
    }

    async fn commit(&self, mut tx: Tx) -> Result<()> {
        tx.store.handled = tx.handled;
        tx.store.effects = tx.effects;
        Ok(())
    }

    async fn known(&self, consumer: &str, ids: &[&MessageId]) -> Result<Vec<bool>> {
        let store = self.store.lock().await;
        let known = |id: &MessageId| store.handled.contains_key(&(consumer.to_owned(), id.clone()));
        Ok(ids.iter().map(|id| known(id)).collect())
    }

    async fn note(&self, consumer: &str, failures: &[Failed<'_>]) -> Result<()> {
        let (noted, at) = (Instant::now(), Some(Timestamp::now()));
        let note = |failed: &Failed<'_>| {
            let attempt = Attempt { attempt: failed.attempt, cause: failed.cause.clone(), dead: failed.dead };
            let what = Handled { consumer: consumer.to_owned(), at, failed: Some(attempt) };
            Note { id: failed.id.clone(), noted, what }
        };
        self.notes.lock().await.extend(failures.iter().map(note));
        Ok(())
    }

    async fn history(&self, id: &MessageId) -> Result<Vec<Handled>> {
        let notes = self.notes.lock().await;
        let mut all: Vec<_> =
            notes.iter().filter(|note| note.id == *id).map(|note| note.what.clone()).collect();
        let store = self.store.lock().await;
        let handled = store.handled.iter().filter(|((_, known), _)| known == id);
        all.extend(handled.map(|((consumer, _), (_, at))| Handled {
            consumer: consumer.clone(),
            at: Some(*at),
            failed: None,
        }));
        Ok(Handled::in_order(all))
    }

    async fn prune(&self, consumer: &str, window: Duration, step: u32) -> Result<u64> {
        let mut store = self.store.lock().await;
        let old: Vec<_> = store
            .handled
            .iter()
            .filter(|((whose, _), (at, _))| whose == consumer && at.elapsed() > window)
            .map(|(id, _)| id.clone())
            .take(step as usize)
            .collect();
        for id in &old {
            store.handled.remove(id);
        }
        let mut notes = self.notes.lock().await;
        let ids_and_notes = notes.len() + old.len();
        let mut left = step as usize - old.len();
        notes.retain(|note| {
            let goes = left > 0 && note.what.consumer == consumer && note.noted.elapsed() > window;
            left -= usize::from(goes);
            !goes
        });
        Ok((ids_and_notes - notes.len()) as u64)
    }
}
