//! A sink that does not let its pipe pause for a conflict between transactions.

use async_trait::async_trait;

use super::fault::CONFLICT;
use crate::message::Message;
use crate::sink::{Outcome, Sink};

/// How often a conflict is met again before it counts as an outage.
const TRIES: usize = 4;

/// Delivers again when transactions were in each other's way: nothing of them was committed.
pub(crate) struct Again<S>(pub(crate) S);

#[async_trait]
impl<S: Sink> Sink for Again<S> {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let mut outcomes = self.0.deliver(messages).await;
        for _ in 1..TRIES {
            let Some(from) = outcomes.iter().position(is_conflict) else { break };
            // One by one, what came before the conflict is through already; together, nothing is.
            let rest = self.0.deliver(&messages[from..]).await;
            outcomes.splice(from.., rest);
        }
        outcomes
    }
}

fn is_conflict(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unavailable(cause) if cause.code == CONFLICT)
}
