//! A mapped table as a [`Source`]: the same for every database, on what its [`Driver`] does.
//!
//! Rows are claimed by lock or by stamp. What failed stays in the table as it is there; when to try it again, and
//! which keys wait for it, is remembered in [`Aside`]. Under key order a shard (a table, or one lane of it) has one
//! owner, which knows everything that is set aside in it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep};

use super::aside::Aside;
use super::catalog::Layout;
use super::driver::{Claiming, Driver, Ownership};
use super::mapping::ClaimBy;
use super::row::Row;
use super::settle::{Changes, Taken};
use super::sql::{Cells, Lane};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::policy::Verdict;
use crate::sink::Cause;
use crate::source::{Claim, Lease, Source};

/// A database that does not answer for twice the lease is taken for gone, but not before this.
const LEAST_LIMIT: Duration = Duration::from_secs(10);

/// How often a relay that stands by looks whether it may take over.
const STAND_BY: Duration = Duration::from_millis(200);

/// How long a row waits that somebody else has locked.
const LOCKED_PAUSE: Duration = Duration::from_secs(1);

/// How a mapped table is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Who we are, for whoever looks at the locks.
    pub owner: String,
    /// In how many lanes each table is split, by hash of the key.
    pub lanes: u32,
    /// How long a claim by lock may take until the server ends it.
    pub lease: Duration,
    /// Whether the messages of a key wait for each other.
    pub ordered: bool,
    /// Whether a key waits for a person when a message of it is dead.
    pub holds: bool,
    /// Claims that are open at a time, for the size of the pool.
    pub depth: u32,
}

impl Default for Reading {
    fn default() -> Self {
        let (owner, lease) = ("outboxd".to_owned(), Duration::from_secs(30));
        Self { owner, lanes: 1, lease, ordered: true, holds: true, depth: 4 }
    }
}

/// One table, or one lane of it.
#[derive(Debug, Clone)]
pub(crate) struct Shard {
    pub(crate) number: u32,
    pub(crate) layout: Arc<Layout>,
    pub(crate) lane: Lane,
}

/// A shard of a mapped table, as a pipe reads it.
pub(crate) struct TableSource<D: Driver> {
    pub(super) driver: Arc<D>,
    pub(super) shard: Shard,
    pub(super) reading: Reading,
    owned: bool,
    aside: Mutex<Aside>,
    /// Also those that the pipe has dropped: their rows are ours until they are given back.
    open: Mutex<Vec<Arc<OpenClaim<D::Tx>>>>,
    pub(super) refreshed: Mutex<Option<Instant>>,
    stands_by: AtomicBool,
}

/// A claim that is not over.
pub(super) struct OpenClaim<Tx> {
    pub(super) state: tokio::sync::Mutex<State<Tx>>,
    pub(super) taken: Vec<Taken>,
    pub(super) stamp: Option<String>,
    /// Rows that the claim has locked and nobody was given.
    pub(super) left: Vec<String>,
    /// Rows on which the source itself has decided, with what it decided.
    pub(super) decided: Vec<(Taken, Verdict)>,
}

/// Where a claim stands.
pub(super) enum State<Tx> {
    /// Its rows are locked in this transaction.
    Held(Tx),
    /// Its rows are stamped, or the transaction was lost: what became of it must be looked up.
    Loose,
    /// It is written down.
    Settled,
    /// It was given back.
    Closed,
}

impl<D: Driver> TableSource<D> {
    pub(crate) fn new(driver: Arc<D>, shard: Shard, reading: Reading, owned: bool) -> Self {
        Self {
            driver,
            shard,
            reading,
            owned,
            aside: Mutex::default(),
            open: Mutex::default(),
            refreshed: Mutex::default(),
            stands_by: AtomicBool::new(false),
        }
    }

    pub(super) fn layout(&self) -> &Arc<Layout> {
        &self.shard.layout
    }

    pub(super) fn aside(&self) -> MutexGuard<'_, Aside> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self) -> MutexGuard<'_, Vec<Arc<OpenClaim<D::Tx>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a failed row is remembered here: not if the table keeps the delay and nothing waits for the row.
    pub(super) fn remembers(&self) -> bool {
        self.reading.ordered || self.layout().mapping.due.is_none()
    }

    pub(super) fn is_ordered(&self) -> bool {
        self.reading.ordered && self.layout().mapping.key.is_some()
    }

    async fn is_ours(&self) -> Result<bool> {
        if !self.owned {
            return Ok(true);
        }
        let idle = self.open().is_empty();
        let ownership = self.driver.own(self.shard.number, idle).await?;
        let (table, lane) = (&self.layout().table, self.shard.lane.number);
        match ownership {
            Ownership::Ours => {}
            Ownership::Fresh => {
                *self.refreshed.lock().unwrap_or_else(PoisonError::into_inner) = None;
                tracing::info!(%table, lane, "this relay is the active one");
            }
            // Under load nothing would ever be idle if more were claimed.
            Ownership::Leaving => return Ok(false),
            Ownership::Theirs => {
                if !self.stands_by.swap(true, Ordering::Relaxed) {
                    let lock = self.layout().mapping.lock;
                    tracing::info!(%table, lane, lock, "another relay is active; standing by");
                }
                return Ok(false);
            }
        }
        self.stands_by.store(false, Ordering::Relaxed);
        Ok(true)
    }

    /// The rows of the open claims.
    pub(super) fn claimed(&self) -> HashSet<String> {
        self.open().iter().flat_map(|claim| claim.taken.iter().map(|taken| taken.id.clone())).collect()
    }

    /// A database may fall silent for ever, and nobody must wait that long.
    async fn in_time<T>(&self, doing: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = (self.reading.lease * 2).max(LEAST_LIMIT);
        let silent =
            || Error::new(ErrorKind::Timeout, format!("the database did not answer within {limit:?}"));
        tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(silent().while_doing(doing)))
    }

    async fn try_claim(&self, limit: usize) -> Result<Claim> {
        if !self.is_ours().await? {
            return Ok(Claim::empty());
        }
        self.refresh().await?;
        let due = self.aside().due(Instant::now(), limit);
        if !due.is_empty() {
            let claim = self.claim_again(due).await?;
            if !claim.messages.is_empty() || claim.skipped() > 0 {
                return Ok(claim);
            }
        }
        if self.aside().is_full() {
            return Ok(Claim::empty());
        }
        self.claim_fresh(limit).await
    }

    /// Begins a transaction in which rows may be claimed.
    async fn enter(&self) -> Result<D::Tx> {
        let hold = match self.layout().mapping.claim {
            // A little longer than we trust it ourselves.
            ClaimBy::Lock => Some(self.reading.lease + Duration::from_secs(5)),
            ClaimBy::Stamp { .. } => None,
        };
        let tx = self.driver.begin(hold).await?;
        self.prove(tx).await
    }

    pub(super) async fn prove(&self, mut tx: D::Tx) -> Result<D::Tx> {
        if self.owned && !self.driver.enter(&mut tx, self.shard.number).await? {
            // At once, and not when it is dropped: whoever has the lock now waits for this transaction.
            self.driver.roll_back(tx).await;
            self.driver.disown(self.shard.number).await;
            return Err(Error::new(ErrorKind::Lost, "the lock that makes this relay the active one is gone"));
        }
        Ok(tx)
    }

    async fn claim_fresh(&self, limit: usize) -> Result<Claim> {
        let except = self.aside().except(self.reading.ordered);
        let begun = Instant::now();
        let mut tx = self.enter().await?;
        let (layout, lane) = (self.layout(), self.shard.lane);
        let (owned, ordered, open) = (self.owned, self.is_ordered(), &self.claimed());
        let claiming = Claiming { limit, lane, except: &except, owned, ordered, open };
        let cells = self.driver.claim(&mut tx, layout, claiming).await?;
        let rows = cells.into_iter().map(|cells| Row::read(layout, cells)).collect();
        self.hand_out(tx, rows, begun, false).await
    }

    /// Claims rows that failed before and whose time has come.
    async fn claim_again(&self, ids: Vec<String>) -> Result<Claim> {
        let begun = Instant::now();
        let mut tx = self.enter().await?;
        let layout = self.layout();
        let cells = self.driver.fetch(&mut tx, &layout.claim_these(&ids)).await?;
        let mut rows: Vec<Row> = cells.into_iter().map(|cells| Row::read(layout, cells)).collect();
        if let ClaimBy::Stamp { column, .. } = &layout.mapping.claim
            && !rows.is_empty()
        {
            let found: Vec<_> = rows.iter().map(|row| row.id.clone()).collect();
            self.driver.execute(&mut tx, &layout.put_stamp(&found, column)).await?;
            let stamped = self.driver.fetch(&mut tx, &layout.lock_again(&found[..1])).await?;
            let stamp = stamped.first().and_then(|cells| text(cells, 2));
            rows.iter_mut().for_each(|row| row.stamp.clone_from(&stamp));
        }
        if rows.len() < ids.len() {
            self.look_for_missing(&mut tx, &ids, &rows).await?;
        }
        self.hand_out(tx, rows, begun, true).await
    }

    /// A row that does not come is somebody else's for now, or gone for good.
    async fn look_for_missing(&self, tx: &mut D::Tx, ids: &[String], rows: &[Row]) -> Result<()> {
        let missing: Vec<String> =
            ids.iter().filter(|id| !rows.iter().any(|row| row.id == **id)).cloned().collect();
        let still = self.driver.fetch(tx, &self.layout().pending_of(&missing)).await?;
        let still: HashSet<String> = still.iter().filter_map(|cells| text(cells, 0)).collect();
        let mut aside = self.aside();
        for id in &missing {
            if still.contains(id) {
                aside.wait_until(id, Instant::now() + LOCKED_PAUSE);
            } else {
                aside.remove(id);
            }
        }
        Ok(())
    }

    /// Makes a claim of rows: what was published before is marked, what is no message is set aside, what waits is
    /// left alone, and the rest goes out.
    async fn hand_out(&self, mut tx: D::Tx, rows: Vec<Row>, begun: Instant, again: bool) -> Result<Claim> {
        let layout = self.layout();
        let sorted = self.sort(rows, again);
        self.apply(&mut tx, &sorted.changes, sorted.stamp.as_deref()).await?;
        let Sorted { taken, messages, held, left, decided, changes, stamp } = sorted;
        let skipped = changes.marked.len();
        let is_over = messages.is_empty();
        let claim = OpenClaim { state: tokio::sync::Mutex::new(State::Loose), taken, stamp, left, decided };
        if is_over {
            if changes.is_empty() {
                self.driver.roll_back(tx).await;
            } else {
                self.driver.commit(tx).await?;
            }
            self.after(&claim, &[]);
            return Ok(Claim::empty().with_skipped(skipped));
        }
        let trusted = match &layout.mapping.claim {
            ClaimBy::Lock => {
                *claim.state.lock().await = State::Held(tx);
                self.reading.lease
            }
            ClaimBy::Stamp { timeout, .. } => {
                self.driver.commit(tx).await?;
                *timeout - *timeout / 10
            }
        };
        let open = Arc::new(claim);
        self.open().push(open.clone());
        let claim =
            Claim::new(messages, open).with_lease(Lease::until(begun + trusted)).with_skipped(skipped);
        Ok(if again { claim.of_set_aside() } else { claim.with_held(held) })
    }

    /// Tells apart what goes out, what is decided already, and what must wait.
    fn sort(&self, rows: Vec<Row>, again: bool) -> Sorted {
        let (layout, ordered) = (self.layout(), self.reading.ordered);
        let mut sorted = Sorted::default();
        let mut unfit_keys = HashSet::new();
        let open: HashSet<String> = self
            .open()
            .iter()
            .flat_map(|claim| claim.taken.iter().filter_map(|row| row.key.clone()))
            .collect();
        let mut aside = self.aside();
        for row in rows {
            sorted.stamp = sorted.stamp.or(row.stamp);
            if !again && aside.keeps_back(&row.id, row.key.as_deref(), ordered) {
                // Set aside while the statement was on its way.
                aside.out(&row.id);
                sorted.left.push(row.id);
                continue;
            }
            let attempts = row.attempts.unwrap_or_else(|| aside.attempts(&row.id));
            let taken = Taken { id: row.id, key: row.key, counted: row.attempts };
            if row.processed {
                let (table, id) = (&layout.table, &taken.id);
                tracing::warn!(%table, id, "published before; marked as done and not sent again");
                sorted.changes.marked.push(taken.id.clone());
                sorted.decided.push((taken, Verdict::Done));
                continue;
            }
            match row.message {
                Ok(message) => {
                    sorted
                        .held
                        .push(ordered && taken.key.as_ref().is_some_and(|key| unfit_keys.contains(key)));
                    sorted.messages.push(Message { attempts, ..message });
                    aside.out(&taken.id);
                    sorted.taken.push(taken);
                }
                // It is decided when it is the first of its key: until then an earlier one may need another try.
                Err(_)
                    if ordered
                        && taken.key.as_ref().is_some_and(|key| sorted.has(key) || open.contains(key)) =>
                {
                    sorted.left.push(taken.id);
                }
                Err(cause) => {
                    tell_unfit(layout, &taken.id, &cause);
                    let verdict = Verdict::Dead { attempts: attempts + 1, cause, holds: self.reading.holds };
                    unfit_keys.extend(taken.key.clone().filter(|_| self.reading.holds));
                    sorted.changes.add(layout, &taken, &verdict);
                    self.before(&mut aside, &taken, &verdict);
                    sorted.decided.push((taken, verdict));
                }
            }
        }
        if let ClaimBy::Stamp { .. } = layout.mapping.claim {
            sorted.changes.released.extend(sorted.left.iter().cloned());
        }
        sorted
    }
}

/// The rows of a claim, told apart.
#[derive(Default)]
struct Sorted {
    taken: Vec<Taken>,
    messages: Vec<Message>,
    held: Vec<bool>,
    left: Vec<String>,
    decided: Vec<(Taken, Verdict)>,
    changes: Changes,
    stamp: Option<String>,
}

impl Sorted {
    /// Whether a row of the key goes out.
    fn has(&self, key: &str) -> bool {
        self.taken.iter().any(|row| row.key.as_deref() == Some(key))
    }
}

fn tell_unfit(layout: &Layout, id: &str, cause: &Cause) {
    let table = &layout.table;
    if layout.mapping.can_be_dead() {
        tracing::warn!(%table, id, %cause, "the row is no message; it waits for a person");
    } else {
        tracing::warn!(%table, id, %cause, "the row is no message, and the table has no place to say so; it is looked at again");
    }
}

pub(crate) fn text(cells: &Cells, at: usize) -> Option<String> {
    cells.get(at)?.as_deref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}

#[async_trait]
impl<D: Driver> Source for TableSource<D> {
    async fn claim(&self, limit: usize) -> Result<Claim> {
        let claimed = self.in_time("claiming", self.try_claim(limit)).await;
        if claimed.is_err() {
            self.undo();
        }
        claimed
    }

    async fn settle(&self, claim: &Claim, verdicts: &[Verdict]) -> Result<()> {
        let open: &Arc<OpenClaim<D::Tx>> = claim.token()?;
        {
            let mut aside = self.aside();
            for (row, verdict) in open.taken.iter().zip(verdicts) {
                self.before(&mut aside, row, verdict);
            }
        }
        let changes = Changes::of(self.layout(), &open.taken, verdicts);
        self.in_time("settling", self.write(open, &changes, verdicts)).await?;
        self.after(open, verdicts);
        self.open().retain(|other| !Arc::ptr_eq(other, open));
        Ok(())
    }

    async fn wait(&self, idle: Duration) {
        let end = Instant::now() + idle;
        if self.stands_by.load(Ordering::Relaxed) {
            while Instant::now() < end {
                sleep(STAND_BY.min(end.saturating_duration_since(Instant::now()))).await;
                // What goes wrong here is told by the claim that follows.
                if self.is_ours().await.unwrap_or(true) {
                    return;
                }
            }
            return;
        }
        let due = self.aside().next_due(Instant::now());
        sleep(due.map_or(idle, |due| due.min(idle))).await;
    }

    async fn close(&self) -> Result<()> {
        let open = std::mem::take(&mut *self.open());
        let mut result = Ok(());
        for claim in open {
            let mut state = claim.state.lock().await;
            match std::mem::replace(&mut *state, State::Closed) {
                State::Held(tx) => self.driver.roll_back(tx).await,
                // A stamp that stays on is one that somebody left: found when the shard is owned again.
                State::Loose if result.is_ok() => result = self.give_back(&claim).await,
                State::Settled => *state = State::Settled,
                State::Loose | State::Closed => {}
            }
        }
        self.undo();
        if self.owned {
            self.driver.disown(self.shard.number).await;
        }
        result
    }
}
