//! A cursor over the log: the [`Source`].
//!
//! The row of the cursor says up to where everything is done or set aside; in memory the reading runs ahead of
//! it by what is in open claims. Claims and settles of one cursor exclude each other (`state`), and memory
//! changes only after the database has. Whatever goes wrong for good, memory is thrown away and read afresh
//! from the row under a new epoch; what was open then is lost, and comes again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sqlx::{Row, SqlitePool};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::lane::{self, Crew};
use super::lease::{self, Held, Shared, Taken};
use super::{error, parked, settle, sql};
use crate::error::{Error, ErrorKind, Result};
use crate::failpoint;
use crate::message::Message;
use crate::policy::Verdict;
use crate::source::{Claim, Source, Start};

/// A claim takes no more messages once their payloads weigh so much: memory is bounded whatever they weigh.
pub(super) const CLAIM_BYTES: usize = 4 * 1024 * 1024;

/// How often messages that were set aside are looked for while the log has work.
const PARKED_PACE: Duration = Duration::from_millis(200);

/// Pages of which nothing is in our lane, before a claim returns empty-handed.
const FOREIGN_PAGES: usize = 16;

/// The least that a page has where the log is split into lanes. A probe asks for one message, and sixteen pages of
/// one row each would take it past sixteen foreign messages at a time.
const LANE_PAGE: usize = 256;

/// A pause that is not worth asking the database how long it should be.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// What a cursor is told by its user; the same for its whole life.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    pub(super) pool: SqlitePool,
    pub(super) name: String,
    pub(super) owner: String,
    pub(super) lease: Duration,
    pub(super) start: Start,
    pub(super) lane: u32,
    pub(super) lanes: u32,
    pub(super) crew: Option<Arc<Crew>>,
}

impl Reader {
    pub(super) fn lease_ms(&self) -> i64 {
        i64::try_from(self.lease.as_millis()).unwrap_or(i64::MAX / 4)
    }
}

#[derive(Debug, Default)]
struct State {
    held: Option<Box<Held>>,
    /// Who we said holds the cursor, so as to say it once.
    told: Option<String>,
}

/// One reader of the log, owned by one relay at a time through a lease; others of the same name stand by.
#[derive(Debug)]
pub struct Cursor {
    reader: Arc<Reader>,
    state: Mutex<State>,
}

/// What a claim must remember to be settled.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) epoch: i64,
    pub(super) number: i64,
    /// The position before and after the page; parked messages have none.
    pub(super) page: Option<(i64, i64)>,
    pub(super) seqs: Vec<i64>,
    pub(super) keys: Vec<Option<String>>,
    pub(super) settled: AtomicBool,
    shared: Arc<Shared>,
}

impl Drop for Token {
    /// A claim that is dropped unsettled can never be settled, and nothing after it: the owner starts afresh.
    fn drop(&mut self) {
        if !self.settled.load(Ordering::Acquire) {
            self.shared.lost.store(true, Ordering::Release);
        }
    }
}

/// Messages with their numbers, on their way into a claim.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) messages: Vec<Message>,
    pub(super) seqs: Vec<i64>,
    bytes: usize,
}

impl Batch {
    pub(super) fn push(&mut self, seq: i64, message: Message) {
        self.bytes += message.payload.len();
        self.seqs.push(seq);
        self.messages.push(message);
    }

    pub(super) fn is_full(&self, limit: usize) -> bool {
        self.messages.len() >= limit || self.bytes >= CLAIM_BYTES
    }

    /// Makes the batch the newest claim.
    pub(super) fn into_claim(self, held: &mut Held, page: Option<(i64, i64)>) -> Claim {
        held.claims += 1;
        held.open.insert(held.claims, if page.is_some() { Vec::new() } else { self.seqs.clone() });
        let token = Token {
            epoch: held.epoch,
            number: held.claims,
            page,
            seqs: self.seqs,
            keys: self.messages.iter().map(|message| message.key.clone()).collect(),
            settled: AtomicBool::new(false),
            shared: held.shared.clone(),
        };
        Claim::new(self.messages, token).with_lease(held.lease.clone())
    }
}

impl Cursor {
    pub(super) fn new(pool: SqlitePool, name: String) -> Self {
        let owner = format!("{}-{}", std::process::id(), uuid::Uuid::new_v4().simple());
        let (lease, start) = (lease::LEASE, Start::default());
        let reader = Reader { pool, name, owner, lease, start, lane: 0, lanes: 1, crew: None };
        Self { reader: Arc::new(reader), state: Mutex::default() }
    }

    /// Names the owner; unique by default. A relay that comes back under the name it had goes on at once,
    /// without waiting for its old lease to end, so no two that run at a time may have the same.
    #[must_use]
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        Arc::make_mut(&mut self.reader).owner = owner.into();
        self
    }

    /// Sets for how long the cursor stays ours when nothing is heard of us (30 s).
    #[must_use]
    pub fn lease(mut self, lease: Duration) -> Self {
        Arc::make_mut(&mut self.reader).lease = lease.max(Duration::from_millis(10));
        self
    }

    /// Sets where the cursor begins if it does not exist yet.
    #[must_use]
    pub fn start(mut self, start: Start) -> Self {
        Arc::make_mut(&mut self.reader).start = start;
        self
    }

    /// Splits the log by key into `n` lanes, one cursor each, that several relays share fairly: each takes its
    /// part, and gives some back when another relay appears. To be called last.
    pub fn lanes(self, n: u32) -> Vec<Self> {
        let n = n.max(1);
        let Reader { pool, name, owner, lease, .. } = (*self.reader).clone();
        let crew = (n > 1).then(|| Arc::new(Crew::new(pool, name, owner, n, lease)));
        let lane = |lane| Reader { lane, lanes: n, crew: crew.clone(), ..(*self.reader).clone() };
        (0..n).map(|number| Self { reader: Arc::new(lane(number)), state: Mutex::default() }).collect()
    }

    async fn claim_held(&self, state: &mut State, limit: usize) -> Result<Claim> {
        if let Some(held) = &state.held {
            let is_ours = !held.is_lost() && !held.lease.is_expired();
            if !is_ours
                || !lease::is_current(&self.reader, held).await.map_err(error::from(&self.reader.pool))?
            {
                state.held = None;
            }
        }
        if self.yields_lane(state).await? || !self.is_taken(state).await? {
            return Ok(Claim::empty());
        }
        let Some(held) = state.held.as_deref_mut().filter(|held| !held.in_doubt) else {
            return Ok(Claim::empty());
        };
        let is_time = held.parked_seen.is_none_or(|seen| seen.elapsed() >= PARKED_PACE);
        let parked_first = held.any_parked && !held.log_next && is_time;
        if parked_first && let Some(claim) = self.parked(held, limit).await? {
            return Ok(claim);
        }
        if let Some(claim) = self.page(held, limit).await? {
            return Ok(claim);
        }
        if held.any_parked
            && !parked_first
            && let Some(claim) = self.parked(held, limit).await?
        {
            return Ok(claim);
        }
        Ok(Claim::empty())
    }

    /// Whether the lane is beyond our share. It is given back when nothing of it is open any more; until then nothing is
    /// claimed, or under load that moment would never come.
    async fn yields_lane(&self, state: &mut State) -> Result<bool> {
        let Some(crew) = &self.reader.crew else { return Ok(false) };
        crew.beat().await.map_err(error::from(&self.reader.pool))?;
        let Some(held) = state.held.as_ref().filter(|_| crew.is_over()) else { return Ok(false) };
        if !held.open.is_empty() {
            return Ok(true);
        }
        lease::release(&self.reader, state.held.take()).await.map_err(error::from(&self.reader.pool))?;
        tracing::info!(cursor = self.reader.name, lane = self.reader.lane, "lane given back to other relays");
        Ok(true)
    }

    /// Makes sure that the cursor is ours, if it can be.
    async fn is_taken(&self, state: &mut State) -> Result<bool> {
        if state.held.is_some() {
            return Ok(true);
        }
        let seat = match &self.reader.crew {
            Some(crew) => match crew.seat() {
                Some(seat) => Some(seat),
                None => return Ok(false),
            },
            None => None,
        };
        let taken = lease::take(&self.reader, seat).await.map_err(error::from(&self.reader.pool))?;
        let (cursor, lane) = (&self.reader.name, self.reader.lane);
        let why_not = match taken {
            Taken::Ours(held) => {
                tracing::debug!(cursor, lane, epoch = held.epoch, "the cursor is ours");
                state.held = Some(held);
                state.told = None;
                return Ok(true);
            }
            Taken::Theirs(owner) => format!("held by {owner}"),
            Taken::OtherLanes(lanes) => format!("in use with {lanes} lanes instead of {}", self.reader.lanes),
        };
        if state.told.as_ref() != Some(&why_not) {
            tracing::info!(cursor, lane, why_not, "standing by");
            state.told = Some(why_not);
        }
        Ok(false)
    }

    async fn parked(&self, held: &mut Held, limit: usize) -> Result<Option<Claim>> {
        parked::claim(&self.reader, held, limit).await.map_err(error::from(&self.reader.pool))
    }

    async fn page(&self, held: &mut Held, limit: usize) -> Result<Option<Claim>> {
        self.read_page(held, limit).await.map_err(error::from(&self.reader.pool))
    }

    /// The next page of the log. One writer at a time makes `seq > read` sound: whatever commits later has a
    /// higher number.
    async fn read_page(&self, held: &mut Held, limit: usize) -> sqlx::Result<Option<Claim>> {
        let reader = &*self.reader;
        let (before, mut read) = (held.read, held.read);
        let mut batch = Batch::default();
        let mut conn = reader.pool.acquire().await?;
        let page = if reader.lanes > 1 { limit.max(LANE_PAGE) } else { limit };
        let wanted = i64::try_from(page).unwrap_or(i64::MAX);
        for _ in 0..FOREIGN_PAGES {
            let mut rows = sqlx::query(sql::PAGE).bind(read).bind(wanted).fetch(&mut *conn);
            let mut count = 0;
            while !batch.is_full(limit)
                && let Some(row) = rows.try_next().await?
            {
                count += 1;
                let message = sql::message(&row)?;
                read = row.try_get("seq")?;
                if lane::of(message.key.as_deref(), read, reader.lanes) == reader.lane {
                    batch.push(read, message);
                }
            }
            if batch.is_full(limit) || count < wanted {
                break;
            }
        }
        if batch.messages.is_empty() {
            held.read = read;
            held.note_progress();
            return Ok(None);
        }
        let held_flags = match held.any_parked {
            true => parked::held_flags(&mut conn, &reader.name, &batch.messages).await?,
            false => Vec::new(),
        };
        failpoint::pass("page_read");
        held.read = read;
        held.log_next = false;
        Ok(Some(batch.into_claim(held, Some((before, read))).with_held(held_flags)))
    }
}

#[async_trait]
impl Source for Cursor {
    async fn claim(&self, limit: usize) -> Result<Claim> {
        if limit == 0 {
            return Ok(Claim::empty());
        }
        let mut state = self.state.lock().await;
        let claimed = self.claim_held(&mut state, limit).await;
        claimed.map_err(|error| {
            if !error.is_temporary() {
                state.held = None;
            }
            error.while_doing(format!("claiming from cursor '{}'", self.reader.name))
        })
    }

    async fn settle(&self, claim: &Claim, verdicts: &[Verdict]) -> Result<()> {
        if claim.token::<()>().is_ok() {
            return Ok(());
        }
        let token: &Token = claim.token()?;
        if token.seqs.len() != verdicts.len() {
            let why = format!("{} verdicts for {} messages", verdicts.len(), token.seqs.len());
            return Err(Error::new(ErrorKind::Unexpected, why));
        }
        let mut state = self.state.lock().await;
        let held = state.held.as_deref_mut().filter(|held| held.epoch == token.epoch);
        let is_current = held.is_some();
        let settled = settle::settle(&self.reader, held, token, claim.is_ordered(), verdicts).await;
        settled.map_err(|error| {
            if !error.is_temporary() && is_current {
                state.held = None;
            }
            error.while_doing(format!("settling on cursor '{}'", self.reader.name))
        })
    }

    /// An enqueue cannot be heard of before it commits, so this is a pause, cut short when a message that was
    /// set aside is due.
    async fn wait(&self, idle: Duration) {
        let end = Instant::now() + idle;
        let mut pause = idle;
        if idle > SHORT_WAIT {
            let state = self.state.lock().await;
            if let Some(held) = state.held.as_deref().filter(|held| held.any_parked)
                && let Ok(Some(due)) = parked::next_due(&self.reader, held).await
            {
                pause = due.max(SHORT_WAIT);
            }
        }
        tokio::time::sleep_until(end.min(Instant::now() + pause)).await;
    }

    async fn close(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        let closed = async {
            lease::release(&self.reader, state.held.take()).await?;
            if let Some(crew) = &self.reader.crew {
                crew.leave().await?;
            }
            Ok(())
        };
        closed.await.map_err(|error| {
            error::classify(&self.reader.pool, error)
                .while_doing(format!("closing cursor '{}'", self.reader.name))
        })
    }
}
