//! The topics of a group by name and by what they are for: read, waited in, died in. Pure.

use std::collections::HashMap;
use std::time::Duration;

use super::group_config::GroupConfig;
use crate::broker::Steps;

/// A partition that a group reads: of a topic, or of one of its retry topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    /// The topic, by its position in the configuration.
    pub(super) topic: usize,
    /// The delay of the retry topic; none for the topic itself.
    pub(super) step: Option<Duration>,
    /// The number is the same in the topic and in its retry topics.
    pub(super) partition: i32,
}

/// A topic that is read, with those that belong to it.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) name: String,
    pub(super) dead: String,
    /// One per delay.
    retries: Vec<(Duration, String)>,
}

impl Work {
    /// The names of its retry topics.
    pub(super) fn retries(&self) -> impl Iterator<Item = &String> {
        self.retries.iter().map(|(_, name)| name)
    }

    /// The retry topic of one delay; there is one for each step.
    pub(super) fn retry(&self, step: Duration) -> String {
        let found = self.retries.iter().find(|(delay, _)| *delay == step);
        found.map_or_else(|| self.name.clone(), |(_, name)| name.clone())
    }
}

/// All topics of a group.
#[derive(Debug)]
pub(super) struct Catalog {
    pub(super) works: Vec<Work>,
    pub(super) steps: Steps,
    roles: HashMap<String, (usize, Option<Duration>)>,
}

impl Catalog {
    pub(super) fn new(config: &GroupConfig) -> Self {
        let steps = Steps::new(&config.retry);
        let (mut works, mut roles) = (Vec::new(), HashMap::new());
        for (at, name) in config.topics.iter().enumerate() {
            roles.insert(name.clone(), (at, None));
            let mut retries = Vec::new();
            for step in steps.all() {
                roles.insert(config.retry_name(name, *step), (at, Some(*step)));
                retries.push((*step, config.retry_name(name, *step)));
            }
            works.push(Work { name: name.clone(), dead: config.dead_name(name), retries });
        }
        Self { works, steps, roles }
    }

    /// Every topic that is read.
    pub(super) fn read(&self) -> impl Iterator<Item = &str> {
        self.roles.keys().map(String::as_str)
    }

    /// What a partition is for; none if the group does not read the topic.
    pub(super) fn place(&self, topic: &str, partition: i32) -> Option<Place> {
        let (topic, step) = *self.roles.get(topic)?;
        Some(Place { topic, step, partition })
    }

    /// The topic that a partition belongs to.
    pub(super) fn name(&self, place: &Place) -> String {
        let work = self.work(place);
        place.step.map_or_else(|| work.name.clone(), |step| work.retry(step))
    }

    /// The topic that is read, of a place in it or in its retry topics.
    pub(super) fn work(&self, place: &Place) -> &Work {
        &self.works[place.topic]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_found_by_the_name_of_its_topic_and_back() {
        let mut config = GroupConfig::new("a", "g");
        config.topics.push("b".into());
        config.retry = vec![Duration::from_secs(60), Duration::from_secs(5)];
        let catalog = Catalog::new(&config);
        let mut all: Vec<&str> = catalog.read().collect();
        all.sort_unstable();
        assert_eq!(all, ["a", "a.g.retry.1m", "a.g.retry.5s", "b", "b.g.retry.1m", "b.g.retry.5s"]);
        let place = catalog.place("b.g.retry.5s", 3).unwrap();
        assert_eq!((place.topic, place.step, place.partition), (1, Some(Duration::from_secs(5)), 3));
        assert_eq!(
            (catalog.name(&place).as_str(), catalog.work(&place).dead.as_str()),
            ("b.g.retry.5s", "b.g.dlq")
        );
        assert_eq!(catalog.name(&catalog.place("a", 0).unwrap()), "a");
        assert_eq!(catalog.place("a.g.dlq", 0), None);
    }
}
