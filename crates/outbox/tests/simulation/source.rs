//! The source of a life: the reference backend behind a network that fails, under a lease that runs out.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use outbox::memory::Cursor;
use outbox::{Cause, Claim, Error, ErrorKind, Result, Source, Verdict, code};
use tokio::time::Instant;

use crate::lie::Lie;
use crate::world::{CURSOR, World};

/// The cursor of one relay.
pub(crate) struct Shaky {
    relay: usize,
    world: Arc<World>,
    /// Another one after it could not be closed: what it had claimed is not ours any more.
    cursor: Mutex<Arc<Cursor>>,
}

impl Shaky {
    pub(crate) fn new(relay: usize, world: Arc<World>) -> Self {
        let cursor = Mutex::new(Arc::new(world.outbox.cursor(CURSOR)));
        Self { relay, world, cursor }
    }

    fn cursor(&self) -> Arc<Cursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What may happen before the source has been asked.
    async fn reach(&self) -> Result<()> {
        self.world.linger().await;
        let faults = self.world.script.faults;
        if self.world.strikes(faults.source_away) {
            return Err(Error::new(ErrorKind::Unreachable, "not even asked"));
        }
        if self.world.strikes(faults.source_broken) {
            self.world.lock().ledger.broken(self.relay);
            return Err(Error::new(ErrorKind::Denied, "only a person can mend this"));
        }
        Ok(())
    }

    /// The claim as the relay gets it, noted in the ledger.
    fn hand_out(&self, claim: Claim, limit: usize) -> Claim {
        let claim = lie_about(self.world.lie, claim);
        let mut state = self.world.lock();
        let cause = || Cause::new(code::NO_ID, "broken");
        let defects = state.ledger.defects(&claim).into_iter().map(|index| (index, cause()));
        let claim = claim.with_defects(defects.collect());
        state.ledger.claimed(self.relay, &claim, limit);
        match state.ledger.lease(self.relay) {
            Some(lease) => claim.with_lease(lease),
            None => claim,
        }
    }

    /// What the source writes down, if it is honest.
    async fn write(&self, claim: &Claim, verdicts: &[Verdict]) -> Result<()> {
        let lie = self.world.lie;
        let again = |verdict: &Verdict| match verdict {
            Verdict::Done if lie == Lie::ForgottenDone => again(0),
            Verdict::Dead { attempts, .. } if lie == Lie::RisenDead => again(*attempts),
            Verdict::Retry { attempts, .. } if lie == Lie::EarlyRetry => again(*attempts),
            verdict => verdict.clone(),
        };
        let written: Vec<_> = verdicts.iter().map(again).collect();
        match self.cursor().settle(claim, &written).await {
            Err(error) if error.kind() == ErrorKind::Lost && lie == Lie::SettledLost => Ok(()),
            result => result,
        }
    }
}

fn again(attempts: u32) -> Verdict {
    Verdict::Retry { after: Duration::ZERO, attempts, cause: Cause::new(code::HANDLER, "a lie") }
}

#[async_trait]
impl Source for Shaky {
    async fn claim(&self, limit: usize) -> Result<Claim> {
        let asked = Instant::now();
        self.world.lock().ledger.asked(self.relay, limit);
        self.reach().await?;
        {
            let mut state = self.world.lock();
            if state.ledger.is_expired(self.relay) {
                state.ledger.lost(self.relay);
                return Err(Error::new(ErrorKind::Lost, "the lease has run out"));
            }
            let was_owner = state.ledger.is_owner(self.relay);
            if !state.ledger.take(self.relay, asked) {
                return Ok(Claim::empty());
            }
            if !was_owner && self.world.lie != Lie::KeptOnClose {
                self.world.outbox.expire(CURSOR);
            }
        }
        let claim = self.cursor().claim(limit).await?;
        let claim = self.hand_out(claim, limit);
        // What is read now is known later: by then a settle may have changed what it says.
        self.world.linger().await;
        Ok(claim)
    }

    async fn settle(&self, claim: &Claim, verdicts: &[Verdict]) -> Result<()> {
        let asked = Instant::now();
        self.world.lock().ledger.judged(self.relay, verdicts);
        self.reach().await?;
        if self.world.lie != Lie::UnwrittenSettle
            && let Err(error) = self.write(claim, verdicts).await
        {
            if error.kind() == ErrorKind::Lost {
                self.world.lock().ledger.lost(self.relay);
            }
            return Err(error);
        }
        {
            let mut state = self.world.lock();
            state.ledger.written(self.relay);
            state.ledger.renew(self.relay, asked);
        }
        self.world.settled.notify_waiters();
        self.world.linger().await;
        if self.world.strikes(self.world.script.faults.answer_lost) {
            return Err(Error::new(ErrorKind::Timeout, "written, but the answer is lost"));
        }
        self.world.lock().ledger.settled(self.relay);
        Ok(())
    }

    async fn wait(&self, idle: Duration) {
        if self.world.strikes(50) {
            // Woken for nothing.
            return tokio::task::yield_now().await;
        }
        self.cursor().wait(idle).await;
    }

    async fn close(&self) -> Result<()> {
        self.world.linger().await;
        let in_reach = !self.world.strikes(self.world.script.faults.not_closed);
        self.world.lock().ledger.closed(self.relay, in_reach);
        if in_reach && self.world.lie != Lie::KeptOnClose {
            return self.cursor().close().await;
        }
        let fresh = Arc::new(self.world.outbox.cursor(CURSOR));
        *self.cursor.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
        if in_reach { Ok(()) } else { Err(Error::new(ErrorKind::Unreachable, "not closed")) }
    }
}

/// The claim as a source gives it that breaks its contract.
fn lie_about(lie: Lie, mut claim: Claim) -> Claim {
    match lie {
        Lie::ForgottenHeld => claim.with_held(Vec::new()),
        Lie::ForgottenAttempts => {
            claim.messages.iter_mut().for_each(|message| message.attempts = 0);
            claim
        }
        Lie::ChangedPayload => {
            claim.messages.iter_mut().for_each(|message| message.payload = "a lie".into());
            claim
        }
        Lie::Reversed => {
            claim.messages.reverse();
            claim
        }
        Lie::HandedOutTwice => {
            if let [first, .., last] = &mut claim.messages[..] {
                *last = first.clone();
            }
            claim
        }
        _ => claim,
    }
}
