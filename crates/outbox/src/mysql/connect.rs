//! How we connect: by URL, at READ COMMITTED, and with the reason when it does not work.

use std::str::FromStr;
use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions};
use sqlx::{Connection, Executor, MySqlConnection};

use super::error::classify;
use crate::error::{Error, ErrorKind, Result};

/// How long a connection may take to come about.
pub(super) const LIMIT: Duration = Duration::from_secs(10);

/// At REPEATABLE READ, the default, a claim would lock the gaps between its rows and keep producers from inserting;
/// and it would not see what others have marked since. Nothing here waits long for somebody else's lock.
const SESSION: &str = "set session transaction isolation level read committed; \
     set session innodb_lock_wait_timeout = 10, session lock_wait_timeout = 30";

/// What a URL says.
pub(super) fn options(url: &str) -> Result<MySqlConnectOptions> {
    let options = MySqlConnectOptions::from_str(url).map_err(|error| {
        Error::new(ErrorKind::Config, "the address of the MySQL database cannot be read").caused_by(error)
    })?;
    Ok(options.statement_cache_capacity(32))
}

/// One connection, outside of any pool. A pool would try again for a while and then only say that it took too long;
/// this says why.
pub(super) async fn connection(options: &MySqlConnectOptions) -> Result<MySqlConnection> {
    let place = format!("{}:{}", options.get_host(), options.get_port());
    let failed = |error| classify(error, format_args!("connecting to MySQL at {place}"));
    let connected = tokio::time::timeout(LIMIT, MySqlConnection::connect_with(options)).await;
    connected.map_err(|_| failed(sqlx::Error::PoolTimedOut))?.map_err(failed)
}

pub(super) fn pool(options: &MySqlConnectOptions, connections: u32) -> MySqlPool {
    pool_with(options, connections, SESSION)
}

fn pool_with(options: &MySqlConnectOptions, connections: u32, session: &'static str) -> MySqlPool {
    MySqlPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(LIMIT)
        .after_connect(move |connection, _| {
            Box::pin(async move { connection.execute(session).await.map(drop) })
        })
        .connect_lazy_with(options.clone())
}

/// For handlers. What does not fit is refused and not cut to fit, whatever the server's default; and a consumer that
/// is halted, or whose host is gone, does not keep its ids locked for hours.
const HANDLING: &str = "set session transaction isolation level read committed; \
     set session innodb_lock_wait_timeout = 10, session lock_wait_timeout = 30, session wait_timeout = 300, \
         session sql_mode = concat(@@sql_mode, ',STRICT_ALL_TABLES')";

/// Connects with a pool that is fit for an [`Inbox`](super::Inbox) and its handlers: READ COMMITTED, strict, and not
/// silent in a transaction for more than five minutes.
pub async fn connect(url: &str) -> Result<MySqlPool> {
    let options = options(url)?;
    try_once(&options).await?;
    Ok(pool_with(&options, 8, HANDLING))
}

/// Whether it works at all, and knows what we need of it.
pub(super) async fn try_once(options: &MySqlConnectOptions) -> Result<()> {
    let mut connection = connection(options).await?;
    let failed = |error| classify(error, "asking MySQL for its version");
    let version: String = sqlx::query_scalar("select cast(version() as char)")
        .fetch_one(&mut connection)
        .await
        .map_err(failed)?;
    connection.close().await.map_err(|error| classify(error, "closing a connection to MySQL"))?;
    if can_skip_locked(&version) {
        return Ok(());
    }
    let what = format!(
        "the server is version {version}, which has no SKIP LOCKED; MariaDB 10.6 or MySQL 8.0 is needed"
    );
    Err(Error::new(ErrorKind::Config, what))
}

/// Whether a server of this version can pass over rows that somebody else has locked.
fn can_skip_locked(version: &str) -> bool {
    let mut numbers =
        version.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version.to_ascii_lowercase().contains("mariadb") { found >= (10, 6) } else { found >= (8, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_cannot_pass_over_locked_rows_is_told_by_its_version() {
        for able in
            ["10.6.0-MariaDB", "10.11.19-MariaDB-0+deb12u1", "11.4.2-MariaDB-log", "8.0.36", "8.4.0", "9.1.0"]
        {
            assert!(can_skip_locked(able), "{able}");
        }
        for unable in ["10.5.23-MariaDB", "5.7.44-log", "5.5.68-MariaDB", "", "unknown"] {
            assert!(!can_skip_locked(unable), "{unable}");
        }
    }
}
