//! The log and the inbox in an SQLite file.
//!
//! Applications insert into `outbox_messages`, from Rust with [`Outbox::enqueue`] or from any language with a
//! plain INSERT; each pipe reads through its own [`Cursor`]. SQLite has one writer at a time, so numbers are
//! given and committed in the same order, and reading on from the last number passes nothing over.
//!
//! Whatever reads before it writes takes the write lock at once (`BEGIN IMMEDIATE`): a transaction that
//! upgrades half-way fails at once when another has written, whatever the busy timeout.

mod admin;
mod catalog;
mod error;
mod find;
mod inbox;
mod lane;
mod lease;
mod log;
mod migrate;
mod parked;
mod settle;
mod sheet;
mod sql;
mod statements;
mod store;

use std::str::FromStr;
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, QueryBuilder, Sqlite, SqliteConnection, SqlitePool};
use tokio::time::Instant;

pub use inbox::Inbox;
pub use log::Cursor;
pub use statements::examine_statements;
pub use store::LogStore;

pub use crate::source::Start;
pub use migrate::{migrations, script};
pub use sheet::{audit, beats, error_log, mapped_error_log, pauses};

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Limits, Message, MessageId, headers_to_json};

/// How long a statement waits for another writer. Far more than any of ours takes, so that only a writer that
/// hangs shows as an error.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Messages per INSERT.
const ROWS: usize = 64;

/// An outbox in an SQLite file: where messages are written, and where its cursors come from.
#[derive(Debug, Clone)]
pub struct Outbox {
    pool: SqlitePool,
    limits: Limits,
}

impl Outbox {
    /// Opens `sqlite:path` or `sqlite://path`; makes the file if there is none.
    ///
    /// Writers and readers do not wait for each other (WAL). Each commit is synced to the disk
    /// (`synchronous = FULL`): with NORMAL, the default advice for WAL, a power cut could take back the last
    /// commits, and a message that the application was told is saved would be gone.
    pub async fn connect(url: &str) -> Result<Self> {
        let options = options(url)?;
        let file = options.get_filename().display().to_string();
        // After some failures, such as that of a disk, SQLite rolls back by itself; the driver does not notice, and would
        // never begin another transaction on that connection.
        let pool = SqlitePoolOptions::new()
            .max_connections(8)
            .before_acquire(|connection, _| Box::pin(async move { Ok(!connection.is_in_transaction()) }));
        let give_up_at = Instant::now() + BUSY_TIMEOUT;
        loop {
            let error = match pool.clone().connect_with(options.clone()).await {
                Ok(pool) => return Ok(Self::new(pool)),
                Err(error) => error::classify_in(&file, error),
            };
            // The change to WAL needs the file alone, and the busy timeout does not apply to it.
            if error.kind() != ErrorKind::Busy || Instant::now() >= give_up_at {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The outbox in the database of this pool.
    ///
    /// Journal mode, synchronous level and busy timeout are those of the pool; see [`connect`](Self::connect)
    /// for what is advisable.
    pub fn new(pool: SqlitePool) -> Self {
        Self { pool, limits: Limits::default() }
    }

    /// The pool.
    pub fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    /// Sets what a message may weigh. [`migrate`](Self::migrate) writes it into the database, for those who
    /// insert with plain SQL.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Brings the tables to this version, and the limits to those that are set; tells what was done.
    pub async fn migrate(&self) -> Result<Vec<String>> {
        migrate::migrate(&self.pool, &self.limits).await.map_err(|error| error.while_doing("migrating"))
    }

    /// Brings the tables to this version, and leaves the limits as they are: for a database that is used for its
    /// inbox, and whose log may be somebody else's.
    pub async fn migrate_tables(&self) -> Result<Vec<String>> {
        migrate::take_steps(&self.pool).await.map_err(|error| error.while_doing("migrating"))
    }

    /// Writes a message in the transaction that `conn` is in: it is sent if and only if that commits.
    pub async fn enqueue(&self, conn: &mut SqliteConnection, message: Message) -> Result<MessageId> {
        self.enqueue_all(conn, std::slice::from_ref(&message)).await?;
        Ok(message.id)
    }

    /// Writes messages, in this order, in the transaction that `conn` is in.
    pub async fn enqueue_all(&self, conn: &mut SqliteConnection, messages: &[Message]) -> Result<()> {
        messages.iter().try_for_each(|message| self.limits.check(message))?;
        for chunk in messages.chunks(ROWS) {
            let mut query = QueryBuilder::<Sqlite>::new(
                "INSERT INTO outbox_messages (id, type, key, content_type, headers, occurred_at, payload) ",
            );
            query.push_values(chunk, |mut row, message| {
                row.push_bind(message.id.as_str().to_owned())
                    .push_bind(message.kind.clone())
                    .push_bind(message.key.clone())
                    .push_bind(message.content_type.clone())
                    .push_bind(headers_to_json(&message.headers))
                    .push_bind(message.occurred_at.to_string())
                    .push_bind(message.payload.to_vec());
            });
            query.build().execute(&mut *conn).await.map_err(|error| {
                error::classify(&self.pool, error).while_doing(format!("enqueueing {}", name(chunk)))
            })?;
        }
        Ok(())
    }

    /// A reader of the log. It bears the name of its pipe and keeps its own pace and failures.
    pub fn cursor(&self, name: impl Into<String>) -> Cursor {
        Cursor::new(self.pool.clone(), name.into())
    }

    /// Where a [`Publisher`](crate::Publisher) keeps what it cannot send; the pipe of this name delivers it.
    pub fn store(&self, pipe: impl Into<String>) -> LogStore {
        LogStore::new(self.clone(), pipe.into())
    }

    /// The inbox in the same file.
    pub fn inbox(&self) -> Inbox {
        Inbox::new(self.pool.clone())
    }
}

fn options(url: &str) -> Result<SqliteConnectOptions> {
    let wrong = |why: &str| Error::new(ErrorKind::Config, format!("'{url}' {why}"));
    let path = url
        .strip_prefix("sqlite:")
        .ok_or_else(|| wrong("is not an SQLite address such as sqlite:shop.db"))?;
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.is_empty() || path.starts_with('?') {
        return Err(wrong("names no file, as sqlite:shop.db does"));
    }
    if path.starts_with(":memory:") || path.contains("mode=memory") {
        return Err(wrong("is in memory, where a message would not survive; name a file"));
    }
    let options = SqliteConnectOptions::from_str(url)
        .map_err(|error| wrong("cannot be read as an SQLite address").caused_by(error))?;
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let must_exist = query.split('&').any(|pair| pair == "mode=rw" || pair == "mode=ro");
    Ok(options
        .create_if_missing(!must_exist)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(BUSY_TIMEOUT)
        // Rows are read ahead of us by the driver; with large payloads each of them counts.
        .row_buffer_size(32))
}

fn name(messages: &[Message]) -> String {
    match messages {
        [message] => format!("message {} of type '{}'", message.id, message.kind),
        several => format!("{} messages", several.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_cannot_keep_messages_is_refused_with_the_reason() {
        for (url, part) in [
            ("shop.db", "is not an SQLite address"),
            ("sqlite:", "names no file"),
            ("sqlite::memory:", "in memory"),
            ("sqlite://shop.db?mode=memory", "in memory"),
        ] {
            let error = options(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(options("sqlite:shop.db").is_ok());
        assert!(options("sqlite:///tmp/shop.db").is_ok());
    }
}
