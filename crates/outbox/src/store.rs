//! Where a publisher keeps what it could not send: the contract of a [`Store`].

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::Result;
use crate::message::{Limits, Message};

/// Where a [`Publisher`](crate::Publisher) keeps messages until an ordinary pipe has delivered them: a log, or a table
/// that somebody else made.
///
/// - **P1** What [`admit`](Store::admit) lets pass can be kept, and comes out of the source as `admit` gave it back:
///   same id, type, key, payload, headers. What could not be kept whole is
///   [`Invalid`](crate::ErrorKind::Invalid), before anything was sent.
/// - **P2** What [`keep`](Store::keep) was given is committed when it returns, all of it or nothing, and comes out of the
///   source; messages of a key in the order in which they were kept.
/// - **P3** Once `keep` has returned, [`has_kept`](Store::has_kept) tells of its keys, to every process on the same
///   database, until the messages are settled for good. One that is in flight, waits for its next attempt, stands
///   behind another, or is dead and holds its key, is not settled for good.
/// - **P4** A key of which everything is done (or dead, and let go) is not told of, nor is one that never had anything.
///   Only while very much is kept may `has_kept` tell of every key: that costs a detour, never the order.
/// - **P5** An id that the store knows is the same message: keeping it again changes nothing.
#[async_trait]
pub trait Store: Send + Sync {
    /// What a message may weigh.
    fn limits(&self) -> Limits;

    /// The message as it would come out, or why it cannot be kept.
    fn admit(&self, message: Message) -> Result<Message>;

    /// Writes messages that were admitted, all or none; durable when it returns.
    async fn keep(&self, messages: &[Message]) -> Result<()>;

    /// Those of the keys of which a message is kept and not settled for good.
    async fn has_kept(&self, keys: &[&str]) -> Result<HashSet<String>>;
}

#[async_trait]
impl<S: Store + ?Sized> Store for Arc<S> {
    fn limits(&self) -> Limits {
        (**self).limits()
    }
    fn admit(&self, message: Message) -> Result<Message> {
        (**self).admit(message)
    }
    async fn keep(&self, messages: &[Message]) -> Result<()> {
        (**self).keep(messages).await
    }
    async fn has_kept(&self, keys: &[&str]) -> Result<HashSet<String>> {
        (**self).has_kept(keys).await
    }
}

/// So many undone messages are looked through for a key; where there are more, every key counts as kept (P4). It bounds
/// what a question costs, however long the backlog is.
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) const LOOKED_THROUGH: i64 = 5_000;
