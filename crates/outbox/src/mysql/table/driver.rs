//! What a mapped table needs, in MariaDB and MySQL.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::mysql::{MySqlArguments, MySqlPool, MySqlRow};
use sqlx::pool::PoolConnection;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, MySql, MySqlConnection, Row};

use super::holder::{Entered, Holder};
use crate::error::Result;
use crate::mysql::error::classify;
use crate::table::driver::{Claiming, Driver, Ownership};
use crate::table::look::{Seen, ids, seen, without_gaps};
use crate::table::source::text;
use crate::table::sql::{Cells, Param, Sql, cell};
use crate::table::{ClaimBy, Layout};

pub(crate) struct MyDriver {
    pool: MySqlPool,
    holder: Option<Holder>,
}

impl MyDriver {
    pub(super) fn new(pool: MySqlPool, holder: Option<Holder>) -> Self {
        Self { pool, holder }
    }

    pub(super) fn pool(&self) -> &MySqlPool {
        &self.pool
    }
}

/// An open transaction, with its place in the gate of a shard.
pub(crate) struct Tx {
    connection: PoolConnection<MySql>,
    entered: Option<Entered>,
    is_over: bool,
}

impl Drop for Tx {
    fn drop(&mut self) {
        // With the connection everything ends at once: the transaction, and the locks that outlive transactions.
        if !self.is_over {
            self.connection.close_on_drop();
        }
    }
}

impl Tx {
    /// Ends the transaction and leaves the gate, in one message to the server.
    async fn end(&mut self, how: &str) -> sqlx::Result<()> {
        let leave = self.entered.as_ref().map_or_else(String::new, |entered| entered.leave());
        let statements = AssertSqlSafe(format!("{how}{leave}"));
        sqlx::raw_sql(statements).execute(&mut *self.connection).await?;
        self.is_over = true;
        Ok(())
    }
}

/// The statement with its values.
fn query(sql: &Sql) -> Query<'_, MySql, MySqlArguments> {
    let mut query = sqlx::query(AssertSqlSafe(sql.text.as_str()));
    for param in &sql.params {
        query = match param {
            Param::Int(value) => query.bind(value),
            Param::Text(value) => query.bind(value),
            Param::Bytes(value) => query.bind(value),
            // Lists are written out, one value after the other.
            Param::Texts(values) => values.iter().fold(query, |query, value| query.bind(value)),
            Param::Ints(values) => values.iter().fold(query, |query, value| query.bind(value)),
        };
    }
    query
}

/// Every cell of our statements is cast to characters or bytes.
fn cells(row: &MySqlRow) -> sqlx::Result<Cells> {
    (0..row.len()).map(|at| row.try_get_unchecked::<Option<Vec<u8>>, _>(at)).collect()
}

async fn fetch(connection: &mut MySqlConnection, sql: &Sql) -> Result<Vec<Cells>> {
    let rows = query(sql).fetch_all(connection).await;
    let cells = rows.and_then(|rows| rows.iter().map(cells).collect());
    cells.map_err(|error| classify(error, "reading the table"))
}

/// So many rows are looked at, for each that is wanted and in all, when others have the first ones.
const LOOK_FURTHER: usize = 64;
const LOOK_AT_MOST: usize = 5_000;

/// Locks the next rows.
///
/// `ORDER BY … LIMIT … FOR UPDATE SKIP LOCKED` would lock each row that it looks at, in the index by which it comes and
/// without an index all of them, if only until it has seen that the row is another lane's. Two relays that come by
/// different indexes end in a deadlock, which sets rows free that are on their way. And whoever comes by at a wrong
/// moment passes over a row and takes later ones of its key; so it is with the rows of a session that was cut, until
/// the server has taken everything back. So we look first, without locks, and then lock just what we have seen, by its
/// id: nothing else is touched, and we know what we did not get.
async fn lock_next(
    connection: &mut MySqlConnection,
    layout: &Layout,
    claiming: Claiming<'_>,
) -> Result<Vec<Cells>> {
    let limit = claiming.limit;
    let seen = look(connection, layout, &claiming, limit).await?;
    if seen.is_empty() {
        return Ok(Vec::new());
    }
    let first = fetch(connection, &layout.claim_these(&ids(&seen))).await?;
    if claiming.owned {
        return Ok(without_gaps(&seen, first).0);
    }
    if first.len() * 2 >= limit || seen.len() < limit {
        return Ok(first);
    }
    // Others have them: what comes after is as good, where no order is kept.
    let further = look(connection, layout, &claiming, (limit * LOOK_FURTHER).min(LOOK_AT_MOST)).await?;
    let further: Vec<_> = further.into_iter().filter(|row| !seen.contains(row)).collect();
    if further.is_empty() {
        return Ok(first);
    }
    let mut more = fetch(connection, &layout.claim_some_of(&ids(&further), limit - first.len())).await?;
    let place: HashMap<&str, usize> =
        further.iter().enumerate().map(|(at, (id, _))| (id.as_str(), at)).collect();
    more.sort_by_key(|cells| text(cells, cell::ID).and_then(|id| place.get(id.as_str()).copied()));
    Ok(first.into_iter().chain(more).collect())
}

/// The next rows that we do not have, in order.
async fn look(
    connection: &mut MySqlConnection,
    layout: &Layout,
    claiming: &Claiming<'_>,
    count: usize,
) -> Result<Vec<Seen>> {
    let Claiming { lane, except, open, .. } = claiming;
    let rows = fetch(connection, &layout.next(count + open.len(), *lane, except)).await?;
    Ok(seen(&rows, open, count))
}

#[async_trait]
impl Driver for MyDriver {
    type Tx = Tx;

    async fn begin(&self, hold: Option<Duration>) -> Result<Tx> {
        let failed = |error| classify(error, "beginning a transaction");
        let connection = self.pool.acquire().await.map_err(failed)?;
        let mut tx = Tx { connection, entered: None, is_over: false };
        let silence = match hold {
            // A process that is halted keeps its connection, and with it the rows that it has locked.
            Some(hold) => format!("set session wait_timeout = {}; ", super::seconds(hold)),
            None => String::new(),
        };
        let statements = AssertSqlSafe(format!("{silence}start transaction"));
        sqlx::raw_sql(statements).execute(&mut *tx.connection).await.map_err(failed)?;
        Ok(tx)
    }

    async fn fetch(&self, tx: &mut Tx, sql: &Sql) -> Result<Vec<Cells>> {
        fetch(&mut tx.connection, sql).await
    }

    async fn execute(&self, tx: &mut Tx, sql: &Sql) -> Result<u64> {
        let done = query(sql).execute(&mut *tx.connection).await;
        done.map(|done| done.rows_affected()).map_err(|error| classify(error, "writing to the table"))
    }

    async fn commit(&self, mut tx: Tx) -> Result<()> {
        tx.end("commit").await.map_err(|error| classify(error, "committing to the table"))
    }

    async fn roll_back(&self, mut tx: Tx) {
        // If that fails the connection is gone, and with it the transaction.
        let _ = tx.end("rollback").await;
    }

    /// By stamp it locks, stamps and reads the stamp, in one transaction. `UPDATE … ORDER BY … LIMIT` would be one
    /// statement, but it does not say which rows it has changed: only a value of our own in them could, and a time is
    /// none, for two relays may stamp at the same one.
    async fn claim(&self, tx: &mut Tx, layout: &Layout, claiming: Claiming<'_>) -> Result<Vec<Cells>> {
        let mut rows = lock_next(&mut tx.connection, layout, claiming).await?;
        let ids: Vec<String> = rows.iter().filter_map(|cells| text(cells, cell::ID)).collect();
        let column = match &layout.mapping.claim {
            ClaimBy::Stamp { column, .. } if !ids.is_empty() => column,
            _ => return Ok(rows),
        };
        self.execute(tx, &layout.put_stamp(&ids, column)).await?;
        // As the column keeps it, which may be to the second.
        let stamped = fetch(&mut tx.connection, &layout.lock_again(&ids[..1])).await?;
        let stamp = stamped.into_iter().next().and_then(|cells| cells.into_iter().nth(2)).flatten();
        rows.iter_mut().for_each(|cells| cells[cell::STAMP].clone_from(&stamp));
        Ok(rows)
    }

    async fn own(&self, shard: u32, idle: bool) -> Result<Ownership> {
        match &self.holder {
            Some(holder) => holder.own(shard, idle).await,
            None => Ok(Ownership::Ours),
        }
    }

    async fn enter(&self, tx: &mut Tx, shard: u32) -> Result<bool> {
        let Some(holder) = &self.holder else { return Ok(true) };
        let (entered, is_ours) = holder.enter(&mut tx.connection, shard).await?;
        tx.entered = entered;
        Ok(is_ours)
    }

    async fn disown(&self, shard: u32) {
        if let Some(holder) = &self.holder {
            holder.disown(shard).await;
        }
    }
}
