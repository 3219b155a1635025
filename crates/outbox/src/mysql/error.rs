//! What an error of the driver means for us.

use std::fmt::Display;

use sqlx::mysql::MySqlDatabaseError;

use crate::error::{Error, ErrorKind};

/// Turns a driver's error into ours; `doing` says what was being done.
pub(super) fn classify(error: sqlx::Error, doing: impl Display) -> Error {
    let kind = match &error {
        sqlx::Error::Io(_) | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => ErrorKind::Unreachable,
        // A connection that broke in the middle of an answer.
        sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) => ErrorKind::Unreachable,
        sqlx::Error::PoolTimedOut => ErrorKind::Timeout,
        sqlx::Error::Configuration(_) => ErrorKind::Config,
        sqlx::Error::Database(_) => number(&error).map_or(ErrorKind::Unexpected, of_number),
        _ => ErrorKind::Unexpected,
    };
    let context = match kind {
        ErrorKind::Unreachable => "MySQL cannot be reached",
        ErrorKind::Timeout => "MySQL did not answer in time",
        ErrorKind::Busy => "MySQL cannot serve now",
        ErrorKind::Denied => "MySQL refuses it",
        ErrorKind::Mapping => "the table is not as the mapping says",
        ErrorKind::Config => "the connection is not configured right",
        _ => "MySQL answered with an error",
    };
    Error::new(kind, context).caused_by(error).while_doing(doing)
}

/// The same for what is done to our own tables: there is no mapping that could be wrong.
pub(super) fn classify_ours(error: sqlx::Error, doing: impl Display) -> Error {
    match number(&error) {
        // No such table, column.
        Some(1146 | 1054) => {
            Error::new(ErrorKind::NotMigrated, "the outbox tables are missing or of another version")
                .caused_by(error)
                .while_doing(doing)
        }
        _ => classify(error, doing),
    }
}

/// The number of an error that the server told.
pub(super) fn number(error: &sqlx::Error) -> Option<u16> {
    let database = error.as_database_error()?;
    Some(database.try_downcast_ref::<MySqlDatabaseError>()?.number())
}

/// By number: the states of MySQL say too little, `42000` is a mistake in the syntax and a missing grant alike.
fn of_number(number: u16) -> ErrorKind {
    match number {
        // No such table, column, index, function; collations that cannot be compared.
        1146 | 1054 | 1176 | 1305 | 1267 | 1271 => ErrorKind::Mapping,
        // What we write does not fit: cut off, no value of the type, too long, null, no default, a constraint.
        1048 | 1062 | 1264 | 1265 | 1292 | 1364 | 1366 | 1406 | 1451 | 1452 | 3819 | 4025 => {
            ErrorKind::Mapping
        }
        // A view that cannot be written to.
        1288 | 1471 => ErrorKind::Mapping,
        1044 | 1045 | 1130 | 1142 | 1143 | 1227 | 1370 | 1698 | 1820 | 1862 | 3118 | 4151 => {
            ErrorKind::Denied
        }
        1046 | 1049 => ErrorKind::Config,
        // A lock that somebody else has for too long; a statement that the server has ended.
        1205 | 3572 | 1969 | 3024 => ErrorKind::Timeout,
        // A deadlock; the table was changed under a statement.
        1213 | 1412 | 1615 => ErrorKind::Busy,
        // Too many connections or statements; shutting down, killed; read-only; no memory, no space.
        1021 | 1037 | 1038 | 1040 | 1041 | 1053 | 1114 | 1203 | 1226 | 1290 | 1317 | 1461 | 1792 | 1836 => {
            ErrorKind::Busy
        }
        // Told on a connection that is gone: killed, or silent for too long.
        1158..=1161 | 1927 | 2006 | 2013 | 4031 => ErrorKind::Unreachable,
        _ => ErrorKind::Unexpected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_mean_what_can_be_done_about_them() {
        for (number, kind) in [
            (1146, ErrorKind::Mapping),
            (1054, ErrorKind::Mapping),
            (1265, ErrorKind::Mapping),
            (1045, ErrorKind::Denied),
            (1142, ErrorKind::Denied),
            (1049, ErrorKind::Config),
            (1205, ErrorKind::Timeout),
            (1213, ErrorKind::Busy),
            (1040, ErrorKind::Busy),
            (1290, ErrorKind::Busy),
            (1927, ErrorKind::Unreachable),
            (1064, ErrorKind::Unexpected),
        ] {
            assert_eq!(of_number(number), kind, "{number}");
        }
    }
}
