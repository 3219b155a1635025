//! What is known of one pipe of this process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use outbox::Stats;
use outbox::pauses::Pause;

use crate::plan::PipePlan;

/// A pipe, from before it starts until after it has ended.
#[derive(Debug)]
pub struct Watched {
    /// Its name.
    pub name: String,
    /// The name of its source.
    pub from: String,
    /// The name of its sink.
    pub to: String,
    limits: Limits,
    known: Mutex<Known>,
}

/// What a pipe may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// So long its sink or its source may be away.
    pub away: Duration,
    /// So long messages may be there without one of them being settled.
    pub stall: Duration,
    /// So old its oldest message may be.
    pub objective: Option<Duration>,
}

/// Somebody who does not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Away {
    /// Since when.
    pub since: Timestamp,
    /// What was heard last.
    pub why: String,
}

#[derive(Debug, Default)]
struct Known {
    lanes: Vec<Arc<Stats>>,
    /// What lanes did that rested since.
    past: Past,
    /// Somebody wants it to stand still.
    pause: Option<Pause>,
    /// It is not known whether somebody does.
    pauses_away: Option<Away>,
    running: usize,
    /// Why it has ended for good.
    ended: Option<String>,
    source_away: Option<Away>,
    sink_away: Option<Away>,
    lag: Option<Duration>,
    /// Since when there is something to claim and nothing was worked off, with what was worked off by then.
    pending: Option<(Timestamp, u64)>,
}

#[derive(Debug, Default)]
struct Past {
    delivered: u64,
    failed: u64,
    last_message_at: Option<Timestamp>,
}

/// How far a pipe has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Its source is not open yet, or it is not known yet whether it is paused.
    Starting,
    /// It runs.
    Running,
    /// It stands still because somebody wants it so.
    Paused,
    /// It has ended; with the reason, unless it was told to.
    Ended(Option<String>),
}

/// A pipe as it is at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Its name.
    pub pipe: String,
    /// The name of its source.
    pub from: String,
    /// The name of its sink.
    pub to: String,
    /// How far it has come.
    pub phase: Phase,
    /// Somebody wants it to stand still; until it has drained it runs.
    pub pause: Option<Pause>,
    /// It waits to hear whether it is paused.
    pub pauses_away: Option<Away>,
    /// Its breaker is open.
    pub open: Option<Away>,
    /// Its sink was looked at and is away.
    pub sink_away: Option<Away>,
    /// Its source is away.
    pub source_away: Option<Away>,
    /// Since when messages are there and none is settled.
    pub unmoved_since: Option<Timestamp>,
    /// When a message was last settled.
    pub last_message_at: Option<Timestamp>,
    /// Since the start.
    pub delivered: u64,
    /// Attempts since the start.
    pub failed: u64,
    /// Claimed and not settled.
    pub in_flight: u64,
    /// Age of the oldest message that is neither done nor dead, when it was last asked for.
    pub lag: Option<Duration>,
    /// What the pipe may take.
    pub limits: Limits,
}

impl Watched {
    /// A pipe that has not started; `timeout` is how long its sink may take for a delivery.
    pub fn new(plan: &PipePlan, timeout: Duration) -> Self {
        let options = &plan.options;
        let stall = options.unready_after.max(options.lease).max(timeout * 2);
        let limits = Limits { away: options.unready_after, stall, objective: options.objective };
        let (name, from, to) = (plan.name.clone(), plan.from.clone(), plan.to.clone());
        Self { name, from, to, limits, known: Mutex::default() }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its source cannot be opened for now.
    pub fn source_failed(&self, why: impl Into<String>) {
        mark(&mut self.known().source_away, Some(why.into()));
    }

    /// Its source is open.
    pub fn source_opened(&self) {
        self.known().source_away = None;
    }

    /// One of its lanes runs.
    pub fn started(&self, stats: Arc<Stats>) {
        let mut known = self.known();
        known.lanes.push(stats);
        known.running += 1;
    }

    /// One of its lanes has ended; with the reason, unless it was told to.
    pub fn ended(&self, why: Option<String>) {
        let mut known = self.known();
        known.running = known.running.saturating_sub(1);
        known.ended = known.ended.take().or(why);
    }

    /// Somebody wants it to stand still, or no longer does.
    pub fn set_pause(&self, pause: Option<Pause>) {
        let mut known = self.known();
        known.pause = pause;
        known.pauses_away = None;
    }

    /// It cannot be told yet whether it is paused, so it does not begin.
    pub fn pauses_failed(&self, why: impl Into<String>) {
        mark(&mut self.known().pauses_away, Some(why.into()));
    }

    /// All of its lanes rest, and will start afresh: what was wrong with them is over.
    pub fn rests(&self) {
        let mut known = self.known();
        let lanes = std::mem::take(&mut known.lanes);
        let past = &mut known.past;
        for lane in lanes {
            past.delivered += lane.delivered();
            past.failed += failed(&lane);
            past.last_message_at = past.last_message_at.max(lane.last_message_at());
        }
        known.running = 0;
        known.ended = None;
        known.pending = None;
    }

    /// Its sink was looked at.
    pub fn sink_looked_at(&self, found: Result<(), String>) {
        mark(&mut self.known().sink_away, found.err());
    }

    /// Its source was looked at: how old the oldest message is, and whether there is any that is ours to claim.
    pub fn source_looked_at(&self, lag: Option<Duration>, pending: bool) {
        let mut known = self.known();
        let worked = known.lanes.iter().map(|lane| worked_off(lane)).sum();
        known.lag = lag;
        // What is paused is not expected to move.
        let pending = pending && known.pause.is_none();
        known.pending = match known.pending {
            Some((since, before)) if pending && before == worked => Some((since, before)),
            _ => pending.then(|| (Timestamp::now(), worked)),
        };
    }

    /// The pipe as it is now.
    pub fn view(&self) -> View {
        let known = self.known();
        let lanes = &known.lanes;
        let sum = |count: fn(&Stats) -> u64| lanes.iter().map(|lane| count(lane)).sum::<u64>();
        let open = |lane: &Arc<Stats>| {
            let (since, cause) = lane.open_since().zip(lane.open_cause())?;
            Some(Away { since, why: cause.to_string() })
        };
        let source_away = |lane: &Arc<Stats>| {
            let (since, why) = lane.source_away()?;
            Some(Away { since, why })
        };
        let unmoved = lanes.iter().filter_map(|lane| lane.unmoved_since());
        View {
            pipe: self.name.clone(),
            from: self.from.clone(),
            to: self.to.clone(),
            phase: match (&known.ended, lanes.is_empty(), known.running) {
                (Some(why), ..) => Phase::Ended(Some(why.clone())),
                (None, true, _) if known.pause.is_some() => Phase::Paused,
                (None, true, _) => Phase::Starting,
                (None, false, 0) => Phase::Ended(None),
                _ => Phase::Running,
            },
            pause: known.pause.clone(),
            pauses_away: known.pauses_away.clone(),
            open: lanes.iter().filter_map(open).min_by_key(|away| away.since),
            sink_away: known.sink_away.clone(),
            source_away: known
                .source_away
                .clone()
                .or_else(|| lanes.iter().filter_map(source_away).min_by_key(|away| away.since)),
            unmoved_since: unmoved.chain(known.pending.map(|(since, _)| since)).min(),
            last_message_at: lanes
                .iter()
                .map(|lane| lane.last_message_at())
                .fold(known.past.last_message_at, Ord::max),
            delivered: known.past.delivered + sum(Stats::delivered),
            failed: known.past.failed + sum(failed),
            in_flight: sum(Stats::in_flight),
            lag: known.lag,
            limits: self.limits,
        }
    }
}

/// Attempts that failed.
fn failed(lane: &Stats) -> u64 {
    lane.retried() + lane.dead()
}

/// What a lane has done, so that a change of it is a step forward.
fn worked_off(lane: &Stats) -> u64 {
    lane.claimed() + lane.skipped() + lane.delivered() + lane.retried() + lane.dead()
}

/// The newest reason stands; away since the first.
fn mark(away: &mut Option<Away>, why: Option<String>) {
    let since = away.as_ref().map_or_else(Timestamp::now, |away| away.since);
    *away = why.map(|why| Away { since, why });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::PipeOptions;

    fn watched() -> Watched {
        let options = PipeOptions { unready_after: Duration::from_secs(5), ..PipeOptions::default() };
        let plan = PipePlan { name: "relay".into(), from: "orders".into(), to: "events".into(), options };
        Watched::new(&plan, Duration::from_secs(40))
    }

    #[test]
    fn d8_a_slow_delivery_is_no_stall() {
        let limits = watched().view().limits;
        assert_eq!((limits.away, limits.stall), (Duration::from_secs(5), Duration::from_secs(80)));
    }

    #[test]
    fn d8_a_pipe_starts_runs_and_ends() {
        let pipe = watched();
        assert_eq!(pipe.view().phase, Phase::Starting);
        pipe.source_failed("away");
        let first = pipe.view().source_away.expect("it is away");
        pipe.source_failed("still away");
        let second = pipe.view().source_away.expect("it is away");
        assert_eq!((second.since, second.why.as_str()), (first.since, "still away"));
        pipe.source_opened();
        assert_eq!((pipe.view().phase, pipe.view().source_away), (Phase::Starting, None));
        pipe.started(Arc::default());
        pipe.started(Arc::default());
        assert_eq!(pipe.view().phase, Phase::Running);
        pipe.ended(None);
        assert_eq!(pipe.view().phase, Phase::Running, "one lane is left");
        pipe.ended(None);
        assert_eq!(pipe.view().phase, Phase::Ended(None));
    }

    #[test]
    fn d8_a_paused_pipe_runs_until_it_has_drained_and_keeps_its_counts() {
        let pipe = watched();
        let pause =
            Pause { pipe: "relay".to_owned(), by: "ann".to_owned(), at: Timestamp::UNIX_EPOCH, note: None };
        pipe.set_pause(Some(pause.clone()));
        assert_eq!(pipe.view().phase, Phase::Paused, "it does not even start");
        pipe.set_pause(None);
        assert_eq!(pipe.view().phase, Phase::Starting);
        pipe.started(Arc::default());
        pipe.set_pause(Some(pause.clone()));
        assert_eq!((pipe.view().phase, pipe.view().pause), (Phase::Running, Some(pause)), "it drains");
        pipe.source_looked_at(None, true);
        assert_eq!(pipe.view().unmoved_since, None, "nobody expects it to move");
        pipe.ended(Some("no table".to_owned()));
        pipe.rests();
        assert_eq!(pipe.view().phase, Phase::Paused);
        pipe.set_pause(None);
        pipe.started(Arc::default());
        assert_eq!(pipe.view().phase, Phase::Running, "what was wrong before is tried again");
    }

    #[test]
    fn d8_a_lane_that_cannot_go_on_is_told_while_others_run() {
        let pipe = watched();
        pipe.started(Arc::default());
        pipe.started(Arc::default());
        pipe.ended(Some("no table".to_owned()));
        pipe.ended(None);
        assert_eq!(pipe.view().phase, Phase::Ended(Some("no table".to_owned())));
    }

    #[test]
    fn d8_what_is_pending_stands_still_until_something_is_worked_off() {
        let pipe = watched();
        pipe.started(Arc::default());
        pipe.source_looked_at(Some(Duration::from_secs(1)), true);
        let since = pipe.view().unmoved_since.expect("it stands still");
        pipe.source_looked_at(Some(Duration::from_secs(2)), true);
        assert_eq!((pipe.view().unmoved_since, pipe.view().lag), (Some(since), Some(Duration::from_secs(2))));
        pipe.source_looked_at(None, false);
        assert_eq!((pipe.view().unmoved_since, pipe.view().lag), (None, None));
    }

    #[test]
    fn d8_a_sink_is_away_until_it_was_seen() {
        let pipe = watched();
        pipe.sink_looked_at(Err("refused".to_owned()));
        let since = pipe.view().sink_away.expect("it is away").since;
        pipe.sink_looked_at(Err("no answer".to_owned()));
        assert_eq!(pipe.view().sink_away, Some(Away { since, why: "no answer".to_owned() }));
        pipe.sink_looked_at(Ok(()));
        assert_eq!(pipe.view().sink_away, None);
    }
}
