//! How much lies in the topics of a group: what it has not dealt with yet, and the dead letters.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::dead_topic::{DeadTopic, dead_topics};
use super::scan::{self, Ends};
use super::survey;
use crate::error::Result;
use crate::letters::{Depth, Role};

/// How many letters lay open in a topic when it ended there: to know it the whole topic must be read.
#[derive(Debug, Default)]
pub(super) struct Counted(Mutex<BTreeMap<String, (Ends, u64)>>);

impl Counted {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, (Ends, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeadTopic {
    pub(super) async fn all_depths(&self) -> Result<Vec<Depth>> {
        let mut depths = Vec::new();
        for work in &self.catalog.works {
            let retries = work.retries().map(|topic| (topic, Role::Retry));
            for (topic, role) in std::iter::once((&work.name, Role::Work)).chain(retries) {
                if let Some(ends) = self.ends(topic).await? {
                    let messages = self.left(topic, &ends).await?;
                    depths.push(Depth { place: topic.clone(), role, messages, consumers: None });
                }
            }
        }
        for topic in dead_topics(&self.catalog) {
            if let Some(ends) = self.ends(topic).await? {
                let messages = self.open_letters(topic, ends).await?;
                depths.push(Depth { place: topic.to_owned(), role: Role::Dead, messages, consumers: None });
            }
        }
        Ok(depths)
    }

    /// First and last offset of every partition; none if there is no such topic.
    async fn ends(&self, topic: &str) -> Result<Option<Ends>> {
        let (name, limit) = (topic.to_owned(), self.config.timeout);
        self.call(topic, move |settings| scan::ends(settings, &name, limit)).await
    }

    /// What the group has not dealt with yet.
    async fn left(&self, topic: &str, ends: &Ends) -> Result<u64> {
        let (name, limit, count) = (topic.to_owned(), self.config.timeout, ends.len());
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        let committed =
            self.call(topic, move |settings| scan::committed(settings, &name, count, limit)).await?;
        let left = |(partition, (low, high)): (i32, &(i64, i64))| {
            let from = committed.get(&partition).copied().unwrap_or(*low).max(*low);
            u64::try_from(high - from).unwrap_or(0)
        };
        Ok((0..).zip(ends).map(left).sum())
    }

    /// The letters that nobody has dealt with. The topic is read only if it has changed.
    async fn open_letters(&self, topic: &str, ends: Ends) -> Result<u64> {
        let known =
            self.counted.lock().get(topic).filter(|(known, _)| *known == ends).map(|(_, count)| *count);
        if let Some(known) = known {
            return Ok(known);
        }
        let (name, limit) = (topic.to_owned(), self.config.timeout);
        let count = i32::try_from(ends.len()).unwrap_or(i32::MAX);
        let open = self.call(topic, move |settings| survey::open(settings, &name, count, limit)).await?;
        let open = open.len() as u64;
        self.counted.lock().insert(topic.to_owned(), (ends, open));
        Ok(open)
    }
}
