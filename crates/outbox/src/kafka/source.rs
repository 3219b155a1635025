//! [`Group`], the source: claims what was read ahead, moves what is not done, and commits what is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rdkafka::config::ClientConfig;
use rdkafka::error::RDKafkaErrorCode;
use tokio::time::timeout;

use super::begin;
use super::brokers::Brokers;
use super::catalog::Catalog;
use super::error::{fault, into_error, setup_words, words};
use super::group_config::GroupConfig;
use super::moves::plan;
use super::publisher::Publisher;
use super::reader::{Reader, Shared};
use super::settings;
use super::shelf::Now;
use super::stock::{Handed, Room};
use super::token::Token;
use super::topics::{Counts, Topics};
use crate::error::{Error, ErrorKind, Result};
use crate::policy::Verdict;
use crate::sink::{Cause, code};
use crate::source::{Claim, Source, Start};

/// How long a cluster that gave trouble is asked whether it is well.
const ASK: Duration = Duration::from_secs(2);

/// How long leaving the group may take.
const LEAVE: Duration = Duration::from_secs(4);

/// Topics of Kafka, read by a consumer group: each partition by one member at a time.
///
/// The offset of a partition is committed once its messages are settled, and never past one that is not done. A message
/// that is to be tried again goes to a retry topic (`<topic>.<group>.retry.<delay>`), one that is dead to the dead letters
/// (`<topic>.<group>.dlq`); the brokers have confirmed the copy before the offset advances. The copy has the key, the payload
/// and the headers of the record, and tells in further headers what happened ([`header`](crate::header), `RETRY_*` and
/// `ERROR_*`).
///
/// | verdict | with retry topics | without |
/// | --- | --- | --- |
/// | done | the offset advances | the offset advances |
/// | retry | to the retry topic of its delay, the offset advances | waits in memory, and the offset with it |
/// | behind | to the retry topic in which the first of its key waits | waits in memory |
/// | dead | to the dead letters, its key goes on | to the dead letters |
/// | released | comes again, nothing is written | comes again |
///
/// Messages of a key keep their order within a partition, also through retries: while one waits, those after it follow
/// it to the retry topic. The partitions of one number in a topic and in its retry topics belong to one member. Where
/// partitions change hands, messages that were handed out and not settled are handled again by whoever gets them, which
/// an inbox notices.
///
/// The key of a message is that of the record, unless it is told otherwise; one that is no UTF-8 is `hex:` and its bytes.
/// A record without a value, a tombstone, is a message with an empty payload.
///
/// A thread polls whatever the handlers do, so a slow handler does not cost the membership. Brokers that are away are
/// waited for.
pub struct Group {
    pub(super) config: GroupConfig,
    pub(super) catalog: Arc<Catalog>,
    member: ClientConfig,
    pub(super) admin: ClientConfig,
    pub(super) publisher: Publisher,
    /// The cluster, for every error.
    pub(super) place: String,
    reader: tokio::sync::Mutex<Option<Arc<Reader>>>,
    /// One settle at a time: what may be committed depends on the one before.
    pub(super) settling: tokio::sync::Mutex<()>,
    /// Messages that are sent round again, until that is done.
    pub(super) round: tokio::sync::Mutex<Option<Token>>,
    counts: Mutex<Counts>,
    /// How often a reader was opened: a claim of an earlier one is lost.
    pub(super) life: AtomicU64,
    /// A claim was lost since the last close.
    lost: AtomicBool,
}

impl Group {
    /// A member at these brokers, which are a URL as [`Brokers::parse`] reads it: one that is not there is no error here.
    /// It joins the group with its first claim.
    ///
    /// A malformed URL or configuration is an error of kind [`Config`](ErrorKind::Config).
    pub fn new(brokers: &str, config: GroupConfig) -> Result<Self> {
        config.check()?;
        let brokers = Brokers::parse(brokers)?;
        let place = brokers.to_string();
        let mover = settings::mover(&brokers, &config)?;
        Ok(Self {
            catalog: Arc::new(Catalog::new(&config)),
            member: settings::member(&brokers, &config)?,
            admin: settings::admin(&brokers, &config)?,
            publisher: Publisher::new(mover, place.clone(), config.timeout)?,
            place,
            reader: tokio::sync::Mutex::default(),
            settling: tokio::sync::Mutex::default(),
            round: tokio::sync::Mutex::default(),
            counts: Mutex::default(),
            life: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            config,
        })
    }

    /// Connects now, and looks whether all topics are there; those that may be made are.
    pub async fn check(&self) -> Result<()> {
        let topics = Topics::new(&self.admin, &self.publisher, &self.config, &self.catalog, &self.place)?;
        *self.counts() = topics.establish().await?;
        Ok(())
    }

    /// How long each topic that is read keeps its records; none keeps them without end. A group whose offsets have
    /// expired reads all of that again.
    pub async fn retentions(&self) -> Result<BTreeMap<String, Option<Duration>>> {
        let topics = Topics::new(&self.admin, &self.publisher, &self.config, &self.catalog, &self.place)?;
        let mut retentions = BTreeMap::new();
        for work in &self.catalog.works {
            retentions.insert(work.name.clone(), topics.retention(&work.name).await?);
        }
        Ok(retentions)
    }

    pub(super) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reader, which is opened if there is none.
    async fn reader(&self) -> Result<Arc<Reader>> {
        let mut slot = self.reader.lock().await;
        if let Some(reader) = &*slot {
            return Ok(Arc::clone(reader));
        }
        self.check().await?;
        if self.config.start == Start::Now {
            self.begin_now().await?;
        }
        let room = Room { messages: self.config.buffer, bytes: self.config.buffer_bytes };
        // A question in the middle of a rebalance must not take so long that we are given up.
        let limit = (self.config.timeout / 2).min(self.config.session_timeout / 3);
        let picks = self.config.picks.clone();
        let shared = Shared::new(Arc::clone(&self.catalog), picks, self.config.max_payload, room, limit);
        let reader = Reader::open(&self.member, shared).map_err(|error| {
            let what = format!("the Kafka client cannot be set up: {}", setup_words(&error));
            Error::new(ErrorKind::Config, what)
        })?;
        self.life.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::clone(slot.insert(Arc::new(reader))))
    }

    /// Sees to it that the group has offsets before it has members.
    async fn begin_now(&self) -> Result<()> {
        let counts = self.counts().clone();
        let begun = begin::now(&self.member, &self.catalog, &counts, self.config.timeout).await;
        match begun.map_err(|error| self.failed("where the group begins", error))? {
            true => Ok(()),
            false => {
                let (group, place) = (&self.config.group, &self.place);
                let what = format!(
                    "group '{group}' at {place}: it can begin now only while it has no members, and some read other \
                     topics; give the group a name of its own, or let it begin at the beginning"
                );
                Err(Error::new(ErrorKind::Busy, what))
            }
        }
    }

    /// Nothing has come: whether that is for a reason that should be told.
    async fn examine(&self, reader: &Reader) -> Result<()> {
        let fatal = *reader.shared.fatal.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = fatal {
            // The next claim has another reader.
            self.reader.lock().await.take();
            return Err(self.failed("reading", error));
        }
        if reader.shared.look.swap(false, Ordering::Relaxed)
            && let Err(error) = self.check().await
        {
            reader.shared.look.store(true, Ordering::Relaxed);
            return Err(error);
        }
        match reader.trouble(ASK.min(self.config.timeout)).await {
            Some((error, reason)) => {
                let kind = into_error(&Cause::new(fault(error).code, "")).kind();
                Err(Error::new(kind, format!("{}: {reason}", self.place)))
            }
            None => Ok(()),
        }
    }

    pub(super) fn lost(&self) -> Error {
        let what = format!("partitions of group '{}' have gone to another member", self.config.group);
        Error::new(ErrorKind::Lost, what)
    }

    /// An error about the group as a whole.
    pub(super) fn failed(&self, doing: &str, error: RDKafkaErrorCode) -> Error {
        use RDKafkaErrorCode as E;
        let group = &self.config.group;
        let (kind, said) = match error {
            E::GroupAuthorizationFailed | E::TopicAuthorizationFailed => (
                ErrorKind::Denied,
                format!("the user may not use the group '{group}', or its topics; grant it"),
            ),
            E::InvalidSessionTimeout => {
                let what = "the brokers do not take this session time-out; see group.min.session.timeout.ms";
                (ErrorKind::Config, what.to_owned())
            }
            E::InvalidGroupId | E::InconsistentGroupProtocol => (
                ErrorKind::Config,
                format!(
                    "the group '{group}' has members of another kind; choose another name ({})",
                    words(error)
                ),
            ),
            // A rebalance is going on, or the coordinator is elsewhere: it is tried again.
            E::IllegalGeneration | E::UnknownMemberId | E::RebalanceInProgress | E::WaitingForCoordinator => {
                (ErrorKind::Busy, words(error))
            }
            _ => match fault(error).code {
                code::FORBIDDEN => (ErrorKind::Denied, words(error)),
                code::TIMEOUT => (ErrorKind::Timeout, words(error)),
                code::UNREACHABLE => (ErrorKind::Unreachable, words(error)),
                _ => (ErrorKind::Busy, words(error)),
            },
        };
        Error::new(kind, format!("{doing}, group '{group}' at {}: {said}", self.place))
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group({} of {} at {})", self.config.group, self.config.topics.join(", "), self.place)
    }
}

#[async_trait]
impl Source for Group {
    async fn claim(&self, limit: usize) -> Result<Claim> {
        let reader = self.reader().await?;
        self.go_round(&reader).await?;
        let handed = reader.shared.stock().take(limit, Now::get());
        let Some(Handed { number, items, held, set_aside }) = handed else {
            self.examine(&reader).await?;
            return Ok(Claim::empty());
        };
        let mut messages = Vec::with_capacity(items.len());
        let mut defects = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let mut message = item.entry.message.clone();
            message.attempts = item.attempts;
            messages.push(message);
            defects.extend(item.entry.defect.clone().map(|cause| (at, cause)));
        }
        let token = Token::new(self.life.load(Ordering::Relaxed), number, items);
        let claim = Claim::new(messages, token).with_held(held).with_defects(defects);
        Ok(if set_aside { claim.of_set_aside() } else { claim })
    }

    async fn settle(&self, claim: &Claim, verdicts: &[Verdict]) -> Result<()> {
        let token: &Token = claim.token()?;
        if verdicts.len() != token.items.len() {
            return Err(Error::new(
                ErrorKind::Unexpected,
                "a claim was settled with too few verdicts, or too many",
            ));
        }
        let _one = self.settling.lock().await;
        if token.progress().settled {
            return Ok(());
        }
        let reader = self.reader.lock().await.clone();
        let reader = reader.filter(|_| token.life == self.life.load(Ordering::Relaxed));
        let settled = match reader {
            None => Err(self.lost()),
            Some(reader) => {
                let now = Now::get();
                let steps = {
                    let mut stock = reader.shared.stock();
                    plan(&self.catalog, &token.items, verdicts, |place, key| stock.lane(place).step(key), now)
                };
                self.carry_out(&reader, token, &steps, now).await
            }
        };
        if settled.as_ref().is_err_and(|error| error.kind() == ErrorKind::Lost) {
            self.lost.store(true, Ordering::Relaxed);
        }
        settled
    }

    async fn wait(&self, idle: Duration) {
        let reader = self.reader.lock().await.clone();
        let Some(reader) = reader else { return tokio::time::sleep(idle).await };
        let arrived = reader.shared.arrived.notified();
        let known = reader.shared.stock().wait(Now::get());
        if known.is_some_and(|wait| wait.is_zero()) {
            return;
        }
        let _ = timeout(known.map_or(idle, |wait| wait.min(idle)), arrived).await;
    }

    /// Leaves the group. After a claim was lost, only what is handed out is taken back: whoever leaves makes all others
    /// begin anew, and they would do the same.
    async fn close(&self) -> Result<()> {
        let mut slot = self.reader.lock().await;
        if self.lost.swap(false, Ordering::Relaxed)
            && let Some(reader) = &*slot
        {
            reader.shared.stock().take_back_all(Now::get());
            return Ok(());
        }
        let Some(reader) = slot.take() else { return Ok(()) };
        match reader.close(LEAVE).await {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Timeout,
                format!(
                    "group '{}' at {}: leaving takes long; it is left all the same",
                    self.config.group, self.place
                ),
            )),
        }
    }
}
