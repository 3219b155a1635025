//! The clock of a server.

use std::time::SystemTime;

use sqlx::mysql::MySqlPool;

use super::error::classify;
use crate::finding::Finding;
use crate::server;

/// Compares the clock of a server with the one here.
pub async fn examine_clock(pool: &MySqlPool) -> Finding {
    let before = SystemTime::now();
    let asked = sqlx::query_scalar::<_, String>("select cast(unix_timestamp(now(6)) as char)");
    match asked.fetch_one(pool).await {
        Ok(clock) => server::clock(server::offset(clock.parse().unwrap_or_default(), before)),
        Err(error) => Finding::error("clock", &classify(error, "asking for the time")),
    }
}
