//! Where messages wait: the contract of a [`Source`].

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, header};
use crate::policy::Verdict;
use crate::sink::Cause;

/// Where messages wait until a pipe takes them.
///
/// The clauses below are the contract. Each has a conformance function that bears its number
/// (`conformance::source`), to be run against every backend.
///
/// - **S1** A message is claimed once the transaction that wrote it has committed, and never if it was
///   rolled back. However late it commits, it is not passed over.
/// - **S2** A claimed message is not handed out again before its claim is settled or lost.
/// - **S3** A message settled as done does not come again.
/// - **S4** A message settled as retry comes again when its delay is over, not before, with the attempts and
///   without any other change. A claim of messages that were set aside says so ([`Claim::of_set_aside`]).
/// - **S5** A message settled as dead does not come again until a person asks for it. If it holds its key,
///   later messages of the key are flagged as held ([`Claim::is_held`]), or do not come at all until it is
///   free; otherwise they come, and are not flagged. A queue or topic of a broker cannot hold a key: there it goes on.
/// - **S6** A message settled as behind comes again, in order, after the earlier ones of its key are done;
///   until then later messages of the key are flagged as held, or do not come at all.
/// - **S7** A message settled as released comes again at once, with its attempts unchanged and before later
///   messages of its key. If the pipe keeps no order ([`Claim::is_ordered`]), it does not wait for an earlier one.
/// - **S8** Messages of one key come in the order in which they were written.
/// - **S9** A settle is written as a whole or not at all, and repeating it (because its outcome was unknown)
///   changes nothing more.
/// - **S10** A claim that was lost cannot be settled: [`ErrorKind::Lost`], and nothing changes.
/// - **S11** After [`close`](Source::close), another may claim at once whatever was not settled.
/// - **S12** [`claim`](Source::claim) never waits for a message, and [`wait`](Source::wait) returns after
///   `idle` at the latest.
/// - **S13** Id, type, key, payload bytes, content type, headers and time arrive as they were written.
///
/// The caller settles claims in the order in which it made them, and may have several open at a time.
#[async_trait]
pub trait Source: Send + Sync {
    /// Up to `limit` due messages, ours until settled; empty when nothing is due or another owns the source.
    async fn claim(&self, limit: usize) -> Result<Claim>;

    /// Writes down what became of every message of the claim, all or nothing; one verdict per message.
    ///
    /// The claim is borrowed, so that a settle whose outcome is unknown can be repeated (S9).
    async fn settle(&self, claim: &Claim, verdicts: &[Verdict]) -> Result<()>;

    /// Returns when there may be work, at the latest after `idle`.
    async fn wait(&self, idle: Duration) {
        tokio::time::sleep(idle).await;
    }

    /// Gives back whatever is held, so that another can go on at once.
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl<S: Source + ?Sized> Source for Arc<S> {
    async fn claim(&self, limit: usize) -> Result<Claim> {
        (**self).claim(limit).await
    }
    async fn settle(&self, claim: &Claim, verdicts: &[Verdict]) -> Result<()> {
        (**self).settle(claim, verdicts).await
    }
    async fn wait(&self, idle: Duration) {
        (**self).wait(idle).await;
    }
    async fn close(&self) -> Result<()> {
        (**self).close().await
    }
}

/// Where a cursor begins that does not exist yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// At the oldest message that is kept.
    #[default]
    Beginning,
    /// After what is committed now.
    Now,
}

/// Messages that are ours until settled.
pub struct Claim {
    /// The messages; those of one key in their order. The pipe moves them out to deliver them.
    pub messages: Vec<Message>,
    held: Vec<bool>,
    defects: Vec<(usize, Cause)>,
    set_aside: bool,
    skipped: usize,
    ordered: bool,
    lease: Option<Lease>,
    token: Box<dyn Any + Send + Sync>,
}

impl Claim {
    /// A claim; `token` is whatever the source needs to settle it.
    pub fn new(messages: Vec<Message>, token: impl Any + Send + Sync) -> Self {
        Self {
            messages,
            held: Vec::new(),
            defects: Vec::new(),
            set_aside: false,
            skipped: 0,
            ordered: true,
            lease: None,
            token: Box::new(token),
        }
    }

    /// Nothing is due.
    pub fn empty() -> Self {
        Self::new(Vec::new(), ())
    }

    /// Flags messages of which an earlier one of the same key is set aside; one flag per message.
    #[must_use]
    pub fn with_held(mut self, held: Vec<bool>) -> Self {
        debug_assert!(held.is_empty() || held.len() == self.messages.len());
        self.held = held;
        self
    }

    /// Tells which messages cannot be handled by anybody, and why: they are dead without an attempt, unless the sink
    /// takes them as they are ([`Sink::takes_defects`](crate::Sink::takes_defects)).
    #[must_use]
    pub fn with_defects(mut self, defects: Vec<(usize, Cause)>) -> Self {
        self.defects = defects;
        self
    }

    /// Says that these messages were set aside before, and are the first of their keys that are not done.
    #[must_use]
    pub fn of_set_aside(mut self) -> Self {
        self.set_aside = true;
        self
    }

    /// Tells how many more the source took care of by itself while claiming, because they were handled before.
    ///
    /// They are not among the messages and get no verdict. A claim without messages is not settled, so what it
    /// skipped must be written down already.
    #[must_use]
    pub fn with_skipped(mut self, skipped: usize) -> Self {
        self.skipped = skipped;
        self
    }

    /// Says that the messages of a key do not wait for each other.
    pub(crate) fn give_up_order(&mut self) {
        self.ordered = false;
    }

    /// Bounds the claim in time: past the lease it may be somebody else's, and must not be delivered.
    #[must_use]
    pub fn with_lease(mut self, lease: Lease) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Whether an earlier message of the same key was set aside before and is not done.
    pub fn is_held(&self, index: usize) -> bool {
        self.held.get(index).copied().unwrap_or(false)
    }

    /// Which messages cannot be handled, and why.
    pub fn defects(&self) -> &[(usize, Cause)] {
        &self.defects
    }

    /// Lets messages with a defect pass, each with what is wrong with it in a header.
    pub(crate) fn let_defects_pass(&mut self) {
        for (index, cause) in self.defects.drain(..) {
            if let Some(message) = self.messages.get_mut(index) {
                message.headers.insert(header::ERROR_DEFECT.to_owned(), cause.to_string());
            }
        }
    }

    /// Whether these messages were set aside before: nothing of their keys can be earlier.
    pub fn is_set_aside(&self) -> bool {
        self.set_aside
    }

    /// How many more the source took care of by itself, because they were handled before.
    pub fn skipped(&self) -> usize {
        self.skipped
    }

    /// Whether messages of a key wait for each other, as the pipe that claimed them has it.
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Until when it is ours, where somebody else may have it after that.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// When the claim may become somebody else's, as far as is known now.
    pub fn expires_at(&self) -> Option<Instant> {
        self.lease().map(Lease::expires_at)
    }

    /// Whether the claim may have become somebody else's.
    pub fn is_expired(&self) -> bool {
        self.lease().is_some_and(Lease::is_expired)
    }

    /// What the source put in, to be asked for by the source that made the claim.
    pub fn token<T: Any>(&self) -> Result<&T> {
        self.token.downcast_ref().ok_or_else(|| {
            Error::new(ErrorKind::Unexpected, "a claim was settled with a source that did not make it")
        })
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("messages", &self.messages.len()).finish_non_exhaustive()
    }
}

/// Until when something is ours, on this process's own monotonic clock.
///
/// The owner extends it as it renews; whoever holds a copy sees the new end. A process that was paused
/// finds it in the past when it goes on, whatever the other clocks say.
#[derive(Debug, Clone)]
pub struct Lease(Arc<watch::Sender<Instant>>);

impl Lease {
    /// A lease that ends at `end`.
    pub fn until(end: Instant) -> Self {
        Self(Arc::new(watch::Sender::new(end)))
    }

    /// Moves the end.
    pub fn extend(&self, end: Instant) {
        self.0.send_replace(end);
    }

    pub(crate) fn expires_at(&self) -> Instant {
        *self.0.borrow()
    }

    /// Whether the end has passed.
    pub fn is_expired(&self) -> bool {
        Instant::now() >= self.expires_at()
    }
}
