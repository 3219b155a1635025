//! [`DeadQueue`]: the dead letters of a queue, as a person sees and repairs them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::time::{Instant, sleep_until};

use super::config::QueueKind;
use super::connection::{Establish, Link, Session, Way};
use super::declare::Declaring;
use super::error::{into_error, publish_fault};
use super::letter::{Known, Letter};
use super::moves::{self, Move};
use super::reading::{self, Reading};
use super::work_config::WorkQueueConfig;
use crate::broker::{Died, Read, Steps, retry_name};
use crate::error::{Error, ErrorKind, Result};
use crate::letters::{self, Act, Acted, DeadLetters, Deed, Depth, Looked, Pacer, Role, Waiting, Wanted};
use crate::message::header;
use crate::sink::Cause;

/// A look holds no more bytes of payload than this; the rest is told as more.
const LOOK_BYTES: usize = 64 * 1024 * 1024;

/// So many letters are sent and confirmed together.
const BATCH: usize = 100;

/// A broker takes away what was got and not acknowledged for long (30 minutes by default): letters that are not chosen, or
/// whose turn comes later than this, are put back in between.
const PASS: Duration = Duration::from_secs(5 * 60);

/// A quorum queue gives up what it has handed out too often (20 times by default since version 4, or what a policy
/// says), and looking is handing out. From so many times on the letters are put into the queue anew, which counts from
/// zero.
const OFTEN: u64 = 3;

/// The dead letters of a [`WorkQueue`](super::WorkQueue): the queue that its configuration names for them.
///
/// | | what happens |
/// | --- | --- |
/// | look | letters are got without being acknowledged, and then put back in their places |
/// | return | sent to the queue where it died, confirmed, then acknowledged |
/// | discard | acknowledged |
///
/// It declares nothing: a queue that is not there is an error of kind [`NotFound`](ErrorKind::NotFound). A letter that
/// does not say where it died goes to the work queue of the configuration.
///
/// A *quorum* queue does not put a letter back in its place, so there every look goes through all letters. And it counts
/// how often it has handed a message out, and drops it at its limit. So letters that were seen a few times are put into
/// the queue anew, all of them and in their order. A letter that arrives in that moment may
/// come to lie before older ones; and if we are cut off in the middle of a look, the order is the broker's choice.
///
/// While a letter is looked at nobody else gets it. A consumer of the dead letters may get those behind it first.
pub struct DeadQueue {
    link: Link,
    config: Arc<WorkQueueConfig>,
    /// Queue and broker, for people.
    place: String,
}

/// Connects as the work queue does, and makes nothing.
struct Visit(Arc<WorkQueueConfig>);

#[async_trait]
impl Establish for Visit {
    fn way(&self) -> Way<'_> {
        self.0.way()
    }

    async fn establish(&self, _: &mut Declaring<'_>) -> Result<(), Cause> {
        Ok(())
    }
}

impl DeadQueue {
    /// The dead letters of this work queue; connects when it is first used.
    ///
    /// A malformed URL or configuration is an error of kind [`Config`](ErrorKind::Config).
    pub fn new(url: &str, config: WorkQueueConfig) -> Result<Self> {
        config.check()?;
        let config = Arc::new(config);
        let link = Link::new(url, Arc::new(Visit(Arc::clone(&config))))?;
        let place = format!("queue '{}' at {}", config.dead, link.shown());
        Ok(Self { link, config, place })
    }

    fn failed(&self, error: &lapin::Error) -> Error {
        into_error(&publish_fault(&self.place, error).into_cause())
    }

    async fn session(&self) -> Result<Arc<Session>> {
        self.link.session().await.map_err(|cause| into_error(&cause))
    }

    async fn read<'s>(&self, session: &'s Session, queue: &'s str) -> Result<Reading<'s>> {
        let is_quorum = self.config.kind == QueueKind::Quorum;
        Reading::open(session, queue, is_quorum, self.config.timeout).await
    }

    /// Reads a message of `queue`, whatever its size.
    fn message(&self, letter: &Letter, queue: &str) -> Read {
        letter.read(queue, &self.config.picks, usize::MAX)
    }

    /// Where a letter died; if nobody says so, in the work queue.
    fn died(&self, read: &Read, letter: &Letter) -> Died {
        let mut died = Died::read(&read.message.headers).or(letter.death());
        let origin = died.origin.filter(|origin| *origin != self.config.dead);
        died.origin = Some(origin.unwrap_or_else(|| self.config.queue.clone()));
        died
    }

    async fn look_through(&self, reading: &mut Reading<'_>, most: usize) -> Result<Looked> {
        let mut letters = Vec::new();
        let mut bytes = 0;
        while letters.len() < most && bytes < LOOK_BYTES {
            let Some(letter) = reading.next().await? else { break };
            bytes += letter.payload.len();
            let read = self.message(&letter, &self.config.dead);
            let died = self.died(&read, &letter);
            letters.push(letters::Letter::new(read.message, died));
        }
        Ok(Looked { letters, more: reading.rest() > 0 })
    }

    /// Goes through the queue from its front and does the deed on what is wanted, for some time at most.
    async fn pass(&self, session: &Session, reading: &mut Reading<'_>, work: &mut Work<'_>) -> Result<Ended> {
        let end = Instant::now() + PASS;
        let mut batch: Vec<(Letter, Read)> = Vec::new();
        loop {
            let ended = if work.wanted.is_empty() {
                Some(Ended::Done)
            } else if Instant::now().max(work.pacer.due()) >= end {
                Some(Ended::Paused)
            } else {
                match reading.next().await? {
                    Some(letter) => {
                        let read = self.message(&letter, &self.config.dead);
                        if work.wanted.take(&read.message.id) {
                            batch.push((letter, read));
                        }
                        None
                    }
                    None => Some(Ended::Done),
                }
            };
            if ended.is_some() || batch.len() >= work.pacer.batch(BATCH) {
                self.settle(session, reading, work, std::mem::take(&mut batch)).await?;
            }
            if let Some(ended) = ended {
                return Ok(ended);
            }
        }
    }

    async fn settle(
        &self,
        session: &Session,
        reading: &mut Reading<'_>,
        work: &mut Work<'_>,
        batch: Vec<(Letter, Read)>,
    ) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        work.pacer.turn(batch.len()).await;
        let (done, error) = match work.deed.act {
            Act::Discard => ((0..batch.len()).collect(), None),
            Act::Return => {
                let moves: Vec<Move> =
                    batch.iter().enumerate().map(|(at, it)| self.way_back(at, it, work.deed.by)).collect();
                let deadline = Instant::now() + self.config.timeout;
                moves::send(session, &self.place, &moves, deadline).await
            }
        };
        let tags: Vec<u64> = done.iter().map(|at| batch[*at].0.tag).collect();
        reading.acknowledge(&tags).await?;
        work.acted += done.len() as u64;
        (work.deed.tell)(work.acted);
        error.map_or(Ok(()), Err)
    }

    fn way_back(&self, at: usize, (letter, read): &(Letter, Read), by: &str) -> Move {
        let origin = self.died(read, letter).origin.unwrap_or_else(|| self.config.queue.clone());
        let added = [
            (header::RETURNED_BY, by.chars().take(200).collect()),
            (header::RETURNED_AT, Timestamp::now().to_string()),
        ];
        let envelope = letter.returned(&origin, &Known::of(read), &added);
        Move { at, envelope, payload: letter.payload.clone() }
    }

    /// Puts every letter into the queue anew, in order, if its front was handed out often.
    async fn renew(&self, session: &Session, handed_out: u64) -> Result<()> {
        if handed_out < OFTEN {
            return Ok(());
        }
        let mut reading = self.read(session, &self.config.dead).await?;
        let mut left = reading.rest();
        while left > 0 {
            let mut batch = Vec::new();
            while batch.len() < BATCH && left > 0 {
                let Some(letter) = reading.next().await? else { break };
                left -= 1;
                batch.push(letter);
            }
            if batch.is_empty() {
                break;
            }
            let anew = |(at, letter): (usize, &Letter)| {
                let envelope = letter.anew(&self.config.dead);
                Move { at, envelope, payload: letter.payload.clone() }
            };
            let moves: Vec<Move> = batch.iter().enumerate().map(anew).collect();
            let deadline = Instant::now() + self.config.timeout;
            let (done, error) = moves::send(session, &self.place, &moves, deadline).await;
            let tags: Vec<u64> = done.iter().map(|at| batch[*at].tag).collect();
            reading.acknowledge(&tags).await?;
            if let Some(error) = error {
                reading.close().await?;
                return Err(error);
            }
        }
        reading.close().await
    }

    async fn waiting_in(&self, session: &Session, queue: &str, most: usize) -> Result<Vec<Waiting>> {
        let mut reading = match self.read(session, queue).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            reading => reading?,
        };
        let mut waiting = Vec::new();
        let mut bytes = 0;
        while waiting.len() < most && bytes < LOOK_BYTES {
            let Some(letter) = reading.next().await? else { break };
            bytes += letter.payload.len();
            let Read { message, tracks, .. } = self.message(&letter, &self.config.queue);
            waiting.push(Waiting {
                message,
                place: queue.to_owned(),
                attempts: tracks.attempts,
                cause: tracks.cause,
                failed_at: tracks.at,
                due: tracks.due,
            });
        }
        reading.close().await?;
        Ok(waiting)
    }
}

/// A deed under way.
struct Work<'w> {
    deed: &'w Deed<'w>,
    wanted: Wanted,
    pacer: Pacer,
    acted: u64,
}

/// How a pass ended.
#[derive(PartialEq, Eq)]
enum Ended {
    /// All was found, or all was looked at.
    Done,
    /// Time for others to get at what lies there, or for the next to be due.
    Paused,
}

#[async_trait]
impl DeadLetters for DeadQueue {
    fn place(&self) -> &str {
        &self.place
    }

    async fn look(&self, most: usize) -> Result<Looked> {
        let session = self.session().await?;
        let mut reading = self.read(&session, &self.config.dead).await?;
        let looked = self.look_through(&mut reading, most).await;
        let handed_out = reading.handed_out();
        reading.close().await?;
        let looked = looked?;
        self.renew(&session, handed_out).await?;
        Ok(looked)
    }

    async fn act(&self, deed: &Deed<'_>) -> Result<Acted> {
        let mut work = Work { deed, wanted: Wanted::new(deed.ids), pacer: Pacer::new(deed.pace), acted: 0 };
        loop {
            // Nothing is held meanwhile, and a connection may not outlive a long wait.
            sleep_until(work.pacer.due()).await;
            let session = self.session().await?;
            let mut reading = self.read(&session, &self.config.dead).await?;
            let ended = self.pass(&session, &mut reading, &mut work).await;
            let handed_out = reading.handed_out();
            let closed = reading.close().await;
            let ended = ended?;
            closed?;
            self.renew(&session, handed_out).await?;
            if ended == Ended::Done {
                return Ok(Acted { acted: work.acted, missing: work.wanted.missing() });
            }
        }
    }

    async fn retries(&self, most: usize) -> Result<Vec<Waiting>> {
        let session = self.session().await?;
        let mut waiting = Vec::new();
        for step in Steps::new(&self.config.retry).all() {
            let queue = retry_name(&self.config.queue, *step);
            waiting.extend(self.waiting_in(&session, &queue, most).await?);
        }
        Ok(waiting)
    }

    async fn depths(&self) -> Result<Vec<Depth>> {
        let session = self.session().await?;
        let retries = Steps::new(&self.config.retry);
        let retries = retries.all().iter().map(|step| (retry_name(&self.config.queue, *step), Role::Retry));
        let mut places = vec![(self.config.queue.clone(), Role::Work)];
        places.extend(retries);
        places.push((self.config.dead.clone(), Role::Dead));
        let mut depths = Vec::new();
        for (place, role) in places {
            // A queue that is not there costs the channel.
            let channel = session.open().await.map_err(|error| self.failed(&error))?;
            match reading::count(&channel, &place, self.config.timeout).await {
                Ok((messages, consumers)) => {
                    depths.push(Depth { place, role, messages: messages.into(), consumers: Some(consumers) });
                    channel.close(200, "done".into()).await.map_err(|error| self.failed(&error))?;
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(depths)
    }
}

impl fmt::Debug for DeadQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeadQueue({})", self.place)
    }
}
