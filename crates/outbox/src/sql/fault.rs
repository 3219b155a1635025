//! Whose fault an error of a statement is.

use crate::inbox::Failure;
use crate::sink::code;

/// The code of a conflict between transactions, which goes away when one of them is tried again.
pub(super) const CONFLICT: &str = "CONFLICT";

/// Whose fault an error of a statement is; a sentence without values, for those are somebody's data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A value is not what it should be: trying again cannot help.
    Value(String),
    /// A constraint or a trigger objects, or it took too long: it may not, later.
    Refused(String),
    /// Another transaction was in the way.
    Conflict(String),
    /// It would meet every message.
    Outage(String),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Value(why) => Self::dead(why).code(code::UNFIT),
            Fault::Refused(why) => Self::retry(why).code(code::REFUSED),
            Fault::Conflict(why) => Self::unavailable(why).code(CONFLICT),
            Fault::Outage(why) => Self::unavailable(why),
        }
    }
}
