//! What a publisher keeps, in the log: the [`Store`].

use std::collections::HashSet;

use async_trait::async_trait;
use sqlx::{QueryBuilder, Row, Sqlite, SqliteConnection};

use super::{Outbox, error, find, lane, sql};
use crate::error::Result;
use crate::message::{Limits, Message};
use crate::store::{LOOKED_THROUGH, Store};

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
        self.outbox.limits.check(&message).map(|()| message)
    }

    async fn keep(&self, messages: &[Message]) -> Result<()> {
        let failed =
            |error| error::classify(&self.outbox.pool, error).while_doing("keeping messages in the outbox");
        let mut tx = self.outbox.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed)?;
        let known = known(&mut tx, messages).await.map_err(failed)?;
        let new: Vec<Message> =
            messages.iter().filter(|message| !known.contains(message.id.as_str())).cloned().collect();
        self.outbox.enqueue_all(&mut tx, &new).await?;
        tx.commit().await.map_err(failed)
    }

    async fn has_kept(&self, keys: &[&str]) -> Result<HashSet<String>> {
        let asked = async {
            let mut conn = self.outbox.pool.acquire().await?;
            undone(&mut conn, &self.pipe, keys).await
        };
        asked.await.map_err(|error| {
            let doing = format!("asking what pipe '{}' has to deliver", self.pipe);
            error::classify(&self.outbox.pool, error).while_doing(doing)
        })
    }
}

/// The ids that are there already. Nobody else writes meanwhile.
async fn known(conn: &mut SqliteConnection, messages: &[Message]) -> sqlx::Result<HashSet<String>> {
    let mut known = HashSet::new();
    for chunk in messages.chunks(sql::CHUNK) {
        let mut query = QueryBuilder::<Sqlite>::new("SELECT id FROM outbox_messages WHERE id IN (");
        let mut ids = query.separated(", ");
        for message in chunk {
            ids.push_bind(message.id.as_str().to_owned());
        }
        query.push(")");
        known.extend(query.build_query_scalar::<String>().fetch_all(&mut *conn).await?);
    }
    Ok(known)
}

/// What is not done lies above the position of its lane, or is set aside. The position comes first: whatever is settled
/// after that look is told of by what was read before it. A cursor that does not exist has done nothing.
async fn undone(conn: &mut SqliteConnection, pipe: &str, keys: &[&str]) -> sqlx::Result<HashSet<String>> {
    let lanes = find::positions(conn, Some(pipe)).await?.remove(pipe).unwrap_or_else(|| vec![0]);
    let count = u32::try_from(lanes.len()).unwrap_or(u32::MAX);
    let position = |key: Option<&str>, seq: i64| {
        let lane = usize::try_from(lane::of(key, seq, count)).unwrap_or(0);
        lanes.get(lane).copied().unwrap_or(0)
    };
    let mut after = keys.iter().map(|key| position(Some(key), 0)).min().unwrap_or(0);
    let (mut found, mut undone) = (0, HashSet::new());
    loop {
        let rows = sqlx::query("SELECT seq, key FROM outbox_messages WHERE seq > ? ORDER BY seq LIMIT ?")
            .bind(after)
            .bind(LOOKED_THROUGH)
            .fetch_all(&mut *conn)
            .await?;
        for row in &rows {
            after = row.try_get("seq")?;
            let key = sql::optional_text(row, "key")?;
            // In another lane it may be done.
            if after > position(key.as_deref(), after) {
                found += 1;
                undone.extend(key.filter(|key| keys.contains(&key.as_str())));
            }
        }
        if found >= LOOKED_THROUGH {
            return Ok(keys.iter().map(|key| (*key).to_owned()).collect());
        }
        if i64::try_from(rows.len()).is_ok_and(|read| read < LOOKED_THROUGH) {
            break;
        }
    }
    undone.extend(sql::held_keys(conn, pipe, keys).await?);
    Ok(undone)
}
