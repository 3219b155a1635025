//! A function as a sink, in one transaction with an inbox.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use tokio::sync::oneshot;

use super::{Failed, Failure, Inbox, Lent};
use crate::cuts::Cuts;
use crate::error::{Error, ErrorKind, Result};
use crate::failpoint;
use crate::message::Message;
use crate::sink::{Cause, Outcome, Rejection, Sink, code};
use crate::tell;

/// How long a handler may take for one message, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long it may take until the transaction is back from a handler that was given up, and undone. A connection
/// that was left in the middle of a statement first has to get to its end.
const UNDO: Duration = Duration::from_secs(10);

/// How long the database may take to show that it is there, after a handler has failed.
const ASK: Duration = Duration::from_secs(5);

/// How long the note of a failure may take; it is not worth more.
const NOTE: Duration = Duration::from_secs(5);

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
    /// Whether it was said that notes cannot be written; once is enough.
    told: AtomicBool,
    cuts: Cuts,
}

/// Why a transaction failed as a whole.
enum Broken {
    /// The database cannot do it now, whatever the message: nothing is known of any.
    Outage(Cause),
    /// It has to do with what was done for one of the messages.
    ByMessage(Error),
    /// The id of one of the messages cannot be kept.
    ById(Error),
}

impl Broken {
    fn outage(error: &Error) -> Self {
        Self::Outage(Cause::new(code::UNREACHABLE, error.chain()))
    }
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        let by_setup = matches!(
            error.kind(),
            ErrorKind::Denied | ErrorKind::NotMigrated | ErrorKind::Mapping | ErrorKind::Config
        );
        if by_setup || error.is_temporary() { Self::outage(&error) } else { Self::ByMessage(error) }
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
        let (consumer, told) = (consumer.into(), AtomicBool::new(false));
        Self { inbox, consumer, function, timeout: TIMEOUT, told, cuts: Cuts::default() }
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
        let mut tx = begin.await.map_err(|error| Broken::outage(&error))?;
        let new = self.record(&mut tx, messages).await?;
        let mut outcomes: Vec<Outcome> = Vec::with_capacity(messages.len());
        let mut places = HashMap::with_capacity(messages.len());
        for (message, is_new) in messages.iter().zip(new) {
            if let Some(earlier) = places.insert(&message.id, outcomes.len()) {
                // A broker may hand out two copies at once: what became of one became of both.
                outcomes.push(outcomes[earlier].clone());
                continue;
            }
            if !is_new {
                tell::duplicate(&self.consumer, &message.id);
                outcomes.push(Outcome::Delivered);
                continue;
            }
            within(self.timeout, "setting a savepoint", self.inbox.mark(&mut tx)).await?;
            let (lent, returned) = Lent::new(tx);
            let Some(rejection) = self.handle(lent, message).await? else {
                // A handler that keeps the transaction elsewhere gives it back when that ends.
                tx = back(self.timeout, returned).await?;
                outcomes.push(Outcome::Delivered);
                continue;
            };
            let gave_up = rejection.cause.code == code::TIMEOUT;
            outcomes.push(Outcome::Rejected(rejection));
            if messages.len() == 1 {
                // Nothing else is in the transaction. Dropped it rolls back, also where an undo would hang.
                self.ask(message, returned, gave_up).await?;
                return Ok(outcomes);
            }
            tx = back(UNDO, returned).await?;
            let undo = self.inbox.undo(&mut tx, &self.consumer, &message.id);
            let undone = within(UNDO, "undoing what a handler did", undo).await;
            // A connection in the middle of a statement that was given up says nothing of the database. If that is
            // gone, the next transaction cannot be opened.
            let is_mute = |error: &Error| gave_up || error.kind() == ErrorKind::Timeout;
            undone.map_err(|error| if is_mute(&error) { Broken::ByMessage(error) } else { error.into() })?;
        }
        // A handler may have swallowed an error after which the database takes nothing more. PostgreSQL then answers
        // a commit with a rollback, and calls it a success; a savepoint it refuses.
        match (self.end(tx).await, messages) {
            (Ok(()), _) => Ok(outcomes),
            (Err(error), [only]) if error.is_temporary() => self.broke(only, &error).await,
            (Err(error), _) => Err(error.into()),
        }
    }

    async fn end(&self, mut tx: I::Tx) -> Result<()> {
        within(self.timeout, "setting a savepoint", self.inbox.mark(&mut tx)).await?;
        failpoint::pass("handler_before_commit");
        within(self.timeout, "committing", self.inbox.commit(tx)).await?;
        failpoint::pass("handler_after_commit");
        Ok(())
    }

    /// The connection broke under the only message of a transaction, after its handler had ended well.
    async fn broke(&self, message: &Message, error: &Error) -> Result<Vec<Outcome>, Broken> {
        Ok(vec![match self.blame(message, Some(error)).await? {
            // Only the answer to the commit got lost.
            true => Outcome::Delivered,
            false => Outcome::rejected(Cause::new(code::HANDLER, error.chain())),
        }])
    }

    /// Asks on another connection whether the database is there, and whether it knows the message. Where it is, a
    /// connection that broke under the message is an outage still, unless that happens to it time after time.
    async fn blame(&self, message: &Message, broke: Option<&Error>) -> Result<bool, Broken> {
        let ids = [&message.id];
        let known = self.inbox.known(&self.consumer, &ids);
        match (within(ASK, "asking what is handled", known).await, broke) {
            (Err(error), _) if error.is_temporary() => Err(Broken::outage(&error)),
            (Ok(known), _) if known.first() == Some(&true) => Ok(true),
            (_, Some(error)) if !self.cuts.is_by(&message.id) => Err(Broken::outage(error)),
            _ => Ok(false),
        }
    }

    /// Records the ids, each once; tells of each message whether it is new.
    async fn record(&self, tx: &mut I::Tx, messages: &[Message]) -> Result<Vec<bool>, Broken> {
        let ids: BTreeSet<_> = messages.iter().map(|message| &message.id).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let record = self.inbox.record(tx, &self.consumer, &ids);
        let new = within(self.timeout, "recording what is handled", record).await.map_err(|error| {
            if error.kind() == ErrorKind::Invalid { Broken::ById(error) } else { Broken::from(error) }
        })?;
        let is_new = |message: &Message| ids.binary_search(&&message.id).is_ok_and(|at| new[at]);
        Ok(messages.iter().map(is_new).collect())
    }

    /// Runs the function; tells why the message is rejected, if it is.
    async fn handle(&self, lent: Lent<I::Tx>, message: &Message) -> Result<Option<Rejection>, Broken> {
        // The call itself is in there too: a function may panic before it returns its future.
        let running = async { (self.function)(lent, message.clone()).await };
        let handled = tokio::time::timeout(self.timeout, AssertUnwindSafe(running).catch_unwind()).await;
        let again = |cause| Ok(Some(Rejection { cause, permanent: false, retry_after: None, defect: false }));
        match handled {
            Ok(Ok(Ok(()))) => Ok(None),
            Ok(Ok(Err(failure))) => failure.judge().map(Some).map_err(Broken::Outage),
            Ok(Err(panic)) => again(Cause::new(code::PANIC, panic_text(&*panic))),
            Err(_) => {
                let detail = format!("the handler was not through after {:?}", self.timeout);
                again(Cause::new(code::TIMEOUT, detail))
            }
        }
    }

    /// Whether the database was there when the handler failed: if not, it was no fault of the message.
    ///
    /// Its own connection is asked first: lost, it may be the very reason, and the next one would tell nothing of
    /// that. One that is still busy with what the handler has given up is left alone, and another is asked; so it is
    /// when a connection broke, because the message may be what breaks them.
    async fn ask(
        &self,
        message: &Message,
        returned: oneshot::Receiver<I::Tx>,
        gave_up: bool,
    ) -> Result<(), Broken> {
        let mut broke = None;
        if gave_up {
            drop(returned);
        } else if let Ok(Ok(mut tx)) = tokio::time::timeout(ASK, returned).await {
            match within(ASK, "looking whether the connection is there", self.inbox.mark(&mut tx)).await {
                Err(error) if error.kind() == ErrorKind::Timeout => {}
                Err(error) if error.is_temporary() => broke = Some(error),
                // An answer, also where a transaction that has failed takes no savepoint.
                _ => return Ok(()),
            }
        }
        self.blame(message, broke.as_ref()).await.map(drop)
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
                Err(Broken::ById(error)) => {
                    outcomes.push(Outcome::defect(Cause::new(code::UNFIT, error.chain())));
                }
                Err(Broken::Outage(cause)) => {
                    // The rest would meet the same.
                    outcomes.resize(messages.len(), Outcome::Unavailable(cause));
                    break;
                }
            }
        }
        outcomes
    }

    /// Together if that works, otherwise one by one.
    async fn handle_batch(&self, messages: &[Message]) -> Vec<Outcome> {
        if messages.len() < 2 {
            return self.handle_each(messages).await;
        }
        match self.handle_all(messages).await {
            Ok(outcomes) => outcomes,
            // The transaction is gone as a whole, so nothing is known of any message.
            Err(Broken::Outage(cause)) => vec![Outcome::Unavailable(cause); messages.len()],
            Err(Broken::ByMessage(error) | Broken::ById(error)) => {
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

    /// Notes what was rejected, after its transaction is through. It changes no outcome.
    async fn note(&self, messages: &[Message], outcomes: &[Outcome]) {
        let failed = |(message, outcome): (_, _)| note_of(message, outcome);
        let failures: Vec<Failed<'_>> = messages.iter().zip(outcomes).filter_map(failed).collect();
        if failures.is_empty() {
            return;
        }
        let note = self.inbox.note(&self.consumer, &failures);
        let Err(error) = within(NOTE, "noting a failure", note).await else { return };
        let (consumer, error) = (&self.consumer, error.chain());
        if self.told.swap(true, Ordering::Relaxed) {
            tracing::debug!(consumer, error, "a failure was not noted");
        } else {
            tracing::warn!(
                consumer,
                error,
                "failures cannot be noted, so the history of a message lacks them"
            );
        }
    }
}

fn note_of<'a>(message: &'a Message, outcome: &'a Outcome) -> Option<Failed<'a>> {
    let Outcome::Rejected(rejection) = outcome else { return None };
    let attempt = message.attempts.saturating_add(1);
    Some(Failed { id: &message.id, attempt, cause: &rejection.cause, dead: rejection.permanent })
}

#[async_trait]
impl<I, F, Fut> Sink for Handler<I, F>
where
    I: Inbox,
    F: Fn(Lent<I::Tx>, Message) -> Fut + Send + Sync,
    Fut: Future<Output = Result<(), Failure>> + Send,
{
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let outcomes = self.handle_batch(messages).await;
        self.note(messages, &outcomes).await;
        outcomes
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

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the handler panicked".to_owned())
}

#[cfg(test)]
#[path = "handler_tests.rs"]
mod tests;
