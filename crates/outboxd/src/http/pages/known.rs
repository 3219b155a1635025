//! What waits for a person, wherever it lies, as it was last counted for the sentence on every page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use futures_util::future::try_join_all;
use outbox::errors::{ErrorFilter, Resolution};

use super::live::Board;
use super::queues::by_instance;
use crate::health::Health;
use crate::ops::Office;
use crate::ops::errors::{Desk, tables};
use crate::ops::pipes::{PipeInstance, PipeShown, PipesAnswer, pipes};
use crate::ops::queues::Queues;
use crate::trouble::Trouble;

/// Of each error table so many are counted.
pub const COUNTED: u32 = 1_000;

/// What is known; nothing of what nobody could count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    /// Dead in outboxes.
    pub dead: Option<u64>,
    /// Dead letters at brokers that no pipe reads.
    pub letters: Option<u64>,
    /// Open in error tables.
    pub errors: Option<u64>,
    /// The pipes of the plan that are paused, in whatever instance.
    pub paused: BTreeSet<String>,
    /// The pipes that only instances ran of which nothing is heard.
    pub offline: BTreeSet<String>,
}

impl Known {
    /// Whether anything waits for a person for certain.
    pub fn waits(&self) -> bool {
        [self.dead, self.letters, self.errors].into_iter().flatten().any(|count| count > 0)
    }
}

impl Board {
    /// What is known.
    pub(super) fn known(&self) -> Known {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn learn(&self, tell: impl FnOnce(&mut Known)) {
        tell(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Counts everything anew, each place within its own time.
    pub(super) async fn count(&self, office: &Office, health: &Health) {
        let (queues, errors, pipes, _) = futures_util::join!(
            self.queues(office),
            open_errors(office),
            pipes(office, health),
            self.stands(office),
        );
        for one in by_instance(&pipes) {
            self.deliveries().note(&one.name, one.told_at, one.delivered);
        }
        self.learn(|known| {
            known.letters = letters(&queues);
            known.errors = errors;
            known.paused = named(&pipes, |pipe| pipe.paused.is_some());
            known.offline = named(&pipes, |pipe| {
                let lives = |one: &PipeInstance| !one.offline && one.state != "stopped";
                pipe.instances.iter().any(|one| one.offline) && !pipe.instances.iter().any(lives)
            });
        });
    }
}

fn named(all: &PipesAnswer, is: impl Fn(&PipeShown) -> bool) -> BTreeSet<String> {
    all.pipes.iter().filter(|pipe| is(pipe)).map(|pipe| pipe.pipe.clone()).collect()
}

/// How many dead letters wait at brokers; those that a pipe reads on wait for nobody. Pure.
fn letters(queues: &Queues) -> Option<u64> {
    if queues.sources.iter().any(|source| source.trouble.is_some()) {
        return None;
    }
    // By broker and name, each with its depth: two sources may share a queue, and two brokers a name.
    let of_role = |role: &'static str| {
        let sources = queues.sources.iter();
        let all = sources.flat_map(|source| source.queues.iter().map(move |queue| (source, queue)));
        let all = all.filter(move |(_, queue)| queue.role == role);
        all.map(|(source, queue)| ((source.connection.as_str(), queue.name.as_str()), queue.messages))
    };
    let read: BTreeSet<_> = of_role("work").map(|(queue, _)| queue).collect();
    let unread: BTreeMap<_, u64> = of_role("dead").filter(|(queue, _)| !read.contains(queue)).collect();
    Some(unread.into_values().sum())
}

async fn open_errors(office: &Office) -> Option<u64> {
    let doing = "cannot count what is open in the error tables";
    let counted = try_join_all(tables(&office.plan).map(|table| async move {
        let desk = Desk::open(office, table).await?;
        let open =
            ErrorFilter { resolution: Some(Resolution::Open), limit: COUNTED, ..ErrorFilter::default() };
        let found = desk.log.list(&open).await.map_err(|error| desk.trouble(doing, &error))?;
        Ok::<_, Trouble>(found.len() as u64)
    }));
    office.look(doing, counted).await.ok().map(|counted| counted.into_iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::queues::{AtBroker, Queue};
    use crate::ops::told::Unseen;
    use crate::trouble::Exit;

    fn source(queues: &[(&str, &'static str, u64)], trouble: bool) -> AtBroker {
        let queue = |(name, role, messages): &(&str, &'static str, u64)| Queue {
            name: (*name).to_owned(),
            role,
            messages: *messages,
            consumers: None,
        };
        AtBroker {
            source: "jobs".to_owned(),
            connection: "rabbit".to_owned(),
            pipes: Vec::new(),
            queues: queues.iter().map(queue).collect(),
            trouble: trouble.then(|| Unseen {
                error: "away".to_owned(),
                help: "wait".to_owned(),
                exit: Exit::Source,
            }),
        }
    }

    fn at(connection: &str, source: AtBroker) -> AtBroker {
        AtBroker { connection: connection.to_owned(), ..source }
    }

    #[test]
    fn e5_letters_that_no_pipe_reads_wait_for_a_person() {
        let jobs = || source(&[("jobs", "work", 9), ("jobs.dead", "dead", 3)], false);
        assert_eq!(letters(&Queues { sources: Vec::new() }), Some(0));
        assert_eq!(letters(&Queues { sources: vec![jobs()] }), Some(3));
        assert_eq!(letters(&Queues { sources: vec![jobs(), jobs()] }), Some(3), "it is one queue");
        let reader = source(&[("jobs.dead", "work", 3), ("worse", "dead", 1)], false);
        assert_eq!(letters(&Queues { sources: vec![jobs(), reader] }), Some(1));
        assert_eq!(letters(&Queues { sources: vec![jobs(), source(&[], true)] }), None);
    }

    #[test]
    fn e5_queues_of_the_same_name_at_two_brokers_are_two() {
        let jobs = || source(&[("jobs", "work", 9), ("jobs.dead", "dead", 3)], false);
        let other = || at("other", jobs());
        assert_eq!(letters(&Queues { sources: vec![jobs(), other()] }), Some(6));
        let reader = at("other", source(&[("jobs.dead", "work", 3)], false));
        assert_eq!(
            letters(&Queues { sources: vec![jobs(), other(), reader] }),
            Some(3),
            "one of them is read"
        );
        let grown = source(&[("jobs.dead", "dead", 4)], false);
        assert_eq!(letters(&Queues { sources: vec![jobs(), grown] }), Some(4), "it grew between two looks");
    }
}
