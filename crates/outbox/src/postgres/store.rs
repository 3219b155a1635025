//! What a publisher keeps, in the log: the [`Store`].

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use sqlx::Row;

use super::Outbox;
use super::enqueue::uuid;
use super::error::classify;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Limits, Message};
use crate::store::{LOOKED_THROUGH, Store};

/// Which of the keys have a row that the cursor has not done, or has set aside such that later ones wait for it.
///
/// Not done is what the newest snapshot of the cursor (`edge`) does not show, and of an open window what s1 does not
/// show either and lies above `pos`. The first is found by transaction id: where everything is done there is none, and
/// the index says so at once, however long the log is. (A bound by number would not do: `floor` stays at the beginning of
/// the last window, and all of that would be looked through.) Everything is read in one snapshot, in which a row is
/// pending or set aside or done: a settle changes that at once.
///
/// A cursor that does not exist has done nothing. One of another server (after a restore) is not rebased yet, and its
/// snapshots mean nothing here: then every key counts.
const HAS_KEPT: &str = "
    with asked as materialized (select key from unnest($2::text[]) as asked (key)),
    c as materialized (
        select *, coalesce(s2, s1) as edge from outbox.cursors
        where name = $1 and (lanes = 1 or lane = any (select outbox.lane_of(key, 0, lanes) from asked))),
    undone as materialized (
        select m.key from c cross join lateral (
            (select key from outbox.messages
             where xid >= pg_snapshot_xmax(c.edge) and seq > c.base
               and (c.lanes = 1 or outbox.lane_of(key, seq, c.lanes) = c.lane)
             order by xid limit $3)
            union all
            (select late.key from pg_snapshot_xip(c.edge) as x, lateral (
                select key from outbox.messages
                where xid >= x and xid <= x and seq > c.base
                  and (c.lanes = 1 or outbox.lane_of(key, seq, c.lanes) = c.lane)
                order by xid limit $3) as late)
            union all
            (select key from outbox.messages
             where c.s2 is not null and seq > greatest(c.pos, c.floor, c.base)
               and not pg_visible_in_snapshot(xid, c.s1)
               and (c.lanes = 1 or outbox.lane_of(key, seq, c.lanes) = c.lane)
             order by seq limit $3)
            union all
            (select late.key from pg_snapshot_xip(c.s1) as x, lateral (
                select key from outbox.messages
                where c.s2 is not null and xid >= x and xid <= x and seq > greatest(c.pos, c.base)
                  and (c.lanes = 1 or outbox.lane_of(key, seq, c.lanes) = c.lane)
                order by xid limit $3) as late)
        ) as m
        union all
        (select key from outbox.messages
         where not exists (select from outbox.cursors where name = $1) order by seq desc limit $3)),
    everything as materialized (
        select (select count(*) from undone) >= $3 or exists (
            select from c where system_id <> (select system_identifier from pg_control_system())) as counts)
    select asked.key from asked, everything
    where everything.counts
       or exists (select from undone where undone.key = asked.key)
       or exists (select from outbox.parked p
                  where p.cursor = $1 and p.key = asked.key and (p.state <> 'dead' or p.holds))";

/// Every part above is to go by the index that its order names. Left to itself the planner, which knows little of
/// transaction ids, may think that it is quicker to look through the whole log.
const BEGIN: &str = "begin; set local enable_seqscan = off; set local enable_bitmapscan = off;
    set local enable_sort = off; set local jit = off";

/// The earliest time that PostgreSQL can hold, in microseconds since 1970.
const EARLIEST: i64 = -210_866_803_200_000_000;

/// A log with the name of the pipe that delivers what is kept in it.
#[derive(Debug, Clone)]
pub struct LogStore {
    outbox: Outbox,
    pipe: String,
}

impl LogStore {
    pub(super) fn new(outbox: Outbox, pipe: String) -> Self {
        Self { outbox, pipe }
    }
}

#[async_trait]
impl Store for LogStore {
    fn limits(&self) -> Limits {
        self.outbox.limits
    }

    fn admit(&self, message: Message) -> Result<Message> {
        self.outbox.limits.check(&message)?;
        let id = uuid(&message)?;
        let micros = message.occurred_at.as_microsecond();
        let Some(at) = Timestamp::from_microsecond(micros).ok().filter(|_| micros >= EARLIEST) else {
            let what = format!("the time of message {} is earlier than the outbox can keep", message.id);
            return Err(Error::new(ErrorKind::Invalid, what));
        };
        Ok(message.id(id).occurred_at(at))
    }

    async fn keep(&self, messages: &[Message]) -> Result<()> {
        let failed = |error| classify(error, "keeping messages in the outbox");
        let mut tx = self.outbox.pool.begin().await.map_err(failed)?;
        self.outbox.enqueue_new(&mut tx, messages).await?;
        tx.commit().await.map_err(failed)
    }

    async fn has_kept(&self, keys: &[&str]) -> Result<HashSet<String>> {
        let failed = |error| classify(error, format_args!("asking what pipe '{}' has to deliver", self.pipe));
        let mut tx = self.outbox.pool.begin_with(BEGIN).await.map_err(failed)?;
        let query = sqlx::query(HAS_KEPT).bind(&self.pipe).bind(keys).bind(LOOKED_THROUGH).persistent(false);
        let rows = query.fetch_all(&mut *tx).await.map_err(failed)?;
        tx.commit().await.map_err(failed)?;
        rows.iter().map(|row| row.try_get("key").map_err(failed)).collect()
    }
}
