//! Who tells: of what every instance sees only one does. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::conditions::{Knows, Rule};
use super::facts::{Facts, Labels};
use crate::plan::Plan;

const BEATS: &str = "outbox_beat_age_seconds";

/// This instance.
#[derive(Debug, Clone)]
pub struct Us {
    /// Its name, which no other has.
    pub name: String,
    /// The pipes that it runs.
    pub pipes: BTreeSet<String>,
}

/// So long those who were heard are taken to be there while nobody can tell: as long as they may be silent.
const REMEMBERED: Duration = Duration::from_secs(90);

/// Those who are there, as it was last known.
#[derive(Debug, Default)]
pub struct Others {
    living: Vec<(String, String)>,
    known_at: Option<Instant>,
}

impl Others {
    /// Takes in what is known now, and gives those who are there. A database that is away for a moment must not make
    /// every instance tell what one of them has told.
    pub fn look(&mut self, facts: &Facts, now: Instant) -> &[(String, String)] {
        let beats = facts.of(BEATS);
        let is_unknown = !beats.is_empty() && beats.iter().all(|(_, age)| age.is_nan());
        if !is_unknown {
            (self.living, self.known_at) = (living(facts), Some(now));
        } else if self.known_at.is_none_or(|at| now > at + REMEMBERED) {
            self.living.clear();
        }
        &self.living
    }
}

/// Those who were heard lately, each with a pipe that it runs.
fn living(facts: &Facts) -> Vec<(String, String)> {
    let label = |labels: &Labels, name: &str| labels.get(name).cloned().unwrap_or_default();
    let beats = facts.of(BEATS).iter().filter(|(_, age)| *age <= 90.0);
    beats.map(|(labels, _)| (label(labels, "relay"), label(labels, "pipe"))).collect()
}

/// The pipes that something is about.
pub fn concerned(plan: &Plan, labels: &Labels) -> BTreeSet<String> {
    if let Some(pipe) = labels.get("pipe") {
        return BTreeSet::from([pipe.clone()]);
    }
    let is_of = |label: &str, name: &String| labels.get(label).is_some_and(|is| is == name);
    let pipes = plan.pipes.values().filter(|pipe| is_of("source", &pipe.from) || is_of("sink", &pipe.to));
    pipes.map(|pipe| pipe.name.clone()).collect()
}

/// Whether it is ours to tell: the first by name does, among those who run a pipe that it is about, or among all if
/// nobody does. If the others are not known we do: twice is better than never.
pub fn tells(us: &Us, rule: &Rule, living: &[(String, String)], concerned: &BTreeSet<String>) -> bool {
    if rule.knows == Knows::One {
        return true;
    }
    let running: BTreeSet<&str> = living
        .iter()
        .filter(|(_, pipe)| concerned.contains(pipe))
        .map(|(relay, _)| relay.as_str())
        .chain((!us.pipes.is_disjoint(concerned)).then_some(us.name.as_str()))
        .collect();
    let first = running.first().copied();
    first
        .or_else(|| living.iter().map(|(relay, _)| relay.as_str()).min())
        .is_none_or(|first| first == us.name)
}

#[cfg(test)]
mod tests {
    use super::super::conditions::RULES;
    use super::*;

    fn us(name: &str, pipe: &str) -> Us {
        Us { name: name.to_owned(), pipes: BTreeSet::from([pipe.to_owned()]) }
    }

    fn tell(us: &Us, alert: &str, living: &[(&str, &str)], pipe: &str) -> bool {
        let living: Vec<_> =
            living.iter().map(|(relay, pipe)| ((*relay).to_owned(), (*pipe).to_owned())).collect();
        let rule = RULES.iter().find(|rule| rule.alert == alert).expect("there is such a rule");
        tells(us, rule, &living, &BTreeSet::from([pipe.to_owned()]))
    }

    #[test]
    fn d7_of_what_all_see_the_first_by_name_tells() {
        let living = [("a", "relay"), ("b", "relay"), ("b", "mail"), ("c", "mail")];
        let dead = |us: &Us, pipe| tell(us, "OutboxDeadMessages", &living, pipe);
        assert!(dead(&us("a", "relay"), "relay") && !dead(&us("b", "relay"), "relay"));
        assert!(dead(&us("b", "mail"), "mail"), "the first does not run it and may not even know of it");
        assert!(!dead(&us("a", "relay"), "mail") && !dead(&us("c", "mail"), "mail"));
        // Of what nobody runs the first of all tells.
        assert!(dead(&us("a", "relay"), "other") && !dead(&us("c", "mail"), "other"));
    }

    #[test]
    fn d7_who_is_new_and_not_heard_yet_leaves_it_to_those_before_it() {
        let living = [("b", "relay")];
        assert!(!tell(&us("c", "relay"), "OutboxDeadMessages", &living, "relay"));
        assert!(tell(&us("a", "relay"), "OutboxDeadMessages", &living, "relay"));
    }

    #[test]
    fn d7_without_word_of_the_others_each_tells_and_of_itself_it_always_does() {
        assert!(tell(&us("c", "relay"), "OutboxDeadMessages", &[], "relay"));
        assert!(tell(&us("c", "relay"), "OutboxSinkDown", &[("a", "relay"), ("c", "relay")], "relay"));
    }

    #[test]
    fn d7_who_was_not_heard_for_long_does_not_count() {
        let facts = Facts::parse(
            "outbox_beat_age_seconds{relay=\"a\",pipe=\"p\"} 91\noutbox_beat_age_seconds{relay=\"b\",pipe=\"p\"} 90\n\
             outbox_beat_age_seconds{relay=\"c\",pipe=\"p\"} NaN\n",
        );
        assert_eq!(living(&facts), [("b".to_owned(), "p".to_owned())]);
    }

    #[test]
    fn d7_who_was_heard_is_taken_to_be_there_for_90_s_while_nobody_can_tell() {
        let beat = |age: &str| Facts::parse(&format!("{BEATS}{{relay=\"a\",pipe=\"p\"}} {age}\n"));
        let (others, start) = (&mut Others::default(), Instant::now());
        let mut heard =
            |facts: &Facts, seconds| others.look(facts, start + Duration::from_secs(seconds)).len();
        assert_eq!(heard(&beat("NaN"), 0), 0, "nothing was ever known");
        assert_eq!(heard(&beat("5"), 10), 1);
        assert_eq!(heard(&beat("NaN"), 100), 1);
        assert_eq!(heard(&beat("NaN"), 101), 0);
        assert_eq!(heard(&beat("5"), 110), 1);
        assert_eq!(heard(&beat("91"), 120), 0, "it is known that nothing was heard");
        assert_eq!(heard(&beat("5"), 130), 1);
        assert_eq!(heard(&Facts::parse(""), 140), 0, "all have stopped");
    }
}
