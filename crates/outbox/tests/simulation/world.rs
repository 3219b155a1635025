//! What all fakes of one life share: the dice, the log, the ledger, and how the sink feels.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outbox::memory::Outbox;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::dice::Dice;
use crate::ledger::Ledger;
use crate::lie::Lie;
use crate::script::Script;

/// The name of the one cursor.
pub(crate) const CURSOR: &str = "c";

/// How the sink feels about everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It takes what can be taken.
    Up,
    /// It takes nothing, and says so.
    Away,
    /// It rejects everything for one cause.
    Refusing,
}

pub(crate) struct State {
    pub(crate) dice: Dice,
    pub(crate) ledger: Ledger,
    pub(crate) mood: Mood,
    /// Nothing goes wrong any more.
    pub(crate) calm: bool,
}

pub(crate) struct World {
    pub(crate) script: Arc<Script>,
    pub(crate) lie: Lie,
    pub(crate) outbox: Outbox,
    /// Something was settled.
    pub(crate) settled: Notify,
    state: Mutex<State>,
}

impl World {
    /// A world; `tell` keeps its story.
    pub(crate) fn new(seed: u64, lie: Lie, tell: bool) -> Arc<Self> {
        let mut dice = Dice::new(seed);
        let script = Arc::new(Script::roll(&mut dice));
        let ledger = Ledger::new(script.clone(), tell);
        let state = State { dice, ledger, mood: Mood::Up, calm: false };
        let (outbox, settled) = (Outbox::new(), Notify::new());
        Arc::new(Self { script, lie, outbox, settled, state: Mutex::new(state) })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a fault of this chance strikes now.
    pub(crate) fn strikes(&self, per_mille: u64) -> bool {
        let mut state = self.lock();
        !state.calm && state.dice.happens(per_mille)
    }

    /// Takes a while, as everything does that goes over a network.
    pub(crate) async fn linger(&self) {
        let pause = {
            let mut state = self.lock();
            // Mostly nothing: each pause is work for the clock.
            if state.dice.happens(700) { return } else { state.dice.millis(1, 20) }
        };
        tokio::time::sleep(pause).await;
    }

    /// Writes messages to the log.
    pub(crate) fn write(&self, count: usize) {
        let mut state = self.lock();
        let State { dice, ledger, .. } = &mut *state;
        let mut messages: Vec<_> = (0..count).map(|_| ledger.write(dice)).collect();
        if self.lie == Lie::PassedOver {
            messages.pop();
        }
        if let Err(error) = self.outbox.enqueue_all(messages) {
            ledger.violated("S1", format!("a message could not be written: {error}"));
        }
    }

    /// Lets the lease end at the database, whatever its owner thinks.
    pub(crate) fn expire(&self) {
        let mut state = self.lock();
        state.ledger.note(|| "the lease ends early".to_owned());
        state.ledger.cut_lease(Instant::now());
    }
}
