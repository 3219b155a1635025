//! What it means how a pipe is: pure.

use std::time::Duration;

use jiff::Timestamp;
use outbox::beats::State;

use super::watched::{Away, Phase, View};
use crate::pauses::sentence;
use crate::quantity::{show_age, show_duration};

/// How well a pipe is, from good to bad; that of the process is the worst of its pipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing is amiss.
    Ok,
    /// Something is, and it may pass by itself.
    Degraded,
    /// Not ready: somebody should look.
    Failing,
}

impl Level {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Failing => "failing",
        }
    }
}

/// What to make of a pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// In a word.
    pub state: State,
    /// Why it does not run.
    pub cause: Option<String>,
    /// How well it is.
    pub level: Level,
    /// Why it is not ready: a word for scripts, a sentence for people.
    pub unready: Vec<(&'static str, String)>,
}

/// What a pipe is like, and whether it is ready.
pub fn judge(view: &View, now: Timestamp) -> Judged {
    let sink = sink_away(view);
    let (state, cause) = match (&view.phase, sink, &view.source_away) {
        (Phase::Ended(why), ..) => (State::Stopped, why.clone()),
        (Phase::Paused, ..) => (State::Paused, paused(view)),
        (Phase::Starting, _, away) => {
            (State::Starting, away.as_ref().map_or_else(|| unheard(view), |away| Some(away.why.clone())))
        }
        (Phase::Running, Some(away), _) => (State::Waiting, Some(away.why.clone())),
        // It runs and asks again and again, but whoever looks should see why nothing comes.
        (Phase::Running, None, away) => (State::Running, away.as_ref().map(|away| away.why.clone())),
    };
    let unready = unready(view, now);
    let is_wanted = view.pause.is_some();
    let level = if !unready.is_empty() {
        Level::Failing
    } else if !is_wanted && (sink.is_some() || view.source_away.is_some() || view.pauses_away.is_some()) {
        Level::Degraded
    } else {
        Level::Ok
    };
    Judged { state, cause, level, unready }
}

/// It may be paused, and whoever knows does not answer.
fn unheard(view: &View) -> Option<String> {
    view.pauses_away.as_ref().map(|away| format!("it is not known yet whether it is paused: {}", away.why))
}

/// Who paused it; and what the pause costs, if that is more than was agreed to.
fn paused(view: &View) -> Option<String> {
    let late = too_late(view).map(|late| format!("; {late}")).unwrap_or_default();
    view.pause.as_ref().map(|pause| format!("{}{late}", sentence(pause)))
}

/// By what the pipe met, or by what was looked at, whichever is known for longer.
pub fn sink_away(view: &View) -> Option<&Away> {
    view.open.iter().chain(&view.sink_away).min_by_key(|away| away.since)
}

fn unready(view: &View, now: Timestamp) -> Vec<(&'static str, String)> {
    if let Phase::Ended(Some(why)) = &view.phase {
        return vec![("stopped", format!("it has stopped for good: {why}"))];
    }
    // Somebody wants it to stand still, and knows.
    if view.pause.is_some() {
        return Vec::new();
    }
    let mut reasons = Vec::new();
    let mut away = |what: &'static str, name: &str, away: Option<&Away>| {
        let Some(away) = away.filter(|away| since(away.since, now) > view.limits.away) else { return };
        let age = show_age(since(away.since, now).as_secs_f64());
        reasons.push((what, format!("{what} '{name}' has been away for {age}: {}", away.why)));
    };
    away("sink", &view.to, sink_away(view));
    away("source", &view.from, view.source_away.as_ref());
    if let Some(away) = view.pauses_away.as_ref().filter(|away| since(away.since, now) > view.limits.away) {
        let age = show_age(since(away.since, now).as_secs_f64());
        reasons
            .push(("pauses", format!("it has waited for {age} to hear whether it is paused: {}", away.why)));
    }
    // Where one end is away nothing moves, and that end is what to tell of.
    let is_through = sink_away(view).is_none() && view.source_away.is_none();
    if let Some(unmoved) = view.unmoved_since.map(|unmoved| since(unmoved, now))
        && is_through
        && unmoved > view.limits.stall
    {
        let age = show_age(unmoved.as_secs_f64());
        reasons.push(("stalled", format!("it has messages, and none was settled for {age}")));
    }
    reasons.extend(too_late(view).map(|late| ("objective", late)));
    reasons
}

/// The oldest message is older than it may be.
fn too_late(view: &View) -> Option<String> {
    let (lag, objective) = view.lag.zip(view.limits.objective).filter(|(lag, objective)| lag > objective)?;
    let (lag, objective) = (show_age(lag.as_secs_f64()), show_duration(objective));
    Some(format!("its oldest message is {lag} old, the objective is {objective}"))
}

fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use outbox::pauses::Pause;

    use super::*;
    use crate::health::watched::Limits;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn ago(seconds: i64) -> Timestamp {
        NOW - SignedDuration::from_secs(seconds)
    }

    fn away(seconds: i64) -> Option<Away> {
        Some(Away { since: ago(seconds), why: "UNREACHABLE: refused".to_owned() })
    }

    fn view() -> View {
        let limits = Limits {
            away: Duration::from_secs(60),
            stall: Duration::from_secs(80),
            objective: Some(Duration::from_secs(300)),
        };
        View {
            pipe: "relay".to_owned(),
            from: "orders".to_owned(),
            to: "events".to_owned(),
            phase: Phase::Running,
            pause: None,
            pauses_away: None,
            open: None,
            sink_away: None,
            source_away: None,
            unmoved_since: None,
            last_message_at: None,
            delivered: 0,
            failed: 0,
            in_flight: 0,
            lag: None,
            limits,
        }
    }

    fn told(view: &View) -> (&'static str, &'static str, Vec<&'static str>) {
        let judged = judge(view, NOW);
        let reasons = judged.unready.iter().map(|(reason, _)| *reason).collect();
        (judged.state.as_str(), judged.level.as_str(), reasons)
    }

    #[test]
    fn d8_a_pipe_is_not_ready_for_the_reasons_that_it_has() {
        let lag = |seconds| Some(Duration::from_secs(seconds));
        let ended = |why: Option<&str>| Phase::Ended(why.map(str::to_owned));
        for (view, expected) in [
            (view(), ("running", "ok", vec![])),
            (View { phase: Phase::Starting, ..view() }, ("starting", "ok", vec![])),
            (View { open: away(59), ..view() }, ("waiting", "degraded", vec![])),
            (View { open: away(61), ..view() }, ("waiting", "failing", vec!["sink"])),
            (View { open: away(1), sink_away: away(61), ..view() }, ("waiting", "failing", vec!["sink"])),
            (View { sink_away: away(1), ..view() }, ("waiting", "degraded", vec![])),
            (View { source_away: away(1), ..view() }, ("running", "degraded", vec![])),
            (View { source_away: away(61), ..view() }, ("running", "failing", vec!["source"])),
            (
                View { phase: Phase::Starting, source_away: away(61), ..view() },
                ("starting", "failing", vec!["source"]),
            ),
            (
                View { phase: Phase::Starting, pauses_away: away(1), ..view() },
                ("starting", "degraded", vec![]),
            ),
            (
                View { phase: Phase::Starting, pauses_away: away(61), ..view() },
                ("starting", "failing", vec!["pauses"]),
            ),
            (View { unmoved_since: Some(ago(79)), ..view() }, ("running", "ok", vec![])),
            (View { unmoved_since: Some(ago(81)), ..view() }, ("running", "failing", vec!["stalled"])),
            (
                View { unmoved_since: Some(ago(81)), open: away(81), ..view() },
                ("waiting", "failing", vec!["sink"]),
            ),
            (View { lag: lag(299), ..view() }, ("running", "ok", vec![])),
            (View { lag: lag(301), ..view() }, ("running", "failing", vec!["objective"])),
            (
                View { lag: lag(301), open: away(61), ..view() },
                ("waiting", "failing", vec!["sink", "objective"]),
            ),
            (View { phase: ended(None), ..view() }, ("stopped", "ok", vec![])),
            (View { phase: ended(Some("no table")), ..view() }, ("stopped", "failing", vec!["stopped"])),
        ] {
            assert_eq!(told(&view), expected, "{view:?}");
        }
    }

    #[test]
    fn d8_a_paused_pipe_is_ready_whatever_waits_and_says_who_wants_it_so() {
        let pause = Pause {
            pipe: "relay".to_owned(),
            by: "ann".to_owned(),
            at: NOW,
            note: Some("the broker moves".to_owned()),
        };
        let paused = View {
            phase: Phase::Paused,
            pause: Some(pause),
            sink_away: away(61),
            source_away: away(61),
            unmoved_since: Some(ago(81)),
            ..view()
        };
        assert_eq!(told(&paused), ("paused", "ok", vec![]));
        let words = "paused by ann since 1970-01-01T00:00:00Z: the broker moves";
        assert_eq!(judge(&paused, NOW).cause.as_deref(), Some(words));
        let late = View { lag: Some(Duration::from_secs(301)), ..paused.clone() };
        assert_eq!(told(&late), ("paused", "ok", vec![]));
        let cause = judge(&late, NOW).cause.unwrap_or_default();
        assert!(cause.starts_with(words) && cause.ends_with(" old, the objective is 5m"), "{cause}");
        let draining = View { phase: Phase::Running, ..paused.clone() };
        assert_eq!(told(&draining), ("waiting", "ok", vec![]), "it is not there yet");
        let ended = View { phase: Phase::Ended(Some("no table".to_owned())), ..paused };
        assert_eq!(told(&ended), ("stopped", "failing", vec!["stopped"]), "nobody wanted that");
    }

    #[test]
    fn d8_without_an_objective_no_message_is_too_old() {
        let mut view = View { lag: Some(Duration::from_secs(1_000_000)), ..view() };
        view.limits.objective = None;
        assert_eq!(told(&view), ("running", "ok", vec![]));
    }

    #[test]
    fn d8_a_reason_names_who_is_away_for_how_long_and_why() {
        let judged = judge(&View { open: away(61), ..view() }, NOW);
        assert_eq!(judged.cause.as_deref(), Some("UNREACHABLE: refused"));
        let (_, sentence) = &judged.unready[0];
        assert!(sentence.starts_with("sink 'events' has been away for "), "{sentence}");
        assert!(sentence.ends_with(": UNREACHABLE: refused"), "{sentence}");
    }

    #[test]
    fn d8_who_waits_to_hear_whether_it_is_paused_says_so() {
        let judged = judge(&View { phase: Phase::Starting, pauses_away: away(61), ..view() }, NOW);
        assert_eq!(
            judged.cause.as_deref(),
            Some("it is not known yet whether it is paused: UNREACHABLE: refused")
        );
        let (_, sentence) = &judged.unready[0];
        assert!(sentence.starts_with("it has waited for ") && sentence.ends_with("refused"), "{sentence}");
    }

    #[test]
    fn d8_levels_are_in_order() {
        assert!(Level::Ok < Level::Degraded && Level::Degraded < Level::Failing);
    }
}
