//! The inbox: ids in a set, effects in whatever the transaction holds.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use crate::error::Result;
use crate::message::MessageId;

type Handled = HashMap<(String, MessageId), Instant>;

#[derive(Debug, Default)]
struct Store {
    handled: Handled,
    effects: Vec<String>,
}

/// An inbox in memory, beside a list of effects that handlers write to.
#[derive(Debug, Clone, Default)]
pub struct Inbox {
    store: Arc<Mutex<Store>>,
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
    handled: Handled,
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
        let now = Instant::now();
        let mut record = |id: &MessageId| tx.handled.insert((consumer.to_owned(), id.clone()), now);
        Ok(ids.iter().map(|id| record(id).is_none()).collect())
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

    async fn prune(&self, window: Duration, step: u32) -> Result<u64> {
        let mut store = self.store.lock().await;
        let old: Vec<_> = store
            .handled
            .iter()
            .filter(|(_, at)| at.elapsed() > window)
            .map(|(id, _)| id.clone())
            .take(step as usize)
            .collect();
        for id in &old {
            store.handled.remove(id);
        }
        Ok(old.len() as u64)
    }
}
