//! Tables that people work on or look at: the error log, the book of what they did, the beats of instances,
//! the pauses of pipes.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqlitePool, SqliteRow};
use sqlx::{AssertSqlSafe, Row as _, Sqlite, Transaction};

use super::{catalog, error};
use crate::audit::{Audit, TableAudit};
use crate::beats::{Beats, TableBeats};
use crate::error::{Error, ErrorKind, Result};
use crate::errors::{ErrorLog, ErrorTable, Fields, TableLog};
use crate::pauses::{Pauses, TablePauses};
use crate::sheet::{Param, Row, Sheet, Sql};
use crate::sql::Kind;

/// The error log in `outbox_errors`.
pub fn error_log(pool: SqlitePool) -> Arc<dyn ErrorLog> {
    Arc::new(TableLog::new(SqliteSheet { pool, is_ours: true }, Fields::ours(Kind::Sqlite)))
}

/// An error log in a table that exists already, checked against the catalogue. Times are text in UTC, or milliseconds
/// since 1970 where the column holds integers.
pub async fn mapped_error_log(pool: SqlitePool, table: ErrorTable) -> Result<Arc<dyn ErrorLog>> {
    let (columns, _) = catalog::look_at(&pool, &table.table).await?;
    let fields = table.check(Kind::Sqlite, &columns)?;
    Ok(Arc::new(TableLog::new(SqliteSheet { pool, is_ours: false }, fields)))
}

/// The book of what people did, in `outbox_audit`.
pub fn audit(pool: SqlitePool) -> Arc<dyn Audit> {
    Arc::new(TableAudit::new(SqliteSheet { pool, is_ours: true }))
}

/// The beats of all instances, in `outbox_beats`.
pub fn beats(pool: SqlitePool) -> Arc<dyn Beats> {
    Arc::new(TableBeats::new(SqliteSheet { pool, is_ours: true }))
}

/// The pipes that are paused, in `outbox_pauses`.
pub fn pauses(pool: SqlitePool) -> Arc<dyn Pauses> {
    Arc::new(TablePauses::new(SqliteSheet { pool, is_ours: true }))
}

struct SqliteSheet {
    pool: SqlitePool,
    is_ours: bool,
}

impl SqliteSheet {
    fn failed(&self, doing: &'static str) -> impl Fn(sqlx::Error) -> Error + '_ {
        move |error| {
            let is_constraint = error.as_database_error().is_some_and(|error| {
                error.code().and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xff == 19)
            });
            let error = error::classify(&self.pool, error).while_doing(doing);
            match error.kind() {
                _ if is_constraint => {
                    Error::new(ErrorKind::Invalid, "the table refuses the values").caused_by(error)
                }
                ErrorKind::NotMigrated if !self.is_ours => {
                    Error::new(ErrorKind::Mapping, "the table is not as the mapping says").caused_by(error)
                }
                _ => error,
            }
        }
    }
}

fn query(sql: &Sql) -> Query<'_, Sqlite, SqliteArguments> {
    let mut query = sqlx::query(AssertSqlSafe(sql.text.as_str()));
    for param in &sql.params {
        query = match param {
            Param::Text(text) => query.bind(text.clone()),
            Param::Int(number) => query.bind(*number),
            Param::Bytes(bytes) => query.bind(bytes.clone()),
        };
    }
    query
}

fn cells(row: &SqliteRow) -> sqlx::Result<Row> {
    (0..row.len()).map(|at| row.try_get_unchecked(at)).collect()
}

#[async_trait]
impl Sheet for SqliteSheet {
    const KIND: Kind = Kind::Sqlite;
    type Tx = Transaction<'static, Sqlite>;

    async fn look(&self, sql: Sql) -> Result<Vec<Row>> {
        let rows = query(&sql).fetch_all(&self.pool).await;
        let cells = rows.and_then(|rows| rows.iter().map(cells).collect());
        cells.map_err(self.failed("reading the table"))
    }

    async fn begin(&self) -> Result<Self::Tx> {
        let begun = self.pool.begin_with("BEGIN IMMEDIATE").await;
        begun.map_err(self.failed("opening a transaction"))
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
