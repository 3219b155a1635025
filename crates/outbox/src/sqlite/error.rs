//! What SQLite says, in terms of what can be done about it. Nothing else looks at a driver's error.

use sqlx::SqlitePool;

use crate::error::{Error, ErrorKind};

/// The names of result codes, see <https://www.sqlite.org/rescode.html>; extended codes have them in the low byte.
mod result {
    pub(super) const ERROR: u32 = 1;
    pub(super) const PERM: u32 = 3;
    pub(super) const BUSY: u32 = 5;
    pub(super) const LOCKED: u32 = 6;
    pub(super) const NOMEM: u32 = 7;
    pub(super) const READONLY: u32 = 8;
    pub(super) const IOERR: u32 = 10;
    pub(super) const CORRUPT: u32 = 11;
    pub(super) const FULL: u32 = 13;
    pub(super) const CANTOPEN: u32 = 14;
    pub(super) const PROTOCOL: u32 = 15;
    pub(super) const CONSTRAINT: u32 = 19;
    pub(super) const AUTH: u32 = 23;
    pub(super) const NOTADB: u32 = 26;
}

/// What the driver said about the database behind `pool`.
pub(super) fn classify(pool: &SqlitePool, error: sqlx::Error) -> Error {
    classify_in(&pool.connect_options().get_filename().display().to_string(), error)
}

/// What the driver said about `file`.
pub(super) fn classify_in(file: &str, error: sqlx::Error) -> Error {
    let (kind, context) = match &error {
        sqlx::Error::Database(database) => {
            let code = database.code().and_then(|code| code.parse().ok()).unwrap_or(result::ERROR);
            judge(file, code, database.message())
        }
        sqlx::Error::PoolTimedOut => {
            (ErrorKind::Timeout, format!("no connection to {file} became free in time"))
        }
        sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed | sqlx::Error::Io(_) => {
            (ErrorKind::Unreachable, format!("the connection to {file} is gone"))
        }
        // It was rolled back behind the back of the driver: on another connection it goes on.
        sqlx::Error::InvalidSavePointStatement => {
            (ErrorKind::Unreachable, format!("a connection to {file} has lost its transaction"))
        }
        sqlx::Error::Configuration(_) => (ErrorKind::Config, format!("{file} cannot be opened like this")),
        _ => (ErrorKind::Unexpected, format!("{file} answered something unexpected")),
    };
    Error::new(kind, context).caused_by(error)
}

fn judge(file: &str, code: u32, message: &str) -> (ErrorKind, String) {
    match code & 0xff {
        result::BUSY | result::LOCKED => {
            (ErrorKind::Busy, format!("{file} is locked by another writer for longer than the busy timeout"))
        }
        // A race for the lock of the WAL, which SQLite gives up after some tries; a later one may win it.
        result::PROTOCOL => (ErrorKind::Busy, format!("{file} is in too much use to begin a transaction")),
        result::FULL => {
            (ErrorKind::Busy, format!("no space left for {file}: nothing was written, free some disk space"))
        }
        result::NOMEM => (ErrorKind::Busy, format!("no memory left to work on {file}")),
        result::IOERR => (ErrorKind::Unreachable, format!("{file} cannot be read or written")),
        result::CANTOPEN => (
            ErrorKind::Unreachable,
            format!("{file} cannot be opened: does its folder exist, with write access?"),
        ),
        result::PERM | result::READONLY | result::AUTH => {
            (ErrorKind::Denied, format!("{file} or its folder may not be written to"))
        }
        result::CORRUPT => (ErrorKind::Unexpected, format!("{file} is damaged")),
        result::NOTADB => (ErrorKind::Config, format!("{file} is not an SQLite database")),
        result::CONSTRAINT if message.starts_with("outbox: ") => (ErrorKind::Invalid, message.to_owned()),
        result::CONSTRAINT if message.contains("outbox_messages.id") => {
            (ErrorKind::Invalid, "a message with this id exists already".to_owned())
        }
        result::ERROR if message.contains("no such table: outbox_") => {
            (ErrorKind::NotMigrated, format!("the outbox tables are missing in {file}"))
        }
        result::ERROR if message.contains("no such column") || message.contains("has no column") => {
            (ErrorKind::NotMigrated, format!("the outbox tables in {file} are not those of this version"))
        }
        _ => (ErrorKind::Unexpected, format!("{file} answered something unexpected")),
    }
}

/// For `map_err`: what the driver said about the database behind `pool`.
pub(super) fn from(pool: &SqlitePool) -> impl Fn(sqlx::Error) -> Error + '_ {
    move |error| classify(pool, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_kinds_and_extended_codes_count() {
        for (code, message, kind) in [
            (5, "database is locked", ErrorKind::Busy),
            (517, "database is locked", ErrorKind::Busy),
            (262, "database table is locked", ErrorKind::Busy),
            (15, "locking protocol", ErrorKind::Busy),
            (13, "database or disk is full", ErrorKind::Busy),
            (778, "disk I/O error", ErrorKind::Unreachable),
            (8, "attempt to write a readonly database", ErrorKind::Denied),
            (1, "no such table: outbox_cursors", ErrorKind::NotMigrated),
            (1, "no such table: orders", ErrorKind::Unexpected),
            (1811, "outbox: a message must have a type", ErrorKind::Invalid),
            (2067, "UNIQUE constraint failed: outbox_messages.id", ErrorKind::Invalid),
            (2067, "UNIQUE constraint failed: orders.id", ErrorKind::Unexpected),
        ] {
            assert_eq!(judge("a.db", code, message).0, kind, "{code} {message}");
        }
    }
}
