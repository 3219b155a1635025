//! Messages of one call on their way together, for sinks that send each by itself.

use std::sync::OnceLock;

use futures_util::StreamExt as _;

use crate::message::Message;
use crate::sink::{Cause, Outcome};

/// Sends each, so many at a time; the outcomes in order. Once the other side is found to be gone the rest is not tried:
/// it would meet the same, each after its own time limit.
pub(crate) async fn deliver<'m, F, Fut>(messages: &'m [Message], width: usize, send: F) -> Vec<Outcome>
where
    F: Fn(&'m Message) -> Fut,
    Fut: Future<Output = Outcome>,
{
    let gone = OnceLock::new();
    let mut sending = Vec::with_capacity(messages.len());
    for message in messages {
        sending.push(unless(&gone, &send, message));
    }
    futures_util::stream::iter(sending).buffered(width).collect().await
}

async fn unless<'m, F, Fut>(gone: &OnceLock<Cause>, send: &F, message: &'m Message) -> Outcome
where
    F: Fn(&'m Message) -> Fut,
    Fut: Future<Output = Outcome>,
{
    if let Some(cause) = gone.get() {
        return Outcome::Unavailable(cause.clone());
    }
    let outcome = send(message).await;
    if let Outcome::Unavailable(cause) = &outcome {
        // The first one is told of all.
        let _ = gone.set(cause.clone());
    }
    outcome
}
