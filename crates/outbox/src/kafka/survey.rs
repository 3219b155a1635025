//! What lies in a topic of dead letters and is not marked as dealt with.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;

use super::mark::Spot;
use super::record::Record;
use super::scan::{self, Go};
use crate::broker::{Picks, Read};

/// A look holds no more bytes of payload than this of each partition; the rest is told as more.
const LOOK_BYTES: usize = 32 * 1024 * 1024;

/// The letters of a topic that nobody has dealt with.
pub(super) fn open(
    settings: &ClientConfig,
    topic: &str,
    partitions: i32,
    limit: Duration,
) -> Result<BTreeSet<Spot>, KafkaError> {
    let (mut there, mut settled) = (BTreeSet::new(), HashSet::new());
    scan::through(settings, topic, partitions, &BTreeMap::new(), limit, |message| {
        match Record::mark(message) {
            Some(spot) => drop(settled.insert(spot)),
            None => drop(there.insert(spot_of(message))),
        }
        Go::On
    })?;
    there.retain(|spot| !settled.contains(spot));
    Ok(there)
}

/// A letter that was taken out of a topic, which keeps it.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) spot: Spot,
    pub(super) record: Record,
    pub(super) read: Read,
}

/// Which letters of a topic are to be read.
pub(super) struct Errand {
    pub(super) topic: String,
    pub(super) partitions: i32,
    /// Those that nobody has dealt with.
    pub(super) open: BTreeSet<Spot>,
    /// Of these ids; none means all.
    pub(super) wanted: Option<HashSet<String>>,
    /// Of each partition at most so many.
    pub(super) most: usize,
    pub(super) picks: Picks,
    pub(super) limit: Duration,
}

impl Errand {
    /// Reads them, each partition in order; tells whether that is all.
    pub(super) fn take(self, settings: &ClientConfig) -> Result<(Vec<Vec<Taken>>, bool), KafkaError> {
        let mut from: BTreeMap<i32, i64> = BTreeMap::new();
        for spot in &self.open {
            from.entry(spot.partition).or_insert(spot.offset);
        }
        let mut piles: BTreeMap<i32, (usize, Vec<Taken>)> = BTreeMap::new();
        let mut is_all = true;
        scan::through(settings, &self.topic, self.partitions, &from, self.limit, |message| {
            let spot = spot_of(message);
            if !self.open.contains(&spot) {
                return Go::On;
            }
            let record = Record::copy(message);
            let read = record.read(&self.topic, &self.picks, usize::MAX);
            if self.wanted.as_ref().is_some_and(|ids| !ids.contains(read.message.id.as_str())) {
                return Go::On;
            }
            let (bytes, pile) = piles.entry(spot.partition).or_default();
            if pile.len() >= self.most || *bytes >= LOOK_BYTES {
                is_all = false;
                return Go::Enough;
            }
            *bytes += read.message.payload.len();
            pile.push(Taken { spot, record, read });
            Go::On
        })?;
        Ok((piles.into_values().map(|(_, pile)| pile).collect(), is_all))
    }
}

fn spot_of(message: &impl rdkafka::Message) -> Spot {
    Spot { partition: message.partition(), offset: message.offset() }
}
