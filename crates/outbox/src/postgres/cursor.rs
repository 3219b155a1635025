//! A reader of the log: the [`Source`], and the state that its claims share.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgPool;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::ahead::Ahead;
use super::lanes::{Seat, Share};
use super::page::NextPage;
use super::wake::Wake;
use super::window::{Marks, Position};
use crate::error::{Error, ErrorKind, Result};
use crate::policy::Verdict;
use crate::source::{Claim, Lease, Source, Start};

/// Taking a cursor may mean to rebase it after a restore, which is the work of minutes on a large log.
const TAKE_LIMIT: Duration = Duration::from_secs(600);

/// What a cursor is, without what it is doing.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) pool: PgPool,
    pub(super) name: String,
    pub(super) lane: u32,
    pub(super) lanes: u32,
    pub(super) owner: String,
    pub(super) lease: Duration,
    pub(super) start: Start,
}

impl Identity {
    pub(super) fn lane(&self) -> i32 {
        i32::try_from(self.lane).unwrap_or(0)
    }
    pub(super) fn lanes(&self) -> i32 {
        i32::try_from(self.lanes).unwrap_or(1)
    }
    pub(super) fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX)
    }
}

/// What we know while the cursor is ours.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) epoch: i64,
    pub(super) lease: Lease,
    /// Of our part of the lanes. One that shares them and has none is to be given back.
    pub(super) seat: Option<Seat>,
    /// The history of the server; it changes when a standby takes over, and then our snapshots mean nothing.
    pub(super) timeline: String,
    /// Where claiming goes on; ahead of what is settled. This is what is written down, never more.
    pub(super) read: Position,
    /// What was read beyond that, and is not claimed.
    pub(super) ahead: Option<Ahead>,
    /// What comes behind that, being read or read already.
    pub(super) next_page: Option<NextPage>,
    pub(super) marks: Marks,
    /// Claims made and settled so far under this epoch.
    pub(super) claims: i64,
    pub(super) settled: i64,
    /// A settle was sent and not answered.
    pub(super) in_doubt: bool,
    /// Set-aside messages that are in open claims.
    pub(super) parked_out: HashSet<i64>,
    /// Whether anything may be set aside; spares the happy path a look.
    pub(super) has_parked: bool,
    pub(super) looked_at_parked: Option<Instant>,
    /// Whether the last claim was of set-aside messages: then it is the log's turn.
    pub(super) parked_last: bool,
    /// The page size that keeps a page within its bytes, learned from the last one.
    pub(super) page_rows: usize,
}

impl Drop for Held {
    /// What was claimed under it must not be delivered any more, whoever has a copy of the lease.
    fn drop(&mut self) {
        self.lease.extend(Instant::now());
    }
}

impl Held {
    pub(super) fn has_open_claims(&self) -> bool {
        self.claims > self.settled
    }
}

/// What a claim remembers, to be settled by.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) epoch: i64,
    pub(super) number: i64,
    pub(super) rows: Vec<Place>,
    /// The page of the log that this is; none for messages that were set aside.
    pub(super) page: Option<Page>,
}

/// One message of a claim.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) seq: i64,
    pub(super) key: Option<String>,
    pub(super) attempts: i32,
}

/// A page of the log: where it began and where it ends.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) before: Position,
    pub(super) after: Position,
}

/// A reader of the log with its own pace and its own failures, under a lease.
#[derive(Debug)]
pub struct Cursor {
    pub(super) identity: Identity,
    pub(super) state: Arc<Mutex<Option<Held>>>,
    share: Option<Arc<Share>>,
    renewal: std::sync::Mutex<Option<AbortOnDropHandle<()>>>,
    wake: Option<Arc<Wake>>,
    /// Whether it was said that another holds the cursor; once is enough.
    stands_by: AtomicBool,
}

impl Cursor {
    pub(super) fn new(pool: PgPool, name: String, wake: Option<Arc<Wake>>) -> Self {
        let owner = format!("{}-{}", std::process::id(), Uuid::new_v4().simple());
        let lease = Duration::from_secs(30);
        let identity = Identity { pool, name, lane: 0, lanes: 1, owner, lease, start: Start::default() };
        Self::of(identity, None, wake)
    }

    fn of(identity: Identity, share: Option<Arc<Share>>, wake: Option<Arc<Wake>>) -> Self {
        let (state, renewal, stands_by) = Default::default();
        Self { identity, state, share, renewal, wake, stands_by }
    }

    /// Names who holds the lease, for people who look; must differ between processes.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.identity.owner = owner.into();
        self
    }

    /// Sets how long the cursor stays ours when we fall silent (30 s).
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        self.identity.lease = lease;
        self
    }

    /// Sets where it begins if it does not exist yet.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        self.identity.start = start;
        self
    }

    /// Splits it by hash of the key into `lanes` readers; relays that do the same share them.
    pub fn lanes(self, lanes: u32) -> Vec<Cursor> {
        let lanes = lanes.max(1);
        let share = (lanes > 1).then(|| Arc::new(Share::new(lanes)));
        let lane = |lane| {
            let identity = Identity { lane, lanes, ..self.identity.clone() };
            Self::of(identity, share.clone(), self.wake.clone())
        };
        (0..lanes).map(lane).collect()
    }

    /// Makes sure that the cursor is ours; `None` when it is somebody else's.
    async fn hold<'a>(&self, state: &'a mut Option<Held>) -> Result<Option<&'a mut Held>> {
        if state.as_ref().is_some_and(|held| held.lease.is_expired()) {
            *state = None;
        }
        if let (Some(share), Some(held)) = (&self.share, state.as_mut())
            && (held.seat.is_none() || share.is_surplus())
        {
            if held.has_open_claims() {
                // It is given back when these are done, which under load would never be if more were claimed.
                return Ok(None);
            }
            held.seat = held.seat.take().and_then(Seat::unless_surplus);
            if held.seat.is_none() {
                super::lease::release(&self.identity, Some(held)).await?;
                *state = None;
                return Ok(None);
            }
        }
        if state.is_none() {
            let seat = match &self.share {
                Some(share) => {
                    share.refresh(&self.identity).await?;
                    let Some(seat) = share.seat() else { return Ok(None) };
                    Some(seat)
                }
                None => None,
            };
            *state = super::lease::acquire(&self.identity).await?;
            let was_standing_by = self.stands_by.swap(state.is_none(), Ordering::Relaxed);
            if state.is_none() && !was_standing_by {
                let Identity { name, lane, .. } = &self.identity;
                tracing::info!(cursor = name, lane, "standing by: another relay holds the cursor");
            }
            if let Some(held) = state.as_mut() {
                held.seat = seat;
                self.start_renewal();
            }
        }
        Ok(state.as_mut())
    }

    fn start_renewal(&self) {
        let task =
            super::lease::renew(self.identity.clone(), Arc::downgrade(&self.state), self.share.clone());
        *lock(&self.renewal) = Some(AbortOnDropHandle::new(tokio::spawn(task)));
    }

    /// Puts an end to what a silent server would keep waiting, and everything else behind it.
    async fn in_time<T>(
        &self,
        doing: &str,
        limit: Duration,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
            let what = format!("{doing} on cursor '{}' took longer than {limit:?}", self.identity.name);
            Err(Error::new(ErrorKind::Timeout, what))
        })
    }
}

#[async_trait]
impl Source for Cursor {
    async fn claim(&self, limit: usize) -> Result<Claim> {
        let mut state = self.state.lock().await;
        match self.in_time("taking hold", TAKE_LIMIT, self.hold(&mut state)).await? {
            Some(held) if !held.in_doubt => {
                let claim = super::page::claim(&self.identity, held, limit);
                self.in_time("claiming", self.identity.lease, claim).await
            }
            _ => Ok(Claim::empty()),
        }
    }

    async fn settle(&self, claim: &Claim, verdicts: &[Verdict]) -> Result<()> {
        let token: &Token = claim.token()?;
        let work = async {
            let mut state = self.state.lock().await;
            let Some(held) = state.as_mut().filter(|held| held.epoch == token.epoch) else {
                return Err(lost(&self.identity));
            };
            let result =
                super::settle::settle(&self.identity, held, token, claim.is_ordered(), verdicts).await;
            if matches!(&result, Err(error) if error.kind() == ErrorKind::Lost) {
                *state = None;
            }
            result
        };
        self.in_time("settling", self.identity.lease, work).await
    }

    async fn wait(&self, idle: Duration) {
        match &self.wake {
            Some(wake) => wake.wait(idle).await,
            None => tokio::time::sleep(idle).await,
        }
    }

    async fn close(&self) -> Result<()> {
        lock(&self.renewal).take();
        let work = async {
            let mut state = self.state.lock().await;
            let released = super::lease::release(&self.identity, state.as_ref()).await;
            // Also when that failed: whatever we think is claimed is not ours to settle any more.
            *state = None;
            released?;
            match &self.share {
                Some(share) => share.leave(&self.identity).await,
                None => Ok(()),
            }
        };
        self.in_time("closing", self.identity.lease, work).await
    }
}

pub(super) fn lost(identity: &Identity) -> Error {
    let Identity { name, lane, .. } = identity;
    Error::new(ErrorKind::Lost, format!("cursor '{name}' (lane {lane}) is no longer ours"))
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
