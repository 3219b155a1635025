//! The member of the group: it polls, on a thread of its own, whatever the handlers do, and follows the rebalances.
//!
//! Rebalances are eager: all partitions are taken from all members, and handed out anew. What was read of a partition
//! stays until it is known who gets it: it mostly comes back, and then nothing is read or handled twice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::client::ClientContext;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::{Notify, oneshot, watch};

use super::catalog::{Catalog, Place};
use super::error::code_of;
use super::record::Record;
use super::session::Ear;
use super::shelf::{Entry, Now};
use super::stock::{Fetch, Room, Stock};
use super::thread::on_thread;
use crate::broker::Picks;

/// How long a poll waits when nothing comes.
const POLL: Duration = Duration::from_millis(100);

/// The same while partitions are not fetched for lack of room, which is looked for as often.
const POLL_PAUSED: Duration = Duration::from_millis(5);

/// How long whoever still commits is waited for before the group is left.
const LAST_COMMIT: Duration = Duration::from_secs(3);

/// What the thread that polls and those who claim share.
pub(super) struct Shared {
    catalog: Arc<Catalog>,
    picks: Picks,
    max_payload: usize,
    timeout: Duration,
    stock: Mutex<Stock>,
    /// Told when something has come.
    pub(super) arrived: Notify,
    /// Counts the changes of what is ours.
    pub(super) changes: watch::Sender<u64>,
    /// A topic gave trouble: it is to be looked for.
    pub(super) look: AtomicBool,
    /// The client has given up for good, or the group refuses us.
    pub(super) fatal: Mutex<Option<RDKafkaErrorCode>>,
}

impl Shared {
    pub(super) fn new(
        catalog: Arc<Catalog>,
        picks: Picks,
        max_payload: usize,
        room: Room,
        timeout: Duration,
    ) -> Arc<Self> {
        let stock = Mutex::new(Stock::new(catalog.steps.clone(), room));
        Arc::new(Self {
            catalog,
            picks,
            max_payload,
            timeout,
            stock,
            arrived: Notify::new(),
            changes: watch::Sender::new(0),
            look: AtomicBool::new(false),
            fatal: Mutex::default(),
        })
    }

    /// What was read ahead.
    pub(super) fn stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a record in; tells what the client should do about its partition.
    fn take_in(&self, message: &BorrowedMessage<'_>) -> Option<(Place, Fetch)> {
        let place = self.catalog.place(message.topic(), message.partition())?;
        if Record::mark(message).is_some() {
            // Not a message: it says of one among dead letters that somebody has dealt with it.
            return None;
        }
        let work = &self.catalog.work(&place).name;
        let record = Record::copy(message);
        let entry = Entry::new(place, message.offset(), record, work, &self.picks, self.max_payload);
        let fetch = self.stock().push(entry, Now::get());
        self.arrived.notify_one();
        Some((place, fetch))
    }

    fn list(&self, places: &[Place]) -> TopicPartitionList {
        let mut list = TopicPartitionList::with_capacity(places.len());
        for place in places {
            list.add_partition(&self.catalog.name(place), place.partition);
        }
        list
    }

    fn note(&self, error: &KafkaError) {
        tracing::debug!(%error, "reading");
        use RDKafkaErrorCode as E;
        match code_of(error) {
            E::UnknownTopic
            | E::UnknownTopicOrPartition
            | E::UnknownPartition
            | E::TopicAuthorizationFailed => {
                self.look.store(true, Ordering::Relaxed);
            }
            code @ (E::GroupAuthorizationFailed
            | E::InvalidGroupId
            | E::InvalidSessionTimeout
            | E::Fatal
            | E::InconsistentGroupProtocol) => {
                *self.fatal.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
            }
            _ => {}
        }
        self.arrived.notify_one();
    }
}

/// What the client calls back.
pub(super) struct Member {
    shared: Arc<Shared>,
    ear: Ear,
}

impl ClientContext for Member {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.ear.log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.ear.error(error, reason);
    }
}

impl ConsumerContext for Member {
    fn rebalance(&self, consumer: &BaseConsumer<Self>, what: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let followed = match what {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => self.assign(consumer, list),
            _ => self.revoke(consumer),
        };
        if let Err(error) = followed {
            tracing::warn!(%error, "could not follow the rebalance of the group");
        }
        self.shared.changes.send_modify(|count| *count += 1);
        self.shared.arrived.notify_one();
    }
}

impl Member {
    fn assign(&self, consumer: &BaseConsumer<Self>, list: &TopicPartitionList) -> Result<(), KafkaError> {
        let shared = &self.shared;
        let place = |topic: &str, partition| shared.catalog.place(topic, partition);
        let places: Vec<Place> =
            list.elements().iter().filter_map(|part| place(part.topic(), part.partition())).collect();
        let asked = consumer.committed_offsets(shared.list(&places), shared.timeout);
        let committed = asked.and_then(|list| {
            let mut committed = BTreeMap::new();
            for part in list.elements() {
                part.error()?;
                if let (Some(place), Offset::Offset(offset)) =
                    (place(part.topic(), part.partition()), part.offset())
                {
                    committed.insert(place, offset);
                }
            }
            Ok(committed)
        });
        if let Err(error) = &committed {
            tracing::debug!(%error, "the offsets of the group could not be asked for");
        }
        let committed = committed.ok();
        let starts = shared.stock().assign(&places, committed.as_ref());
        let mut from = TopicPartitionList::with_capacity(starts.len());
        for (place, start) in starts {
            let offset = match (start, &committed) {
                (Some(offset), _) => Offset::Offset(offset),
                (None, Some(_)) => Offset::Beginning,
                // The client asks again by itself.
                (None, None) => Offset::Stored,
            };
            from.add_partition_offset(&shared.catalog.name(&place), place.partition, offset)?;
        }
        tracing::debug!(partitions = places.len(), "partitions are ours");
        consumer.assign(&from)
    }

    fn revoke(&self, consumer: &BaseConsumer<Self>) -> Result<(), KafkaError> {
        let paused = self.shared.stock().revoke();
        // The client remembers a pause beyond the assignment.
        if !paused.is_empty() {
            consumer.resume(&self.shared.list(&paused))?;
        }
        tracing::debug!("partitions are taken from us");
        consumer.unassign()
    }
}

/// A member that reads until it is closed or dropped.
pub(super) struct Reader {
    pub(super) shared: Arc<Shared>,
    consumer: Arc<BaseConsumer<Member>>,
    stop: Arc<AtomicBool>,
    ended: Mutex<Option<oneshot::Receiver<()>>>,
}

impl Reader {
    /// Joins the group, sooner or later; a broker that is not there is no error.
    pub(super) fn open(settings: &ClientConfig, shared: Arc<Shared>) -> Result<Self, KafkaError> {
        let context = Member { shared: Arc::clone(&shared), ear: Ear::default() };
        let consumer: BaseConsumer<Member> = settings.create_with_context(context)?;
        let topics: Vec<&str> = shared.catalog.read().collect();
        consumer.subscribe(&topics)?;
        let (consumer, stop) = (Arc::new(consumer), Arc::new(AtomicBool::new(false)));
        let (end, ended) = oneshot::channel();
        let polling = {
            let (consumer, shared, stop) = (Arc::clone(&consumer), Arc::clone(&shared), Arc::clone(&stop));
            move || {
                poll(&consumer, &shared, &stop);
                leave(consumer);
                let _ = end.send(());
            }
        };
        let spawned = thread::Builder::new().name("kafka poll".to_owned()).spawn(polling);
        spawned.map_err(|error| KafkaError::ClientCreation(format!("no thread to read with: {error}")))?;
        Ok(Self { shared, consumer, stop, ended: Mutex::new(Some(ended)) })
    }

    /// Commits offsets of partitions that are ours; it has happened when this returns.
    pub(super) async fn commit(&self, offsets: &[(Place, i64)]) -> Result<(), RDKafkaErrorCode> {
        let mut list = TopicPartitionList::with_capacity(offsets.len());
        for (place, offset) in offsets {
            let (topic, offset) = (self.shared.catalog.name(place), Offset::Offset(*offset));
            list.add_partition_offset(&topic, place.partition, offset).map_err(|error| code_of(&error))?;
        }
        let consumer = Arc::clone(&self.consumer);
        let committed = on_thread(move || consumer.commit(&list, CommitMode::Sync)).await;
        committed.unwrap_or(Err(KafkaError::Canceled)).map_err(|error| code_of(&error))
    }

    /// What is wrong with the way to the cluster, if anything was heard of it and it does not answer now.
    pub(super) async fn trouble(&self, limit: Duration) -> Option<(RDKafkaErrorCode, String)> {
        let ear = &self.consumer.context().ear;
        ear.trouble()?;
        let (consumer, topic) = (Arc::clone(&self.consumer), self.shared.catalog.works.first()?.name.clone());
        let asked = on_thread(move || consumer.fetch_metadata(Some(&topic), limit).map(drop)).await;
        if asked.is_some_and(|answer| answer.is_ok()) {
            ear.is_well();
        }
        ear.trouble()
    }

    /// Leaves the group; `false` if that takes longer than `limit`.
    pub(super) async fn close(self: Arc<Self>, limit: Duration) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The thread closes the client when it is the last to hold it.
        drop(self);
        match ended {
            Some(ended) => tokio::time::timeout(limit, ended).await.is_ok(),
            None => true,
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Takes in what comes, until it is told to stop.
fn poll(consumer: &BaseConsumer<Member>, shared: &Shared, stop: &AtomicBool) {
    let (mut paused, mut looked, mut behind) = (false, Instant::now(), false);
    while !stop.load(Ordering::Relaxed) {
        match consumer.poll(if paused { POLL_PAUSED } else { POLL }) {
            Some(Ok(message)) => match shared.take_in(&message) {
                Some((place, Fetch::Pause)) => {
                    paused = true;
                    if let Err(error) = consumer.pause(&shared.list(&[place])) {
                        tracing::debug!(%error, "could not pause a partition");
                    }
                }
                Some((_, Fetch::Again)) => behind = true,
                Some((_, Fetch::On)) | None => {}
            },
            Some(Err(error)) => shared.note(&error),
            None => {}
        }
        if behind {
            behind = !read_again(consumer, shared);
        }
        if paused && looked.elapsed() >= POLL_PAUSED {
            looked = Instant::now();
            let roomy;
            (roomy, paused) = shared.stock().roomy();
            if !roomy.is_empty()
                && let Err(error) = consumer.resume(&shared.list(&roomy))
            {
                tracing::debug!(%error, "could not resume a partition");
            }
        }
    }
}

/// Goes back in the partitions whose log is another than it was; tells whether that is done. Until then nothing more is
/// taken in of them.
fn read_again(consumer: &BaseConsumer<Member>, shared: &Shared) -> bool {
    let again = shared.stock().again();
    for (place, offset) in again {
        let topic = shared.catalog.name(&place);
        match consumer.seek(&topic, place.partition, Offset::Offset(offset), shared.timeout) {
            Ok(()) => {
                shared.stock().renew(&place, Now::get());
                tracing::warn!(
                    topic = &*topic,
                    partition = place.partition,
                    offset,
                    "the log of a partition is another than it was: it is read from here again"
                );
            }
            Err(error) => tracing::debug!(%error, "could not go back in a partition"),
        }
    }
    shared.stock().again().is_empty()
}

/// Ending a consumer closes it, and with that it leaves the group; whoever still commits comes first.
fn leave(mut consumer: Arc<BaseConsumer<Member>>) {
    let start = Instant::now();
    while start.elapsed() < LAST_COMMIT {
        match Arc::try_unwrap(consumer) {
            Ok(consumer) => return drop(consumer),
            Err(shared) => consumer = shared,
        }
        let _ = consumer.poll(Duration::from_millis(10));
    }
}
