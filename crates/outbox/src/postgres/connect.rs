//! How we connect: by URL, fit for a pooler in between, and with the reason when it does not work.

use std::str::FromStr;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection};

use super::error::classify;
use crate::error::{Error, ErrorKind, Result};

/// How long a connection may take to come about.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

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
