//! What a deed on dead letters needs at any broker: its pace, and what is still to be found. Pure.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::Pace;
use crate::message::MessageId;

/// Holds back what would go faster than the pace.
pub(crate) struct Pacer {
    pace: Option<Pace>,
    next: Instant,
}

impl Pacer {
    pub(crate) fn new(pace: Option<Pace>) -> Self {
        Self { pace, next: Instant::now() }
    }

    /// How many go together: no more than `most`, and no more than a tenth of a second's worth.
    pub(crate) fn batch(&self, most: usize) -> usize {
        let Some(Pace(each)) = self.pace.filter(|Pace(each)| !each.is_zero()) else { return most };
        let worth = Duration::from_millis(100).as_nanos() / each.as_nanos();
        usize::try_from(worth).unwrap_or(most).clamp(1, most)
    }

    /// When the next may go; in the past if it may at once.
    #[cfg(feature = "rabbitmq")]
    pub(crate) fn due(&self) -> Instant {
        self.next
    }

    /// Waits until so many more may go.
    pub(crate) async fn turn(&mut self, count: usize) {
        let Some(Pace(each)) = self.pace else { return };
        sleep_until(self.next).await;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.next = self.next.max(Instant::now()) + each.saturating_mul(count);
    }
}

/// The letters that are still to be found.
pub(crate) struct Wanted(HashMap<MessageId, usize>);

impl Wanted {
    pub(crate) fn new(ids: &[MessageId]) -> Self {
        let mut wanted = HashMap::new();
        for id in ids {
            *wanted.entry(id.clone()).or_default() += 1;
        }
        Self(wanted)
    }

    /// Whether a letter is wanted; it is not wanted again then, unless it was asked for twice.
    pub(crate) fn take(&mut self, id: &MessageId) -> bool {
        let Some(left) = self.0.get_mut(id) else { return false };
        *left -= 1;
        if *left == 0 {
            self.0.remove(id);
        }
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was not found, by id.
    pub(crate) fn missing(self) -> Vec<MessageId> {
        let mut missing: Vec<MessageId> = self.0.into_keys().collect();
        missing.sort();
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_asked_for_twice_means_two_letters() {
        let (one, two): (MessageId, MessageId) = ("1".into(), "2".into());
        let mut wanted = Wanted::new(&[one.clone(), two.clone(), one.clone()]);
        assert_eq!([wanted.take(&one), wanted.take(&one), wanted.take(&one)], [true, true, false]);
        assert!(!wanted.is_empty() && !wanted.take(&"3".into()));
        assert_eq!(wanted.missing(), [two]);
    }

    #[tokio::test(start_paused = true)]
    async fn q10_a_pace_holds_back() {
        let began = Instant::now();
        let mut pacer = Pacer::new(Some(Pace::new(50, Duration::from_secs(1))));
        assert_eq!((pacer.batch(100), Pacer::new(None).batch(100)), (5, 100));
        for _ in 0..10 {
            pacer.turn(5).await;
        }
        assert_eq!(began.elapsed().as_millis(), 900, "the first go at once, the others in their time");
        assert_eq!(Pacer::new(Some(Pace::new(1, Duration::from_secs(60)))).batch(100), 1);
    }
}
