//! `[pipes.NAME]`: from a source to a sink.

use std::collections::HashMap;

use super::{days, millis, minutes, secs};
use crate::mistake::{At, Place};
use crate::options::{GROUP_WORDS, ON_DEAD_WORDS, ORDER_WORDS, OUTAGE_WORDS, PipeOptions, Start};
use crate::reader::Section;

/// From a source to a sink.
#[derive(Debug)]
pub struct PipeConfig {
    /// Its name, which is that of its cursor.
    pub name: At<String>,
    /// The source.
    pub from: Option<At<String>>,
    /// The sink.
    pub to: Option<At<String>>,
    /// Everything else.
    pub options: PipeOptions,
    /// Where the section begins.
    pub place: Place,
    set: HashMap<&'static str, Place>,
}

/// What has another meaning, or none, from one source to the next: where it was written is told.
const BY_SOURCE: [&str; 13] = [
    "on_dead",
    "attempts",
    "retry",
    "retry_first",
    "retry_most",
    "lanes",
    "lease",
    "start",
    "batch",
    "depth",
    "concurrency",
    "order",
    "objective",
];

impl PipeConfig {
    /// Where a key was written, if it was.
    pub fn set(&self, key: &str) -> Option<Place> {
        debug_assert!(BY_SOURCE.contains(&key), "{key}");
        self.set.get(key).copied()
    }
}

pub(super) fn read_pipe(name: At<String>, section: Section<'_>) -> PipeConfig {
    let mut options = PipeOptions::default();
    let from = section.required("from", "name the source: from = \"…\"");
    let to = section.required("to", "name the sink: to = \"…\"");
    read_policy(&section, &mut options);
    section.count("batch", 1..=10_000, &mut options.batch);
    section.count("depth", 1..=64, &mut options.depth);
    section.count("concurrency", 1..=1_024, &mut options.concurrency);
    section.choice("group", &GROUP_WORDS, &mut options.group);
    section.count("lanes", 1..=256, &mut options.lanes);
    section.duration("lease", secs(1)..=minutes(60), &mut options.lease);
    section.duration("poll", millis(1)..=minutes(10), &mut options.poll);
    section.duration("drain", millis(0)..=minutes(60), &mut options.drain);
    section.choice("start", &Start::WORDS, &mut options.start);
    section.duration_or_never("objective", secs(1)..=days(30), &mut options.objective);
    section.duration("unready_after", secs(1)..=days(1), &mut options.unready_after);
    let set = BY_SOURCE.into_iter().filter_map(|key| Some((key, section.place_if_set(key)?))).collect();
    let place = section.place();
    section.finish(&[]);
    PipeConfig { name, from, to, options, place, set }
}

fn read_policy(section: &Section<'_>, options: &mut PipeOptions) {
    let policy = &mut options.policy;
    section.choice("order", &ORDER_WORDS, &mut policy.order);
    section.choice("on_dead", &ON_DEAD_WORDS, &mut policy.on_dead);
    section.choice("outage", &OUTAGE_WORDS, &mut policy.outage);
    section.count("attempts", 1..=1_000_000, &mut policy.attempts);
    let delays = || millis(1)..=days(1);
    section.duration("retry_first", delays(), &mut policy.retry.first);
    section.duration("retry_most", delays(), &mut policy.retry.most);
    section.duration("probe_first", delays(), &mut policy.probe.first);
    section.duration("probe_most", delays(), &mut policy.probe.most);
    section.count("streak", 1..=1_000_000, &mut policy.streak);
    for (first, most, backoff) in
        [("retry_first", "retry_most", policy.retry), ("probe_first", "probe_most", policy.probe)]
    {
        if backoff.first > backoff.most {
            let set = if section.has(first) { first } else { most };
            section.note(
                set,
                format!("'{first}' is above '{most}'"),
                "delays double from the first up to the most",
            );
        }
    }
    let steps = section.durations("retry", &(millis(1)..=days(30)));
    if section.has("retry") {
        let doubling = ["attempts", "retry_first", "retry_most"];
        for key in doubling.into_iter().filter(|key| section.is_set(key)) {
            let help = "'retry' lists every delay, and after the last attempt a message is dead; keep one of the two";
            section.note(key, "stands beside 'retry'", help);
        }
        policy.steps = Some(steps);
    }
}
