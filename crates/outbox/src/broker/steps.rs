//! The retry queues or topics of a work queue: one per delay, each returning what it gets when its delay is over.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// The longest delay that a broker can be told.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The name of the retry queue or topic of `place` for one delay, as in `orders.retry.5m`.
pub fn retry_name(place: &str, delay: Duration) -> String {
    let millis = delay.as_millis();
    let shown = match millis {
        _ if millis.is_multiple_of(86_400_000) => format!("{}d", millis / 86_400_000),
        _ if millis.is_multiple_of(3_600_000) => format!("{}h", millis / 3_600_000),
        _ if millis.is_multiple_of(60_000) => format!("{}m", millis / 60_000),
        _ if millis.is_multiple_of(1_000) => format!("{}s", millis / 1_000),
        _ => format!("{millis}ms"),
    };
    format!("{place}.retry.{shown}")
}

/// Says in one sentence what cannot work about delays, if anything.
pub fn check_steps(delays: &[Duration]) -> Result<()> {
    match delays.iter().find(|delay| delay.as_millis() == 0 || **delay > LONGEST) {
        Some(delay) => {
            let what = format!("a retry after {delay:?} cannot be; a delay is between 1 ms and 30 days");
            Err(Error::new(ErrorKind::Config, what))
        }
        None => Ok(()),
    }
}

/// The delays for which there is a queue or topic, shortest first.
#[cfg(any(feature = "rabbitmq", feature = "kafka"))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Steps(Vec<Duration>);

#[cfg(any(feature = "rabbitmq", feature = "kafka"))]
impl Steps {
    pub(crate) fn new(delays: &[Duration]) -> Self {
        let mut delays = delays.to_vec();
        delays.sort_unstable();
        delays.dedup();
        Self(delays)
    }

    pub(crate) fn all(&self) -> &[Duration] {
        &self.0
    }

    /// Where to wait first when the whole wait is `wait`: the longest that is not longer, or the shortest there is.
    /// None if there are no steps.
    pub(crate) fn best(&self, wait: Duration) -> Option<Duration> {
        let fitting = self.0.iter().rev().find(|delay| **delay <= wait + self.tolerance());
        fitting.or(self.0.first()).copied()
    }

    /// Whether what came back with so much of its wait left has to wait on. Clocks differ a little, and a whole
    /// further step is too long for that.
    pub(crate) fn is_early(&self, left: Duration) -> bool {
        left > self.tolerance()
    }

    fn tolerance(&self) -> Duration {
        self.0.first().map_or(Duration::ZERO, |shortest| (*shortest / 10).min(Duration::from_secs(1)))
    }
}

#[cfg(all(test, any(feature = "rabbitmq", feature = "kafka")))]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_retry_queue_bears_its_delay() {
        for (millis, name) in [
            (5_000, "q.retry.5s"),
            (60_000, "q.retry.1m"),
            (90_000, "q.retry.90s"),
            (7_200_000, "q.retry.2h"),
            (86_400_000, "q.retry.1d"),
            (1_500, "q.retry.1500ms"),
        ] {
            assert_eq!(retry_name("q", Duration::from_millis(millis)), name);
        }
        assert!(check_steps(&[MINUTE]).is_ok());
        assert!(check_steps(&[Duration::ZERO]).is_err() && check_steps(&[MINUTE * 60 * 24 * 31]).is_err());
    }

    #[test]
    fn a_long_wait_goes_through_steps_that_are_not_longer() {
        let steps = Steps::new(&[MINUTE * 15, MINUTE, MINUTE * 5, MINUTE]);
        assert_eq!(steps.all(), [MINUTE, MINUTE * 5, MINUTE * 15]);
        for (wait, best) in [(60, 1), (298, 1), (301, 5), (420, 5), (5_000, 15), (1, 1)] {
            assert_eq!(steps.best(Duration::from_secs(wait)), Some(MINUTE * best), "{wait} s");
        }
        assert_eq!(Steps::new(&[]).best(MINUTE), None);
        assert!(steps.is_early(Duration::from_secs(2)) && !steps.is_early(Duration::from_millis(900)));
    }
}
