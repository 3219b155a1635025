//! After a dump and restore: transaction ids of the old server mean nothing on the new one.
//!
//! The rows and the cursor came over with their old ids, and among themselves those still make sense: they tell
//! which rows the cursor had done. What it had not done is set aside as due, in order, and reading begins afresh
//! after it, with snapshots of this server.

use sqlx::{PgConnection, Row};

use super::cursor::Identity;
use super::error::classify;
use super::window::{Position, Snapshot};
use crate::error::Result;

/// Waits for writers to end and keeps new ones out for a moment: then every row up to the highest is committed.
pub(super) const LOCK: &str = "lock table outbox.messages in share row exclusive mode";

/// A row above `top` was never met by this cursor, whatever its id says: it was pending, or written since.
const SET_ASIDE: &str = "
    insert into outbox.parked (cursor, lane, seq, key, state)
    select $1, $2, seq, key, case
            when key is null or row_number() over (partition by key order by seq) = 1 then 'waiting'
            else 'behind' end
    from outbox.messages
    where seq > $3 and ($8::int = 1 or outbox.lane_of(key, seq, $8::int) = $2)
      and (seq > $4 or not (pg_visible_in_snapshot(xid, $5::text::pg_snapshot)
            or ($6::text is not null and seq <= $7 and pg_visible_in_snapshot(xid, $6::text::pg_snapshot))))
    on conflict (cursor, seq) do nothing";

/// Keys that had something set aside already keep their order: only the first of a key may be tried.
const REORDER: &str = "
    update outbox.parked p set state = 'behind'
    where cursor = $1 and lane = $2 and state = 'waiting' and key is not null and exists (
        select from outbox.parked e
        where e.cursor = p.cursor and e.key = p.key and e.seq < p.seq and (e.state <> 'dead' or e.holds))";

const BEGIN_AFRESH: &str = "
    update outbox.cursors c
    set s1 = pg_current_snapshot(), s2 = null, pos = 0, floor = h.highest, next_floor = 0, base = h.highest, top = h.highest,
        system_id = $3
    from (select coalesce(max(seq), 0) as highest from outbox.messages) as h
    where name = $1 and lane = $2
    returning s1::text, floor, base";

/// Sets aside what the cursor had not done, and begins afresh on this server.
pub(super) async fn rebase(
    tx: &mut PgConnection,
    identity: &Identity,
    old: &Position,
    top: i64,
    system_id: i64,
) -> Result<Position> {
    let failed = |error| classify(error, format_args!("rebasing cursor '{}' after a restore", identity.name));
    tracing::warn!(
        cursor = identity.name,
        lane = identity.lane,
        "another server than before, as after a restore: rebasing"
    );
    sqlx::query(LOCK).persistent(false).execute(&mut *tx).await.map_err(failed)?;
    let set_aside = sqlx::query(SET_ASIDE)
        .bind(&identity.name)
        .bind(identity.lane())
        .bind(old.base)
        .bind(top)
        .bind(old.s1.to_string())
        .bind(old.s2.as_ref().map(Snapshot::to_string))
        .bind(old.pos)
        .bind(identity.lanes())
        .persistent(false)
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
    let reorder = sqlx::query(REORDER).bind(&identity.name).bind(identity.lane()).persistent(false);
    reorder.execute(&mut *tx).await.map_err(failed)?;
    let row = sqlx::query(BEGIN_AFRESH)
        .bind(&identity.name)
        .bind(identity.lane())
        .bind(system_id)
        .persistent(false)
        .fetch_one(&mut *tx)
        .await
        .map_err(failed)?;
    tracing::info!(cursor = identity.name, pending = set_aside.rows_affected(), "rebased");
    let s1 = row
        .get::<String, _>("s1")
        .parse()
        .map_err(|error: String| failed(sqlx::Error::Decode(error.into())))?;
    Ok(Position { s1, s2: None, pos: 0, floor: row.get("floor"), next_floor: 0, base: row.get("base") })
}
