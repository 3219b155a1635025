//! [`Once`]: an inbox in front of any sink, for effects that are not in the inbox's database.

mod busy;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::error::{Error, ErrorKind, Result};
use crate::inbox::{Failed, Inbox, within};
use crate::message::{Message, MessageId};
use crate::sink::{Cause, Outcome, Sink, code};
use crate::tell;
use busy::Busy;

/// How long the database may take for one answer, unless told otherwise.
const TIMEOUT: Duration = Duration::from_secs(10);

/// So many ids are remembered at most that were delivered and could not be recorded. The pipe stops at the first, so there
/// are as many as were in flight.
const MOST_OWED: usize = 100_000;

/// A sink that passes on only what its consumer has not had yet: for an endpoint, an e-mail, a figure.
///
/// An effect outside of the database cannot be in one transaction with the inbox. So the ids are asked for first, what
/// is new is delivered, and what was delivered is recorded after that, the ids of a call in one transaction.
///
/// | what happens | outcome |
/// | --- | --- |
/// | the id is known | delivered, without a call of the sink |
/// | the database cannot be asked | unavailable, and nothing is delivered |
/// | the sink delivers it, and the id is recorded | delivered |
/// | the sink delivers it, and the id cannot be recorded | unavailable: it comes again, and is recorded without a call |
/// | the sink rejects it, or is unavailable | as the sink says, and the id is not recorded |
///
/// What it promises: a message that was called delivered is not delivered again while the inbox knows it. A message is
/// delivered more than once only if it was on its way, that is in a call of `deliver` that had not returned, when the
/// process died, the database went away, or the receiver took it and its answer was lost. Then it comes again with the
/// same id, by which the receiver can tell. To have fewer on their way at a time, make the batches of the pipe smaller.
///
/// Rejections are noted for people who ask later. An id that is twice in a call is delivered once; one that is in another
/// call waits for that one's end. [`Handler`](crate::Handler) is for effects in the inbox's own database: there each takes
/// place once, whatever happens.
pub struct Once<I, S> {
    inbox: Arc<I>,
    consumer: String,
    sink: S,
    timeout: Duration,
    busy: Busy,
    /// Delivered, and not recorded yet: they are not delivered again, however long the inbox takes nothing.
    owed: Mutex<HashSet<MessageId>>,
}

impl<I: Inbox, S: Sink> Once<I, S> {
    /// Delivers as `consumer`, whose ids are kept apart from those of other consumers.
    pub fn new(inbox: Arc<I>, consumer: impl Into<String>, sink: S) -> Self {
        Self {
            inbox,
            consumer: consumer.into(),
            sink,
            timeout: TIMEOUT,
            busy: Busy::default(),
            owed: Mutex::default(),
        }
    }

    /// Sets how long the database may take for one answer (10 s). The time of the sink is its own.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Which ids are known; changes nothing.
    async fn known(&self, ids: &[&MessageId]) -> Result<Vec<bool>> {
        let asked = self.inbox.known(&self.consumer, ids);
        within(self.timeout, "asking what is handled already", asked).await
    }

    /// Records what was delivered, in one transaction.
    async fn record(&self, ids: &[&MessageId]) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let recorded = async {
            let mut tx = self.inbox.begin().await?;
            // That somebody else has recorded one meanwhile changes nothing.
            self.inbox.record(&mut tx, &self.consumer, ids).await?;
            self.inbox.commit(tx).await
        };
        within(self.timeout, "recording what was delivered", recorded).await
    }

    /// Records what was delivered, one by one if an id among them cannot be kept: that one came through, and will not
    /// be told from its repetition. To deliver it again and again would not help it.
    async fn record_all(&self, ids: &[&MessageId]) -> Result<()> {
        match self.record(ids).await {
            Err(error) if error.kind() == ErrorKind::Invalid => {}
            other => return other,
        }
        for id in ids {
            match self.record(&[id]).await {
                Err(error) if error.kind() == ErrorKind::Invalid => {
                    let error = error.chain();
                    tracing::warn!(%id, consumer = self.consumer, error, "delivered, but its id cannot be kept");
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Notes what was rejected, for people who ask later; a note that cannot be written harms nobody.
    async fn note(&self, messages: &[&Message], outcomes: &[Outcome]) {
        let rejected = messages.iter().zip(outcomes).filter_map(|(message, outcome)| match outcome {
            Outcome::Rejected(rejection) => Some(Failed {
                id: &message.id,
                attempt: message.attempts.saturating_add(1),
                cause: &rejection.cause,
                dead: rejection.permanent,
            }),
            Outcome::Delivered | Outcome::Unavailable(_) => None,
        });
        let rejected: Vec<_> = rejected.collect();
        if rejected.is_empty() {
            return;
        }
        let noted = self.inbox.note(&self.consumer, &rejected);
        if let Err(error) = within(self.timeout, "noting what was rejected", noted).await {
            tracing::debug!(
                consumer = self.consumer,
                error = error.chain(),
                "could not note what was rejected"
            );
        }
    }

    fn owed(&self) -> MutexGuard<'_, HashSet<MessageId>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Delivers messages whose ids are distinct.
    async fn deliver_distinct(&self, messages: &[&Message]) -> Vec<Outcome> {
        let ids: Vec<_> = messages.iter().map(|message| &message.id).collect();
        let _taken = self.busy.take(&ids).await;
        let known = match self.known(&ids).await {
            Ok(known) => known,
            Err(error) => return unavailable(&error, messages.len()),
        };
        let (mut outcomes, mut new, mut parcel) = (Vec::new(), Vec::new(), Vec::new());
        let mut owed = Vec::new();
        for (at, (message, is_known)) in messages.iter().zip(known).enumerate() {
            if is_known {
                tell::duplicate(&self.consumer, &message.id);
                outcomes.push(Outcome::Delivered);
                continue;
            }
            if self.owed().contains(&message.id) {
                outcomes.push(Outcome::Delivered);
                owed.push(at);
                continue;
            }
            // Until the sink says otherwise: it may not say anything of some, against its contract.
            outcomes.push(Outcome::Unavailable(Cause::new(code::UNREACHABLE, "the sink told nothing of it")));
            new.push(at);
            parcel.push((*message).clone());
        }
        if !parcel.is_empty() {
            for (at, outcome) in new.iter().zip(self.sink.deliver(&parcel).await) {
                outcomes[*at] = outcome;
            }
        }
        self.note(messages, &outcomes).await;
        new.retain(|at| outcomes[*at] == Outcome::Delivered);
        new.extend(owed);
        let delivered: Vec<_> = new.iter().map(|at| ids[*at]).collect();
        match self.record_all(&delivered).await {
            Ok(()) => self.owed().retain(|id| !delivered.contains(&id)),
            Err(error) => {
                let why = format!("delivered, but not noted, so it will come again: {}", error.chain());
                let mut owed = self.owed();
                for at in new {
                    outcomes[at] = Outcome::Unavailable(Cause::new(code::UNREACHABLE, &why));
                    if owed.len() < MOST_OWED {
                        owed.insert(ids[at].clone());
                    }
                }
            }
        }
        outcomes
    }
}

#[async_trait]
impl<I: Inbox, S: Sink> Sink for Once<I, S> {
    async fn deliver(&self, messages: &[Message]) -> Vec<Outcome> {
        let (mut distinct, mut first) = (Vec::with_capacity(messages.len()), HashMap::new());
        for message in messages {
            first.entry(&message.id).or_insert_with(|| {
                distinct.push(message);
                distinct.len() - 1
            });
        }
        if distinct.is_empty() {
            return Vec::new();
        }
        let outcomes = self.deliver_distinct(&distinct).await;
        messages.iter().map(|message| outcomes[first[&message.id]].clone()).collect()
    }

    fn takes_defects(&self) -> bool {
        self.sink.takes_defects()
    }
}

impl<I, S: fmt::Debug> fmt::Debug for Once<I, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Once({} of {:?})", self.consumer, self.sink)
    }
}

fn unavailable(error: &Error, count: usize) -> Vec<Outcome> {
    vec![Outcome::Unavailable(Cause::new(code::UNREACHABLE, error.chain())); count]
}
