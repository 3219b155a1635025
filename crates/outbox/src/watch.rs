//! Whoever wants to know what a pipe does, while it does it: figures and traces.

use std::time::Duration;

use crate::message::Message;
use crate::policy::Verdict;
use crate::sink::Outcome;

/// Is told what a pipe does. It is called by the loop itself, so it must return at once.
pub trait Watch: Send + Sync {
    /// Messages were taken from the source. One that was given back, or failed before, is taken again.
    fn claimed(&self, messages: &[Message]) {
        let _ = messages;
    }

    /// The sink has told what became of a message, so long after it was handed over. The verdict is not settled yet.
    fn judged(&self, judged: &Judged<'_>) {
        let _ = judged;
    }
}

/// What became of one message.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'j> {
    /// The message.
    pub message: &'j Message,
    /// What the sink told of it.
    pub outcome: &'j Outcome,
    /// What is done about it.
    pub verdict: &'j Verdict,
    /// How long the sink took, for all that were handed over together.
    pub took: Duration,
}
