//! The last hour of this process: a ring of samples, and the charts that are made of it. Pure.

use std::collections::VecDeque;

use serde::Serialize;

/// So many samples are kept: an hour, at one in five seconds.
pub const KEPT: usize = 720;

/// What all pipes of the process had done at a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Seconds since 1970.
    pub at: i64,
    /// Messages delivered since the start.
    pub delivered: u64,
    /// Attempts that failed since the start.
    pub failed: u64,
    /// Age of the oldest message of all pipes, if any waits.
    pub lag: Option<f64>,
}

/// What went on between two samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    /// The end of that time, in seconds since 1970.
    pub at: i64,
    /// Deliveries per second.
    pub rate: f64,
    /// Failed attempts per second.
    pub errors: f64,
    /// Age of the oldest message, in seconds; 0 if none waited.
    pub lag: f64,
}

/// The same as columns, as the charts draw them.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Columns {
    at: Vec<i64>,
    rate: Vec<f64>,
    errors: Vec<f64>,
    lag: Vec<f64>,
}

/// A minute, for those who read a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Minute {
    /// Its begin, in seconds since 1970.
    pub at: i64,
    /// Messages delivered in it.
    pub delivered: u64,
    /// Attempts that failed in it.
    pub failed: u64,
    /// The worst lag in it.
    pub lag: Option<f64>,
}

/// The last samples, oldest first.
#[derive(Debug, Default)]
pub struct History {
    samples: VecDeque<Sample>,
}

impl History {
    /// Keeps a sample and lets the oldest go. One that is not later than the last is left out: a clock was set back.
    pub fn push(&mut self, sample: Sample) {
        if self.samples.back().is_some_and(|last| last.at >= sample.at) {
            return;
        }
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// The newest point, once there are two samples.
    pub fn last(&self) -> Option<Point> {
        let newest = self.samples.len().checked_sub(2)?;
        Some(point(self.samples.get(newest)?, self.samples.get(newest + 1)?))
    }

    /// All points.
    pub fn columns(&self) -> Columns {
        let mut columns = Columns::default();
        for (before, after) in self.samples.iter().zip(self.samples.iter().skip(1)) {
            let point = point(before, after);
            columns.at.push(point.at);
            columns.rate.push(point.rate);
            columns.errors.push(point.errors);
            columns.lag.push(point.lag);
        }
        columns
    }

    /// The last minutes, newest first, at most so many.
    pub fn minutes(&self, most: usize) -> Vec<Minute> {
        let mut minutes: Vec<Minute> = Vec::new();
        for (before, after) in self.samples.iter().zip(self.samples.iter().skip(1)).rev() {
            let at = after.at - after.at.rem_euclid(60);
            if minutes.last().is_none_or(|last| last.at != at) {
                if minutes.len() == most {
                    break;
                }
                minutes.push(Minute { at, delivered: 0, failed: 0, lag: None });
            }
            if let Some(minute) = minutes.last_mut() {
                minute.delivered += after.delivered.saturating_sub(before.delivered);
                minute.failed += after.failed.saturating_sub(before.failed);
                minute.lag = minute.lag.into_iter().chain(after.lag).reduce(f64::max);
            }
        }
        minutes
    }
}

#[allow(clippy::cast_precision_loss, reason = "nobody delivers that many in an hour")]
fn point(before: &Sample, after: &Sample) -> Point {
    let seconds = (after.at - before.at).max(1) as f64;
    let per_second = |before: u64, after: u64| after.saturating_sub(before) as f64 / seconds;
    Point {
        at: after.at,
        rate: per_second(before.delivered, after.delivered),
        errors: per_second(before.failed, after.failed),
        lag: after.lag.unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: i64, delivered: u64, failed: u64) -> Sample {
        Sample { at, delivered, failed, lag: None }
    }

    #[test]
    fn a_rate_is_what_came_between_two_samples() {
        let mut history = History::default();
        history.push(sample(100, 10, 0));
        assert_eq!(history.last(), None, "one sample tells no rate");
        history.push(Sample { lag: Some(2.5), ..sample(105, 60, 5) });
        let point = history.last().expect("there are two");
        assert_eq!(point, Point { at: 105, rate: 10.0, errors: 1.0, lag: 2.5 });
        let columns = history.columns();
        assert_eq!((columns.at, columns.rate, columns.errors), (vec![105], vec![10.0], vec![1.0]));
    }

    #[test]
    fn memory_is_bounded_and_the_newest_stay() {
        let mut history = History::default();
        for at in 0..2_000 {
            history.push(sample(at, 0, 0));
        }
        let columns = history.columns();
        assert_eq!((columns.at.len(), columns.at.last()), (KEPT - 1, Some(&1_999)));
    }

    #[test]
    fn a_clock_that_is_set_back_makes_no_point() {
        let mut history = History::default();
        history.push(sample(100, 1, 0));
        history.push(sample(90, 2, 0));
        assert_eq!(history.last(), None);
    }

    #[test]
    fn minutes_sum_up_and_keep_the_worst_lag() {
        let mut history = History::default();
        history.push(sample(30, 0, 0));
        history.push(Sample { lag: Some(1.0), ..sample(50, 4, 1) });
        history.push(Sample { lag: Some(9.0), ..sample(59, 5, 1) });
        history.push(sample(61, 7, 1));
        let minutes = history.minutes(10);
        assert_eq!(minutes[0], Minute { at: 60, delivered: 2, failed: 0, lag: None });
        assert_eq!(minutes[1], Minute { at: 0, delivered: 5, failed: 1, lag: Some(9.0) });
        assert_eq!(history.minutes(1).len(), 1, "the newest");
    }
}
