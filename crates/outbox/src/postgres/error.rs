//! What an error of the driver means for us.

use std::fmt::Display;

use crate::error::{Error, ErrorKind};

/// Turns a driver's error into ours; `doing` says what was being done.
pub(super) fn classify(error: sqlx::Error, doing: impl Display) -> Error {
    let kind = match &error {
        sqlx::Error::Io(_) | sqlx::Error::PoolClosed | sqlx::Error::WorkerCrashed => ErrorKind::Unreachable,
        // A connection that broke in the middle of an answer.
        sqlx::Error::Protocol(_) | sqlx::Error::Tls(_) => ErrorKind::Unreachable,
        sqlx::Error::PoolTimedOut => ErrorKind::Timeout,
        sqlx::Error::Configuration(_) => ErrorKind::Config,
        sqlx::Error::Database(database) => of_state(database.code().as_deref().unwrap_or("")),
        _ => ErrorKind::Unexpected,
    };
    let context = match kind {
        ErrorKind::Unreachable => "PostgreSQL cannot be reached",
        ErrorKind::Timeout => "PostgreSQL did not answer in time",
        ErrorKind::Busy => "PostgreSQL cannot serve now",
        ErrorKind::Denied => "PostgreSQL refuses it",
        ErrorKind::NotMigrated => "the outbox tables are missing or of another version",
        ErrorKind::Invalid => "PostgreSQL refuses the message",
        ErrorKind::Config => "the connection is not configured right",
        _ => "PostgreSQL answered with an error",
    };
    Error::new(kind, context).caused_by(error).while_doing(doing)
}

/// By SQLSTATE: see appendix A of the PostgreSQL manual.
fn of_state(state: &str) -> ErrorKind {
    match state {
        // No such table, column, function, schema; wrong type.
        "42P01" | "42703" | "42883" | "3F000" | "42804" => ErrorKind::NotMigrated,
        "28000" | "28P01" | "42501" => ErrorKind::Denied,
        "3D000" => ErrorKind::Config,
        // Constraint, too long, not representable.
        "23514" | "23502" | "23505" | "22001" | "22021" | "22P05" => ErrorKind::Invalid,
        // A statement or lock time-out.
        "57014" | "55P03" => ErrorKind::Timeout,
        // Read-only after a failover, shutting down, starting up; serialization and deadlock: try again.
        "25006" | "40001" | "40P01" => ErrorKind::Busy,
        // We were silent in a transaction for too long (halted, or starved), and the server has ended it.
        "25P03" | "25P04" => ErrorKind::Busy,
        _ => match state.get(..2) {
            Some("08") => ErrorKind::Unreachable,
            Some("53" | "57" | "58") => ErrorKind::Busy,
            _ => ErrorKind::Unexpected,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_mean_what_can_be_done_about_them() {
        for (state, kind) in [
            ("42P01", ErrorKind::NotMigrated),
            ("28P01", ErrorKind::Denied),
            ("57P01", ErrorKind::Busy),
            ("53100", ErrorKind::Busy),
            ("25006", ErrorKind::Busy),
            ("25P03", ErrorKind::Busy),
            ("08006", ErrorKind::Unreachable),
            ("23514", ErrorKind::Invalid),
            ("XX000", ErrorKind::Unexpected),
            ("", ErrorKind::Unexpected),
        ] {
            assert_eq!(of_state(state), kind, "{state}");
        }
    }
}
