//! When something is worth an alert: the conditions of `deploy/prometheus/alerts.yml`, by the same names, over the figures
//! of this process. Pure.
//!
//! `OutboxdDown` and `OutboxdGone` are not among them: nobody can tell of itself that it is gone. The other instances do, by
//! `OutboxRelayOffline` and `OutboxConsumerOffline`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::facts::{Facts, Labels, only, quantile};
use crate::options::AlertLimits;
use crate::quantity::show_age;

/// A beat that is older was missed three times.
const OFFLINE: f64 = 90.0;

/// After so long one that is gone was replaced, and is no news any more.
const FORGOTTEN: f64 = 3_600.0;

/// What is looked at over time.
pub const COUNTERS: [&str; 4] = [
    "outbox_failed_total",
    "outbox_delivered_total",
    "outbox_lag_seconds_bucket",
    "outbox_delivery_seconds_bucket",
];

/// How soon somebody should look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Now, also at night.
    Critical,
    /// On the next working day.
    Warning,
}

impl Severity {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

/// Who knows of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knows {
    /// Every instance sees the same in a database or at a broker.
    All,
    /// An instance knows it of itself only.
    One,
}

/// One condition.
pub struct Rule {
    /// Its name, which is that of the rule for Prometheus.
    pub alert: &'static str,
    /// So long it must hold.
    pub lasts: Duration,
    /// How soon somebody should look.
    pub severity: Severity,
    /// Who knows of it.
    pub knows: Knows,
    look: fn(&Known<'_>) -> Vec<Seen>,
}

/// What there is to judge by.
pub struct Known<'k> {
    /// How things stand.
    pub facts: &'k Facts,
    /// What was counted in the last minutes.
    pub grown: &'k Facts,
    /// What may be.
    pub limits: &'k AlertLimits,
}

/// What a condition says of one thing. Of things that are well it says nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Which.
    pub labels: Labels,
    /// It holds, in a sentence; none if that cannot be told now.
    pub holds: Option<String>,
}

impl Rule {
    /// What it says now.
    pub fn look(&self, known: &Known<'_>) -> Vec<Seen> {
        (self.look)(known)
    }
}

const fn rule(
    alert: &'static str,
    lasts: u64,
    severity: Severity,
    knows: Knows,
    look: fn(&Known<'_>) -> Vec<Seen>,
) -> Rule {
    Rule { alert, lasts: Duration::from_secs(lasts), severity, knows, look }
}

/// All of them.
pub static RULES: [Rule; 15] = {
    use Knows::{All, One};
    use Severity::{Critical, Warning};
    [
        rule("OutboxDeadMessages", 0, Critical, All, dead_messages),
        rule("OutboxDeadLetters", 60, Critical, All, dead_letters),
        rule("OutboxErrorQueueLong", 60, Critical, All, error_queue_long),
        rule("OutboxErrorsUnresolved", 60, Warning, All, errors_unresolved),
        rule("OutboxPendingHigh", 120, Warning, All, pending_high),
        rule("OutboxOldestPending", 60, Warning, All, oldest_pending),
        rule("OutboxDispatchSlow", 300, Warning, One, dispatch_slow),
        rule("OutboxProcessingSlow", 300, Warning, One, processing_slow),
        rule("OutboxErrorRateHigh", 300, Warning, One, error_rate_high),
        rule("OutboxSinkDown", 300, Critical, One, sink_down),
        rule("OutboxPipeStopped", 120, Critical, One, pipe_stopped),
        rule("OutboxConsumerOffline", 60, Critical, All, consumer_offline),
        rule("OutboxRelayOffline", 60, Warning, All, relay_offline),
        rule("OutboxQueueUnread", 120, Critical, All, queue_unread),
        rule("OutboxSourceUnreachable", 120, Critical, All, source_unreachable),
    ]
};

/// Those for which `is_so`; what is no number cannot be told.
fn those(
    values: BTreeMap<Labels, f64>,
    is_so: impl Fn(f64) -> bool,
    sentence: impl Fn(&dyn Fn(&str) -> String, f64) -> String,
) -> Vec<Seen> {
    let seen = |(labels, value): (Labels, f64)| {
        if value.is_nan() {
            return Some(Seen { labels, holds: None });
        }
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        let holds = is_so(value).then(|| sentence(&label, value))?;
        Some(Seen { labels, holds: Some(holds) })
    };
    values.into_iter().filter_map(seen).collect()
}

/// Only what has this value of a label.
fn with(facts: &Facts, name: &str, label: &str, value: &str, by: &[&str]) -> BTreeMap<Labels, f64> {
    let all = facts.by(name, &[by, &[label]].concat(), f64::max).into_iter();
    let kept = all.filter(|(labels, _)| labels.get(label).is_some_and(|is| is == value));
    kept.map(|(labels, number)| (only(&labels, by), number)).collect()
}

/// What is left without what somebody has paused, which is meant to wait; it is known by this label.
fn unless_paused(known: &Known<'_>, label: &str, mut values: BTreeMap<Labels, f64>) -> BTreeMap<Labels, f64> {
    let paused = known.facts.by("outbox_pipe_paused", &[label], f64::max);
    values.retain(|labels, _| paused.get(&only(labels, &[label])).is_none_or(|paused| *paused != 1.0));
    values
}

fn count(number: f64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1.0 { "" } else { "s" })
}

fn dead_messages(known: &Known<'_>) -> Vec<Seen> {
    let dead = known.facts.by("outbox_dead", &["source", "pipe"], f64::max);
    those(
        dead,
        |dead| dead > 0.0,
        |label, dead| {
            format!("pipe {} has given up {}, waiting for a person", label("pipe"), count(dead, "message"))
        },
    )
}

fn dead_in_queues(known: &Known<'_>, limit: u32, sentence: fn(String, String) -> String) -> Vec<Seen> {
    let dead = with(known.facts, "outbox_queue_messages", "kind", "dead", &["source", "queue"]);
    those(
        dead,
        |dead| dead > f64::from(limit),
        |label, dead| sentence(count(dead, "dead letter"), label("queue")),
    )
}

fn dead_letters(known: &Known<'_>) -> Vec<Seen> {
    dead_in_queues(known, 0, |letters, queue| {
        format!("{letters} in {queue}: their handler has failed at every attempt")
    })
}

fn error_queue_long(known: &Known<'_>) -> Vec<Seen> {
    dead_in_queues(known, known.limits.dead_letters, |letters, queue| {
        format!("{letters} in {queue}: this is no single bad message")
    })
}

fn errors_unresolved(known: &Known<'_>) -> Vec<Seen> {
    let open = known.facts.by("outbox_errors_open", &["sink"], f64::max);
    those(
        open,
        |open| open > f64::from(known.limits.errors),
        |label, open| {
            format!(
                "{} in the error table of {} wait for a person",
                count(open, "failed message"),
                label("sink")
            )
        },
    )
}

fn pending_high(known: &Known<'_>) -> Vec<Seen> {
    let by = ["source", "pipe"];
    let mut pending = known.facts.by("outbox_pending", &by, f64::max);
    for (labels, parked) in known.facts.by("outbox_parked", &by, |one, other| one + other) {
        *pending.entry(labels).or_default() += parked;
    }
    those(
        unless_paused(known, "pipe", pending),
        |pending| pending > f64::from(known.limits.pending),
        |label, pending| {
            let (pending, pipe) = (count(pending, "message"), label("pipe"));
            format!("{pending} wait for pipe {pipe}: its sink is down, or more is written than it takes")
        },
    )
}

fn oldest_pending(known: &Known<'_>) -> Vec<Seen> {
    let oldest = known.facts.by("outbox_oldest_pending_seconds", &["source", "pipe"], f64::max);
    those(
        unless_paused(known, "pipe", oldest),
        |age| age > known.limits.oldest.as_secs_f64(),
        |label, age| format!("the oldest message of pipe {} has waited for {}", label("pipe"), show_age(age)),
    )
}

/// The 95th percentile of what was measured in the last minutes; nothing where nothing was.
fn p95(known: &Known<'_>, name: &str, by: &[&str]) -> BTreeMap<Labels, f64> {
    let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for (labels, count) in known.grown.by(name, &[by, &["le"]].concat(), |one, other| one + other) {
        let Some(bound) = labels.get("le").and_then(|bound| bound.parse().ok()) else { continue };
        buckets.entry(only(&labels, by)).or_default().push((bound, count));
    }
    let quantiles = buckets.into_iter().map(|(labels, mut buckets)| (labels, quantile(0.95, &mut buckets)));
    quantiles.filter(|(_, value)| !value.is_nan()).collect()
}

fn dispatch_slow(known: &Known<'_>) -> Vec<Seen> {
    let slow = p95(known, "outbox_lag_seconds_bucket", &["pipe"]);
    those(
        unless_paused(known, "pipe", slow),
        |seconds| seconds > known.limits.dispatch.as_secs_f64(),
        |label, seconds| {
            let pipe = label("pipe");
            format!(
                "on pipe {pipe} one message in twenty takes longer than {seconds:.1} s from commit to confirmation"
            )
        },
    )
}

fn processing_slow(known: &Known<'_>) -> Vec<Seen> {
    let slow = p95(known, "outbox_delivery_seconds_bucket", &["pipe", "type"]);
    those(
        slow,
        |seconds| seconds > known.limits.processing.as_secs_f64(),
        |label, seconds| {
            let (pipe, kind) = (label("pipe"), label("type"));
            format!("the sink of pipe {pipe} takes {seconds:.1} s for a message of type {kind}")
        },
    )
}

fn error_rate_high(known: &Known<'_>) -> Vec<Seen> {
    let sum = |one: f64, other: f64| one + other;
    let failed = known.grown.by("outbox_failed_total", &["pipe"], sum);
    let delivered = known.grown.by("outbox_delivered_total", &["pipe"], sum);
    let percent = failed.into_iter().filter(|(_, failed)| *failed > 0.0).map(|(labels, failed)| {
        let all = failed + delivered.get(&labels).copied().unwrap_or(0.0);
        (labels, 100.0 * failed / all)
    });
    those(
        percent.collect(),
        |percent| percent > f64::from(known.limits.error_percent),
        |label, percent| format!("{percent:.0} % of the attempts of pipe {} fail", label("pipe")),
    )
}

fn sink_down(known: &Known<'_>) -> Vec<Seen> {
    let open = known.facts.by("outbox_sink_open", &["pipe"], f64::max);
    those(
        open,
        |open| open == 1.0,
        |label, _| {
            let pipe = label("pipe");
            format!("the sink of pipe {pipe} has taken nothing for five minutes; messages wait, none is lost")
        },
    )
}

fn pipe_stopped(known: &Known<'_>) -> Vec<Seen> {
    let ended = known.facts.by("outbox_pipe_ended", &["pipe"], f64::max);
    those(
        ended,
        |ended| ended == 1.0,
        |label, _| format!("pipe {} has ended and will not go on by itself", label("pipe")),
    )
}

/// How long ago anybody was heard who runs the pipe.
fn newest_beats(facts: &Facts) -> BTreeMap<Labels, f64> {
    facts.by("outbox_beat_age_seconds", &["pipe"], f64::min)
}

fn consumer_offline(known: &Known<'_>) -> Vec<Seen> {
    those(
        newest_beats(known.facts),
        |age| age > OFFLINE,
        |label, age| format!("nobody has run pipe {} for {}", label("pipe"), show_age(age)),
    )
}

fn relay_offline(known: &Known<'_>) -> Vec<Seen> {
    let newest = newest_beats(known.facts);
    let goes_on = |labels: &Labels| newest.get(&only(labels, &["pipe"])).is_some_and(|age| *age <= OFFLINE);
    let beats = known.facts.by("outbox_beat_age_seconds", &["relay", "pipe"], f64::min);
    let gone = beats.into_iter().filter(|(labels, age)| age.is_nan() || goes_on(labels));
    those(
        gone.collect(),
        |age| age > OFFLINE && age < FORGOTTEN,
        |label, age| {
            let (relay, pipe, age) = (label("relay"), label("pipe"), show_age(age));
            format!("{relay} has not run pipe {pipe} for {age}; others go on with it")
        },
    )
}

fn queue_unread(known: &Known<'_>) -> Vec<Seen> {
    let by = ["source", "queue"];
    let waiting = with(known.facts, "outbox_queue_messages", "kind", "work", &by);
    let unread = known.facts.by("outbox_queue_consumers", &by, f64::max).into_iter();
    let unread =
        unread.filter(|(labels, _)| waiting.get(labels).is_some_and(|count| *count > 0.0 || count.is_nan()));
    those(
        unless_paused(known, "source", unread.collect()),
        |readers| readers == 0.0,
        |label, _| format!("messages wait in queue {}, and nobody reads it", label("queue")),
    )
}

fn source_unreachable(known: &Known<'_>) -> Vec<Seen> {
    let reachable = known.facts.by("outbox_source_reachable", &["source"], f64::max);
    those(
        reachable,
        |reachable| reachable == 0.0,
        |label, _| {
            let source = label("source");
            format!("source {source} cannot be looked at; its messages wait, and how many is not known")
        },
    )
}
