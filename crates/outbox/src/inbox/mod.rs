//! Handled once: the contract of an [`Inbox`], and the sink that runs a function under it.

mod failure;
mod handler;
mod lent;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod table;

use std::ops::DerefMut;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Serialize;

pub use failure::Failure;
pub use handler::Handler;
pub(crate) use handler::within;
pub use lent::Lent;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub use table::InboxTable;
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) use table::Keys;

use crate::error::Result;
use crate::message::MessageId;
use crate::sink::Cause;

/// The ids that a consumer has handled, recorded in the transaction in which it handled them.
///
/// - **I1** Recording an id for the first time tells that it is new.
/// - **I2** Recording it again, in this transaction or a later one, tells that it is known.
/// - **I3** What is not committed was never recorded.
/// - **I4** Consumers do not see each other's ids.
/// - **I5** Of two transactions that record one id at the same time, at most one commits it as new.
/// - **I6** `undo` takes back what was done and recorded for that id since `mark`, and nothing else.
/// - **I7** Pruning forgets only what is older than the window, ids and notes, in bounded steps; and only what is the
///   consumer's, because another may still get its messages again. Where a table does not say whose an id is, it is
///   one consumer's.
/// - **I8** `known` tells what is committed, and changes nothing.
/// - **I9** A note changes nothing of what is handled; with `history` it tells the life of a message. One that cannot be
///   written harms nobody: whoever notes goes on.
///
/// An id that this store cannot keep as it is (too long, no UUID where one is needed) is an error of kind
/// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) from `record`: the message is refused, never another id recorded.
#[async_trait]
pub trait Inbox: Send + Sync + 'static {
    /// An open transaction of the database.
    type Tx: DerefMut + Send + 'static;

    /// Opens a transaction.
    async fn begin(&self) -> Result<Self::Tx>;

    /// Records the ids; tells of each whether it is new. Ids are distinct.
    async fn record(&self, tx: &mut Self::Tx, consumer: &str, ids: &[&MessageId]) -> Result<Vec<bool>>;

    /// Marks the point to which `undo` goes back. A later mark replaces an earlier one.
    async fn mark(&self, tx: &mut Self::Tx) -> Result<()>;

    /// Goes back to the mark, and forgets the id.
    async fn undo(&self, tx: &mut Self::Tx, consumer: &str, id: &MessageId) -> Result<()>;

    /// Commits: effects and ids together.
    async fn commit(&self, tx: Self::Tx) -> Result<()>;

    /// Tells of each id whether the consumer has handled it, outside of any open transaction. An id that this store
    /// cannot keep is not known.
    async fn known(&self, consumer: &str, ids: &[&MessageId]) -> Result<Vec<bool>>;

    /// Notes failed attempts, for people who ask later.
    async fn note(&self, consumer: &str, failures: &[Failed<'_>]) -> Result<()>;

    /// What became of a message with all consumers, in order of time.
    async fn history(&self, id: &MessageId) -> Result<Vec<Handled>>;

    /// Forgets one step (at most `step`) of the consumer's ids and notes that are older than `window`; tells how many.
    async fn prune(&self, consumer: &str, window: Duration, step: u32) -> Result<u64>;
}

/// A failed attempt, to be noted.
#[derive(Debug, Clone, Copy)]
pub struct Failed<'a> {
    /// The message.
    pub id: &'a MessageId,
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// Why it failed.
    pub cause: &'a Cause,
    /// Whether trying again cannot help.
    pub dead: bool,
}

/// One thing that happened to a message with a consumer: it was handled, or an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Handled {
    /// Who handled it, or tried to.
    pub consumer: String,
    /// When, on the database's clock; none if the table that keeps the ids keeps no times.
    pub at: Option<Timestamp>,
    /// The failed attempt; none if it was handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<Attempt>,
}

/// An attempt that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// Which attempt it was, from 1.
    pub attempt: u32,
    /// Why it failed.
    pub cause: Cause,
    /// Whether trying again cannot help.
    pub dead: bool,
}

impl Handled {
    /// In order of time; what has none comes last.
    pub(crate) fn in_order(mut all: Vec<Self>) -> Vec<Self> {
        all.sort_by_key(|one| (one.at.is_none(), one.at));
        all
    }
}
