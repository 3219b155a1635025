//! What a claim must remember until it is settled.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::shelf::Item;

/// What a claim must remember.
pub(super) struct Token {
    /// The reader that handed the messages out.
    pub(super) life: u64,
    pub(super) number: u64,
    pub(super) items: Vec<Item>,
    progress: Mutex<Progress>,
}

/// How far a settle has come, for the case that it has to be repeated.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The keys that wait are known.
    pub(super) registered: bool,
    /// Of each message: whether it is moved, or cannot be.
    pub(super) moved: Vec<Option<bool>>,
    pub(super) settled: bool,
}

impl Token {
    pub(super) fn new(life: u64, number: u64, items: Vec<Item>) -> Self {
        let moved = vec![None; items.len()];
        let progress = Mutex::new(Progress { moved, ..Progress::default() });
        Self { life, number, items, progress }
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
