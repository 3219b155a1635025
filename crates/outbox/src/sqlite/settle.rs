//! Writing down what became of a claim: one transaction under the write lock, or nothing.

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use sqlx::{Row, SqliteConnection};
use tokio::time::Instant;

use super::lease::Held;
use super::log::{Reader, Token};
use super::{error, lane, sql};
use crate::error::{Error, ErrorKind, Result};
use crate::failpoint;
use crate::policy::{Verdict, written};
use crate::sink::Cause;

/// Settles a claim. `held` is what memory knows, if the claim is of its epoch.
///
/// The number of the claim tells what was committed before: when the outcome of an earlier try is unknown, the
/// row's `turn` says whether it got through.
pub(super) async fn settle(
    reader: &Reader,
    mut held: Option<&mut Held>,
    token: &Token,
    ordered: bool,
    verdicts: &[Verdict],
) -> Result<()> {
    // When memory was thrown away, later pages may be open of which it knows nothing any more.
    let is_read_past = held.as_deref().is_none_or(|held| held.is_read_past(token.number));
    let plan = Plan::new(token, ordered, verdicts, is_read_past);
    let asked = Instant::now();
    let mut tx = reader.pool.begin_with("BEGIN IMMEDIATE").await.map_err(error::from(&reader.pool))?;
    if let Some(held) = held.as_deref_mut() {
        // Also if this future is dropped half-way: nothing is claimed until it is known what happened.
        held.in_doubt = true;
    }
    let now = match turn(&mut tx, reader, token).await? {
        Turn::Ours { now } => now,
        Turn::Before => {
            settled(reader, held, token, &plan, asked);
            return Ok(());
        }
    };
    plan.write(&mut tx, reader, token, verdicts, now).await.map_err(error::from(&reader.pool))?;
    failpoint::pass("settle_before_commit");
    tx.commit().await.map_err(error::from(&reader.pool))?;
    failpoint::pass("settle_after_commit");
    settled(reader, held, token, &plan, asked);
    Ok(())
}

enum Turn {
    /// It is this claim's turn; the time on the database's clock.
    Ours { now: i64 },
    /// It was settled before.
    Before,
}

async fn turn(tx: &mut SqliteConnection, reader: &Reader, token: &Token) -> Result<Turn> {
    let row = sqlx::query(
        "SELECT turn, pos, CAST(unixepoch('now', 'subsec') * 1000 AS INTEGER) AS now
         FROM outbox_cursors WHERE name = ? AND lane = ? AND epoch = ?",
    )
    .bind(&reader.name)
    .bind(reader.lane)
    .bind(token.epoch)
    .fetch_optional(tx)
    .await
    .map_err(error::from(&reader.pool))?;
    let lost = |why: &str| Error::new(ErrorKind::Lost, why);
    let Some(row) = row else { return Err(lost("the cursor was taken over, replayed or removed")) };
    let read = |column| row.try_get::<i64, _>(column).map_err(error::from(&reader.pool));
    let turn = read("turn")?;
    if turn >= token.number {
        return Ok(Turn::Before);
    }
    if turn + 1 < token.number {
        // To go on would pass over the messages of the earlier claim.
        return Err(lost("an earlier claim of the cursor was never settled"));
    }
    if let Some((before, _)) = token.page {
        // Between the two there can only be messages of other lanes. Anything else would be passed over.
        let pos = read("pos")?;
        if pos > before || (reader.lanes == 1 && pos != before) {
            return Err(lost("the position of the cursor was changed by somebody else"));
        }
    }
    Ok(Turn::Ours { now: read("now")? })
}

/// Brings memory to what is in the database now.
fn settled(reader: &Reader, held: Option<&mut Held>, token: &Token, plan: &Plan, asked: Instant) {
    token.settled.store(true, Ordering::Release);
    let Some(held) = held else { return };
    held.in_doubt = false;
    if held.open.remove(&token.number).is_none() {
        return;
    }
    if let Some(read) = plan.rewind {
        held.read = read;
    }
    if plan.touches_parked {
        held.any_parked = true;
        held.parked_seen = None;
    }
    held.note_progress();
    // A lease that was seen expired must not come back to life: its claims were given up.
    if !held.lease.is_expired() {
        held.lease.extend(asked + reader.lease);
    }
}

/// What a settle will write, known before it starts.
struct Plan {
    /// So many verdicts, from the front, are written; the rest goes back to the log.
    written: usize,
    /// The new position, for a page of the log.
    pos: Option<i64>,
    /// Where the reading goes back to.
    rewind: Option<i64>,
    touches_parked: bool,
    /// Whether messages of a key wait for each other.
    ordered: bool,
}

impl Plan {
    fn new(token: &Token, ordered: bool, verdicts: &[Verdict], is_read_past: bool) -> Self {
        let Some((before, after)) = token.page else {
            return Self { written: verdicts.len(), pos: None, rewind: None, touches_parked: true, ordered };
        };
        let written = written(verdicts, is_read_past);
        let rewind = (written < verdicts.len()).then(|| match written {
            0 => before,
            written => token.seqs[written - 1],
        });
        let touches_parked = verdicts[..written].iter().any(|verdict| *verdict != Verdict::Done);
        Self { written, pos: Some(rewind.unwrap_or(after)), rewind, touches_parked, ordered }
    }

    async fn write(
        &self,
        tx: &mut SqliteConnection,
        reader: &Reader,
        token: &Token,
        verdicts: &[Verdict],
        now: i64,
    ) -> sqlx::Result<()> {
        let mut touched = HashSet::new();
        let verdicts = &verdicts[..self.written];
        for (index, verdict) in verdicts.iter().enumerate() {
            let place = Place { reader, seq: token.seqs[index], key: token.keys[index].as_deref(), now };
            let wrote = match token.page {
                Some(_) => place.park(tx, verdict, self.ordered).await?,
                None => place.update(tx, verdict).await?,
            };
            if wrote && let Some(key) = place.key {
                touched.insert(key);
            }
        }
        if self.touches_parked {
            failpoint::pass("settle_set_aside");
        }
        let touched: Vec<&str> = touched.into_iter().collect();
        sql::promote(tx, &reader.name, &touched, now).await?;
        let done = verdicts.iter().filter(|verdict| **verdict == Verdict::Done).count();
        sqlx::query(
            "UPDATE outbox_cursors SET turn = ?, pos = coalesce(?, pos), delivered = delivered + ?, lease_until = ?
             WHERE name = ? AND lane = ?",
        )
        .bind(token.number)
        .bind(self.pos)
        .bind(i64::try_from(done).unwrap_or(i64::MAX))
        .bind(now.saturating_add(reader.lease_ms()))
        .bind(&reader.name)
        .bind(reader.lane)
        .execute(tx)
        .await?;
        Ok(())
    }
}

/// One message of a claim.
struct Place<'a> {
    reader: &'a Reader,
    seq: i64,
    key: Option<&'a str>,
    now: i64,
}

impl Place<'_> {
    /// Sets a message of the log aside, unless it is done; tells whether it wrote.
    async fn park(&self, tx: &mut SqliteConnection, verdict: &Verdict, ordered: bool) -> sqlx::Result<bool> {
        let entry = match verdict {
            Verdict::Done => return Ok(false),
            // Without a key there is nothing to be behind of.
            Verdict::Released | Verdict::Behind if self.key.is_none() => Entry::new("waiting", self.now),
            // Nor without order: it was not tried, so it is due.
            Verdict::Released if !ordered => Entry::new("waiting", self.now),
            // Released ones of a key queue up behind whatever is there; the promotion wakes the first.
            Verdict::Released | Verdict::Behind => Entry::new("behind", self.now),
            Verdict::Retry { .. } | Verdict::Dead { .. } => Entry::spent(verdict, self.now),
        };
        let reader = self.reader;
        sqlx::query(
            "INSERT INTO outbox_parked (cursor, lane, seq, key, attempts, due, state, holds, code, detail)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
             ON CONFLICT (cursor, seq) DO UPDATE SET lane = excluded.lane, attempts = excluded.attempts,
                 due = excluded.due, state = excluded.state, holds = excluded.holds, code = excluded.code,
                 detail = excluded.detail",
        )
        .bind(&reader.name)
        .bind(lane::of(self.key, self.seq, reader.lanes))
        .bind(self.seq)
        .bind(self.key)
        .bind(entry.attempts)
        .bind(entry.due)
        .bind(entry.state)
        .bind(entry.holds)
        .bind(entry.cause.map(|cause| &*cause.code))
        .bind(entry.cause.map(|cause| cause.detail.as_str()))
        .execute(tx)
        .await?;
        Ok(true)
    }

    /// Writes down what became of a message that was set aside; tells whether the order of its key may change.
    ///
    /// A row that is not there any more was skipped by a person meanwhile, and stays away.
    async fn update(&self, tx: &mut SqliteConnection, verdict: &Verdict) -> sqlx::Result<bool> {
        let entry = match verdict {
            Verdict::Done => {
                sqlx::query("DELETE FROM outbox_parked WHERE cursor = ? AND seq = ?")
                    .bind(&self.reader.name)
                    .bind(self.seq)
                    .execute(tx)
                    .await?;
                return Ok(true);
            }
            // The row is as it was: due already, or behind the one before it.
            Verdict::Released => return Ok(true),
            Verdict::Behind => {
                sqlx::query("UPDATE outbox_parked SET state = 'behind' WHERE cursor = ? AND seq = ? AND key IS NOT NULL")
                    .bind(&self.reader.name)
                    .bind(self.seq)
                    .execute(tx)
                    .await?;
                return Ok(true);
            }
            Verdict::Retry { .. } | Verdict::Dead { .. } => Entry::spent(verdict, self.now),
        };
        sqlx::query(
            "UPDATE outbox_parked SET attempts = ?, due = ?, state = ?, holds = ?, code = ?, detail = ?
             WHERE cursor = ? AND seq = ?",
        )
        .bind(entry.attempts)
        .bind(entry.due)
        .bind(entry.state)
        .bind(entry.holds)
        .bind(entry.cause.map(|cause| &*cause.code))
        .bind(entry.cause.map(|cause| cause.detail.as_str()))
        .bind(&self.reader.name)
        .bind(self.seq)
        .execute(tx)
        .await?;
        Ok(true)
    }
}

/// A row of what is set aside.
struct Entry<'a> {
    state: &'static str,
    due: i64,
    attempts: u32,
    holds: bool,
    cause: Option<&'a Cause>,
}

impl<'a> Entry<'a> {
    fn new(state: &'static str, due: i64) -> Self {
        Self { state, due, attempts: 0, holds: false, cause: None }
    }

    /// The row of a message that has spent an attempt.
    fn spent(verdict: &'a Verdict, now: i64) -> Self {
        match verdict {
            Verdict::Retry { after, attempts, cause } => {
                let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
                let due = now.saturating_add(after);
                Self { state: "waiting", due, attempts: *attempts, holds: false, cause: Some(cause) }
            }
            Verdict::Dead { attempts, cause, holds } => {
                Self { state: "dead", due: now, attempts: *attempts, holds: *holds, cause: Some(cause) }
            }
            Verdict::Done | Verdict::Behind | Verdict::Released => Self::new("waiting", now),
        }
    }
}
