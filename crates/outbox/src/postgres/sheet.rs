//! Tables that people work on or look at: the error log, the book of what they did, the beats of instances,
//! the pauses of pipes.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgPool, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Postgres, Row as _, Transaction};

use super::table::{classify, look_at};
use crate::audit::{Audit, TableAudit};
use crate::beats::{Beats, TableBeats};
use crate::error::Result;
use crate::errors::{ErrorLog, ErrorTable, Fields, TableLog};
use crate::pauses::{Pauses, TablePauses};
use crate::sheet::{Param, Row, Sheet, Sql};
use crate::sql::Kind;

/// The error log in `outbox.errors`.
pub fn error_log(pool: PgPool) -> Arc<dyn ErrorLog> {
    Arc::new(TableLog::new(PgSheet { pool, is_ours: true }, Fields::ours(Kind::Postgres)))
}

/// An error log in a table that exists already, checked against the catalogue.
pub async fn mapped_error_log(pool: PgPool, table: ErrorTable) -> Result<Arc<dyn ErrorLog>> {
    let (columns, _) = look_at(&pool, &table.table).await?;
    let fields = table.check(Kind::Postgres, &columns)?;
    Ok(Arc::new(TableLog::new(PgSheet { pool, is_ours: false }, fields)))
}

/// The book of what people did, in `outbox.audit`.
pub fn audit(pool: PgPool) -> Arc<dyn Audit> {
    Arc::new(TableAudit::new(PgSheet { pool, is_ours: true }))
}

/// The beats of all instances, in `outbox.beats`.
pub fn beats(pool: PgPool) -> Arc<dyn Beats> {
    Arc::new(TableBeats::new(PgSheet { pool, is_ours: true }))
}

/// The pipes that are paused, in `outbox.pauses`.
pub fn pauses(pool: PgPool) -> Arc<dyn Pauses> {
    Arc::new(TablePauses::new(PgSheet { pool, is_ours: true }))
}

struct PgSheet {
    pool: PgPool,
    is_ours: bool,
}

impl PgSheet {
    fn failed(&self, doing: &'static str) -> impl Fn(sqlx::Error) -> crate::Error + use<> {
        let is_ours = self.is_ours;
        move |error| if is_ours { super::error::classify(error, doing) } else { classify(error, doing) }
    }
}

fn query(sql: &Sql) -> Query<'_, Postgres, PgArguments> {
    let mut query = sqlx::query(AssertSqlSafe(sql.text.as_str())).persistent(false);
    for param in &sql.params {
        query = match param {
            Param::Text(text) => query.bind(text.as_deref()),
            Param::Int(number) => query.bind(number),
            Param::Bytes(bytes) => query.bind(bytes.as_deref()),
        };
    }
    query
}

fn cells(row: &PgRow) -> sqlx::Result<Row> {
    (0..row.len()).map(|at| row.try_get_unchecked(at)).collect()
}

#[async_trait]
impl Sheet for PgSheet {
    const KIND: Kind = Kind::Postgres;
    type Tx = Transaction<'static, Postgres>;

    async fn look(&self, sql: Sql) -> Result<Vec<Row>> {
        // In a transaction all the same, so that a pooler leaves us in one session.
        let mut tx = self.begin().await?;
        let rows = self.fetch(&mut tx, sql).await?;
        tx.rollback().await.map_err(self.failed("reading the table"))?;
        Ok(rows)
    }

    async fn begin(&self) -> Result<Self::Tx> {
        self.pool.begin().await.map_err(self.failed("opening a transaction"))
    }

    async fn fetch(&self, tx: &mut Self::Tx, sql: Sql) -> Result<Vec<Row>> {
        let rows = query(&sql).fetch_all(&mut **tx).await;
        let cells = rows.and_then(|rows| rows.iter().map(cells).collect());
        cells.map_err(self.failed("reading the table"))
    }

    async fn execute(&self, tx: &mut Self::Tx, sql: Sql) -> Result<u64> {
        let done = query(&sql).execute(&mut **tx).await;
        done.map(|done| done.rows_affected()).map_err(self.failed("writing to the table"))
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        tx.commit().await.map_err(self.failed("committing to the table"))
    }
}
