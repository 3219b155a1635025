//! Tables that people work on or look at: the error log, the book of what they did, the beats of instances,
//! the pauses of pipes.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::mysql::{MySqlArguments, MySqlPool, MySqlRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, MySql, Row as _, Transaction};

use super::error::{classify, classify_ours, number};
use super::table::look_at;
use crate::audit::{Audit, TableAudit};
use crate::beats::{Beats, TableBeats};
use crate::error::{Error, ErrorKind, Result};
use crate::errors::{ErrorLog, ErrorTable, Fields, TableLog};
use crate::pauses::{Pauses, TablePauses};
use crate::sheet::{Param, Row, Sheet, Sql};
use crate::sql::Kind;

/// At REPEATABLE READ, the default, looking for a row that is not there would lock the gap around it.
const BEGIN: &str = "set transaction isolation level read committed; start transaction";

/// The error log in `outbox_errors`.
pub fn error_log(pool: MySqlPool) -> Arc<dyn ErrorLog> {
    Arc::new(TableLog::new(MySqlSheet { pool, is_ours: true }, Fields::ours(Kind::MySql)))
}

/// An error log in a table that exists already, checked against the catalogue. Times are UTC.
pub async fn mapped_error_log(pool: MySqlPool, table: ErrorTable) -> Result<Arc<dyn ErrorLog>> {
    let (columns, _) = look_at(&pool, &table.table).await?;
    let fields = table.check(Kind::MySql, &columns)?;
    Ok(Arc::new(TableLog::new(MySqlSheet { pool, is_ours: false }, fields)))
}

/// The book of what people did, in `outbox_audit`.
pub fn audit(pool: MySqlPool) -> Arc<dyn Audit> {
    Arc::new(TableAudit::new(MySqlSheet { pool, is_ours: true }))
}

/// The beats of all instances, in `outbox_beats`.
pub fn beats(pool: MySqlPool) -> Arc<dyn Beats> {
    Arc::new(TableBeats::new(MySqlSheet { pool, is_ours: true }))
}

/// The pipes that are paused, in `outbox_pauses`.
pub fn pauses(pool: MySqlPool) -> Arc<dyn Pauses> {
    Arc::new(TablePauses::new(MySqlSheet { pool, is_ours: true }))
}

struct MySqlSheet {
    pool: MySqlPool,
    is_ours: bool,
}

impl MySqlSheet {
    fn failed(&self, doing: &'static str) -> impl Fn(sqlx::Error) -> Error + use<> {
        let is_ours = self.is_ours;
        move |error| match number(&error) {
            // Cut off, out of range, no value of the type, too long, null, a check: it is what we were given.
            Some(1048 | 1264 | 1265 | 1292 | 1366 | 1406 | 3140 | 3819 | 4025) => {
                Error::new(ErrorKind::Invalid, "MySQL refuses the values").caused_by(error).while_doing(doing)
            }
            _ if is_ours => classify_ours(error, doing),
            _ => classify(error, doing),
        }
    }
}

fn query(sql: &Sql) -> Query<'_, MySql, MySqlArguments> {
    let mut query = sqlx::query(AssertSqlSafe(sql.text.as_str()));
    for param in &sql.params {
        query = match param {
            Param::Text(text) => query.bind(text.as_deref()),
            Param::Int(number) => query.bind(number),
            Param::Bytes(bytes) => query.bind(bytes.as_deref()),
        };
    }
    query
}

fn cells(row: &MySqlRow) -> sqlx::Result<Row> {
    (0..row.len()).map(|at| row.try_get_unchecked(at)).collect()
}

#[async_trait]
impl Sheet for MySqlSheet {
    const KIND: Kind = Kind::MySql;
    type Tx = Transaction<'static, MySql>;

    async fn look(&self, sql: Sql) -> Result<Vec<Row>> {
        let rows = query(&sql).fetch_all(&self.pool).await;
        let cells = rows.and_then(|rows| rows.iter().map(cells).collect());
        cells.map_err(self.failed("reading the table"))
    }

    async fn begin(&self) -> Result<Self::Tx> {
        self.pool.begin_with(BEGIN).await.map_err(self.failed("opening a transaction"))
    }

    async fn fetch(&self, tx: &mut Self::Tx, sql: Sql) -> Result<Vec<Row>> {
        let rows = query(&sql).fetch_all(&mut **tx).await;
        let cells = rows.and_then(|rows| rows.iter().map(cells).collect());
        cells.map_err(self.failed("reading the table"))
    }

    async fn execute(&self, tx: &mut Self::Tx, sql: Sql) -> Result<u64> {
        match query(&sql).execute(&mut **tx).await {
            Ok(done) => Ok(done.rows_affected()),
            // Only the statement is undone, the transaction lives on.
            Err(error) if number(&error) == Some(1062) => Ok(0),
            Err(error) => Err(self.failed("writing to the table")(error)),
        }
    }

    async fn commit(&self, tx: Self::Tx) -> Result<()> {
        tx.commit().await.map_err(self.failed("committing to the table"))
    }
}
