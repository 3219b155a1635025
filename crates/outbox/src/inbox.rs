//! Handled once: the contract of an [`Inbox`], and the sink that runs a function under it.

use std::fmt;
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::sync::oneshot;

use crate::error::Result;
use crate::failpoint;
use crate::message::{Message, MessageId};
use crate::sink::{Cause, Outcome, Rejection, Sink, code};

/// The ids that a consumer has handled, recorded in the transaction in which it handled them.
///
/// - **I1** Recording an id for the first time tells that it is new.
/// - **I2** Recording it again, in this transaction or a later one, tells that it is known.
/// - **I3** What is not committed was never recorded.
/// - **I4** Consumers do not see each other's ids.
/// - **I5** Of two transactions that record one id at the same time, at most one commits it as new.
/// - **I6** `undo` takes back what was done and recorded for that id since `mark`, and nothing else.
/// - **I7** Pruning forgets only what is older than the window, in bounded steps.
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

    /// Forgets one step (at most `step`) of ids older than `window`; tells how many.
    async fn prune(&self, window: Duration, step: u32) -> Result<u64>;
}

/// The open transaction, lent to a handler: what it writes is committed together with the inbox.
///
/// It dereferences to the connection, as a transaction of `sqlx` does: `.execute(&mut *tx)`. It goes back when it is
/// dropped, so when the handler is through.
pub struct Lent<T> {
    tx: Option<T>,
    back: Option<oneshot::Sender<T>>,
}

impl<T> Lent<T> {
    fn new(tx: T) -> (Self, oneshot::Receiver<T>) {
        let (back, returned) = oneshot::channel();
        (Self { tx: Some(tx), back: Some(back) }, returned)
    }
}

impl<T: Deref> Deref for Lent<T> {
    type Target = T::Target;
    fn deref(&self) -> &T::Target {
        self.tx.as_ref().expect("the transaction is here until the guard is dropped")
    }
}

impl<T: DerefMut> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T::Target {
        self.tx.as_mut().expect("the transaction is here until the guard is dropped")
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        if let (Some(tx), Some(back)) = (self.tx.take(), self.back.take()) {
            // Nobody waits for it when the delivery itself was given up; dropped, it rolls back.
            let _ = back.send(tx);
        }
    }
}

/// What a handler says when it could not handle a message.
#[derive(Debug)]
pub struct Failure {
    reason: String,
    permanent: bool,
    retry_after: Option<Duration>,
}

impl Failure {
    /// Try again, after the policy's delay.
    pub fn retry(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), permanent: false, retry_after: None }
    }

    /// Try again, after this delay.
    pub fn retry_after(reason: impl fmt::Display, delay: Duration) -> Self {
        Self { reason: reason.to_string(), permanent: false, retry_after: Some(delay) }
    }

    /// Trying again cannot help: set it aside.
    pub fn dead(reason: impl fmt::Display) -> Self {
        Self { reason: reason.to_string(), permanent: true, retry_after: None }
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

/// A sink that runs a function once per message, in one transaction with the inbox.
///
/// The messages of one call share a transaction, each behind its own savepoint: a commit is paid once per
/// batch, and a message that fails undoes only itself.
pub struct Handler<I, F> {
    inbox: Arc<I>,
    consumer: String,
    function: F,
}

impl<I, F, Fut> Handler<I, F>
where
    I: Inbox,
    F: Fn(Lent<I::Tx>, Message) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Failure>> + Send,
{
    /// Handles messages as `consumer`, whose ids are kept apart from those of other consumers.
    pub fn new(inbox: Arc<I>, consumer: impl Into<String>, function: F) -> Self {
        Self { inbox, consumer: consumer.into(), function }
    }

    async fn handle_all(&self, messages: &[Message]) -> Result<Vec<Outcome>> {
        let mut tx = self.inbox.begin().await?;
        let ids: Vec<_> = messages.iter().map(|message| &message.id).collect();
        let new = self.inbox.record(&mut tx, &self.consumer, &ids).await?;
        let mut outcomes = Vec::with_capacity(messages.len());
        for (message, is_new) in messages.iter().zip(new) {
            if !is_new {
                tracing::debug!(id = %message.id, consumer = self.consumer, "known already, not handled again");
                outcomes.push(Outcome::Delivered);
                continue;
            }
            self.inbox.mark(&mut tx).await?;
            let (lent, returned) = Lent::new(tx);
            let handled = AssertUnwindSafe((self.function)(lent, message.clone())).catch_unwind().await;
            // A handler that keeps the transaction elsewhere gives it back when that ends.
            tx = returned.await.map_err(|_| lost_transaction())?;
            let rejection = match handled {
                Ok(Ok(())) => {
                    outcomes.push(Outcome::Delivered);
                    continue;
                }
                Ok(Err(failure)) => Rejection {
                    cause: Cause::new(code::HANDLER, failure.reason),
                    permanent: failure.permanent,
                    retry_after: failure.retry_after,
                },
                Err(panic) => Rejection {
                    cause: Cause::new(code::PANIC, panic_text(&*panic)),
                    permanent: false,
                    retry_after: None,
                },
            };
            self.inbox.undo(&mut tx, &self.consumer, &message.id).await?;
            outcomes.push(Outcome::Rejected(rejection));
        }
        failpoint::pass("handler_before_commit");
        self.inbox.commit(tx).await?;
        failpoint::pass("handler_after_commit");
        Ok(outcomes)
    }
}

#[async_trait]
impl<I, F, Fut> Sink for Handler<I, F>
where
    I: Inbox,
    F: Fn(Lent<I::Tx>, Message) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Failure>> + Send,
{
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        match self.handle_all(messages).await {
            Ok(outcomes) => outcomes,
            // The transaction is gone as a whole, so nothing is known of any message.
            Err(error) => {
                let cause = Cause::new(code::UNREACHABLE, error.chain());
                messages.iter().map(|_| Outcome::Unavailable(cause.clone())).collect()
            }
        }
    }
}

fn lost_transaction() -> crate::Error {
    crate::Error::new(crate::ErrorKind::Unexpected, "a handler did not give its transaction back")
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the handler panicked".to_owned())
}
