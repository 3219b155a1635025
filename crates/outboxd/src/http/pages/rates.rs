//! How fast something goes, from what was counted at two moments. Pure.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};

/// What is older tells nothing of now. Other instances tell every thirty seconds: two of theirs are within this.
const WINDOW: SignedDuration = SignedDuration::from_secs(90);

/// Two that are closer make no rate.
const APART: SignedDuration = SignedDuration::from_secs(4);

/// What was counted lately, by what it is a count of.
#[derive(Debug, Default)]
pub(super) struct Rates<K> {
    counted: BTreeMap<K, VecDeque<(Timestamp, u64)>>,
}

impl<K: Ord + Clone> Rates<K> {
    /// Keeps what was counted at that moment, and forgets what is too old, whatever it was a count of.
    pub(super) fn note(&mut self, of: &K, at: Timestamp, count: u64) {
        self.counted.retain(|_, all| all.back().is_some_and(|last| at.duration_since(last.0) <= WINDOW));
        let all = self.counted.entry(of.clone()).or_default();
        // A clock was set back.
        if all.back().is_some_and(|last| at < last.0) {
            all.clear();
        }
        if all.back().is_some_and(|last| at.duration_since(last.0) < APART) {
            return;
        }
        all.push_back((at, count));
        while all.front().is_some_and(|first| at.duration_since(first.0) > WINDOW) {
            all.pop_front();
        }
    }

    /// By so much it grows in a second, or shrinks; none while there are not two counts.
    #[allow(clippy::cast_precision_loss, reason = "a rate is rounded anyway")]
    pub(super) fn change(&self, of: &K) -> Option<f64> {
        let all = self.counted.get(of)?;
        let ((since, before), (at, now)) = (all.front()?, all.back()?);
        let seconds = at.duration_since(*since).as_secs_f64();
        (seconds > 0.0).then(|| (*now as f64 - *before as f64) / seconds)
    }

    /// All of them.
    pub(super) fn changes(&self) -> BTreeMap<K, f64> {
        self.counted.keys().filter_map(|of| Some((of.clone(), self.change(of)?))).collect()
    }

    /// The same of what only grows: if it shrank, it began anew, and tells nothing yet.
    pub(super) fn rate(&self, of: &K) -> Option<f64> {
        self.change(of).filter(|change| *change >= 0.0)
    }
}

/// A rate that never shrinks, for a table.
pub(super) fn per_second(rate: &f64) -> String {
    format!("{}/s", figures(*rate))
}

/// A change, with its sign.
pub(super) fn signed_per_second(change: &f64) -> String {
    let shown = figures(change.abs());
    match *change {
        _ if shown == "0" => "steady".to_owned(),
        change if change > 0.0 => format!("+{shown}/s"),
        _ => format!("−{shown}/s"),
    }
}

fn figures(rate: f64) -> String {
    let digits = if rate < 9.95 { format!("{rate:.1}") } else { format!("{rate:.0}") };
    digits.strip_suffix(".0").unwrap_or(&digits).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).expect("it is a time")
    }

    #[test]
    fn a_rate_is_the_change_between_the_first_and_the_last_count_of_the_window() {
        let mut rates = Rates::default();
        rates.note(&"a", at(0), 100);
        assert_eq!(rates.rate(&"a"), None, "one count tells nothing");
        rates.note(&"a", at(1), 900);
        assert_eq!(rates.rate(&"a"), None, "they are too close");
        rates.note(&"a", at(10), 200);
        rates.note(&"a", at(20), 500);
        assert_eq!(rates.rate(&"a"), Some(20.0));
        rates.note(&"a", at(100), 590);
        assert_eq!(rates.rate(&"a"), Some((590.0 - 200.0) / 90.0), "the first count is too old");
    }

    #[test]
    fn a_queue_shrinks_but_what_only_grows_began_anew() {
        let mut rates = Rates::default();
        rates.note(&"a", at(0), 100);
        rates.note(&"a", at(10), 50);
        assert_eq!((rates.change(&"a"), rates.rate(&"a")), (Some(-5.0), None));
    }

    #[test]
    fn what_nobody_counts_any_more_is_forgotten() {
        let mut rates = Rates::default();
        rates.note(&"a", at(0), 1);
        rates.note(&"a", at(10), 2);
        rates.note(&"b", at(200), 1);
        assert_eq!(rates.rate(&"a"), None);
        assert_eq!(rates.counted.len(), 1);
    }

    #[test]
    fn rates_are_short() {
        for (rate, text) in [(0.0, "0/s"), (0.04, "0/s"), (0.25, "0.2/s"), (9.9, "9.9/s"), (1234.4, "1234/s")]
        {
            assert_eq!(per_second(&rate), text);
        }
        for (change, text) in [(0.0, "steady"), (-0.01, "steady"), (2.0, "+2/s"), (-37.2, "−37/s")] {
            assert_eq!(signed_per_second(&change), text);
        }
    }
}
