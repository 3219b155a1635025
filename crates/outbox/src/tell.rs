//! What the log says of a running pipe: what a person may have to act on, once, and never a payload.

use crate::message::Message;
use crate::policy::{Change, Verdict};

/// What was decided about a message, unless it went well or has to do with another one.
pub(crate) fn verdict(pipe: &str, message: &Message, verdict: &Verdict) {
    let Message { id, kind, .. } = message;
    match verdict {
        Verdict::Done | Verdict::Behind | Verdict::Released => {}
        Verdict::Retry { after, attempts, cause } => {
            tracing::debug!(pipe, %id, kind, attempts, ?after, %cause, "rejected; will be tried again");
        }
        Verdict::Dead { attempts, cause, .. } => {
            tracing::warn!(pipe, %id, kind, attempts, %cause, "dead: set aside until a person decides");
        }
    }
}

/// What the breaker did. Once per outage: the probes that follow say nothing new.
pub(crate) fn breaker(pipe: &str, change: &Change, was_open: bool) {
    match change {
        Change::Opened { cause, wait } if !was_open => {
            tracing::warn!(pipe, %cause, ?wait, "the sink is unavailable; nothing is charged");
        }
        Change::Opened { .. } => {}
        Change::Closed => tracing::info!(pipe, "the sink is back"),
    }
}
