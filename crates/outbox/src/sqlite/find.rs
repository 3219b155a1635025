//! Looking at messages: where each stands on each cursor. Nothing here writes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite, SqliteConnection};

use super::{lane, sql};
use crate::admin::{Entry, Filter, Page, Stand, Story};
use crate::message::MessageId;
use crate::sink::Cause;

/// How many messages are looked at per statement.
const STRIDE: i64 = 1000;

/// How far each cursor is: its positions, lane by lane.
pub(super) type Positions = BTreeMap<String, Vec<i64>>;

pub(super) async fn positions(conn: &mut SqliteConnection, only: Option<&str>) -> sqlx::Result<Positions> {
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "SELECT name, pos FROM outbox_cursors WHERE ?1 IS NULL OR name = ?1 ORDER BY name, lane",
    )
    .bind(only)
    .fetch_all(conn)
    .await?;
    let mut positions = Positions::new();
    for (name, pos) in rows {
        positions.entry(name).or_default().push(pos);
    }
    Ok(positions)
}

/// Whether only messages that are set aside can match.
fn is_set_aside(filter: &Filter) -> bool {
    filter.code.is_some() || matches!(filter.stand, Some(Stand::Waiting | Stand::Behind | Stand::Dead))
}

/// Which part of the log is meant: above the first, up to the second.
#[derive(Debug, Clone, Copy)]
struct Part {
    above: i64,
    up_to: i64,
}

impl Part {
    /// What comes after the position where the filter begins, in its direction.
    fn of(filter: &Filter) -> Self {
        let after = filter.after.map(|after| i64::try_from(after).unwrap_or(i64::MAX));
        match filter.newest_first {
            true => Self { above: 0, up_to: after.map_or(i64::MAX, |after| after - 1) },
            false => Self { above: after.unwrap_or(0), up_to: i64::MAX },
        }
    }

    /// What comes after this message.
    fn after(self, seq: i64, newest_first: bool) -> Self {
        match newest_first {
            true => Self { up_to: seq - 1, ..self },
            false => Self { above: seq, ..self },
        }
    }
}

pub(super) async fn list(conn: &mut SqliteConnection, filter: &Filter) -> sqlx::Result<Vec<Entry>> {
    Ok(filter.cut(select(conn, filter, Part::of(filter)).await?))
}

pub(super) async fn page(
    conn: &mut SqliteConnection,
    filter: &Filter,
    look: Option<u32>,
) -> sqlx::Result<Page> {
    let mut part = Part::of(filter);
    // These find what they look for by an index.
    let is_bounded = filter.id.is_none() && !is_set_aside(filter);
    let cut_at = if is_bounded { narrow(conn, filter, &mut part, look).await? } else { None };
    Ok(filter.page_of(select(conn, filter, part).await?, cut_at))
}

/// Cuts the part to `look` messages; tells where the next look begins, if there is something left.
async fn narrow(
    conn: &mut SqliteConnection,
    filter: &Filter,
    part: &mut Part,
    look: Option<u32>,
) -> sqlx::Result<Option<u64>> {
    if filter.stand == Some(Stand::Pending) {
        let positions = positions(conn, filter.cursor.as_deref()).await?;
        // Up to here every lane has read, or set aside.
        part.above = part.above.max(positions.into_values().flatten().min().unwrap_or(0));
    }
    let Some(look) = look else { return Ok(None) };
    let mut query = QueryBuilder::new("SELECT seq FROM outbox_messages WHERE seq > ");
    query.push_bind(part.above).push(" AND seq <= ").push_bind(part.up_to).push(" ORDER BY seq ");
    query.push(direction(filter)).push(" LIMIT 1 OFFSET ").push_bind(i64::from(look.saturating_sub(1)));
    let last: Option<(i64,)> = query.build_query_as().fetch_optional(conn).await?;
    let Some((last,)) = last else { return Ok(None) };
    match filter.newest_first {
        true => part.above = last - 1,
        false => part.up_to = last,
    }
    Ok(Some(u64::try_from(last).unwrap_or(0)))
}

fn direction(filter: &Filter) -> &'static str {
    if filter.newest_first { "DESC" } else { "ASC" }
}

/// What matches in a part of the log: a page, and one entry more if there are more.
async fn select(conn: &mut SqliteConnection, filter: &Filter, part: Part) -> sqlx::Result<Vec<Entry>> {
    let most = filter.page().saturating_add(1);
    if is_set_aside(filter) {
        list_parked(conn, filter, most).await
    } else {
        list_log(conn, filter, part, most).await
    }
}

async fn list_parked(conn: &mut SqliteConnection, filter: &Filter, most: usize) -> sqlx::Result<Vec<Entry>> {
    let mut query = QueryBuilder::new(
        "SELECT m.seq, m.id, m.type, m.key, m.occurred_at, p.cursor, p.attempts, p.due, p.state, p.code, p.detail ",
    );
    push_parked(&mut query, filter);
    query.push(" ORDER BY p.seq ").push(direction(filter)).push(", p.cursor LIMIT ");
    query.push_bind(i64::try_from(most).unwrap_or(i64::MAX));
    let mut entries = Vec::new();
    for row in query.build().fetch_all(&mut *conn).await? {
        let mut entry = entry(&row)?;
        entry.cursor = Some(sql::text(&row, "cursor")?);
        set_aside(&mut entry, &row)?;
        entries.push(entry);
    }
    Ok(entries)
}

async fn list_log(
    conn: &mut SqliteConnection,
    filter: &Filter,
    mut part: Part,
    most: usize,
) -> sqlx::Result<Vec<Entry>> {
    let positions = positions(conn, filter.cursor.as_deref()).await?;
    if positions.is_empty() && filter.cursor.is_some() {
        return Ok(Vec::new());
    }
    let mut entries = Vec::new();
    loop {
        let mut query =
            QueryBuilder::new("SELECT m.seq, m.id, m.type, m.key, m.occurred_at FROM outbox_messages m");
        query.push(" WHERE m.seq > ").push_bind(part.above).push(" AND m.seq <= ").push_bind(part.up_to);
        push_message(&mut query, filter);
        query.push(" ORDER BY m.seq ").push(direction(filter)).push(" LIMIT ").push_bind(STRIDE);
        let rows = query.build().fetch_all(&mut *conn).await?;
        let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return Ok(entries) };
        let (first, last): (i64, i64) = (first.try_get("seq")?, last.try_get("seq")?);
        let parked = parked_between(conn, &positions, first.min(last) - 1, first.max(last)).await?;
        for row in &rows {
            let of_message = entries_of(row, &positions, &parked)?.into_iter();
            entries.extend(of_message.filter(|entry| filter.stand.is_none_or(|stand| entry.stand == stand)));
            if entries.len() >= most {
                // One more than a page, of which the last message may be whole or not: it is cut off.
                return Ok(entries);
            }
        }
        part = part.after(last, filter.newest_first);
    }
}

type Parked = BTreeMap<(String, i64), SqliteRow>;

async fn parked_between(
    conn: &mut SqliteConnection,
    positions: &Positions,
    after: i64,
    last: i64,
) -> sqlx::Result<Parked> {
    let mut parked = Parked::new();
    for cursor in positions.keys() {
        let rows = sqlx::query(
            "SELECT seq, attempts, due, state, code, detail FROM outbox_parked
             WHERE cursor = ? AND seq > ? AND seq <= ?",
        )
        .bind(cursor)
        .bind(after)
        .bind(last)
        .fetch_all(&mut *conn)
        .await?;
        for row in rows {
            parked.insert((cursor.clone(), row.try_get("seq")?), row);
        }
    }
    Ok(parked)
}

/// One entry per cursor; one without cursor when there is none.
fn entries_of(row: &SqliteRow, positions: &Positions, parked: &Parked) -> sqlx::Result<Vec<Entry>> {
    let bare = entry(row)?;
    if positions.is_empty() {
        return Ok(vec![bare]);
    }
    let seq: i64 = row.try_get("seq")?;
    let mut entries = Vec::new();
    for (cursor, lanes) in positions {
        let mut entry = Entry { cursor: Some(cursor.clone()), ..bare.clone() };
        let count = u32::try_from(lanes.len()).unwrap_or(u32::MAX);
        let lane = lane::of(entry.key.as_deref(), seq, count);
        let pos = usize::try_from(lane).ok().and_then(|lane| lanes.get(lane)).copied().unwrap_or(0);
        if seq <= pos {
            entry.stand = Stand::Done;
        }
        if let Some(row) = parked.get(&(cursor.clone(), seq)) {
            set_aside(&mut entry, row)?;
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// What the log itself says of a message.
fn entry(row: &SqliteRow) -> sqlx::Result<Entry> {
    Ok(Entry {
        position: u64::try_from(row.try_get::<i64, _>("seq")?).unwrap_or(0),
        id: MessageId::from(sql::text(row, "id")?),
        kind: sql::text(row, "type")?,
        key: sql::optional_text(row, "key")?,
        occurred_at: sql::occurred_at(row)?,
        cursor: None,
        stand: Stand::Pending,
        attempts: 0,
        due: None,
        cause: None,
    })
}

/// What a row of `outbox_parked` adds to it.
fn set_aside(entry: &mut Entry, row: &SqliteRow) -> sqlx::Result<()> {
    entry.stand = match &*sql::text(row, "state")? {
        "dead" => Stand::Dead,
        "behind" => Stand::Behind,
        _ => Stand::Waiting,
    };
    entry.attempts = row.try_get("attempts")?;
    if entry.stand == Stand::Waiting {
        entry.due = Timestamp::from_millisecond(row.try_get("due")?).ok();
    }
    let detail = sql::optional_text(row, "detail")?.unwrap_or_default();
    entry.cause = sql::optional_text(row, "code")?.map(|code| Cause::new(code, detail));
    Ok(())
}

pub(super) async fn show(conn: &mut SqliteConnection, id: &MessageId) -> sqlx::Result<Option<Story>> {
    let row = sqlx::query(
        "SELECT seq, id, type, key, content_type, headers, occurred_at, CAST(payload AS BLOB) AS payload
         FROM outbox_messages WHERE id = ?",
    )
    .bind(id.as_str())
    .fetch_optional(&mut *conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let positions = positions(conn, None).await?;
    let seq: i64 = row.try_get("seq")?;
    let parked = parked_between(conn, &positions, seq - 1, seq).await?;
    let mut entries = entries_of(&row, &positions, &parked)?;
    entries.retain(|entry| entry.cursor.is_some());
    Ok(Some(Story { message: sql::message(&row)?, entries }))
}

/// `FROM outbox_parked p JOIN outbox_messages m … WHERE …`: what is set aside and matches.
pub(super) fn push_parked(query: &mut QueryBuilder<Sqlite>, filter: &Filter) {
    query.push("FROM outbox_parked p JOIN outbox_messages m ON m.seq = p.seq WHERE TRUE");
    if let Some(cursor) = &filter.cursor {
        query.push(" AND p.cursor = ").push_bind(cursor.clone());
    }
    if let Some(stand) = filter.stand {
        // Pending and done are no states of a row here, so they match nothing.
        query.push(" AND p.state = ").push_bind(stand.as_str());
    }
    if let Some(code) = &filter.code {
        query.push(" AND p.code = ").push_bind(code.clone());
    }
    if let Some(after) = filter.after {
        query.push(if filter.newest_first { " AND p.seq < " } else { " AND p.seq > " });
        query.push_bind(i64::try_from(after).unwrap_or(i64::MAX));
    }
    push_message(query, filter);
}

/// What the filter asks of the message itself.
fn push_message(query: &mut QueryBuilder<Sqlite>, filter: &Filter) {
    if let Some(id) = &filter.id {
        query.push(" AND m.id = ").push_bind(id.as_str().to_owned());
    }
    match filter.kind.as_ref().map(|kind| (kind, kind.strip_suffix('*'))) {
        Some((_, Some(prefix))) => {
            query.push(" AND substr(m.type, 1, length(").push_bind(prefix.to_owned());
            query.push(")) = ").push_bind(prefix.to_owned());
        }
        Some((kind, None)) => {
            query.push(" AND m.type = ").push_bind(kind.clone());
        }
        None => {}
    }
    if let Some(key) = &filter.key {
        query.push(" AND m.key = ").push_bind(key.clone());
    }
    if let Some((name, value)) = &filter.header {
        query.push(" AND EXISTS (SELECT 1 FROM json_each(iif(json_valid(m.headers), m.headers, '{}')) h WHERE h.key = ");
        query
            .push_bind(name.clone())
            .push(" AND CAST(h.value AS TEXT) = ")
            .push_bind(value.clone())
            .push(")");
    }
}
