//! What a cursor has not done, found by index however long the log is.
//!
//! Not done is what the newest snapshot of the cursor does not show, and of an open window what s1 does not show either and
//! lies above `pos`. The first is found by transaction id: where everything is done there is none. A bound by number would
//! not do: `floor` stays at the beginning of the last window, and all of that would be looked through.

/// `seq` and `occurred_at` of rows that cursor `c` has not done and not set aside: at most `$1` of each of four kinds.
pub(super) const UNDONE: &str = "(
    (select seq, occurred_at from outbox.messages
     where xid >= pg_snapshot_xmax(coalesce(c.s2, c.s1)) and seq > c.base
       and (c.lanes = 1 or outbox.lane_of(key, seq, c.lanes) = c.lane)
     order by xid limit $1)
    union all
    (select late.seq, late.occurred_at from pg_snapshot_xip(coalesce(c.s2, c.s1)) as x, lateral (
        select seq, occurred_at from outbox.messages
        where xid >= x and xid <= x and seq > c.base
          and (c.lanes = 1 or outbox.lane_of(key, seq, c.lanes) = c.lane)
        order by xid limit $1) as late)
    union all
    (select seq, occurred_at from outbox.messages
     where c.s2 is not null and seq > greatest(c.pos, c.floor, c.base)
       and not pg_visible_in_snapshot(xid, c.s1) and pg_visible_in_snapshot(xid, c.s2)
       and (c.lanes = 1 or outbox.lane_of(key, seq, c.lanes) = c.lane)
     order by seq limit $1)
    union all
    (select late.seq, late.occurred_at from pg_snapshot_xip(c.s1) as x, lateral (
        select seq, occurred_at from outbox.messages
        where c.s2 is not null and xid >= x and xid <= x and seq > greatest(c.pos, c.base)
          and seq <= greatest(c.pos, c.floor, c.base) and pg_visible_in_snapshot(xid, c.s2)
          and (c.lanes = 1 or outbox.lane_of(key, seq, c.lanes) = c.lane)
        order by xid limit $1) as late)
)";

/// Every part above is to go by the index that its order names. Left to itself the planner, which knows little of
/// transaction ids, may think that it is quicker to look through the whole log.
pub(super) const BY_INDEX: &str =
    "set local enable_seqscan = off; set local enable_bitmapscan = off; set local enable_sort = off";

/// And after it, everything as usual.
pub(super) const AS_USUAL: &str =
    "set local enable_seqscan = on; set local enable_bitmapscan = on; set local enable_sort = on";
