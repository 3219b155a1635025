//! What a handler may answer instead of success.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::sink::{Cause, Rejection, code};

/// What a handler says when it could not handle a message.
#[derive(Debug)]
pub struct Failure {
    code: Cow<'static, str>,
    reason: String,
    fate: Fate,
}

/// What is to become of the message.
#[derive(Debug)]
enum Fate {
    Again(Option<Duration>),
    Dead,
    Defect,
    Outage,
}

impl Failure {
    /// Try again, after the policy's delay.
    pub fn retry(reason: impl fmt::Display) -> Self {
        Self::new(reason, Fate::Again(None))
    }

    /// Try again, after this delay.
    pub fn retry_after(reason: impl fmt::Display, delay: Duration) -> Self {
        Self::new(reason, Fate::Again(Some(delay)))
    }

    /// Trying again cannot help: set it aside.
    pub fn dead(reason: impl fmt::Display) -> Self {
        Self::new(reason, Fate::Dead)
    }

    /// The message cannot be handled as it is (no JSON, a field is missing), which was seen before anything was done for
    /// it. As `dead`; but however many come in a row, that is never taken for an outage.
    pub fn defect(reason: impl fmt::Display) -> Self {
        Self::new(reason, Fate::Defect)
    }

    /// It is not the message's fault, and others would meet the same: nothing is charged, and the pipe waits until
    /// whatever is missing is back.
    pub fn unavailable(reason: impl fmt::Display) -> Self {
        Self { code: code::UNREACHABLE.into(), ..Self::new(reason, Fate::Outage) }
    }

    /// Sets the code of the cause, one of [`code`] or your own.
    #[must_use]
    pub fn code(mut self, code: impl Into<Cow<'static, str>>) -> Self {
        self.code = code.into();
        self
    }

    fn new(reason: impl fmt::Display, fate: Fate) -> Self {
        Self { code: code::HANDLER.into(), reason: reason.to_string(), fate }
    }

    /// The message is rejected; or, of an outage, why nothing is known of it.
    pub(super) fn judge(self) -> Result<Rejection, Cause> {
        let cause = Cause::new(self.code, self.reason);
        let (permanent, defect) = (!matches!(self.fate, Fate::Again(_)), matches!(self.fate, Fate::Defect));
        let retry_after = match self.fate {
            Fate::Again(retry_after) => retry_after,
            Fate::Dead | Fate::Defect => None,
            Fate::Outage => return Err(cause),
        };
        Ok(Rejection { cause, permanent, retry_after, defect })
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut reason = error.to_string();
        let mut source = error.source();
        while let Some(beneath) = source {
            reason.push_str(": ");
            reason.push_str(&beneath.to_string());
            source = beneath.source();
        }
        Self::retry(reason)
    }
}
