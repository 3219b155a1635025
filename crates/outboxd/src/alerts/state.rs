//! What was told already: an alert is told when it begins to fire and when it is over, and not in between. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::conditions::{Rule, Seen, Severity};
use super::facts::Labels;

/// So long a condition must not be seen before it is over: a queue reads as empty while somebody looks at its letters.
const OVER: Duration = Duration::from_secs(60);

/// Which way something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It is so now.
    Firing,
    /// It is over.
    Resolved,
}

impl Status {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Firing => "firing",
            Self::Resolved => "resolved",
        }
    }
}

/// Something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which way.
    pub status: Status,
    /// The name of the alert.
    pub alert: &'static str,
    /// How soon somebody should look.
    pub severity: Severity,
    /// What it is about.
    pub labels: Labels,
    /// In a sentence.
    pub summary: String,
    /// Since when the condition holds, or held.
    pub since: Timestamp,
}

/// What holds, by alert and by what it is about.
#[derive(Debug, Default)]
pub struct State(BTreeMap<(&'static str, Labels), Entry>);

#[derive(Debug)]
struct Entry {
    severity: Severity,
    summary: String,
    since: Timestamp,
    /// It has held for long enough.
    fires: bool,
    /// By us.
    told: bool,
    /// Since when it is not seen any more.
    over_since: Option<Timestamp>,
}

impl State {
    /// Takes in what every condition says now, and gives what is to be told. `tells` decides whether that is ours to do:
    /// what somebody else tells is followed all the same, so that its end can be told by whoever tells then.
    pub fn step<'r>(
        &mut self,
        seen: impl IntoIterator<Item = (&'r Rule, Vec<Seen>)>,
        now: Timestamp,
        tells: impl Fn(&Rule, &Labels) -> bool,
    ) -> Vec<Change> {
        let mut before = std::mem::take(&mut self.0);
        let mut changes = Vec::new();
        for (rule, seen) in seen {
            for Seen { labels, holds } in seen {
                let id = (rule.alert, labels);
                // What cannot be told now stays as it is: an outage must not look like the end of trouble, nor like its
                // beginning.
                let entry = match (before.remove(&id), holds) {
                    (None, None) => continue,
                    (Some(entry), None) => Entry { over_since: None, ..entry },
                    (entry, Some(summary)) => {
                        let since = entry.as_ref().map_or(now, |entry| entry.since);
                        let told = entry.is_some_and(|entry| entry.told);
                        Entry {
                            severity: rule.severity,
                            summary,
                            since,
                            fires: passed(since, now) >= rule.lasts,
                            told,
                            over_since: None,
                        }
                    }
                };
                let entry = if entry.fires && !entry.told && tells(rule, &id.1) {
                    changes.push(entry.change(Status::Firing, &id));
                    Entry { told: true, ..entry }
                } else {
                    entry
                };
                self.0.insert(id, entry);
            }
            let over: Vec<_> = before.extract_if(.., |(alert, _), _| *alert == rule.alert).collect();
            for (id, mut entry) in over.into_iter().filter(|(_, entry)| entry.fires) {
                if passed(*entry.over_since.get_or_insert(now), now) < OVER {
                    self.0.insert(id, entry);
                } else if tells(rule, &id.1) {
                    changes.push(entry.change(Status::Resolved, &id));
                }
            }
        }
        changes
    }
}

fn passed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

impl Entry {
    fn change(&self, status: Status, (alert, labels): &(&'static str, Labels)) -> Change {
        let (severity, since) = (self.severity, self.since);
        Change { status, alert, severity, labels: labels.clone(), summary: self.summary.clone(), since }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::super::conditions::RULES;
    use super::*;

    const DEAD: &str = "OutboxDeadMessages";
    const LETTERS: &str = "OutboxDeadLetters";

    fn rule(name: &str) -> &'static Rule {
        RULES.iter().find(|rule| rule.alert == name).expect("there is such a rule")
    }

    fn labels(name: &str) -> Labels {
        Labels::from([("pipe".to_owned(), name.to_owned())])
    }

    fn seen(name: &str, holds: Option<&str>) -> Seen {
        Seen { labels: labels(name), holds: holds.map(str::to_owned) }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    /// What is told when this alert sees that.
    fn told(
        state: &mut State,
        alert: &str,
        seen: &[Seen],
        seconds: i64,
        tells: bool,
    ) -> Vec<(&'static str, String)> {
        let changes = state.step([(rule(alert), seen.to_vec())], at(seconds), |_, _| tells);
        changes.into_iter().map(|change| (change.status.as_str(), change.summary)).collect()
    }

    #[test]
    fn d7_an_alert_is_told_once_when_it_begins_and_once_when_it_is_over() {
        let state = &mut State::default();
        let (one, two) = (seen("a", Some("one")), seen("a", Some("two")));
        let one = [one];
        assert_eq!(told(state, DEAD, &one, 0, true), [("firing", "one".to_owned())]);
        assert_eq!(told(state, DEAD, &one, 10, true), []);
        assert_eq!(told(state, DEAD, &[two], 20, true), [], "it is the same, with another number");
        let other = [seen("b", Some("other"))];
        assert_eq!(told(state, DEAD, &other, 30, true), [("firing", "other".to_owned())]);
        assert_eq!(told(state, DEAD, &other, 89, true), []);
        assert_eq!(told(state, DEAD, &other, 90, true), [("resolved", "two".to_owned())]);
        assert_eq!(told(state, DEAD, &[], 100, true), []);
        assert_eq!(told(state, DEAD, &[], 160, true), [("resolved", "other".to_owned())]);
        assert_eq!(told(state, DEAD, &[], 230, true), []);
    }

    #[test]
    fn d7_what_is_not_seen_for_less_than_a_minute_is_not_over() {
        let state = &mut State::default();
        let (holds, unknown) = ([seen("a", Some("x"))], [seen("a", None)]);
        assert_eq!(told(state, LETTERS, &holds, 0, true), []);
        assert_eq!(told(state, LETTERS, &holds, 60, true).len(), 1);
        // Somebody looks at the letters, again and again.
        for at in [70, 140, 210] {
            assert_eq!(told(state, LETTERS, &[], at, true), [], "{at}");
            assert_eq!(told(state, LETTERS, &[], at + 59, true), [], "{at}");
            assert_eq!(
                told(state, LETTERS, &holds, at + 60, true),
                [],
                "{at}: it goes on, and is told already"
            );
        }
        assert_eq!(told(state, LETTERS, &[], 300, true), []);
        assert_eq!(told(state, LETTERS, &unknown, 350, true), []);
        assert_eq!(told(state, LETTERS, &[], 360, true), [], "nobody knows what was in between");
        assert_eq!(told(state, LETTERS, &[], 420, true), [("resolved", "x".to_owned())]);
    }

    #[test]
    fn d7_an_alert_waits_until_its_condition_has_lasted() {
        let state = &mut State::default();
        let holds = [seen("a", Some("x"))];
        assert_eq!(told(state, LETTERS, &holds, 0, true), []);
        assert_eq!(told(state, LETTERS, &holds, 59, true), []);
        assert_eq!(told(state, LETTERS, &[], 60, true), [], "it never fired, so nothing is over");
        assert_eq!(told(state, LETTERS, &holds, 70, true), []);
        let changes = state.step([(rule(LETTERS), holds.to_vec())], at(130), |_, _| true);
        assert_eq!((changes.len(), changes[0].since), (1, at(70)));
    }

    #[test]
    fn d7_what_cannot_be_told_stays_as_it_is() {
        let state = &mut State::default();
        let (holds, unknown) = ([seen("a", Some("x"))], [seen("a", None)]);
        assert_eq!(told(state, DEAD, &unknown, 0, true), []);
        assert_eq!(told(state, DEAD, &holds, 10, true).len(), 1);
        assert_eq!(told(state, DEAD, &unknown, 20, true), []);
        assert_eq!(told(state, DEAD, &holds, 30, true), []);
        assert_eq!(told(state, DEAD, &[], 40, true), []);
        assert_eq!(told(state, DEAD, &[], 100, true).len(), 1);
    }

    #[test]
    fn d7_who_takes_over_tells_what_still_fires_and_how_it_ends() {
        let (first, second) = (&mut State::default(), &mut State::default());
        let holds = [seen("a", Some("x"))];
        assert_eq!(told(first, DEAD, &holds, 0, true).len(), 1);
        assert_eq!(told(second, DEAD, &holds, 0, false), []);
        assert_eq!(told(second, DEAD, &holds, 10, true), [("firing", "x".to_owned())], "the first is gone");
        for (seconds, is_over) in [(20, 0), (80, 1)] {
            assert_eq!(told(first, DEAD, &[], seconds, false), []);
            assert_eq!(told(second, DEAD, &[], seconds, true).len(), is_over);
        }
    }
}
