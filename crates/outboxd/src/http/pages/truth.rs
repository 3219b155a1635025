//! The one sentence that stands on every page: whether all is well, or what is not and what to do. Pure.

use super::known::{COUNTED, Known};
use super::text::{counted, grouped};
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

/// What to say of these pipes, and of what waits for a person as far as that is known.
pub fn truth(pipes: &[(View, Judged)], known: &Known) -> Truth {
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
    going_on(pipes, known)
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
        _ if view.pauses_away.is_some() => "the database that keeps what is paused".to_owned(),
        Some(_) => format!("sink '{}'", view.to),
        None => format!("source '{}'", view.from),
    };
    let sentence = format!("Pipe '{}' waits for {whom}: {why}.", view.pipe);
    Truth::new(Level::Degraded, sentence, Some(("it goes on by itself; doctor tells more", "/doctor")))
}

/// The pipes of this instance run: all is well, unless something waits for a person.
fn going_on(pipes: &[(View, Judged)], known: &Known) -> Truth {
    let lag = pipes.iter().filter_map(|(view, _)| view.lag).max();
    let waits = match lag {
        Some(lag) => format!("Oldest unpublished {}.", show_age(lag.as_secs_f64())),
        None => "Nothing waits.".to_owned(),
    };
    let failures = failures(known);
    let stands = standing_still(pipes, known);
    let step = match (failures.is_empty(), stands.is_empty()) {
        (true, true) => return Truth::new(Level::Ok, format!("Healthy. {waits}"), None),
        (false, _) if known.waits() => ("decide what becomes of it", "/failures"),
        (false, _) => ("see what does not answer", "/failures"),
        (true, false) => ("see who stands still", "/pipes"),
    };
    let all: Vec<String> = ["Running.".to_owned(), waits].into_iter().chain(failures).chain(stands).collect();
    Truth::new(Level::Degraded, all.join(" "), Some(step))
}

/// Of a table so many are counted, and no more.
fn at_least(errors: u64) -> String {
    let sign = if errors >= u64::from(COUNTED) { "≥ " } else { "" };
    format!("{sign}{}", grouped(errors))
}

/// What has failed for good, and what nobody could count.
fn failures(known: &Known) -> Vec<String> {
    let told = |count: Option<u64>, one: &str, many: &str, shown: fn(u64) -> String| match count {
        None | Some(0) => None,
        Some(1) => Some(format!("One {one}.")),
        Some(count) => Some(format!("{} {many}.", shown(count))),
    };
    let unknown = [known.dead, known.letters, known.errors].contains(&None);
    let all = [
        told(known.dead, "message is dead", "messages are dead", counted),
        told(known.letters, "dead letter waits at a broker", "dead letters wait at brokers", grouped),
        told(known.errors, "error is open", "errors are open", at_least),
        unknown.then(|| "How many are dead is not known.".to_owned()),
    ];
    all.into_iter().flatten().collect()
}

/// Which pipes do nothing: here they are known now, elsewhere as it was last told.
fn standing_still(pipes: &[(View, Judged)], known: &Known) -> Vec<String> {
    let is_here = |name: &String| pipes.iter().any(|(view, _)| view.pipe == *name);
    let here = pipes.iter().filter(|(view, _)| view.pause.is_some() || view.phase == Phase::Paused).count();
    let paused = here + known.paused.iter().filter(|name| !is_here(name)).count();
    let offline = known.offline.iter().filter(|name| !is_here(name)).count();
    let told = |count: usize, word: &str| match count {
        0 => None,
        1 => Some(format!("1 pipe is {word}.")),
        count => Some(format!("{count} pipes are {word}.")),
    };
    told(paused, "paused").into_iter().chain(told(offline, "offline")).collect()
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

    /// Everything was counted, and there is none.
    fn none() -> Known {
        Known { dead: Some(0), letters: Some(0), errors: Some(0), ..Known::default() }
    }

    fn told(view: View, dead: Option<u64>) -> (Level, String, Option<String>) {
        told_of(view, &Known { dead, ..none() })
    }

    fn told_of(view: View, known: &Known) -> (Level, String, Option<String>) {
        let judged = judge(&view, Timestamp::now());
        let truth = truth(&[(view, judged)], known);
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
        assert_eq!(told(late, Some(0)), (Level::Ok, "Healthy. Oldest unpublished 0.4s.".to_owned(), None));
    }

    #[test]
    fn e5_what_is_dead_is_no_health() {
        let (level, sentence, page) = told(view(), Some(3));
        assert_eq!((level, page.as_deref()), (Level::Degraded, Some("/failures")));
        assert_eq!(sentence, "Running. Nothing waits. 3 messages are dead.");
        assert!(told(view(), Some(10_000)).1.contains("≥ 10,000 messages are dead"));
    }

    #[test]
    fn e5_letters_and_errors_are_no_health_either() {
        let (level, sentence, page) =
            told_of(view(), &Known { letters: Some(1), errors: Some(1_200), ..none() });
        assert_eq!((level, page.as_deref()), (Level::Degraded, Some("/failures")));
        let expected = "Running. Nothing waits. One dead letter waits at a broker. ≥ 1,200 errors are open.";
        assert_eq!(sentence, expected);
    }

    #[test]
    fn e5_what_nobody_could_count_is_not_told_as_health() {
        for known in [Known::default(), Known { letters: None, ..none() }, Known { errors: None, ..none() }] {
            let (level, sentence, _) = told_of(view(), &known);
            assert_eq!(level, Level::Degraded);
            assert_eq!(sentence, "Running. Nothing waits. How many are dead is not known.");
        }
    }

    #[test]
    fn e5_pipes_that_stand_still_are_told_here_and_elsewhere() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let known = Known { paused: names(&["far"]), offline: names(&["gone", "lost"]), ..none() };
        let (level, sentence, page) = told_of(view(), &known);
        assert_eq!((level, page.as_deref()), (Level::Degraded, Some("/pipes")));
        assert_eq!(sentence, "Running. Nothing waits. 1 pipe is paused. 2 pipes are offline.");
        let here = View { phase: Phase::Paused, ..view() };
        let known = Known { paused: names(&["relay"]), ..none() };
        assert_eq!(told_of(here, &known).1, "Running. Nothing waits. 1 pipe is paused.", "it is one pipe");
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
        let truth = truth(&[ill(), ill(), ill()], &none());
        assert_eq!(
            truth.sentence,
            "Pipe 'relay' is not ready: it has stopped for good: no table. 2 more pipes are not ready."
        );
    }

    #[test]
    fn e5_without_a_pipe_the_next_step_is_to_add_one() {
        assert_eq!(truth(&[], &none()).sentence, "No pipe runs here.");
    }
}
