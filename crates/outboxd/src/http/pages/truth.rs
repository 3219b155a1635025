//! The one sentence that stands on every page: whether all is well, or what is not and what to do. Pure.

use crate::health::{Judged, Level, Phase, View, sink_away};
use crate::quantity::show_age;

/// How it is, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    /// How well.
    pub level: Level,
    /// The sentence.
    pub sentence: String,
    /// What to do next, and the page where one does.
    pub step: Option<(String, String)>,
}

impl Truth {
    fn new(level: Level, sentence: impl Into<String>, step: Option<(&str, &str)>) -> Self {
        let step = step.map(|(words, page)| (words.to_owned(), page.to_owned()));
        Self { level, sentence: sentence.into(), step }
    }
}

/// What to say of these pipes; `dead` is how many messages wait for a person, as far as that is known.
pub fn truth(pipes: &[(View, Judged)], dead: Option<u64>) -> Truth {
    if pipes.is_empty() {
        let step = ("add [pipes.NAME] to the configuration", "/pipes");
        return Truth::new(Level::Degraded, "No pipe runs here.", Some(step));
    }
    let failing = || pipes.iter().filter(|(_, judged)| judged.level == Level::Failing);
    if let Some((view, judged)) = failing().next() {
        return not_ready(view, judged, failing().count() - 1);
    }
    if let Some((view, judged)) = pipes.iter().find(|(_, judged)| judged.level == Level::Degraded) {
        return degraded(view, judged);
    }
    if let Some((view, _)) = pipes.iter().find(|(view, _)| view.phase == Phase::Starting) {
        return Truth::new(Level::Ok, format!("Starting: pipe '{}' opens its source.", view.pipe), None);
    }
    healthy(pipes, dead.unwrap_or(0))
}

fn not_ready(view: &View, judged: &Judged, others: usize) -> Truth {
    let (reason, detail) =
        judged.unready.first().cloned().unwrap_or(("stopped", "nobody knows why".to_owned()));
    let more = match others {
        0 => String::new(),
        1 => " One more pipe is not ready.".to_owned(),
        others => format!(" {others} more pipes are not ready."),
    };
    let sentence = format!("Pipe '{}' is not ready: {detail}.{more}", view.pipe);
    let step = match reason {
        "stopped" => ("mend the cause, then start outboxd again", "/doctor".to_owned()),
        "objective" => ("see what waits", format!("/messages?filter=pipe%3A{}+state%3Apending", view.pipe)),
        "stalled" => ("see who holds its messages", "/pipes".to_owned()),
        _ => ("look at it with doctor; it goes on by itself", "/doctor".to_owned()),
    };
    Truth::new(Level::Failing, sentence, Some((step.0, &step.1)))
}

fn degraded(view: &View, judged: &Judged) -> Truth {
    let why = judged.cause.as_deref().unwrap_or("it does not answer");
    let whom = match sink_away(view) {
        Some(_) => format!("sink '{}'", view.to),
        None => format!("source '{}'", view.from),
    };
    let sentence = format!("Pipe '{}' waits for {whom}: {why}.", view.pipe);
    Truth::new(Level::Degraded, sentence, Some(("it goes on by itself; doctor tells more", "/doctor")))
}

fn healthy(pipes: &[(View, Judged)], dead: u64) -> Truth {
    let lag = pipes.iter().filter_map(|(view, _)| view.lag).max();
    let waits = match lag {
        Some(lag) => format!("Oldest unpublished {}.", show_age(lag.as_secs_f64())),
        None => "Nothing waits.".to_owned(),
    };
    let (sentence, step) = match dead {
        0 => (format!("Healthy. {waits}"), None),
        1 => (
            format!("Running. {waits} One message is dead."),
            Some(("decide what becomes of it", "/failures")),
        ),
        dead => {
            let sentence = format!("Running. {waits} {} messages are dead.", super::text::counted(dead));
            (sentence, Some(("decide what becomes of them", "/failures")))
        }
    };
    let level = if dead == 0 { Level::Ok } else { Level::Degraded };
    Truth::new(level, sentence, step)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;
    use crate::health::{Away, Watched, judge};
    use crate::options::PipeOptions;
    use crate::plan::PipePlan;

    fn view() -> View {
        let options = PipeOptions { unready_after: Duration::from_secs(5), ..PipeOptions::default() };
        let plan = PipePlan { name: "relay".into(), from: "orders".into(), to: "events".into(), options };
        let watched = Watched::new(&plan, Duration::ZERO);
        watched.started(Arc::default());
        watched.view()
    }

    fn told(view: View, dead: Option<u64>) -> (Level, String, Option<String>) {
        let judged = judge(&view, Timestamp::now());
        let truth = truth(&[(view, judged)], dead);
        (truth.level, truth.sentence, truth.step.map(|(_, page)| page))
    }

    fn away(seconds: i64) -> Option<Away> {
        let since = Timestamp::now() - jiff::SignedDuration::from_secs(seconds);
        Some(Away { since, why: "UNREACHABLE: refused".to_owned() })
    }

    #[test]
    fn e5_a_quiet_pipe_is_healthy_and_an_old_message_is_told() {
        assert_eq!(told(view(), Some(0)), (Level::Ok, "Healthy. Nothing waits.".to_owned(), None));
        let late = View { lag: Some(Duration::from_millis(400)), ..view() };
        assert_eq!(told(late, None), (Level::Ok, "Healthy. Oldest unpublished 0.4s.".to_owned(), None));
    }

    #[test]
    fn e5_what_is_dead_is_no_health() {
        let (level, sentence, page) = told(view(), Some(3));
        assert_eq!((level, page.as_deref()), (Level::Degraded, Some("/failures")));
        assert_eq!(sentence, "Running. Nothing waits. 3 messages are dead.");
        assert!(told(view(), Some(10_000)).1.contains("≥ 10,000 messages are dead"));
    }

    #[test]
    fn e5_who_is_away_is_named_with_the_next_step() {
        let (level, sentence, page) = told(View { open: away(1), ..view() }, None);
        assert_eq!((level, page.as_deref()), (Level::Degraded, Some("/doctor")));
        assert_eq!(sentence, "Pipe 'relay' waits for sink 'events': UNREACHABLE: refused.");
        let (level, sentence, _) = told(View { open: away(9), ..view() }, Some(3));
        assert_eq!(level, Level::Failing);
        assert!(
            sentence.starts_with("Pipe 'relay' is not ready: sink 'events' has been away for 9"),
            "{sentence}"
        );
        let (_, sentence, _) = told(View { source_away: away(1), ..view() }, None);
        assert!(sentence.starts_with("Pipe 'relay' waits for source 'orders'"), "{sentence}");
    }

    #[test]
    fn e5_several_that_are_not_ready_are_counted() {
        let ill = || {
            let view = View { phase: Phase::Ended(Some("no table".to_owned())), ..view() };
            let judged = judge(&view, Timestamp::now());
            (view, judged)
        };
        let truth = truth(&[ill(), ill(), ill()], None);
        assert_eq!(
            truth.sentence,
            "Pipe 'relay' is not ready: it has stopped for good: no table. 2 more pipes are not ready."
        );
    }

    #[test]
    fn e5_without_a_pipe_the_next_step_is_to_add_one() {
        assert_eq!(truth(&[], None).sentence, "No pipe runs here.");
    }
}
