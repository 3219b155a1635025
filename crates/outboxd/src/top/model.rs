//! What is shown, from what `status` tells. Pure: two looks make a rate.

use std::collections::{BTreeMap, VecDeque};

use jiff::Timestamp;
use serde::Deserialize;

use crate::quantity::show_age;

/// So many rates are kept for the trend.
const HISTORY: usize = 60;

/// A beat that is newer by less is the same one: its time is told by its age, which is not exact.
const SAME_BEAT: f64 = 1.0;

/// What `status --format json` tells, as far as it is shown.
#[derive(Debug, Default, Deserialize)]
pub struct Told {
    #[serde(default)]
    pipes: Vec<CursorTold>,
    instances: Option<Vec<InstanceTold>>,
}

/// A cursor of a pipe, or a pipe without one.
#[derive(Debug, Default, Deserialize)]
struct CursorTold {
    source: String,
    pipe: Option<String>,
    #[serde(default)]
    started: bool,
    owner: Option<String>,
    lease_until: Option<Timestamp>,
    lag_seconds: Option<f64>,
    #[serde(default)]
    pending: u64,
    #[serde(default)]
    waiting: u64,
    #[serde(default)]
    behind: u64,
    #[serde(default)]
    dead: u64,
    delivered: Option<u64>,
    error: Option<String>,
}

/// An instance that runs a pipe, or did.
#[derive(Debug, Deserialize)]
struct InstanceTold {
    instance: String,
    pipe: String,
    state: String,
    cause: Option<String>,
    beat_at: Timestamp,
    #[serde(default)]
    delivered: u64,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Well,
    /// It may pass.
    Uneasy,
    /// Somebody must do something.
    Bad,
}

/// What comes first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sort {
    /// Whatever is wrong.
    #[default]
    Trouble,
    /// By name.
    Name,
    /// The fastest.
    Rate,
    /// The one that is furthest behind.
    Lag,
}

impl Sort {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trouble => "trouble",
            Self::Name => "name",
            Self::Rate => "rate",
            Self::Lag => "lag",
        }
    }

    /// The one after it.
    pub fn next(self) -> Self {
        match self {
            Self::Trouble => Self::Name,
            Self::Name => Self::Rate,
            Self::Rate => Self::Lag,
            Self::Lag => Self::Trouble,
        }
    }
}

/// One line: a pipe, over all its lanes and instances.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its name.
    pub pipe: String,
    /// A word.
    pub state: String,
    /// How bad that is.
    pub level: Level,
    /// Why, if somebody told.
    pub cause: Option<String>,
    /// Not done and not set aside; none where only a broker knows.
    pub pending: Option<u64>,
    /// Age of the oldest message that is not done, in seconds.
    pub lag: Option<f64>,
    /// Set aside, for a retry or behind another.
    pub waiting: Option<u64>,
    /// Waits for a person.
    pub dead: Option<u64>,
    /// Who has it.
    pub owner: Option<String>,
    /// Delivered in a second, since the look before.
    pub rate: Option<f64>,
    /// The rates before, oldest first.
    pub history: VecDeque<f64>,
    /// What the rate is made from.
    count: Option<Count>,
}

/// Delivered so far, by whoever counts.
#[derive(Debug, Clone, PartialEq)]
enum Count {
    /// The cursors, at every look: a count without change means that nothing was delivered.
    Live(Tally),
    /// Each instance for itself, with its beats, which come seldom and not together.
    Beats(BTreeMap<String, Tally>),
}

/// Delivered so far, and when, in seconds on the clock of whoever counted.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Tally {
    delivered: u64,
    at: f64,
    /// In a second, since the tally before.
    rate: Option<f64>,
}

impl Tally {
    /// Goes on from the tally before; `false` if there is no news, and what held goes on to hold.
    fn follow(&mut self, before: &Self, is_same_within: f64) -> bool {
        let passed = self.at - before.at;
        if passed <= is_same_within {
            *self = *before;
            return false;
        }
        // Fewer than before: somebody began anew, and nobody knows how many it were.
        #[expect(clippy::cast_precision_loss, reason = "nobody delivers so many between two looks")]
        let rate = self.delivered.checked_sub(before.delivered).map(|more| more as f64 / passed);
        self.rate = rate;
        true
    }
}

impl Count {
    /// Goes on from the count before; `false` if there is no news.
    fn follow(&mut self, before: &Self) -> bool {
        match (self, before) {
            (Self::Live(tally), Self::Live(before)) => tally.follow(before, 0.0),
            (Self::Beats(tallies), Self::Beats(before)) => {
                let news = tallies.iter_mut().map(|(instance, tally)| {
                    before.get(instance).is_some_and(|before| tally.follow(before, SAME_BEAT))
                });
                // Every one of them, also after the first that has news.
                news.filter(|is_news| *is_news).count() > 0
            }
            _ => false,
        }
    }

    /// The rates that are known, together.
    fn rate(&self) -> Option<f64> {
        match self {
            Self::Live(tally) => tally.rate,
            Self::Beats(tallies) => tallies.values().filter_map(|tally| tally.rate).reduce(|a, b| a + b),
        }
    }
}

/// All lines, and in which order.
#[derive(Debug, Default)]
pub struct Model {
    /// What comes first.
    pub sort: Sort,
    lines: Vec<Line>,
}

impl Model {
    /// Takes a look in; `at` is its time in seconds on any clock that only goes forward. `pipes` are those of the plan,
    /// of which some may not be told of.
    pub fn look(&mut self, told: &Told, pipes: &[String], at: f64, now: Timestamp) {
        let before: BTreeMap<_, _> = self.lines.drain(..).map(|line| (line.pipe.clone(), line)).collect();
        let mut names: Vec<&str> = told.pipes.iter().filter_map(|cursor| cursor.pipe.as_deref()).collect();
        names.extend(pipes.iter().map(String::as_str));
        names.sort_unstable();
        names.dedup();
        self.lines = names.into_iter().map(|name| line(told, name, at, now)).collect();
        // A source in trouble that no pipe reads is still in trouble.
        let orphans = told.pipes.iter().filter(|cursor| cursor.pipe.is_none() && cursor.error.is_some());
        self.lines
            .extend(orphans.map(|cursor| line_of(&format!("({})", cursor.source), &[cursor], &[], at, now)));
        for line in &mut self.lines {
            if let Some(before) = before.get(&line.pipe) {
                line.follow(before);
            }
        }
    }

    /// In order.
    pub fn lines(&self) -> Vec<&Line> {
        let mut lines: Vec<&Line> = self.lines.iter().collect();
        let downwards = |a: Option<f64>, b: Option<f64>| b.unwrap_or(-1.0).total_cmp(&a.unwrap_or(-1.0));
        match self.sort {
            Sort::Name => {}
            Sort::Trouble => lines.sort_by_key(|line| std::cmp::Reverse(line.level)),
            Sort::Rate => lines.sort_by(|a, b| downwards(a.rate, b.rate)),
            Sort::Lag => lines.sort_by(|a, b| downwards(a.lag, b.lag)),
        }
        lines
    }

    /// One sentence: is it well, and if not, what is wrong.
    pub fn truth(&self) -> (Level, String) {
        let worst = self.lines.iter().map(|line| line.level).max().unwrap_or(Level::Well);
        if self.lines.is_empty() {
            return (Level::Uneasy, "There is no pipe.".to_owned());
        }
        if worst == Level::Well {
            let oldest = self.lines.iter().filter_map(|line| line.lag).max_by(f64::total_cmp);
            let oldest =
                oldest.map_or("Nothing waits".to_owned(), |lag| format!("Oldest message {}", show_age(lag)));
            return (worst, format!("All is well. {oldest}."));
        }
        let mut wrong: Vec<&Line> = self.lines.iter().filter(|line| line.level > Level::Well).collect();
        wrong.sort_by_key(|line| std::cmp::Reverse(line.level));
        let told: Vec<String> = wrong.iter().map(|line| line.trouble()).collect();
        let verb = if wrong.len() == 1 { "is" } else { "are" };
        (worst, format!("{} of {} {verb} not well: {}", wrong.len(), self.lines.len(), told.join("; ")))
    }
}

impl Line {
    /// What is wrong with it, in a few words.
    fn trouble(&self) -> String {
        let dead = self.dead.filter(|dead| *dead > 0).map(|dead| format!("{dead} dead"));
        let state = (self.state != "running").then(|| self.state.clone());
        let words: Vec<String> = dead.into_iter().chain(state).collect();
        format!("{} ({})", self.pipe, words.join(", "))
    }

    /// Goes on from the look before.
    fn follow(&mut self, before: &Self) {
        self.history.clone_from(&before.history);
        let (Some(old), Some(new)) = (&before.count, &mut self.count) else { return };
        let is_news = new.follow(old);
        self.rate = new.rate();
        self.history.extend(self.rate.filter(|_| is_news));
        if self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }
}

fn line(told: &Told, name: &str, at: f64, now: Timestamp) -> Line {
    let cursors: Vec<_> = told.pipes.iter().filter(|cursor| cursor.pipe.as_deref() == Some(name)).collect();
    let instances: Vec<_> = told.instances.iter().flatten().filter(|seen| seen.pipe == name).collect();
    line_of(name, &cursors, &instances, at, now)
}

fn line_of(
    name: &str,
    cursors: &[&CursorTold],
    instances: &[&InstanceTold],
    at: f64,
    now: Timestamp,
) -> Line {
    let sum = |count: fn(&CursorTold) -> u64| {
        let known = cursors.iter().any(|cursor| cursor.started);
        known.then(|| cursors.iter().map(|cursor| count(cursor)).sum::<u64>())
    };
    let (mut level, state, cause) = state(cursors, instances, now);
    let dead = sum(|cursor| cursor.dead);
    if dead.is_some_and(|dead| dead > 0) {
        level = Level::Bad;
    }
    Line {
        pipe: name.to_owned(),
        state,
        level,
        cause,
        pending: sum(|cursor| cursor.pending),
        lag: cursors.iter().filter_map(|cursor| cursor.lag_seconds).max_by(f64::total_cmp),
        waiting: sum(|cursor| cursor.waiting + cursor.behind),
        dead,
        owner: owner(cursors, instances),
        rate: None,
        history: VecDeque::new(),
        count: count(cursors, instances, at),
    }
}

fn is_gone(state: &str) -> bool {
    ["stopped", "offline"].contains(&state)
}

/// How a pipe is: by those who run it, else by who holds it.
fn state(
    cursors: &[&CursorTold],
    instances: &[&InstanceTold],
    now: Timestamp,
) -> (Level, String, Option<String>) {
    if let Some(error) = cursors.iter().find_map(|cursor| cursor.error.clone()) {
        return (Level::Bad, "unknown".to_owned(), Some(error));
    }
    // One that cannot deliver says more than one that stands by.
    let live = || instances.iter().filter(|seen| !is_gone(&seen.state));
    let telling =
        live().find(|seen| seen.state == "waiting").or_else(|| live().find(|seen| seen.state == "running"));
    if let Some(seen) = telling.or_else(|| live().next()) {
        let level = match seen.state.as_str() {
            "waiting" | "starting" => Level::Uneasy,
            _ => Level::Well,
        };
        return (level, seen.state.clone(), seen.cause.clone());
    }
    let is_held = cursors
        .iter()
        .any(|cursor| cursor.owner.is_some() && cursor.lease_until.is_none_or(|end| end >= now));
    if is_held {
        return (Level::Well, "running".to_owned(), None);
    }
    if let Some(gone) = instances.iter().max_by_key(|seen| seen.beat_at) {
        return (Level::Bad, gone.state.clone(), gone.cause.clone());
    }
    if cursors.iter().any(|cursor| cursor.owner.is_some()) {
        return (Level::Bad, "gone".to_owned(), None);
    }
    let word = if cursors.iter().any(|cursor| cursor.started) { "not running" } else { "not started" };
    (Level::Uneasy, word.to_owned(), None)
}

fn owner(cursors: &[&CursorTold], instances: &[&InstanceTold]) -> Option<String> {
    let mut owners: Vec<&str> = cursors.iter().filter_map(|cursor| cursor.owner.as_deref()).collect();
    if owners.is_empty() {
        let live = instances.iter().filter(|seen| !is_gone(&seen.state));
        owners = live.map(|seen| seen.instance.as_str()).collect();
    }
    owners.sort_unstable();
    owners.dedup();
    let more = owners.len().saturating_sub(1);
    owners.first().map(|first| if more == 0 { (*first).to_owned() } else { format!("{first} +{more}") })
}

/// What was delivered: by the cursors if they count, else by what those told who run it.
fn count(cursors: &[&CursorTold], instances: &[&InstanceTold], at: f64) -> Option<Count> {
    let counted: Option<u64> = cursors.iter().map(|cursor| cursor.delivered).sum();
    if let Some(delivered) = counted.filter(|_| !cursors.is_empty()) {
        return Some(Count::Live(Tally { delivered, at, rate: None }));
    }
    let tally = |seen: &&InstanceTold| {
        let at = seen.beat_at.as_duration().as_secs_f64();
        (seen.instance.clone(), Tally { delivered: seen.delivered, at, rate: None })
    };
    // Who is gone does not beat any more, and its last rate would hold for ever.
    let live = instances.iter().filter(|seen| !is_gone(&seen.state));
    let tallies: BTreeMap<_, _> = live.map(tally).collect();
    (!tallies.is_empty()).then_some(Count::Beats(tallies))
}

#[cfg(test)]
#[path = "model_tests.rs"]
mod tests;
