//! What a look at a statement found: the database was asked to prepare it, and ran nothing.

use crate::error::{Error, ErrorKind, Result};
use crate::finding::Finding;

/// That the database cannot make sense of a statement. It has no values yet, so what is said of it is safe to repeat.
pub(crate) fn unprepared(number: usize, error: sqlx::Error) -> Error {
    Error::new(ErrorKind::Config, format!("statement {number} cannot be prepared")).caused_by(error)
}

/// In words; `false` is a statement that can only be run.
pub(crate) fn finding(number: usize, prepared: Result<bool>) -> Finding {
    const WHAT: &str = "statement";
    match prepared {
        Ok(true) => Finding::ok(WHAT, format!("statement {number}: its tables and columns are there")),
        Ok(false) => Finding::ok(WHAT, format!("statement {number}: not looked at, it can only be run")),
        Err(error) if error.kind() == ErrorKind::Config => {
            let fix = format!("correct statement {number}, or make what it names in the database");
            Finding::failure(WHAT, error.chain()).fix(fix)
        }
        Err(error) => Finding::error(WHAT, &error),
    }
}
