//! The ids that are on their way: of two calls with one id the second waits for the first, which may record it.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::message::MessageId;

/// The ids of all calls that have not returned.
#[derive(Debug, Default)]
pub(super) struct Busy {
    ids: Mutex<HashSet<MessageId>>,
    freed: Notify,
}

/// Ids that are ours until this is dropped.
pub(super) struct Taken<'b> {
    busy: &'b Busy,
    ids: Vec<MessageId>,
}

impl Busy {
    /// Waits until none of these is in another call, and takes them all at once: who waits holds none, so no two calls
    /// wait for each other.
    pub(super) async fn take(&self, ids: &[&MessageId]) -> Taken<'_> {
        loop {
            let mut freed = pin!(self.freed.notified());
            // From here on a call that ends is heard, also before we wait.
            freed.as_mut().enable();
            if let Some(taken) = self.try_take(ids) {
                return taken;
            }
            freed.await;
        }
    }

    fn try_take(&self, ids: &[&MessageId]) -> Option<Taken<'_>> {
        let mut busy = self.lock();
        if ids.iter().any(|id| busy.contains(*id)) {
            return None;
        }
        let ids: Vec<MessageId> = ids.iter().map(|id| (*id).clone()).collect();
        busy.extend(ids.iter().cloned());
        Some(Taken { busy: self, ids })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<MessageId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut busy = self.busy.lock();
        for id in &self.ids {
            busy.remove(id);
        }
        drop(busy);
        self.busy.freed.notify_waiters();
    }
}
