//! Dead letters at a broker, and what a person does about them: the contract of [`DeadLetters`].

#[cfg(any(feature = "rabbitmq", feature = "kafka"))]
mod work;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

#[cfg(any(feature = "rabbitmq", feature = "kafka"))]
pub(crate) use work::{Pacer, Wanted};

use crate::broker::Died;
use crate::error::Result;
use crate::message::{Message, MessageId};
use crate::sink::Cause;

/// A desk over the queue or topic of dead letters of one source.
///
/// - **Q1** `look` tells the oldest first, at most `most`, and whether there are more.
/// - **Q2** A look changes nothing: content, order and number are the same after it, however often one looks.
/// - **Q3** Every letter has an id, the same at every look, and tells what is written on it about its death.
/// - **Q4** A returned letter comes again where it died, as it was first sent, with no attempts spent, and bears who
///   returned it and when. It is no dead letter any more.
/// - **Q5** A discarded letter is gone, and comes nowhere.
/// - **Q6** What was not chosen stays, in its order.
/// - **Q7** Letters are returned in the order in which they lie, whatever the order in which they are asked for: so the
///   messages of a key keep theirs.
/// - **Q8** An id that is not there is told, and the others are dealt with.
/// - **Q9** What cannot be returned stays: a letter goes only after its return was confirmed. Whoever is cut off
///   half-way may have returned a letter and not yet removed it, so that it can come twice, never not at all.
/// - **Q10** With a pace no more go per second than it allows.
/// - **Q11** `retries` tells what waits for its retry, with its cause and when it is due, and changes nothing.
/// - **Q12** `depths` tells how much lies in each queue or topic of the source, and changes nothing. What is not there
///   has no depth.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// The queue or topic and the broker, for people.
    fn place(&self) -> &str;

    /// The oldest letters, at most so many.
    async fn look(&self, most: usize) -> Result<Looked>;

    /// Returns or discards letters. What was done before an error stays done; the deed was told of it.
    async fn act(&self, deed: &Deed<'_>) -> Result<Acted>;

    /// What waits for its retry at the broker, at most so many in each place of retries.
    async fn retries(&self, most: usize) -> Result<Vec<Waiting>>;

    /// How much lies where.
    async fn depths(&self) -> Result<Vec<Depth>>;
}

/// How much lies in a queue or topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Depth {
    /// The queue or topic.
    pub place: String,
    /// What it is for.
    pub role: Role,
    /// Messages that nobody has dealt with; in a queue without those that a consumer has at the moment.
    pub messages: u64,
    /// Consumers that read it; none if the broker does not tell.
    pub consumers: Option<u32>,
}

/// What a queue or topic is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// It is read.
    Work,
    /// Messages wait there for their retry.
    Retry,
    /// Dead letters.
    Dead,
}

impl Role {
    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Work => "work",
            Self::Retry => "retry",
            Self::Dead => "dead",
        }
    }
}

/// What a look has shown.
#[derive(Debug, Clone, Default)]
pub struct Looked {
    /// The letters, oldest first.
    pub letters: Vec<Letter>,
    /// There are more that were not looked at.
    pub more: bool,
}

/// A dead letter: a message, and what is written on it about its death.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// The message, with every header that it bears.
    pub message: Message,
    /// The queue or topic where it died, and where it is returned to; none if nobody knows.
    pub origin: Option<String>,
    /// Why it died.
    pub cause: Option<Cause>,
    /// Attempts that were spent on it; 0 if nobody counted.
    pub attempts: u32,
    /// When it first failed.
    pub first_failed_at: Option<Timestamp>,
    /// When it was given up.
    pub failed_at: Option<Timestamp>,
}

impl Letter {
    /// A message with what is known of its death.
    pub fn new(message: Message, died: Died) -> Self {
        let Died { origin, cause, attempts, first_at, at } = died;
        Self { message, origin, cause, attempts, first_failed_at: first_at, failed_at: at }
    }
}

/// A message that waits for its retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The message.
    pub message: Message,
    /// The queue or topic in which it waits.
    pub place: String,
    /// Attempts spent so far; 0 if it only waits for an earlier one of its key.
    pub attempts: u32,
    /// Why the last one failed.
    pub cause: Option<Cause>,
    /// When the last one failed.
    pub failed_at: Option<Timestamp>,
    /// When it is due again.
    pub due: Option<Timestamp>,
}

/// What to do with letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Back to where it died, to be handled again.
    Return,
    /// Gone for good.
    Discard,
}

/// A deed of a person.
pub struct Deed<'d> {
    /// The letters, by id. An id that stands here twice means two letters, if so many bear it.
    pub ids: &'d [MessageId],
    /// What to do with them.
    pub act: Act,
    /// Who does it.
    pub by: &'d str,
    /// How fast at most.
    pub pace: Option<Pace>,
    /// Is told how many are done, again and again.
    pub tell: &'d (dyn Fn(u64) + Send + Sync),
}

/// What became of a deed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acted {
    /// How many letters were dealt with.
    pub acted: u64,
    /// The ids that are not there, or not any more.
    pub missing: Vec<MessageId>,
}

/// At most one message per this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace(Duration);

impl Pace {
    /// So many per `time`; at least one.
    pub fn new(count: u32, time: Duration) -> Self {
        Self(time / count.max(1))
    }

    /// The time that each message has.
    pub fn each(self) -> Duration {
        self.0
    }
}
