//! Whose fault an error of a statement is, by its SQLSTATE. What the server says of a value is not repeated.

use sqlx::postgres::PgDatabaseError;

use crate::sql::Fault;

/// `about` says which statement it was.
pub(super) fn of(error: &sqlx::Error, about: &str) -> Fault {
    let database = match error {
        sqlx::Error::Database(database) => database.try_downcast_ref::<PgDatabaseError>(),
        sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_) => {
            return Fault::Value(format!("{about}: a value cannot be sent"));
        }
        _ => None,
    };
    let Some(database) = database else {
        return Fault::Outage(format!("{about}: {error}"));
    };
    judge(database.code(), database.message(), about, || objection(database))
}

fn judge(state: &str, message: &str, about: &str, objection: impl FnOnce() -> String) -> Fault {
    // Cancelled, or a lock not got, in the time that the server gives: it can be the doing of this one message, and as
    // an outage it would stop all others for ever.
    if matches!(state, "57014" | "55P03") {
        return Fault::Refused(format!("{about}: {message}"));
    }
    match state.get(..2).unwrap_or_default() {
        "22" => Fault::Value(format!("{about}: a value is not what it should be ({state})")),
        "23" | "44" => Fault::Refused(format!("{about}: {}", objection())),
        "40" => Fault::Conflict(format!("{about}: {message}")),
        // Missing, denied or misspelt; no connection, space or memory; shutting down; read-only.
        "08" | "0A" | "25" | "28" | "3D" | "3F" | "42" | "53" | "55" | "57" | "58" => {
            Fault::Outage(format!("{about}: {message}"))
        }
        // The sentence of whoever wrote the trigger or function.
        "P0" => Fault::Refused(format!("{about}: {message}")),
        _ => Fault::Refused(format!("{about}: PostgreSQL answers with the error {state}")),
    }
}

fn objection(error: &PgDatabaseError) -> String {
    let table = error.table().unwrap_or("?");
    match (error.code(), error.column(), error.constraint()) {
        ("23502", Some(column), _) => format!("column '{column}' of table '{table}' must not be null"),
        (state, _, Some(constraint)) => {
            format!("constraint '{constraint}' of table '{table}' objects ({state})")
        }
        (state, ..) => format!("table '{table}' objects ({state})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k4_a_limit_of_time_is_one_messages_doing_and_a_shutdown_is_not() {
        let judged = |state| judge(state, "why", "s", || unreachable!());
        for state in ["57014", "55P03"] {
            assert_eq!(judged(state), Fault::Refused("s: why".to_owned()), "{state}");
        }
        for state in ["57P01", "57P02", "57P03", "55000", "55006", "53300"] {
            assert_eq!(judged(state), Fault::Outage("s: why".to_owned()), "{state}");
        }
        assert_eq!(judged("40P01"), Fault::Conflict("s: why".to_owned()));
    }
}
