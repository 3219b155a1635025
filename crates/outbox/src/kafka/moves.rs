//! What a verdict means for a record: which topic it goes to, and with which headers. Pure.

use std::collections::HashMap;
use std::time::Duration;

use super::catalog::{Catalog, Place, Work};
use super::publisher::Parcel;
use super::shelf::{Item, Now};
use crate::broker::RETRY;
use crate::policy::Verdict;

/// How long a dead letter that its topic does not take is left alone.
const STUBBORN: Duration = Duration::from_secs(60);

/// What is done with a message that was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Done,
    Back,
    /// It waits here.
    Keep {
        after: Duration,
        attempts: u32,
    },
    Move(Move),
}

/// A record that goes to another topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) topic: String,
    headers: Vec<(&'static str, String)>,
    /// The delay of a retry topic; none for dead letters.
    pub(super) wait: Option<Duration>,
    /// If the topic does not take it: how long it waits here instead, with how many attempts.
    pub(super) otherwise: (Duration, u32),
}

impl Move {
    /// The record as it goes there.
    pub(super) fn parcel<'m>(&self, item: &'m Item, partition: Option<i32>) -> Parcel<'m> {
        let entry = &item.entry;
        Parcel {
            topic: self.topic.clone(),
            partition,
            key: entry.record.key.as_deref(),
            payload: entry.record.payload.as_deref(),
            headers: Some(entry.record.headers_with(&self.headers, &entry.destination, &RETRY)),
        }
    }
}

/// What the verdicts mean. `held` tells for how long earlier messages of a key have been put away.
pub(super) fn plan(
    catalog: &Catalog,
    items: &[Item],
    verdicts: &[Verdict],
    mut held: impl FnMut(&Place, &str) -> Option<Duration>,
    now: Now,
) -> Vec<Step> {
    // What this claim itself puts away; those behind follow.
    let mut put_away: HashMap<(usize, i32, &str), Duration> = HashMap::new();
    let mut steps = Vec::with_capacity(items.len());
    for (item, verdict) in items.iter().zip(verdicts) {
        let (entry, place) = (&item.entry, item.entry.place);
        let work = catalog.work(&place);
        let lane = entry.message.key.as_deref().map(|key| (place.topic, place.partition, key));
        steps.push(match verdict {
            Verdict::Done => Step::Done,
            Verdict::Released => Step::Back,
            Verdict::Retry { after, attempts, cause } => {
                let step = catalog.steps.best(*after);
                put_away.extend(lane.map(|lane| (lane, step.unwrap_or(*after))));
                let tracks = entry.tracks.retried(*attempts, cause, now.clock, *after);
                let headers = tracks.headers(&work.name);
                away(work, step, headers, (*after, *attempts))
            }
            Verdict::Behind => {
                let known =
                    lane.and_then(|lane| put_away.get(&lane).copied().or_else(|| held(&place, lane.2)));
                let wait = known.unwrap_or_default();
                let step = catalog.steps.best(wait);
                let tracks = entry.tracks.waiting(now.clock, step.unwrap_or(wait));
                let headers = tracks.headers(&work.name);
                away(work, step, headers, (wait, item.attempts))
            }
            Verdict::Dead { attempts, cause, .. } => Step::Move(Move {
                topic: work.dead.clone(),
                headers: entry.tracks.dead(&work.name, *attempts, cause, now.clock),
                wait: None,
                otherwise: (STUBBORN, *attempts),
            }),
        });
    }
    steps
}

/// What becomes of messages whose wait is longer than the delay of their retry topic: they go round once more.
pub(super) fn plan_early(catalog: &Catalog, items: &[Item], now: Now) -> Vec<Step> {
    let wait_on = |item: &Item| {
        let tracks = &item.entry.tracks;
        let (left, work) = (tracks.left(now.clock), catalog.work(&item.entry.place));
        let headers = tracks.waiting(now.clock, left).headers(&work.name);
        away(work, catalog.steps.best(left), headers, (left, item.attempts))
    };
    items.iter().map(wait_on).collect()
}

fn away(
    work: &Work,
    step: Option<Duration>,
    headers: Vec<(&'static str, String)>,
    otherwise: (Duration, u32),
) -> Step {
    match step {
        Some(step) => Step::Move(Move { topic: work.retry(step), headers, wait: Some(step), otherwise }),
        None => Step::Keep { after: otherwise.0, attempts: otherwise.1 },
    }
}

#[cfg(test)]
#[path = "moves_tests.rs"]
mod tests;
