//! Who tells: of what every instance sees only one does. Pure.

use std::collections::BTreeSet;

use super::conditions::{Knows, Rule};
use super::facts::{Facts, Labels};
use crate::plan::Plan;

/// This instance.
#[derive(Debug, Clone)]
pub struct Us {
    /// Its name, which no other has.
    pub name: String,
    /// The pipes that it runs.
    pub pipes: BTreeSet<String>,
}

/// Those who were heard lately, each with a pipe that it runs.
pub fn living(facts: &Facts) -> Vec<(String, String)> {
    let label = |labels: &Labels, name: &str| labels.get(name).cloned().unwrap_or_default();
    let beats = facts.of("outbox_beat_age_seconds").iter().filter(|(_, age)| *age <= 90.0);
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
}
