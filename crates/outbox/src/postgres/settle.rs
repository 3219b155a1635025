//! Settling: the cursor moves and what failed is set aside, in one transaction, if the cursor is still ours.

use sqlx::{PgConnection, Row};
use tokio::time::Instant;

use super::cursor::{Held, Identity, Place, Token, lost};
use super::error::classify;
use super::lease::{add_mark, begin};
use super::window::{Position, Snapshot};
use crate::error::Result;
use crate::failpoint;
use crate::policy::{Verdict, written};

/// The first statement: the mark in it must be read before this transaction has an id, see `Marks`.
const MOVE: &str = "
    with mark as materialized (select last_value - (not is_called)::int as highest from outbox.messages_seq)
    update outbox.cursors
    set turn = $5, lease_until = clock_timestamp() + $4::bigint * interval '1 millisecond',
        s1 = coalesce($7::text::pg_snapshot, s1),
        s2 = case when $7 is null then s2 else $8::text::pg_snapshot end,
        pos = coalesce($9, pos), floor = coalesce($10, floor), top = greatest(top, $11),
        delivered = delivered + $12, next_floor = coalesce($13, next_floor)
    from mark
    where name = $1 and lane = $2 and epoch = $3 and turn = $5 - 1
      and substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) = $6
    returning mark.highest, pg_current_xact_id()::text as xid";

const TURN: &str = "select epoch, turn from outbox.cursors where name = $1 and lane = $2";

/// Messages from the log are new here; a replay may meet one that is set aside already.
const PARK: &str = "
    insert into outbox.parked (cursor, lane, seq, key, attempts, state, due, holds, code, detail)
    select $1, $2, seq, key, attempts, state, clock_timestamp() + delay * interval '1 millisecond', holds, code, detail
    from unnest($3::bigint[], $4::text[], $5::int[], $6::text[], $7::bigint[], $8::bool[], $9::text[], $10::text[])
        as new (seq, key, attempts, state, delay, holds, code, detail)
    on conflict (cursor, seq) do update
    set attempts = excluded.attempts, state = excluded.state, due = excluded.due, holds = excluded.holds,
        code = coalesce(excluded.code, parked.code), detail = coalesce(excluded.detail, parked.detail)";

/// Messages that were set aside before: only those that still are, for a person may have skipped one meanwhile.
const PARK_AGAIN: &str = "
    update outbox.parked p
    set attempts = new.attempts, state = new.state,
        due = clock_timestamp() + new.delay * interval '1 millisecond', holds = new.holds,
        code = coalesce(new.code, p.code), detail = coalesce(new.detail, p.detail)
    from unnest($3::bigint[], $4::text[], $5::int[], $6::text[], $7::bigint[], $8::bool[], $9::text[], $10::text[])
        as new (seq, key, attempts, state, delay, holds, code, detail)
    where p.cursor = $1 and p.lane = $2 and p.seq = new.seq";

const UNPARK: &str = "delete from outbox.parked where cursor = $1 and seq = any ($2)";

/// Keeps the invariant: among those of a key that hold it, the first is never behind.
const PROMOTE: &str = "
    update outbox.parked p set state = 'waiting', due = clock_timestamp()
    from unnest($2::text[]) as touched (key) cross join lateral (
        select seq, state from outbox.parked
        where cursor = $1 and key = touched.key and (state <> 'dead' or holds) order by seq limit 1) as head
    where p.cursor = $1 and p.seq = head.seq and head.state = 'behind'";

/// What a settle does to `outbox.parked`.
#[derive(Debug, Default)]
struct Changes {
    /// Whether messages of a key wait for each other.
    ordered: bool,
    seqs: Vec<i64>,
    keys: Vec<Option<String>>,
    attempts: Vec<i32>,
    states: Vec<&'static str>,
    delays: Vec<i64>,
    holds: Vec<bool>,
    codes: Vec<Option<String>>,
    details: Vec<Option<String>>,
    gone: Vec<i64>,
    touched: Vec<String>,
    done: i64,
}

impl Changes {
    fn add(&mut self, place: &Place, was_parked: bool, verdict: &Verdict) {
        let (mut attempts, mut delay, mut holds, mut cause) = (place.attempts, 0, true, None);
        let state = match verdict {
            Verdict::Done => {
                self.done += 1;
                if was_parked {
                    self.gone.push(place.seq);
                    self.touched.extend(place.key.clone());
                }
                return;
            }
            Verdict::Retry { after, attempts: spent, cause: why } => {
                (attempts, cause) = (clamp(*spent), Some(why));
                delay = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
                "waiting"
            }
            Verdict::Dead { attempts: spent, cause: why, holds: hold } => {
                (attempts, cause, holds) = (clamp(*spent), Some(why), *hold);
                "dead"
            }
            Verdict::Behind if place.key.is_some() => "behind",
            // Nothing would ever call it forth: without a key there is no earlier one.
            Verdict::Behind => "waiting",
            // It still is what it was.
            Verdict::Released if was_parked => return,
            // The first of its key is promoted below; the others wait for it.
            Verdict::Released if place.key.is_some() && self.ordered => "behind",
            Verdict::Released => "waiting",
        };
        self.seqs.push(place.seq);
        self.keys.push(place.key.clone());
        self.attempts.push(attempts);
        self.states.push(state);
        self.delays.push(delay);
        self.holds.push(holds);
        self.codes.push(cause.map(|cause| cause.code.to_string()));
        self.details.push(cause.map(|cause| cause.detail.clone()));
        self.touched.extend(place.key.clone());
    }

    async fn write(&self, tx: &mut PgConnection, identity: &Identity, was_parked: bool) -> sqlx::Result<()> {
        if !self.gone.is_empty() {
            sqlx::query(UNPARK)
                .bind(&identity.name)
                .bind(&self.gone)
                .persistent(false)
                .execute(&mut *tx)
                .await?;
        }
        if !self.seqs.is_empty() {
            sqlx::query(if was_parked { PARK_AGAIN } else { PARK })
                .bind(&identity.name)
                .bind(identity.lane())
                .bind(&self.seqs)
                .bind(&self.keys)
                .bind(&self.attempts)
                .bind(&self.states)
                .bind(&self.delays)
                .bind(&self.holds)
                .bind(&self.codes)
                .bind(&self.details)
                .persistent(false)
                .execute(&mut *tx)
                .await?;
        }
        if !self.gone.is_empty() || !self.seqs.is_empty() {
            failpoint::pass("settle_set_aside");
        }
        promote(tx, &identity.name, &self.touched).await
    }
}

/// Lets the first of each key be tried, if it only waited for an earlier one that is gone.
pub(super) async fn promote(tx: &mut PgConnection, cursor: &str, keys: &[String]) -> sqlx::Result<()> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut keys = keys.to_vec();
    keys.sort_unstable();
    keys.dedup();
    sqlx::query(PROMOTE).bind(cursor).bind(keys).persistent(false).execute(tx).await?;
    Ok(())
}

pub(super) async fn settle(
    identity: &Identity,
    held: &mut Held,
    token: &Token,
    ordered: bool,
    verdicts: &[Verdict],
) -> Result<()> {
    if token.number <= held.settled {
        return Ok(());
    }
    let count = match token.page {
        Some(_) => written(verdicts, held.claims > token.number),
        None => verdicts.len(),
    };
    let position = position(held, token, count);
    let was_parked = token.page.is_none();
    let mut changes = Changes { ordered, ..Changes::default() };
    for (place, verdict) in token.rows.iter().zip(verdicts).take(count) {
        changes.add(place, was_parked, verdict);
    }
    // Until the answer is here, nobody knows where reading goes on: nothing is claimed before it is repeated.
    held.in_doubt = true;
    write(identity, held, token, position.as_ref(), &changes).await?;
    held.in_doubt = false;
    held.settled = token.number;
    held.has_parked |= !changes.seqs.is_empty();
    for place in token.rows.iter().filter(|_| was_parked) {
        held.parked_out.remove(&place.seq);
    }
    if was_parked {
        // What was behind these may be due now; look at once.
        held.looked_at_parked = None;
    }
    if let Some(position) = position.filter(|_| count < verdicts.len()) {
        held.read = position;
        (held.ahead, held.next_page) = (None, None);
    }
    Ok(())
}

/// Where the cursor stands once the first `count` messages of the claim are written down.
fn position(held: &Held, token: &Token, count: usize) -> Option<Position> {
    let page = token.page.as_ref()?;
    let mut position = if count == token.rows.len() {
        page.after.clone()
    } else if count == 0 {
        page.before.clone()
    } else {
        page.before.at(token.rows[count - 1].seq)
    };
    position.floor = position.floor.max(held.marks.floor(position.s1.xmax));
    Some(position)
}

async fn write(
    identity: &Identity,
    held: &mut Held,
    token: &Token,
    position: Option<&Position>,
    changes: &Changes,
) -> Result<()> {
    let failed = |error| classify(error, format_args!("settling on cursor '{}'", identity.name));
    let asked = Instant::now();
    let top = token.rows.iter().map(|place| place.seq).max().unwrap_or(0);
    let mut tx = begin(identity).await.map_err(failed)?;
    let moved = sqlx::query(MOVE)
        .bind(&identity.name)
        .bind(identity.lane())
        .bind(token.epoch)
        .bind(identity.lease_ms())
        .bind(token.number)
        .bind(&held.timeline)
        .bind(position.map(|position| position.s1.to_string()))
        .bind(position.and_then(|position| position.s2.as_ref()).map(Snapshot::to_string))
        .bind(position.map(|position| position.pos))
        .bind(position.map(|position| position.floor))
        .bind(top)
        .bind(changes.done)
        .bind(position.map(|position| position.next_floor))
        .persistent(false)
        .fetch_optional(&mut *tx)
        .await
        .map_err(failed)?;
    let Some(row) = moved else {
        // Not ours any more, or an earlier try got through and only its answer was lost.
        let turn = sqlx::query(TURN).bind(&identity.name).bind(identity.lane()).persistent(false);
        let turn = turn.fetch_optional(&mut *tx).await.map_err(failed)?;
        let through = turn.is_some_and(|row| {
            row.get::<i64, _>("epoch") == token.epoch && row.get::<i64, _>("turn") >= token.number
        });
        return if through { Ok(()) } else { Err(lost(identity)) };
    };
    changes.write(&mut tx, identity, token.page.is_none()).await.map_err(failed)?;
    failpoint::pass("settle_before_commit");
    tx.commit().await.map_err(failed)?;
    failpoint::pass("settle_after_commit");
    add_mark(&mut held.marks, &row)?;
    held.lease.extend(asked + identity.lease);
    Ok(())
}

fn clamp(attempts: u32) -> i32 {
    i32::try_from(attempts).unwrap_or(i32::MAX)
}
