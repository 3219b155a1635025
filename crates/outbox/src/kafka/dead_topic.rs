//! [`DeadTopic`]: the dead letters of a group, as a person sees and repairs them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};

use super::brokers::Brokers;
use super::catalog::Catalog;
use super::depths::Counted;
use super::error::{code_of, fault, into_error, words};
use super::group_config::GroupConfig;
use super::mark::{Mark, Spot};
use super::publisher::{Failed, Parcel, Publisher};
use super::record::Record;
use super::scan::{self, Go};
use super::settings;
use super::survey::{self, Errand, Taken};
use super::thread::on_thread;
use crate::broker::{Died, Read};
use crate::error::{Error, Result};
use crate::letters::{Act, Acted, DeadLetters, Deed, Depth, Letter, Looked, Pacer, Waiting, Wanted};
use crate::message::header;
use crate::sink::Cause;

/// So many letters are written and confirmed together.
const BATCH: usize = 100;

/// The dead letters of a [`Group`](super::Group): the topics that its configuration names for them.
///
/// A topic cannot lose single records. What was returned or discarded is marked by a record that is written behind it, in
/// the same partition, with the header [`SETTLED`](crate::header::SETTLED); whoever reads the topic leaves out what is
/// marked, and the marks. A [`Group`](super::Group) that reads a topic of dead letters passes over marks.
///
/// | | what happens |
/// | --- | --- |
/// | look | the topics are read through, without a group: nothing is committed |
/// | return | written to the topic where it died, confirmed, then marked |
/// | discard | marked |
///
/// It makes no topic: one that is not there holds no letters. Letters of one partition keep their order; those of several
/// are put together by time.
pub struct DeadTopic {
    pub(super) config: GroupConfig,
    pub(super) catalog: Catalog,
    settings: ClientConfig,
    publisher: Publisher,
    /// How many letters lay open in a topic that ended there: to know it the whole topic must be read.
    pub(super) counted: Counted,
    /// Topics and cluster, for people.
    place: String,
    cluster: String,
}

/// A letter with where it lies.
#[derive(Debug)]
struct Found {
    topic: usize,
    spot: Spot,
    record: Record,
    read: Read,
    died: Died,
}

/// What is in the topics of dead letters.
struct Survey {
    /// By topic: how many partitions it has, none if it is not there; and the letters that nobody has dealt with.
    topics: Vec<(i32, BTreeSet<Spot>)>,
}

impl Survey {
    fn count(&self) -> usize {
        self.topics.iter().map(|(_, open)| open.len()).sum()
    }
}

impl DeadTopic {
    /// The dead letters of this group at these brokers; connects when it is first used.
    ///
    /// A malformed URL or configuration is an error of kind [`Config`](crate::ErrorKind::Config).
    pub fn new(brokers: &str, config: GroupConfig) -> Result<Self> {
        config.check()?;
        let brokers = Brokers::parse(brokers)?;
        let cluster = brokers.to_string();
        let catalog = Catalog::new(&config);
        let names: Vec<String> = dead_topics(&catalog).iter().map(|name| format!("'{name}'")).collect();
        let mover = settings::mover(&brokers, &config)?;
        Ok(Self {
            settings: settings::visitor(&brokers, &config)?,
            publisher: Publisher::new(mover, cluster.clone(), config.timeout)?,
            place: format!("topic {} at {cluster}", names.join(", ")),
            counted: Counted::default(),
            cluster,
            catalog,
            config,
        })
    }

    fn failed(&self, topic: &str, error: &KafkaError) -> Error {
        let code = code_of(error);
        into_error(&Cause::new(
            fault(code).code,
            format!("topic '{topic}' at {}: {}", self.cluster, words(code)),
        ))
    }

    pub(super) async fn call<T: Send + 'static>(
        &self,
        topic: &str,
        work: impl FnOnce(&ClientConfig) -> Result<T, KafkaError> + Send + 'static,
    ) -> Result<T> {
        let settings = self.settings.clone();
        let done = on_thread(move || work(&settings)).await;
        done.unwrap_or(Err(KafkaError::Canceled)).map_err(|error| self.failed(topic, &error))
    }

    async fn partitions(&self, topic: &str) -> Result<i32> {
        let (name, limit) = (topic.to_owned(), self.config.timeout);
        let found = self.call(topic, move |settings| scan::partitions(settings, &name, limit)).await?;
        Ok(found.unwrap_or(0))
    }

    /// Reads all topics through, for what lies there and what is marked.
    async fn survey(&self) -> Result<Survey> {
        let mut topics = Vec::new();
        for topic in dead_topics(&self.catalog) {
            let count = self.partitions(topic).await?;
            let (name, limit) = (topic.to_owned(), self.config.timeout);
            let open = self.call(topic, move |settings| survey::open(settings, &name, count, limit));
            topics.push((count, open.await?));
        }
        Ok(Survey { topics })
    }

    /// The letters that are wanted, each partition in order, and all by time; of every partition at most `most`, and not
    /// much more than a bound of bytes. Tells whether that is all.
    async fn collect(
        &self,
        survey: &Survey,
        wanted: Option<&[String]>,
        most: usize,
    ) -> Result<(Vec<Found>, bool)> {
        let mut queues: Vec<Vec<Found>> = Vec::new();
        let mut is_all = true;
        for (at, topic) in dead_topics(&self.catalog).into_iter().enumerate() {
            let (count, open) = &survey.topics[at];
            if open.is_empty() {
                continue;
            }
            let errand = Errand {
                topic: topic.to_owned(),
                partitions: *count,
                open: open.clone(),
                wanted: wanted.map(|ids| ids.iter().cloned().collect()),
                most,
                picks: self.config.picks.clone(),
                limit: self.config.timeout,
            };
            let (piles, all) = self.call(topic, move |settings| errand.take(settings)).await?;
            is_all &= all;
            let found = |taken: Vec<Taken>| taken.into_iter().map(|taken| self.found(at, taken)).collect();
            queues.extend(piles.into_iter().map(found));
        }
        Ok((by_time(queues), is_all))
    }

    fn found(&self, topic: usize, Taken { spot, record, read }: Taken) -> Found {
        let dead = dead_topics(&self.catalog)[topic];
        let mut died = Died::read(&read.message.headers);
        let work = self.catalog.works.iter().find(|work| work.dead == dead);
        let origin = died.origin.filter(|origin| origin != dead);
        died.origin = origin.or_else(|| work.map(|work| work.name.clone()));
        Found { topic, spot, record, read, died }
    }

    /// Returns or discards letters, then marks those with which that went well. Tells how many those are, also where it
    /// did not go well with all.
    async fn settle(
        &self,
        batch: &[Found],
        deed: &Deed<'_>,
        counts: &mut BTreeMap<String, i32>,
    ) -> (u64, Result<()>) {
        let by: String = deed.by.chars().take(200).collect();
        let now = Timestamp::now();
        let mut failure = None;
        let mut done: Vec<&Found> = Vec::new();
        match deed.act {
            Act::Discard => done.extend(batch),
            Act::Return => {
                for origin in batch.iter().filter_map(|found| found.died.origin.as_ref()) {
                    if let Entry::Vacant(vacant) = counts.entry(origin.clone()) {
                        match self.partitions(origin).await {
                            Ok(count) => drop(vacant.insert(count)),
                            Err(error) => return (0, Err(error)),
                        }
                    }
                }
                let added = [(header::RETURNED_BY, by.clone()), (header::RETURNED_AT, now.to_string())];
                let parcel = |at: usize| -> Option<Parcel<'_>> {
                    let found = batch.get(at)?;
                    let origin = found.died.origin.clone().unwrap_or_default();
                    // A key stays in the partition that whoever wrote it has chosen.
                    let is_alike = counts.get(&origin) == Some(&self.count_of(counts, found));
                    Some(Parcel {
                        topic: origin,
                        partition: is_alike.then_some(found.spot.partition),
                        key: found.record.key.as_deref(),
                        payload: found.record.payload.as_deref(),
                        headers: Some(found.record.returned(&added, &found.read.destination)),
                    })
                };
                let parcels = (0..batch.len()).filter_map(parcel).collect();
                for (found, fate) in batch.iter().zip(self.publisher.publish(parcels, parcel).await) {
                    match fate {
                        Ok(()) => done.push(found),
                        Err(Failed { cause, .. }) => drop(failure.get_or_insert(into_error(&cause))),
                    }
                }
            }
        }
        let (marked, failed) = self.mark(&done, deed.act, &by, now).await;
        (marked, failure.or(failed).map_or(Ok(()), Err))
    }

    fn count_of(&self, counts: &BTreeMap<String, i32>, found: &Found) -> i32 {
        counts.get(dead_topics(&self.catalog)[found.topic]).copied().unwrap_or(-1)
    }

    async fn mark(&self, done: &[&Found], act: Act, by: &str, now: Timestamp) -> (u64, Option<Error>) {
        let topics = dead_topics(&self.catalog);
        let marks: Vec<Mark> = done.iter().map(|found| Mark::new(found.spot, act, by, now)).collect();
        let parcel = |at: usize| -> Option<Parcel<'_>> {
            let (found, mark) = (done.get(at)?, marks.get(at)?);
            let headers = mark.headers.iter().fold(OwnedHeaders::new(), |headers, (key, value)| {
                headers.insert(Header { key, value: Some(value) })
            });
            Some(Parcel {
                topic: topics[found.topic].to_owned(),
                partition: Some(found.spot.partition),
                key: Some(mark.key.as_bytes()),
                payload: Some(mark.text.as_bytes()),
                headers: Some(headers),
            })
        };
        let parcels = (0..done.len()).filter_map(parcel).collect();
        let fates = self.publisher.publish(parcels, parcel).await;
        let failed = fates.iter().find_map(|fate| fate.as_ref().err());
        (
            fates.iter().filter(|fate| fate.is_ok()).count() as u64,
            failed.map(|failed| into_error(&failed.cause)),
        )
    }
}

/// The topics of dead letters, each once.
pub(super) fn dead_topics(catalog: &Catalog) -> Vec<&str> {
    let mut topics: Vec<&str> = Vec::new();
    for work in &catalog.works {
        if !topics.contains(&work.dead.as_str()) {
            topics.push(&work.dead);
        }
    }
    topics
}

/// Puts partitions together by time; each keeps its order.
fn by_time(queues: Vec<Vec<Found>>) -> Vec<Found> {
    let mut queues: Vec<_> = queues.into_iter().map(|queue| queue.into_iter().peekable()).collect();
    let mut all = Vec::new();
    loop {
        let heads =
            queues.iter_mut().enumerate().filter_map(|(at, queue)| Some((queue.peek()?.record.at, at)));
        let Some((_, first)) = heads.min() else { return all };
        all.extend(queues[first].next());
    }
}

#[async_trait]
impl DeadLetters for DeadTopic {
    fn place(&self) -> &str {
        &self.place
    }

    async fn look(&self, most: usize) -> Result<Looked> {
        let survey = self.survey().await?;
        let (mut found, _) = self.collect(&survey, None, most).await?;
        found.truncate(most);
        let more = found.len() < survey.count();
        let letters = found.into_iter().map(|found| Letter::new(found.read.message, found.died)).collect();
        Ok(Looked { letters, more })
    }

    async fn act(&self, deed: &Deed<'_>) -> Result<Acted> {
        let mut wanted = Wanted::new(deed.ids);
        let mut pacer = Pacer::new(deed.pace);
        let mut acted = 0;
        let mut counts: BTreeMap<String, i32> = BTreeMap::new();
        let ids: Vec<String> = deed.ids.iter().map(|id| id.as_str().to_owned()).collect();
        loop {
            let survey = self.survey().await?;
            for (topic, (count, _)) in dead_topics(&self.catalog).into_iter().zip(&survey.topics) {
                counts.insert(topic.to_owned(), *count);
            }
            let (mut found, is_all) = self.collect(&survey, Some(&ids), usize::MAX).await?;
            found.retain(|found| wanted.take(&found.read.message.id));
            let is_last = is_all || found.is_empty();
            let mut rest = found.into_iter().peekable();
            while rest.peek().is_some() {
                let batch: Vec<Found> = rest.by_ref().take(pacer.batch(BATCH)).collect();
                pacer.turn(batch.len()).await;
                let (done, settled) = self.settle(&batch, deed, &mut counts).await;
                acted += done;
                (deed.tell)(acted);
                settled?;
            }
            if is_last || wanted.is_empty() {
                return Ok(Acted { acted, missing: wanted.missing() });
            }
        }
    }

    async fn retries(&self, most: usize) -> Result<Vec<Waiting>> {
        let mut waiting = Vec::new();
        for work in &self.catalog.works {
            for topic in work.retries() {
                let (name, work, limit) = (topic.clone(), work.name.clone(), self.config.timeout);
                let picks = self.config.picks.clone();
                let found = self.call(topic, move |settings| {
                    let mut found = Vec::new();
                    let Some(count) = scan::partitions(settings, &name, limit)? else { return Ok(found) };
                    // What the group has committed has left the topic.
                    let from = scan::committed(settings, &name, count, limit)?;
                    scan::through(settings, &name, count, &from, limit, |message| {
                        let Read { message, tracks, .. } =
                            Record::copy(message).read(&work, &picks, usize::MAX);
                        found.push(Waiting {
                            message,
                            place: name.clone(),
                            attempts: tracks.attempts,
                            cause: tracks.cause,
                            failed_at: tracks.at,
                            due: tracks.due,
                        });
                        if found.len() >= most { Go::Enough } else { Go::On }
                    })?;
                    Ok(found)
                });
                waiting.extend(found.await?);
            }
        }
        Ok(waiting)
    }

    async fn depths(&self) -> Result<Vec<Depth>> {
        self.all_depths().await
    }
}

impl fmt::Debug for DeadTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeadTopic({})", self.place)
    }
}
