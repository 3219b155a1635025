//! What a mapped table needs, in PostgreSQL.

use std::fmt::Display;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgPool, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres, Row, Transaction, ValueRef};

use super::holder::Holder;
use crate::error::{Error, ErrorKind, Result};
use crate::postgres::connect::BEGIN;
use crate::postgres::error;
use crate::table::driver::{Claiming, Driver, Ownership};
use crate::table::look::{ids, seen, without_gaps};
use crate::table::source::text;
use crate::table::sql::{Cells, Param, Sql, cell};
use crate::table::{ClaimBy, Layout};

/// Turns a driver's error into ours. What is missing is missing in somebody's table, not in ours.
pub(in crate::postgres) fn classify(error: sqlx::Error, doing: impl Display) -> Error {
    let state = match &error {
        sqlx::Error::Database(database) => database.code().map(|code| code.into_owned()).unwrap_or_default(),
        _ => String::new(),
    };
    match state.as_str() {
        // No such table, column, function, schema; a wrong type.
        "42P01" | "42703" | "42883" | "3F000" | "42804" => {
            Error::new(ErrorKind::Mapping, "the table is not as the mapping says")
                .caused_by(error)
                .while_doing(doing)
        }
        _ => error::classify(error, doing),
    }
}

pub(crate) struct PgDriver {
    pool: PgPool,
    holder: Option<Holder>,
}

impl PgDriver {
    pub(super) fn new(pool: PgPool, holder: Option<Holder>) -> Self {
        Self { pool, holder }
    }

    pub(super) fn pool(&self) -> &PgPool {
        &self.pool
    }
}

/// The statement with its values.
pub(super) fn query(sql: &Sql) -> Query<'_, Postgres, PgArguments> {
    let mut query = sqlx::query(AssertSqlSafe(sql.text.as_str())).persistent(false);
    for param in &sql.params {
        query = match param {
            Param::Int(value) => query.bind(value),
            Param::Text(value) => query.bind(value),
            Param::Bytes(value) => query.bind(value),
            Param::Texts(values) => query.bind(values),
            Param::Ints(values) => query.bind(values),
        };
    }
    query
}

fn cells(row: &PgRow) -> sqlx::Result<Cells> {
    (0..row.len())
        .map(|at| {
            let value = row.try_get_raw(at)?;
            if value.is_null() {
                return Ok(None);
            }
            let bytes = value.as_bytes().map_err(sqlx::Error::Decode)?;
            Ok(Some(bytes.to_vec()))
        })
        .collect()
}

#[async_trait]
impl Driver for PgDriver {
    type Tx = Transaction<'static, Postgres>;

    async fn begin(&self, hold: Option<Duration>) -> Result<Self::Tx> {
        let begun = match hold {
            None => self.pool.begin_with(BEGIN).await,
            Some(hold) => {
                // A process that is halted keeps its connection, and with it the rows that it has locked.
                let limit = hold.as_millis().clamp(1, 2_000_000_000);
                let statements = format!("{BEGIN}; set local idle_in_transaction_session_timeout = {limit}");
                self.pool.begin_with(AssertSqlSafe(statements)).await
            }
        };
        begun.map_err(|error| classify(error, "beginning a transaction"))
    }

    async fn fetch(&self, tx: &mut Self::Tx, sql: &Sql) -> Result<Vec<Cells>> {
        let rows = query(sql).fetch_all(&mut **tx).await;
        let cells = rows.and_then(|rows| rows.iter().map(cells).collect());
        cells.map_err(|error| classify(error, "reading the table"))
    }

    async fn execute(&self, tx: &mut Self::Tx, sql: &Sql) -> Result<u64> {
        let done = query(sql).execute(&mut **tx).await;
        done.map(|done| done.rows_affected()).map_err(|error| classify(error, "writing to the table"))
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        tx.commit().await.map_err(|error| classify(error, "committing to the table"))
    }

    async fn roll_back(&self, tx: Self::Tx) {
        // If that fails the connection is gone, and with it the transaction.
        let _ = tx.rollback().await;
    }

    /// One statement where no order is kept. Under key order we look first and lock what was seen by its id: a row that
    /// somebody has locked (a person's update, the session of a claim whose answer was lost) must not be passed over
    /// in silence, or later ones of its key would overtake it.
    async fn claim(&self, tx: &mut Self::Tx, layout: &Layout, claiming: Claiming<'_>) -> Result<Vec<Cells>> {
        let Claiming { limit, lane, except, open, ordered, .. } = claiming;
        if !ordered {
            let sql = match &layout.mapping.claim {
                ClaimBy::Lock => layout.claim(limit, lane, except),
                ClaimBy::Stamp { column, .. } => layout.claim_by_stamp(limit, lane, except, column),
            };
            return self.fetch(tx, &sql).await;
        }
        let seen = seen(&self.fetch(tx, &layout.next(limit + open.len(), lane, except)).await?, open, limit);
        if seen.is_empty() {
            return Ok(Vec::new());
        }
        let sql = match &layout.mapping.claim {
            ClaimBy::Lock => layout.claim_these(&ids(&seen)),
            ClaimBy::Stamp { column, .. } => layout.stamp_these(&ids(&seen), column),
        };
        let (rows, barred) = without_gaps(&seen, self.fetch(tx, &sql).await?);
        if let (ClaimBy::Stamp { column, .. }, Some(first)) = (&layout.mapping.claim, barred.first())
            && let Some(stamp) = text(first, cell::STAMP)
        {
            let barred: Vec<String> = barred.iter().filter_map(|cells| text(cells, cell::ID)).collect();
            self.execute(tx, &layout.take_stamp_off(&barred, column, &stamp)).await?;
        }
        Ok(rows)
    }

    async fn own(&self, shard: u32, idle: bool) -> Result<Ownership> {
        match &self.holder {
            Some(holder) => holder.own(shard, idle).await,
            None => Ok(Ownership::Ours),
        }
    }

    async fn enter(&self, tx: &mut Self::Tx, shard: u32) -> Result<bool> {
        match &self.holder {
            Some(holder) => holder.enter(tx, shard).await,
            None => Ok(true),
        }
    }

    async fn disown(&self, shard: u32) {
        if let Some(holder) = &self.holder {
            holder.disown(shard).await;
        }
    }
}
