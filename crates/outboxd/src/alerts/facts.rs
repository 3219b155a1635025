//! What the conditions go by: the figures of this process, as Prometheus would read them, so that both judge the same.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// Rates and quantiles are over so long, as in the rules.
pub const WINDOW: Duration = Duration::from_secs(5 * 60);

/// So far apart what was counted is remembered.
const STEP: Duration = Duration::from_secs(10);

/// Whose a value is.
pub type Labels = BTreeMap<String, String>;

/// All values at a moment, by the name of the figure.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts(BTreeMap<String, Vec<(Labels, f64)>>);

impl Facts {
    /// Reads what a figure server shows. Not for any text: it is our own.
    pub fn parse(text: &str) -> Self {
        let mut facts = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((series, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            facts.0.entry(name.to_owned()).or_default().push((parse_labels(labels), value));
        }
        facts
    }

    /// The values of a figure.
    pub fn of(&self, name: &str) -> &[(Labels, f64)] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// The values of a figure by some of its labels, taken together where the others differ.
    pub fn by(&self, name: &str, labels: &[&str], together: fn(f64, f64) -> f64) -> BTreeMap<Labels, f64> {
        let mut sums = BTreeMap::new();
        for (all, value) in self.of(name) {
            let all = only(all, labels);
            let value = sums.get(&all).map_or(*value, |known| together(*known, *value));
            sums.insert(all, value);
        }
        sums
    }
}

/// These labels, of those that there are.
pub fn only(all: &Labels, labels: &[&str]) -> Labels {
    let kept = all.iter().filter(|(name, _)| labels.contains(&name.as_str()));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// `a="b",c="d"}`, with what is escaped in the values.
fn parse_labels(text: &str) -> Labels {
    let mut labels = Labels::new();
    let mut rest = text;
    while let Some((name, value)) = rest.split_once("=\"") {
        let (value, after) = unescape(value);
        labels.insert(name.trim_start_matches(',').to_owned(), value);
        rest = after;
    }
    labels
}

/// Up to the quote that ends it, and what comes after.
fn unescape(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (value, &text[at + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, other)) => value.push(other),
                None => {}
            },
            _ => value.push(char),
        }
    }
    (value, "")
}

/// What was counted in the last minutes.
#[derive(Debug, Default)]
pub struct History(VecDeque<(Instant, Facts)>);

impl History {
    /// What these counters have grown by since the window began, or since the first look; remembers them.
    pub fn grown(&mut self, counters: &[&str], facts: &Facts, now: Instant) -> Facts {
        let kept = counters.iter().map(|name| ((*name).to_owned(), facts.of(name).to_vec()));
        let kept = Facts(kept.collect());
        while self.0.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= WINDOW) {
            self.0.pop_front();
        }
        let before = self.0.front().map(|(_, before)| before);
        let grown = kept.0.iter().map(|(name, series)| {
            let before: BTreeMap<&Labels, f64> = before
                .iter()
                .flat_map(|before| before.of(name))
                .map(|(labels, value)| (labels, *value))
                .collect();
            let since = |(labels, value): &(Labels, f64)| {
                (labels.clone(), value - before.get(labels).copied().unwrap_or(0.0))
            };
            (name.clone(), series.iter().map(since).collect())
        });
        let grown = Facts(grown.collect());
        if self.0.back().is_none_or(|(at, _)| now.duration_since(*at) >= STEP) {
            self.0.push_back((now, kept));
        }
        grown
    }
}

/// The bound below which this part of what was measured lies, as Prometheus estimates it; no number if nothing was.
/// `buckets` are upper bounds with what is at or below each.
pub fn quantile(part: f64, buckets: &mut [(f64, f64)]) -> f64 {
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    let Some(&(_, all)) = buckets.last() else { return f64::NAN };
    let rank = part * all;
    let (mut below, mut counted) = (0.0, 0.0);
    for &mut (bound, count) in buckets {
        if count >= rank && count > 0.0 {
            // Beyond the last bound nothing is known.
            return if bound.is_infinite() {
                below
            } else {
                below + (bound - below) * (rank - counted) / (count - counted)
            };
        }
        (below, counted) = (bound, count);
    }
    f64::NAN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn d7_what_the_figure_server_shows_is_read_back() {
        let text = "# HELP a Some text\n# TYPE a gauge\na{pipe=\"x, \\\"y\\\" \\\\ z\",le=\"+Inf\"} 3\na{pipe=\"q\",le=\"1\"} NaN\n\nb 2.5\n";
        let facts = Facts::parse(text);
        assert_eq!(facts.of("a")[0], (labels(&[("pipe", "x, \"y\" \\ z"), ("le", "+Inf")]), 3.0));
        assert!(facts.of("a")[1].1.is_nan());
        assert_eq!(facts.of("b"), [(Labels::new(), 2.5)]);
        assert_eq!(facts.of("c"), []);
    }

    #[test]
    fn d7_what_two_lanes_tell_is_taken_together() {
        let facts = Facts::parse("a{p=\"x\",t=\"1\"} 3\na{p=\"x\",t=\"2\"} 5\na{p=\"y\",t=\"1\"} NaN\n");
        let sums = facts.by("a", &["p"], |one, other| one + other);
        assert_eq!(sums[&labels(&[("p", "x")])], 8.0);
        assert!(sums[&labels(&[("p", "y")])].is_nan());
        assert_eq!(facts.by("a", &["p"], f64::max)[&labels(&[("p", "x")])], 5.0);
    }

    #[test]
    fn d7_counters_are_compared_with_five_minutes_ago() {
        let mut history = History::default();
        let (start, counted) =
            (Instant::now(), |count: u32| Facts::parse(&format!("a{{p=\"x\"}} {count}\n")));
        let mut grown = |count, seconds| {
            let facts = history.grown(&["a"], &counted(count), start + Duration::from_secs(seconds));
            facts.of("a")[0].1
        };
        assert_eq!(grown(10, 0), 10.0, "before the first look there was nothing");
        assert_eq!(grown(15, 10), 5.0);
        assert_eq!(grown(16, 300), 6.0);
        assert_eq!(grown(16, 311), 1.0, "the first look is too long ago");
    }

    #[test]
    fn d7_quantiles_are_those_of_prometheus() {
        let mut buckets = [(f64::INFINITY, 100.0), (2.0, 94.0), (5.0, 100.0)];
        assert_eq!(quantile(0.95, &mut buckets), 2.5);
        assert_eq!(quantile(0.5, &mut [(1.0, 10.0), (f64::INFINITY, 10.0)]), 0.5);
        assert_eq!(quantile(0.95, &mut [(1.0, 10.0), (60.0, 10.0), (f64::INFINITY, 20.0)]), 60.0);
        assert!(quantile(0.95, &mut [(1.0, 0.0), (f64::INFINITY, 0.0)]).is_nan());
        assert!(quantile(0.95, &mut []).is_nan());
    }
}
