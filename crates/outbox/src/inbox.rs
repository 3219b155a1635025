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

use crate::error::{Error, ErrorKind, Result};
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

/// How long a handler may take for one message, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long it may take until the transaction is back from a handler that was given up, and undone. A connection
/// that was left in the middle of a statement first has to get to its end.
const UNDO: Duration = Duration::from_secs(10);

/// A sink that runs a function once per message, in one transaction with the inbox.
///
/// The messages of one call share a transaction, each behind its own savepoint: a commit is paid once per
/// batch, and a message that fails undoes only itself. If the transaction fails as a whole and not for want of the
/// database (a deferred constraint tells only at the commit), the messages are handled again one by one, so that
/// the one at fault is rejected alone. So the function may run more than once for a message, and commits once.
pub struct Handler<I, F> {
    inbox: Arc<I>,
    consumer: String,
    function: F,
    timeout: Duration,
}

/// Why a transaction failed as a whole.
enum Broken {
    /// The database cannot do it now, whatever the message: nothing is known of any.
    Outage(Error),
    /// It has to do with what was done for one of the messages.
    ByMessage(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        let by_setup = [ErrorKind::Denied, ErrorKind::NotMigrated, ErrorKind::Config].contains(&error.kind());
        if by_setup || error.is_temporary() { Self::Outage(error) } else { Self::ByMessage(error) }
    }
}

impl<I, F, Fut> Handler<I, F>
where
    I: Inbox,
    F: Fn(Lent<I::Tx>, Message) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Failure>> + Send,
{
    /// Handles messages as `consumer`, whose ids are kept apart from those of other consumers.
    pub fn new(inbox: Arc<I>, consumer: impl Into<String>, function: F) -> Self {
        Self { inbox, consumer: consumer.into(), function, timeout: TIMEOUT }
    }

    /// Sets how long the function may take for one message (60 s). One that takes longer is given up: its future is
    /// dropped, and its message rejected. No answer of the database is waited for longer than that either.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    async fn handle_all(&self, messages: &[Message]) -> Result<Vec<Outcome>, Broken> {
        let begin = within(self.timeout, "opening a transaction", self.inbox.begin());
        // Nothing was done for a message yet that could be at fault.
        let mut tx = begin.await.map_err(Broken::Outage)?;
        let ids: Vec<_> = messages.iter().map(|message| &message.id).collect();
        let record = self.inbox.record(&mut tx, &self.consumer, &ids);
        let new = within(self.timeout, "recording what is handled", record).await?;
        let mut outcomes = Vec::with_capacity(messages.len());
        for (message, is_new) in messages.iter().zip(new) {
            if !is_new {
                tracing::debug!(id = %message.id, consumer = self.consumer, "known already, not handled again");
                outcomes.push(Outcome::Delivered);
                continue;
            }
            within(self.timeout, "setting a savepoint", self.inbox.mark(&mut tx)).await?;
            let (lent, returned) = Lent::new(tx);
            let Some(rejection) = self.handle(lent, message).await else {
                // A handler that keeps the transaction elsewhere gives it back when that ends.
                tx = back(self.timeout, returned).await?;
                outcomes.push(Outcome::Delivered);
                continue;
            };
            outcomes.push(Outcome::Rejected(rejection));
            if messages.len() == 1 {
                // Nothing else is in the transaction. Dropped it rolls back, also where an undo would hang.
                return Ok(outcomes);
            }
            tx = back(UNDO, returned).await?;
            let undo = self.inbox.undo(&mut tx, &self.consumer, &message.id);
            within(UNDO, "undoing what a handler did", undo).await?;
        }
        // A handler may have swallowed an error after which the database takes nothing more. PostgreSQL then answers
        // a commit with a rollback, and calls it a success; a savepoint it refuses.
        within(self.timeout, "setting a savepoint", self.inbox.mark(&mut tx)).await?;
        failpoint::pass("handler_before_commit");
        within(self.timeout, "committing", self.inbox.commit(tx)).await?;
        failpoint::pass("handler_after_commit");
        Ok(outcomes)
    }

    /// Runs the function; tells why the message is rejected, if it is.
    async fn handle(&self, lent: Lent<I::Tx>, message: &Message) -> Option<Rejection> {
        // The call itself is in there too: a function may panic before it returns its future.
        let running = async { (self.function)(lent, message.clone()).await };
        let handled = tokio::time::timeout(self.timeout, AssertUnwindSafe(running).catch_unwind()).await;
        let again = |cause| Some(Rejection { cause, permanent: false, retry_after: None });
        match handled {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(failure))) => Some(Rejection {
                cause: Cause::new(code::HANDLER, failure.reason),
                permanent: failure.permanent,
                retry_after: failure.retry_after,
            }),
            Ok(Err(panic)) => again(Cause::new(code::PANIC, panic_text(&*panic))),
            Err(_) => {
                let detail = format!("the handler was not through after {:?}", self.timeout);
                again(Cause::new(code::TIMEOUT, detail))
            }
        }
    }

    /// Each in a transaction of its own, so that the one at fault fails alone.
    async fn handle_each(&self, messages: &[Message]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(messages.len());
        for message in messages {
            match self.handle_all(std::slice::from_ref(message)).await {
                Ok(outcome) => outcomes.extend(outcome),
                Err(Broken::ByMessage(error)) => {
                    outcomes.push(Outcome::rejected(Cause::new(code::HANDLER, error.chain())));
                }
                Err(Broken::Outage(error)) => {
                    // The rest would meet the same.
                    outcomes.extend(unavailable(&error, messages.len() - outcomes.len()));
                    break;
                }
            }
        }
        outcomes
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
        if messages.len() < 2 {
            return self.handle_each(messages).await;
        }
        match self.handle_all(messages).await {
            Ok(outcomes) => outcomes,
            // The transaction is gone as a whole, so nothing is known of any message.
            Err(Broken::Outage(error)) => unavailable(&error, messages.len()),
            Err(Broken::ByMessage(error)) => {
                let (count, error) = (messages.len(), error.chain());
                tracing::debug!(
                    consumer = self.consumer,
                    count,
                    error,
                    "a batch failed, handling one by one"
                );
                self.handle_each(messages).await
            }
        }
    }
}

/// What the database answers, if it does so in time.
pub(crate) async fn within<T>(
    limit: Duration,
    what: &str,
    asked: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| {
        let why = format!("{what}: no answer within {limit:?}");
        Err(Error::new(ErrorKind::Timeout, why))
    })
}

/// The transaction, once whoever has it is through with it; to keep it is the handler's fault.
async fn back<T>(limit: Duration, returned: oneshot::Receiver<T>) -> Result<T, Broken> {
    let returned = tokio::time::timeout(limit, returned).await;
    returned.ok().and_then(std::result::Result::ok).ok_or_else(|| {
        let why = "a handler did not give its transaction back";
        Broken::ByMessage(Error::new(ErrorKind::Unexpected, why))
    })
}

pub(crate) fn unavailable(error: &Error, count: usize) -> Vec<Outcome> {
    vec![Outcome::Unavailable(Cause::new(code::UNREACHABLE, error.chain())); count]
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the handler panicked".to_owned())
}
