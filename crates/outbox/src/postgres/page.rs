//! Claiming: pages of the log, and messages that were set aside and are due.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::TryStreamExt;
use sqlx::Row;
use sqlx::postgres::{PgPool, PgRow};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::ahead::{Ahead, Entry};
use super::connect::BEGIN;
use super::cursor::{Held, Identity, Page, Place, Token};
use super::error::classify;
use super::row;
use super::window::{Position, Snapshot};
use crate::error::{Error, Result};
use crate::failpoint;
use crate::source::Claim;

/// A page holds no more bytes than this, whatever the messages weigh, so that memory stays flat.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// A page is for so many claims, or more until it has so many rows: a query has its price however little it brings.
const CLAIMS_AHEAD: usize = 2;
pub(super) const ROWS_AHEAD: usize = 100;

/// How often what is set aside is looked at while the log keeps us busy.
const LOOK_AT_PARKED: Duration = Duration::from_millis(100);

/// Begins a transaction for [`LOG`], of which every part goes by an index, however few rows there are: a look at all of them
/// would be paid for by an idle pipe as well.
const BEGIN_BY_INDEX: &str =
    "begin; set local jit = off; set local enable_seqscan = off; set local enable_bitmapscan = off";

/// Rows of the window: what s2 shows and s1 does not, and what is not set aside (after a change of lanes a row may
/// be read again that is). Above the floor they are found by number; below it there
/// are only those of transactions that s1 saw in progress, found by transaction.
/// (`not pg_visible_in_snapshot` rather than a comparison of `xid`, which would tempt the planner to sort by it.)
/// (`(select …)` around a number: of one that it knows, the planner asks the end of the index how many rows lie beyond. If
/// what was removed is not vacuumed yet it walks through all of that, for every claim. And `seq + 0` where rows are not to be
/// found by number, however many transactions there are.)
/// (And `int4eq` rather than `=`, of which the planner thinks that one row in 200 meets it: it would look through the whole
/// log and sort it.)
const LOG: &str = "
    with w as materialized (select coalesce($1::text::pg_snapshot, pg_current_snapshot()) as s2)
    select w.s2::text as s2, m.seq, m.id, m.type, m.key, m.payload, m.content_type, m.headers::text as headers,
        m.occurred_at, 0 as attempts,
        case when $9 and m.key is not null then exists (
            select from outbox.parked p
            where p.cursor = $10 and p.key = m.key and (p.state <> 'dead' or p.holds)) else false end as held
    from w left join lateral (
        select * from (
            (select * from outbox.messages
             where seq > (select greatest($3::bigint, $4::bigint, $5::bigint))
               and not pg_visible_in_snapshot(xid, $2::text::pg_snapshot) and pg_visible_in_snapshot(xid, w.s2)
               and ($7::int = 1 or int4eq(outbox.lane_of(key, seq, $7::int), $8::int))
               and not ($9 and exists (select from outbox.parked p where p.cursor = $10 and p.seq = messages.seq))
             order by seq limit $6)
            union all
            (select * from outbox.messages
             where xid = any ($11::text[]::xid8[]) and seq + 0 <= $3::bigint and seq + 0 > greatest($4::bigint, $5::bigint)
               and pg_visible_in_snapshot(xid, w.s2)
               and ($7::int = 1 or int4eq(outbox.lane_of(key, seq, $7::int), $8::int))
               and not ($9 and exists (select from outbox.parked p where p.cursor = $10 and p.seq = messages.seq))
             order by seq limit $6)
        ) as found order by seq limit $6
    ) as m on true
    order by m.seq";

/// What waits and is due, each with what stands behind it, up to the next of its key that holds for another reason.
const PARKED: &str = "
    with heads as materialized (
        select seq, key from outbox.parked
        where cursor = $1 and lane = $2 and state = 'waiting' and due <= clock_timestamp() and seq <> all ($4)
        order by due limit $3),
    chosen as (
        select seq from heads
        union
        select b.seq from heads h cross join lateral (
            select seq, bool_or(state <> 'behind') over (order by seq) as past
            from (select seq, state from outbox.parked
                  where cursor = $1 and key = h.key and seq > h.seq and (state <> 'dead' or holds)
                  order by seq limit $3) as run) as b
        where not b.past and b.seq <> all ($4))
    select m.seq, m.id, m.type, m.key, m.payload, m.content_type, m.headers::text as headers, m.occurred_at,
        p.attempts
    from chosen join outbox.parked p on p.cursor = $1 and p.seq = chosen.seq
    join outbox.messages m on m.seq = chosen.seq
    order by m.seq limit $3";

const ANY_PARKED: &str = "select exists (select from outbox.parked where cursor = $1 and lane = $2)";

/// Claims up to `limit` messages. What is set aside and due goes first, but never twice in a row without a look
/// at the log, so that neither starves the other.
pub(super) async fn claim(identity: &Identity, held: &mut Held, limit: usize) -> Result<Claim> {
    let looked_lately = held.looked_at_parked.is_some_and(|at| at.elapsed() < LOOK_AT_PARKED);
    let look = held.has_parked && !looked_lately;
    let parked_first = look && !held.parked_last;
    for parked in [parked_first, !parked_first] {
        let claim = match parked {
            true if look => claim_parked(identity, held, limit).await?,
            true => continue,
            false => claim_page(identity, held, limit).await?,
        };
        if !claim.messages.is_empty() {
            held.parked_last = parked;
            return Ok(claim);
        }
    }
    Ok(Claim::empty())
}

async fn claim_parked(identity: &Identity, held: &mut Held, limit: usize) -> Result<Claim> {
    let failed =
        |error| classify(error, format_args!("reading what cursor '{}' has set aside", identity.name));
    held.looked_at_parked = Some(Instant::now());
    let out: Vec<i64> = held.parked_out.iter().copied().collect();
    let mut tx = identity.pool.begin_with(BEGIN).await.map_err(failed)?;
    let query = sqlx::query(PARKED)
        .bind(&identity.name)
        .bind(identity.lane())
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .bind(out)
        .persistent(false);
    let mut found = Found::default();
    let mut rows = query.fetch(&mut *tx);
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        found.add(&row, false).map_err(failed)?;
        if !found.is_whole() {
            break;
        }
    }
    drop(rows);
    if found.entries.is_empty() {
        let any = sqlx::query(ANY_PARKED).bind(&identity.name).bind(identity.lane()).persistent(false);
        held.has_parked = any.fetch_one(&mut *tx).await.map_err(failed)?.get(0);
    }
    tx.commit().await.map_err(failed)?;
    if found.entries.is_empty() {
        return Ok(Claim::empty());
    }
    held.parked_out.extend(found.entries.iter().map(|entry| entry.place.seq));
    Ok(claim_of(found.entries, held, None).of_set_aside())
}

async fn claim_page(identity: &Identity, held: &mut Held, limit: usize) -> Result<Claim> {
    if limit == 0 {
        return Ok(Claim::empty());
    }
    if held.has_parked {
        // What was set aside since may hold keys that these have.
        (held.ahead, held.next_page) = (None, None);
    }
    let ahead = held.ahead.take().filter(|ahead| ahead.begins_at(&held.read));
    let ahead = match ahead {
        Some(ahead) => Some(ahead),
        None => next_page(identity, held, limit).await?,
    };
    let Some(mut ahead) = ahead else { return Ok(Claim::empty()) };
    let (entries, page) = ahead.take(limit);
    held.read = page.after.clone();
    let is_low = ahead.len() <= limit.max(ROWS_AHEAD / 2);
    if is_low
        && !held.has_parked
        && held.next_page.is_none()
        && ahead.is_followed()
        && has_room(&identity.pool)
    {
        // While these are delivered, so that neither the database nor the sink waits for the other.
        let request = Request::new(held, ahead.end().clone(), limit);
        held.next_page = Some(NextPage::start(identity, request));
    }
    held.ahead = Some(ahead).filter(|ahead| ahead.len() > 0);
    if entries.is_empty() {
        return Ok(Claim::empty());
    }
    let flags = entries.iter().map(|entry| entry.held).collect();
    Ok(claim_of(entries, held, Some(page)).with_held(flags))
}

/// Whether a read of ours would keep nobody else from a connection.
fn has_room(pool: &PgPool) -> bool {
    pool.num_idle() > 0 || pool.size() < pool.options().get_max_connections()
}

/// The page that begins where the cursor stands: one that was begun before, or it is read now.
async fn next_page(identity: &Identity, held: &mut Held, limit: usize) -> Result<Option<Ahead>> {
    let begun = held.next_page.take().filter(|next| next.request.read == held.read);
    let found = match begun {
        Some(next) => next.found().await,
        None => None,
    };
    let (request, found) = match found {
        Some(found) => found,
        None => {
            let request = Request::new(held, held.read.clone(), limit);
            let found = request.find(identity).await?;
            (request, found)
        }
    };
    let Some(window) = &found.window else { return Ok(None) };
    // Heavy messages: ask for fewer the next time, rather than read on and throw away.
    let count = found.entries.len();
    held.page_rows = if found.is_whole() { held.page_rows.saturating_mul(2) } else { count };
    let begin = request.read.opened(window, &held.marks);
    let end = match found.entries.back() {
        Some(last) if !found.is_whole() || count >= request.rows => begin.at(last.place.seq),
        _ => begin.past(window, &held.marks),
    };
    Ok(Some(Ahead::new(begin, end, found.entries)))
}

/// A page of the log that is asked for.
#[derive(Debug, Clone)]
struct Request {
    read: Position,
    rows: usize,
    has_parked: bool,
}

impl Request {
    /// Rows for several claims, unless something is set aside: then what holds a key is known only from one claim to the
    /// next.
    fn new(held: &Held, read: Position, limit: usize) -> Self {
        let claims = if held.has_parked { 1 } else { CLAIMS_AHEAD.max(ROWS_AHEAD.div_ceil(limit)) };
        let rows = limit.saturating_mul(claims).min(held.page_rows).max(1);
        Self { read, rows, has_parked: held.has_parked }
    }

    async fn find(&self, identity: &Identity) -> Result<Found> {
        let failed = |error| classify(error, format_args!("reading the log for cursor '{}'", identity.name));
        let read = &self.read;
        let mut tx = identity.pool.begin_with(BEGIN_BY_INDEX).await.map_err(failed)?;
        let query = sqlx::query(LOG)
            .bind(read.s2.as_ref().map(Snapshot::to_string))
            .bind(read.s1.to_string())
            .bind(read.floor)
            .bind(read.pos)
            .bind(read.base)
            .bind(i64::try_from(self.rows).unwrap_or(i64::MAX))
            .bind(identity.lanes())
            .bind(identity.lane())
            .bind(self.has_parked)
            .bind(&identity.name)
            .bind(read.s1.in_progress_text())
            .persistent(false);
        let mut found = Found { window: read.s2.clone(), ..Found::default() };
        let mut rows = query.fetch(&mut *tx);
        while let Some(row) = rows.try_next().await.map_err(failed)? {
            if found.window.is_none() {
                let text: String = row.try_get("s2").map_err(failed)?;
                let wrong = |error: String| failed(sqlx::Error::Decode(error.into()));
                found.window = Some(text.parse().map_err(wrong)?);
            }
            if row.try_get::<Option<i64>, _>("seq").map_err(failed)?.is_none() {
                break;
            }
            found.add(&row, row.try_get("held").map_err(failed)?).map_err(failed)?;
            if !found.is_whole() {
                break;
            }
        }
        drop(rows);
        failpoint::pass("page_read");
        tx.commit().await.map_err(failed)?;
        Ok(found)
    }
}

/// The page that follows what was read, begun before anybody claims of it.
///
/// One that is not wanted any more goes on until it is read, rather than to be left in the midst of a transaction.
#[derive(Debug)]
pub(super) struct NextPage {
    request: Request,
    task: JoinHandle<Option<Found>>,
}

impl NextPage {
    fn start(identity: &Identity, request: Request) -> Self {
        let (identity, asked) = (identity.clone(), request.clone());
        let task = tokio::spawn(async move {
            let found = timeout(identity.lease, asked.find(&identity)).await.ok()?;
            let told = |error: &Error| {
                tracing::debug!(cursor = identity.name, error = error.chain(), "could not read ahead");
            };
            found.inspect_err(told).ok()
        });
        Self { request, task }
    }

    /// None if it came to nothing. That was then: whoever needs the page now asks for it again, and hears what is wrong now.
    async fn found(self) -> Option<(Request, Found)> {
        let found = self.task.await.ok().flatten()?;
        Some((self.request, found))
    }
}

/// Messages as they come from a query.
#[derive(Debug, Default)]
struct Found {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// The window that they are of.
    window: Option<Snapshot>,
}

impl Found {
    fn add(&mut self, row: &PgRow, held: bool) -> sqlx::Result<()> {
        let message = row::message(row)?;
        let (seq, attempts) = (row.try_get("seq")?, row.try_get("attempts")?);
        let headers = message.headers.iter().map(|(name, value)| name.len() + value.len());
        let names = message.kind.len() + message.key.as_ref().map_or(0, String::len);
        self.bytes += message.payload.len() + headers.sum::<usize>() + names;
        let place = Place { seq, key: message.key.clone(), attempts };
        self.entries.push_back(Entry { message, place, held });
        Ok(())
    }

    /// Whether there was room for all that were asked for.
    fn is_whole(&self) -> bool {
        self.bytes < PAGE_BYTES
    }
}

fn claim_of(entries: impl IntoIterator<Item = Entry>, held: &mut Held, page: Option<Page>) -> Claim {
    held.claims += 1;
    let (messages, rows) = entries.into_iter().map(|entry| (entry.message, entry.place)).unzip();
    let token = Token { epoch: held.epoch, number: held.claims, rows, page };
    Claim::new(messages, token).with_lease(held.lease.clone())
}
