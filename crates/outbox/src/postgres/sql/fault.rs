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
    let state = database.code();
    match state.get(..2).unwrap_or_default() {
        "22" => Fault::Value(format!("{about}: a value is not what it should be ({state})")),
        "23" | "44" => Fault::Refused(format!("{about}: {}", objection(database))),
        "40" => Fault::Conflict(format!("{about}: {}", database.message())),
        // Missing, denied or misspelt; no connection, space or memory; shutting down; read-only.
        "08" | "0A" | "25" | "28" | "3D" | "3F" | "42" | "53" | "55" | "57" | "58" => {
            Fault::Outage(format!("{about}: {}", database.message()))
        }
        // The sentence of whoever wrote the trigger or function.
        "P0" => Fault::Refused(format!("{about}: {}", database.message())),
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
