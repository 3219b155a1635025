//! Looking at messages: where each stands on each cursor. Nothing here writes.

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row};
use uuid::Uuid;

use super::admin::{PATIENCE, count};
use super::error::classify;
use super::row::At;
use super::undone::{AS_USUAL, BY_INDEX, UNDONE};
use crate::admin::{Entry, Filter, PREVIEWED_AT_MOST, Page, Repair, Stand};
use crate::error::Result;
use crate::sink::Cause;

/// Every message on every cursor that it concerns, with where it stands there.
const ALL: &str = "
    select m.seq, m.id, m.type, m.key, m.occurred_at, c.name as cursor, p.attempts, p.due, p.code, p.detail, s.stand
    from outbox.messages m
    left join outbox.cursors c on c.lanes = 1 or outbox.lane_of(m.key, m.seq, c.lanes) = c.lane
    left join outbox.parked p on p.cursor = c.name and p.seq = m.seq
    cross join lateral (select coalesce(p.state, case
        when c.name is null then 'pending'
        when m.seq <= c.base or pg_visible_in_snapshot(m.xid, c.s1) then 'done'
        when c.s2 is not null and m.seq <= c.pos and pg_visible_in_snapshot(m.xid, c.s2) then 'done'
        else 'pending' end) as stand) as s
    where ($1::text is null or c.name = $1) and ($2::text is null or s.stand = $2)";

/// The same for what is set aside, by way of the small table.
const SET_ASIDE: &str = "
    select m.seq, m.id, m.type, m.key, m.occurred_at, p.cursor, p.attempts, p.due, p.code, p.detail, p.state as stand
    from outbox.parked p join outbox.messages m using (seq)
    where ($1::text is null or p.cursor = $1) and ($2::text is null or p.state = $2)";

/// What both are asked besides.
const MATCHING: &str = "
      and ($3::uuid is null or m.id = $3) and ($4::text is null or m.type like $4)
      and ($5::text is null or m.key = $5) and ($6::text is null or p.code = $6)
      and ($7::text is null or m.headers ->> $7 = $8)
      and ($9::bigint is null or m.seq > $9) and ($10::bigint is null or m.seq <= $10)";

/// So many undone messages are looked at to find the first of them.
const FIRST_OF: i64 = 10_000;

/// The message at which a look ends, upwards and downwards.
const LAST_UP: &str = "select seq from outbox.messages where seq > $1 order by seq offset $2 limit 1";
const LAST_DOWN: &str = "select seq from outbox.messages where seq <= $1 order by seq desc offset $2 limit 1";

/// Which part of the log is meant: above the first, up to the second.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    above: Option<i64>,
    up_to: Option<i64>,
}

impl Part {
    /// What comes after the position where the filter begins, in its direction.
    fn of(filter: &Filter) -> Self {
        let after = filter.after.map(|after| i64::try_from(after).unwrap_or(i64::MAX));
        match filter.newest_first {
            true => Self { above: None, up_to: after.map(|after| after - 1) },
            false => Self { above: after, up_to: None },
        }
    }
}

/// Messages that match, as [`Admin::list`](crate::admin::Admin::list) says.
pub(super) async fn list(tx: &mut PgConnection, filter: &Filter) -> Result<Vec<Entry>> {
    hurry(tx).await?;
    let most = i64::try_from(filter.page().saturating_add(1)).unwrap_or(i64::MAX);
    Ok(filter.cut(select(tx, filter, Part::of(filter), most).await?))
}

/// A page of them, as [`Admin::page`](crate::admin::Admin::page) says.
pub(super) async fn page(tx: &mut PgConnection, filter: &Filter, look: Option<u32>) -> Result<Page> {
    hurry(tx).await?;
    let mut part = Part::of(filter);
    // These find what they look for by an index.
    let is_bounded = filter.id.is_none() && !is_set_aside(filter);
    let cut_at = if is_bounded { narrow(tx, filter, &mut part, look).await? } else { None };
    let most = i64::try_from(filter.page().saturating_add(1)).unwrap_or(i64::MAX);
    Ok(filter.page_of(select(tx, filter, part, most).await?, cut_at))
}

/// A page of what is set aside and matches.
pub(super) async fn set_aside(tx: &mut PgConnection, filter: &Filter) -> Result<Page> {
    let most = i64::try_from(filter.page().saturating_add(1)).unwrap_or(i64::MAX);
    Ok(filter.page_of(run(tx, SET_ASIDE, filter, Part::of(filter), most).await?, None))
}

/// How many of them a repair would change, up to [`PREVIEWED_AT_MOST`].
pub(super) async fn count_set_aside(tx: &mut PgConnection, filter: &Filter, repair: Repair) -> Result<u64> {
    hurry(tx).await?;
    let failed = |error| classify(error, "counting messages");
    let Some(id) = id_of(filter) else { return Ok(0) };
    // What is behind comes by itself, after the one that it waits for.
    let besides = if repair == Repair::Retry { " and p.state <> 'behind'" } else { "" };
    let chosen = format!("{SET_ASIDE}{MATCHING}{besides} limit {PREVIEWED_AT_MOST}");
    let text = format!("select count(*) as found from ({chosen}) as chosen");
    let row = bind(text, filter, id, Part::of(filter)).fetch_one(tx).await.map_err(failed)?;
    count(&row, "found").map_err(failed)
}

async fn hurry(tx: &mut PgConnection) -> Result<()> {
    let hurried = sqlx::raw_sql(PATIENCE).execute(tx).await;
    hurried.map(drop).map_err(|error| classify(error, "listing messages"))
}

/// Whether only messages that are set aside can match.
fn is_set_aside(filter: &Filter) -> bool {
    filter.code.is_some() || matches!(filter.stand, Some(Stand::Waiting | Stand::Behind | Stand::Dead))
}

/// Cuts the part to `look` messages; tells where the next look begins, if there is something left.
async fn narrow(
    tx: &mut PgConnection,
    filter: &Filter,
    part: &mut Part,
    look: Option<u32>,
) -> Result<Option<u64>> {
    let failed = |error| classify(error, "listing messages");
    if filter.stand == Some(Stand::Pending) {
        part.above = part.above.max(pending_above(tx, filter).await.map_err(failed)?);
    }
    let Some(look) = look else { return Ok(None) };
    let (statement, from) = match filter.newest_first {
        true => (LAST_DOWN, part.up_to.unwrap_or(i64::MAX)),
        false => (LAST_UP, part.above.unwrap_or(0)),
    };
    let last = sqlx::query_scalar(statement).bind(from).bind(i64::from(look.saturating_sub(1)));
    let last: Option<i64> = last.persistent(false).fetch_optional(&mut *tx).await.map_err(failed)?;
    let Some(last) = last else { return Ok(None) };
    if filter.newest_first {
        let is_end = part.above.is_some_and(|above| last <= above.saturating_add(1));
        part.above = part.above.max(Some(last - 1));
        return Ok((!is_end).then_some(u64::try_from(last).unwrap_or(0)));
    }
    part.up_to = Some(last);
    Ok(Some(u64::try_from(last).unwrap_or(0)))
}

/// Nothing up to here is pending. Where there is much of it the first is not known, but then one need not look far either:
/// then only what no cursor reads any more is left out.
async fn pending_above(tx: &mut PgConnection, filter: &Filter) -> sqlx::Result<Option<i64>> {
    sqlx::raw_sql(BY_INDEX).execute(&mut *tx).await?;
    let text = format!(
        "select count(*) as cursors, coalesce(bool_or(undone.count >= $1), false) as many,
            min(coalesce(undone.first - 1, {end})) as first, min(c.base) as base
         from outbox.cursors c
         cross join lateral (select count(*) as count, min(seq) as first from {UNDONE} as found) as undone
         where $2::text is null or c.name = $2",
        end = i64::MAX
    );
    let row = sqlx::query(AssertSqlSafe(text)).bind(FIRST_OF).bind(&filter.cursor).persistent(false);
    let row = row.fetch_one(&mut *tx).await?;
    sqlx::raw_sql(AS_USUAL).execute(&mut *tx).await?;
    let column = if row.try_get("many")? { "base" } else { "first" };
    // Without a cursor everything is pending.
    row.try_get(column)
}

async fn select(tx: &mut PgConnection, filter: &Filter, part: Part, most: i64) -> Result<Vec<Entry>> {
    run(tx, if is_set_aside(filter) { SET_ASIDE } else { ALL }, filter, part, most).await
}

async fn run(
    tx: &mut PgConnection,
    statement: &'static str,
    filter: &Filter,
    part: Part,
    most: i64,
) -> Result<Vec<Entry>> {
    let failed = |error| classify(error, "listing messages");
    let Some(id) = id_of(filter) else { return Ok(Vec::new()) };
    let direction = if filter.newest_first { "desc" } else { "asc" };
    let text = format!("{statement}{MATCHING} order by m.seq {direction}, cursor limit $11");
    let rows = bind(text, filter, id, part).bind(most).fetch_all(tx).await.map_err(failed)?;
    rows.iter().map(|row| entry(row).map_err(failed)).collect()
}

/// The id that is asked for, if one is; none if no message of ours can have it.
fn id_of(filter: &Filter) -> Option<Option<Uuid>> {
    filter.id.as_ref().map(|id| Uuid::parse_str(id.as_str())).transpose().ok()
}

/// What [`MATCHING`] and the statements before it ask for.
fn bind(
    text: String,
    filter: &Filter,
    id: Option<Uuid>,
    part: Part,
) -> sqlx::query::Query<'static, sqlx::Postgres, sqlx::postgres::PgArguments> {
    let (name, value) = filter.header.clone().unzip();
    sqlx::query(AssertSqlSafe(text))
        .bind(filter.cursor.clone())
        .bind(filter.stand.map(Stand::as_str))
        .bind(id)
        .bind(filter.kind.as_deref().map(like))
        .bind(filter.key.clone())
        .bind(filter.code.clone())
        .bind(name)
        .bind(value)
        .bind(part.above)
        .bind(part.up_to)
        .persistent(false)
}

/// A pattern for LIKE: `*` at the end matches any ending, everything else only itself.
fn like(kind: &str) -> String {
    let (stem, any) = kind.strip_suffix('*').map_or((kind, ""), |stem| (stem, "%"));
    stem.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_") + any
}

fn entry(row: &PgRow) -> sqlx::Result<Entry> {
    let stand = match row.try_get::<&str, _>("stand")? {
        "waiting" => Stand::Waiting,
        "behind" => Stand::Behind,
        "dead" => Stand::Dead,
        "done" => Stand::Done,
        _ => Stand::Pending,
    };
    let (code, detail): (Option<String>, Option<String>) = (row.try_get("code")?, row.try_get("detail")?);
    Ok(Entry {
        position: count(row, "seq")?,
        id: row.try_get::<Uuid, _>("id")?.into(),
        kind: row.try_get("type")?,
        key: row.try_get("key")?,
        occurred_at: row.try_get::<At, _>("occurred_at")?.0,
        cursor: row.try_get("cursor")?,
        stand,
        attempts: u32::try_from(row.try_get::<Option<i32>, _>("attempts")?.unwrap_or(0)).unwrap_or(0),
        due: row.try_get::<Option<At>, _>("due")?.map(|at| at.0).filter(|_| stand == Stand::Waiting),
        cause: code.map(|code| Cause::new(code, detail.unwrap_or_default())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_star_at_the_end_is_a_pattern() {
        assert_eq!(like("order.*"), "order.%");
        assert_eq!(like("100%_*x"), "100\\%\\_*x");
    }
}
