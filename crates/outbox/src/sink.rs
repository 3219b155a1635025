//! Where messages go: the contract of a [`Sink`], and what it answers.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::message::Message;

/// Where messages go: a broker, an endpoint, a file, a function.
///
/// - **K1** One outcome per message, in the order of the messages.
/// - **K2** Delivered means that the other side has it for good: confirmed, and routed to someone.
/// - **K3** A message that is rejected does not harm its neighbours: each gets the outcome it would have alone.
/// - **K4** Rejected is the fault of the message; unavailable is not, and says nothing about any message.
/// - **K5** What is not known to be delivered is not called delivered: a time-out is unavailable.
/// - **K6** `deliver` ends: whatever hangs is given up after the sink's own time limit.
/// - **K7** After an outage the same sink delivers again, with no help.
/// - **K8** Id, type, key, payload bytes, content type, headers and time arrive as they were given.
///
/// Calls may overlap. A message is never in two calls at once, nor are two of one key where order matters.
#[async_trait]
pub trait Sink: Send + Sync {
    /// One outcome per message, in order: delivered, rejected (its fault), unavailable (ours).
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome>;

    /// Whether it also takes messages that nobody can handle ([`Claim::defects`](crate::Claim::defects)): without
    /// an id, with a header that cannot be read. A handler does not, and they are dead without having come to it. Where
    /// broken messages are written down they must not die of what is written down; there the header
    /// [`ERROR_DEFECT`](crate::header::ERROR_DEFECT) says what is wrong.
    fn takes_defects(&self) -> bool {
        false
    }
}

#[async_trait]
impl<S: Sink + ?Sized> Sink for Arc<S> {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        (**self).deliver(messages).await
    }
    fn takes_defects(&self) -> bool {
        (**self).takes_defects()
    }
}

/// What became of one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The other side has it for good.
    Delivered,
    /// The other side will not have this message.
    Rejected(Rejection),
    /// The other side cannot take anything now, or it is not known whether it took this.
    Unavailable(Cause),
}

impl Outcome {
    /// Rejected, and worth trying again.
    pub fn rejected(cause: Cause) -> Self {
        Self::Rejected(Rejection { cause, permanent: false, retry_after: None, defect: false })
    }

    /// Rejected, and trying again cannot help.
    pub fn refused(cause: Cause) -> Self {
        Self::Rejected(Rejection { cause, permanent: true, retry_after: None, defect: false })
    }

    /// Rejected before the other side was asked anything: nobody can handle it as it is.
    pub fn defect(cause: Cause) -> Self {
        Self::Rejected(Rejection { cause, permanent: true, retry_after: None, defect: true })
    }
}

/// Why a message was rejected, and whether trying again can help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Why.
    pub cause: Cause,
    /// Trying again cannot help.
    pub permanent: bool,
    /// When the other side asks to be tried again, instead of the policy's delay.
    pub retry_after: Option<Duration>,
    /// It was judged before the other side was asked anything, so it says nothing about that side: a burst of such
    /// messages is no outage, however long.
    pub defect: bool,
}

/// Why something failed: a stable code for scripts, a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// One of [`code`], or a backend's own.
    pub code: Cow<'static, str>,
    /// A sentence, without secrets and without payload.
    pub detail: String,
}

/// Stable codes of a [`Cause`].
pub mod code {
    /// No queue is bound for the message.
    pub const NO_ROUTE: &str = "NO_ROUTE";
    /// The exchange does not exist.
    pub const NO_EXCHANGE: &str = "NO_EXCHANGE";
    /// The topic does not exist.
    pub const NO_TOPIC: &str = "NO_TOPIC";
    /// The message is larger than the other side takes.
    pub const TOO_LARGE: &str = "TOO_LARGE";
    /// We may not send there.
    pub const FORBIDDEN: &str = "FORBIDDEN";
    /// The other side answered that it does not take it (a nack, a full queue).
    pub const REFUSED: &str = "REFUSED";
    /// The message cannot be written in the form that the other side needs.
    pub const UNFIT: &str = "UNFIT";
    /// The message has no id by which it could be told from its repetition.
    pub const NO_ID: &str = "NO_ID";
    /// A header that is needed cannot be read.
    pub const BAD_HEADER: &str = "BAD_HEADER";
    /// A handler returned an error.
    pub const HANDLER: &str = "HANDLER";
    /// A handler panicked.
    pub const PANIC: &str = "PANIC";
    /// The other side cannot be reached.
    pub const UNREACHABLE: &str = "UNREACHABLE";
    /// The other side did not answer in time.
    pub const TIMEOUT: &str = "TIMEOUT";
    /// The broker has blocked its publishers (memory or disk alarm).
    pub const BLOCKED: &str = "BLOCKED";
}

impl Cause {
    /// The longest sentence that is kept; the rest of a stack trace helps nobody in a table.
    const MOST: usize = 2_000;

    /// A cause; control characters and overlong text are taken out, so that any store can hold it.
    pub fn new(code: impl Into<Cow<'static, str>>, detail: impl fmt::Display) -> Self {
        let detail = detail.to_string();
        let detail =
            detail.chars().map(|c| if c.is_control() { ' ' } else { c }).take(Self::MOST).collect::<String>();
        Self { code: code.into(), detail: detail.trim().to_owned() }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_can_be_stored_anywhere() {
        let cause = Cause::new(code::HANDLER, format!("a\0b\nc{}", "x".repeat(5_000)));
        assert!(cause.detail.starts_with("a b c"));
        assert_eq!(cause.detail.chars().count(), 2_000);
    }
}
