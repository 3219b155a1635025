//! How we connect: by URL, fit for a pooler in between, and with the reason when it does not work.

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, Row};

use super::error::classify;
use crate::error::{Error, ErrorKind, Result};

/// How long a connection may take to come about.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// Begins a transaction. The planner may think that a statement is dear which looks at little of a large table, and have it
/// compiled, which takes longer than the statement does.
pub(super) const BEGIN: &str = "begin; set local jit = off";

/// What a URL says.
pub(super) fn options(url: &str) -> Result<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url).map_err(|error| {
        Error::new(ErrorKind::Config, "the address of the PostgreSQL database cannot be read")
            .caused_by(error)
    })?;
    Ok(options
        .application_name("outboxd")
        // A pooler hands the next statement to another server, which does not know what was prepared.
        .statement_cache_capacity(0)
        .extra_float_digits(None))
}

/// One connection, outside of any pool. A pool would try again for a while and then only say that it took too long;
/// this says why.
pub(super) async fn connection(options: &PgConnectOptions) -> Result<PgConnection> {
    let place = format!("{}:{}", options.get_host(), options.get_port());
    let failed = |error| classify(error, format_args!("connecting to PostgreSQL at {place}"));
    let connected = tokio::time::timeout(LIMIT, PgConnection::connect_with(options)).await;
    connected.map_err(|_| failed(sqlx::Error::PoolTimedOut))?.map_err(failed)
}

/// Whether it works at all.
pub(super) async fn try_once(options: &PgConnectOptions) -> Result<()> {
    let connection = connection(options).await?;
    connection.close().await.map_err(|error| classify(error, "closing a connection to PostgreSQL"))
}

/// Whether a statement may find itself in another session than the one before.
///
/// While another connection is inside of a transaction, a pooler cannot give us the session that it uses: so either
/// that connection is now where we were, or we are elsewhere. Between real sessions neither can happen.
pub(super) async fn is_pooled(options: &PgConnectOptions, conn: &mut PgConnection) -> Result<bool> {
    let failed = |error| classify(error, "looking for a pooler");
    let mut others = Vec::new();
    let mut pooled = false;
    // With other clients about, the next free session may not be ours; so several are taken.
    for _ in 0..3 {
        let before = pid(conn).await.map_err(failed)?;
        let mut other = connection(options).await?;
        sqlx::raw_sql("begin read only").execute(&mut other).await.map_err(failed)?;
        let there = pid(&mut other).await.map_err(failed)?;
        others.push(other);
        pooled |= there == before || pid(conn).await.map_err(failed)? != before;
        if pooled {
            break;
        }
    }
    for mut other in others {
        let _ = sqlx::raw_sql("rollback").execute(&mut other).await;
        let _ = other.close().await;
    }
    Ok(pooled)
}

/// The number of the session that a connection is in.
pub(super) async fn pid(conn: &mut PgConnection) -> sqlx::Result<i32> {
    Ok(sqlx::query("select pg_backend_pid()").persistent(false).fetch_one(conn).await?.get(0))
}
