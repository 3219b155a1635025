//! Who owns a cursor: taking its row, keeping it, giving it back.
//!
//! Invariant: whoever takes the row raises its epoch, and every write of an owner checks the epoch in the same
//! transaction. An owner that was paused past its lease can repeat messages, never skip or overwrite.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use sqlx::{Row, SqliteConnection};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::lane::{self, Seat};
use super::log::Reader;
use crate::failpoint;
use crate::source::{Lease, Start};
use crate::tell;

/// What an owner knows of its cursor beyond what is in the row. Dropped when the cursor is lost or given back.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) epoch: i64,
    pub(super) lease: Lease,
    /// How far the log was read; ahead of the row by what is in open claims.
    pub(super) read: i64,
    /// Number of the newest claim; the row's `turn` is the number of the last one settled.
    pub(super) claims: i64,
    /// The open claims by number: those of the log have no parked messages.
    pub(super) open: BTreeMap<i64, Vec<i64>>,
    /// A settle was begun whose outcome is unknown; until it is repeated, nothing may build on the position.
    pub(super) in_doubt: bool,
    /// Whether anything is set aside on this lane; the happy path asks nothing about it.
    pub(super) any_parked: bool,
    /// When the messages set aside were last looked at; none when it should be done at once.
    pub(super) parked_seen: Option<Instant>,
    /// The last claim was of messages set aside: the log is next.
    pub(super) log_next: bool,
    pub(super) shared: Arc<Shared>,
    renewal: AbortHandle,
    _seat: Option<Seat>,
}

/// What the renewal and the claims share with the owner.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The cursor is somebody else's, or a claim was dropped unsettled: start afresh.
    pub(super) lost: AtomicBool,
    /// Everything up to here is done or belongs to other lanes; the renewal writes it down.
    pub(super) progress: AtomicI64,
}

impl Held {
    pub(super) fn is_lost(&self) -> bool {
        self.shared.lost.load(Ordering::Acquire)
    }

    /// The parked messages that are in open claims.
    pub(super) fn in_flight(&self) -> HashSet<i64> {
        self.open.values().flatten().copied().collect()
    }

    /// Whether a page of the log is open that was claimed after claim `number`.
    pub(super) fn is_read_past(&self, number: i64) -> bool {
        self.open.range(number + 1..).any(|(_, parked)| parked.is_empty())
    }

    /// With no claim open, whatever was read and passed over (other lanes' messages) is behind us.
    pub(super) fn note_progress(&self) {
        if self.open.is_empty() {
            self.shared.progress.store(self.read, Ordering::Release);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.renewal.abort();
        // Claims that are still out must not be delivered any more: the next owner, perhaps us, reads them again.
        self.lease.extend(Instant::now());
    }
}

/// How an attempt to take a cursor ended.
pub(super) enum Taken {
    Ours(Box<Held>),
    /// Somebody else has it.
    Theirs(String),
    /// It is split into another number of lanes, and in use like that.
    OtherLanes(i64),
}

/// Takes the cursor if it is free, expired or ours already.
pub(super) async fn take(reader: &Arc<Reader>, seat: Option<Seat>) -> sqlx::Result<Taken> {
    // A look without the write lock first: those who stand by must not disturb those who write.
    let owner: Option<String> = sqlx::query_scalar(
        "SELECT owner FROM outbox_cursors WHERE name = ? AND lane = ? AND owner IS NOT NULL AND owner <> ?
         AND lease_until > CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER)",
    )
    .bind(&reader.name)
    .bind(reader.lane)
    .bind(&reader.owner)
    .fetch_optional(&reader.pool)
    .await?;
    if let Some(owner) = owner {
        return Ok(Taken::Theirs(owner));
    }
    // Before the request, so that our end of the lease is never later than the database's.
    let asked = Instant::now();
    let mut tx = reader.pool.begin_with("BEGIN IMMEDIATE").await?;
    if let Some(lanes) = prepare(&mut tx, reader).await? {
        return Ok(Taken::OtherLanes(lanes));
    }
    let before = owner_before(&mut tx, reader).await?;
    let row = sqlx::query(
        "UPDATE outbox_cursors SET epoch = epoch + 1, turn = 0, owner = ?1,
             lease_until = CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER) + ?2
         WHERE name = ?3 AND lane = ?4 AND (owner IS NULL OR owner = ?1
             OR lease_until <= CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER))
         RETURNING epoch, pos,
             EXISTS (SELECT 1 FROM outbox_parked WHERE cursor = ?3 AND lane = ?4) AS any_parked",
    )
    .bind(&reader.owner)
    .bind(reader.lease_ms())
    .bind(&reader.name)
    .bind(reader.lane)
    .fetch_optional(&mut *tx)
    .await?;
    let Some(row) = row else { return Ok(Taken::Theirs("another relay".to_owned())) };
    failpoint::pass("take_before_commit");
    tx.commit().await?;
    failpoint::pass("take_after_commit");
    if let Some(before) = before {
        tell::takeover(&reader.name, &before);
    }
    let (epoch, read) = (row.try_get("epoch")?, row.try_get("pos")?);
    let lease = Lease::until(asked + reader.lease);
    let shared = Arc::new(Shared { lost: AtomicBool::new(false), progress: AtomicI64::new(read) });
    let renewal = tokio::spawn(keep(reader.clone(), epoch, lease.clone(), shared.clone())).abort_handle();
    Ok(Taken::Ours(Box::new(Held {
        epoch,
        lease,
        read,
        claims: 0,
        open: BTreeMap::new(),
        in_doubt: false,
        any_parked: row.try_get("any_parked")?,
        parked_seen: None,
        log_next: false,
        shared,
        renewal,
        _seat: seat,
    })))
}

/// Who has it and is not us: one that has not given it back.
async fn owner_before(tx: &mut SqliteConnection, reader: &Reader) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar(
        "SELECT owner FROM outbox_cursors WHERE name = ? AND lane = ? AND owner IS NOT NULL AND owner <> ?",
    )
    .bind(&reader.name)
    .bind(reader.lane)
    .bind(&reader.owner)
    .fetch_optional(tx)
    .await
}

/// Makes sure that there is a row per lane; tells the number of lanes if it is another one and in use.
///
/// All lanes get their row at once: a purge goes by the lowest position, and must see the lanes that nobody
/// has taken yet.
async fn prepare(tx: &mut SqliteConnection, reader: &Reader) -> sqlx::Result<Option<i64>> {
    let lanes: Option<i64> = sqlx::query_scalar("SELECT max(lanes) FROM outbox_cursors WHERE name = ?")
        .bind(&reader.name)
        .fetch_one(&mut *tx)
        .await?;
    let begin = match lanes {
        Some(lanes) if lanes == i64::from(reader.lanes) => return Ok(None),
        Some(lanes) if is_used(tx, reader).await? => return Ok(Some(lanes)),
        Some(_) => return relane(tx, reader).await.map(|()| None),
        None => match reader.start {
            Start::Beginning => 0,
            Start::Now => newest(tx).await?,
        },
    };
    insert(tx, reader, 0, begin, 0).await?;
    Ok(None)
}

/// The highest number that was ever given; nobody can be about to commit a lower one, for we hold the write lock.
async fn newest(tx: &mut SqliteConnection) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'outbox_messages'), 0)")
        .fetch_one(tx)
        .await
}

async fn insert(
    tx: &mut SqliteConnection,
    reader: &Reader,
    epoch: i64,
    pos: i64,
    delivered: i64,
) -> sqlx::Result<()> {
    for lane in 0..reader.lanes {
        sqlx::query(
            "INSERT INTO outbox_cursors (name, lane, lanes, epoch, pos, delivered) VALUES (?, ?, ?, ?, ?, ?)",
        )
        .bind(&reader.name)
        .bind(lane)
        .bind(reader.lanes)
        .bind(epoch)
        .bind(pos)
        .bind(if lane == 0 { delivered } else { 0 })
        .execute(&mut *tx)
        .await?;
    }
    Ok(())
}

async fn is_used(tx: &mut SqliteConnection, reader: &Reader) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM outbox_cursors WHERE name = ? AND owner IS NOT NULL AND owner <> ?
             AND lease_until > CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER))",
    )
    .bind(&reader.name)
    .bind(&reader.owner)
    .fetch_one(tx)
    .await
}

/// Splits the cursor anew. Nothing may be passed over, so all lanes go on from the lowest position; what some
/// lanes had done beyond it comes again, and what is set aside there is read again from the log.
async fn relane(tx: &mut SqliteConnection, reader: &Reader) -> sqlx::Result<()> {
    let (epoch, pos, delivered): (i64, i64, i64) =
        sqlx::query_as("SELECT max(epoch) + 1, min(pos), sum(delivered) FROM outbox_cursors WHERE name = ?")
            .bind(&reader.name)
            .fetch_one(&mut *tx)
            .await?;
    sqlx::query("DELETE FROM outbox_cursors WHERE name = ?").bind(&reader.name).execute(&mut *tx).await?;
    insert(tx, reader, epoch, pos, delivered).await?;
    sqlx::query("DELETE FROM outbox_parked WHERE cursor = ? AND seq > ?")
        .bind(&reader.name)
        .bind(pos)
        .execute(&mut *tx)
        .await?;
    let parked: Vec<(i64, Option<String>)> =
        sqlx::query_as("SELECT seq, key FROM outbox_parked WHERE cursor = ?")
            .bind(&reader.name)
            .fetch_all(&mut *tx)
            .await?;
    for (seq, key) in parked {
        sqlx::query("UPDATE outbox_parked SET lane = ? WHERE cursor = ? AND seq = ?")
            .bind(lane::of(key.as_deref(), seq, reader.lanes))
            .bind(&reader.name)
            .bind(seq)
            .execute(&mut *tx)
            .await?;
    }
    tracing::info!(cursor = reader.name, lanes = reader.lanes, position = pos, "the cursor is split anew");
    Ok(())
}

/// Whether the row still has our epoch. Asked before anything is handed out: what a replay or another owner has
/// changed should not be found out by delivering for nothing.
pub(super) async fn is_current(reader: &Reader, held: &Held) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT 1 FROM outbox_cursors WHERE name = ? AND lane = ? AND epoch = ?)",
    )
    .bind(&reader.name)
    .bind(reader.lane)
    .bind(held.epoch)
    .fetch_one(&reader.pool)
    .await
}

/// Renews the lease until the cursor is dropped or lost.
async fn keep(reader: Arc<Reader>, epoch: i64, lease: Lease, shared: Arc<Shared>) {
    let mut pause = reader.lease / 3;
    loop {
        tokio::time::sleep(pause).await;
        let asked = Instant::now();
        failpoint::pass("renewing");
        let renewed = renew(&reader, epoch, shared.progress.load(Ordering::Acquire)).await;
        failpoint::pass("renewed");
        pause = reader.lease / 3;
        match renewed {
            Ok(true) if lease.is_expired() => {
                // Whoever saw it expired has given up its claims, so the lease must not come back to life.
                tracing::warn!(cursor = reader.name, lane = reader.lane, "renewed too late; starting afresh");
                break;
            }
            Ok(true) => lease.extend(asked + reader.lease),
            Ok(false) => {
                tracing::warn!(cursor = reader.name, lane = reader.lane, "another relay took over");
                lease.extend(Instant::now());
                break;
            }
            Err(error) => {
                tracing::warn!(cursor = reader.name, %error, "the lease could not be renewed; trying again");
                pause = reader.lease / 10;
            }
        }
        if let Some(crew) = &reader.crew
            && let Err(error) = crew.beat().await
        {
            tracing::debug!(cursor = reader.name, %error, "could not tell the other relays that this one is here");
        }
    }
    shared.lost.store(true, Ordering::Release);
}

async fn renew(reader: &Reader, epoch: i64, progress: i64) -> sqlx::Result<bool> {
    let renewed = sqlx::query(
        "UPDATE outbox_cursors SET pos = max(pos, ?),
             lease_until = CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER) + ?
         WHERE name = ? AND lane = ? AND epoch = ? AND owner = ?",
    )
    .bind(progress)
    .bind(reader.lease_ms())
    .bind(&reader.name)
    .bind(reader.lane)
    .bind(epoch)
    .bind(&reader.owner)
    .execute(&reader.pool)
    .await?;
    Ok(renewed.rows_affected() == 1)
}

/// Gives the cursor back, so that another can take it at once.
///
/// By owner and not by epoch: a replay raises the epoch and leaves the owner, who must still be able to leave.
pub(super) async fn release(reader: &Reader, held: Option<Box<Held>>) -> sqlx::Result<()> {
    let (epoch, progress) =
        held.as_ref().map_or((-1, 0), |held| (held.epoch, held.shared.progress.load(Ordering::Acquire)));
    // Ends the renewal and leaves the seat, before the others can see that the cursor is free.
    drop(held);
    sqlx::query(
        "UPDATE outbox_cursors SET owner = NULL, lease_until = 0, pos = iif(epoch = ?, max(pos, ?), pos)
         WHERE name = ? AND lane = ? AND owner = ?",
    )
    .bind(epoch)
    .bind(progress)
    .bind(&reader.name)
    .bind(reader.lane)
    .bind(&reader.owner)
    .execute(&reader.pool)
    .await?;
    Ok(())
}

/// How long a lease lasts unless told: so short that a crash is noticed, so long that it outlives a busy disk.
pub(super) const LEASE: Duration = Duration::from_secs(30);
