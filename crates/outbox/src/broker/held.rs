//! Keys of which a message waits in a retry queue or topic: what comes later of them has to wait as well.
//!
//! It is one consumer's memory. A broker tells nobody what is in its retry queues, so what another consumer moved
//! there is not known here: order through retries needs one consumer per queue (or per partition).

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use crate::message::MessageId;

/// What was due so long before all that the broker had was read has gone to somebody else.
const GRACE: Duration = Duration::from_secs(60);

/// The messages of one key that are not done. A hot key can have many thousands, so nothing here walks along all of them.
#[derive(Debug, Default)]
struct Line {
    /// Their numbers, in the order in which they came first.
    numbers: HashMap<MessageId, u64>,
    next: u64,
    /// Those in a retry queue, until about when.
    away: BTreeMap<u64, (MessageId, Instant)>,
    /// Those that have come back, to be delivered.
    here: BTreeMap<u64, MessageId>,
    /// The delay of the queue in which they wait; those behind follow the first there.
    step: Duration,
}

impl Line {
    /// Whether one before this number, or any if there is none, is away and may still come back to us. Those that may
    /// not are forgotten.
    fn waits(&mut self, number: Option<u64>, drained: Option<Instant>) -> bool {
        while let Some(first) = self.away.first_entry() {
            if number.is_some_and(|number| *first.key() >= number) {
                return false;
            }
            if is_awaited(first.get().1, drained) {
                return true;
            }
            self.numbers.remove(&first.remove().0);
        }
        false
    }

    fn come(&mut self, number: u64, id: &MessageId) {
        self.away.remove(&number);
        self.here.insert(number, id.clone());
    }

    fn leave(&mut self, id: &MessageId, until: Instant) {
        let number = *self.numbers.entry(id.clone()).or_insert(self.next);
        self.next = self.next.max(number + 1);
        self.here.remove(&number);
        self.away.insert(number, (id.clone(), until));
    }

    fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }
}

/// Whether what was to be away until then may still come back to us.
fn is_awaited(until: Instant, drained: Option<Instant>) -> bool {
    drained.is_none_or(|drained| until + GRACE > drained)
}

/// The keys that are held, with what they wait for.
#[derive(Debug, Default)]
pub(crate) struct Held {
    keys: HashMap<String, Line>,
    /// All that the broker had at this time was read.
    drained: Option<Instant>,
    /// With so many keys it is time to look which of them nobody will hear of again.
    sweep_at: usize,
}

/// Below this it is never time.
const FEW: usize = 1_024;

impl Held {
    /// A message has come: whether an earlier one of its key is still away.
    pub(crate) fn came(&mut self, key: &str, id: &MessageId) -> Came {
        let Some(line) = self.keys.get_mut(key) else { return Came::New };
        let number = line.numbers.get(id).copied();
        if line.waits(number, self.drained) {
            return Came::Held;
        }
        if line.is_empty() {
            self.keys.remove(key);
            return Came::New;
        }
        let Some(number) = number else { return Came::New };
        line.come(number, id);
        Came::Back
    }

    /// All that the broker had at this time was claimed.
    #[cfg(feature = "rabbitmq")]
    pub(crate) fn drained(&mut self, then: Instant) {
        self.drained = Some(then);
    }

    /// Whether something is waited for that should have come long ago.
    #[cfg(feature = "rabbitmq")]
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        let first = |line: &Line| line.away.first_key_value().map(|(_, (_, until))| *until);
        self.keys.values().filter_map(first).any(|until| until + GRACE <= now)
    }

    /// Whether an earlier message of its key has come back and is not done. What has waited and follows it must not be
    /// claimed as the first of its key, unless it is in the same claim: the other may yet fail.
    pub(crate) fn follows(&self, key: &str, id: &MessageId) -> bool {
        let Some(line) = self.keys.get(key) else { return false };
        let before = line.numbers.get(id).copied().unwrap_or(u64::MAX);
        line.here.first_key_value().is_some_and(|(first, _)| *first < before)
    }

    /// A message is in a retry queue for `step`.
    pub(crate) fn moved(&mut self, key: &str, id: &MessageId, step: Duration, now: Instant) {
        if self.keys.len() >= self.sweep_at.max(FEW) {
            let drained = self.drained;
            self.keys.retain(|_, line| {
                !line.here.is_empty() || line.away.values().any(|(_, until)| is_awaited(*until, drained))
            });
            self.sweep_at = self.keys.len() * 2;
        }
        let line = self.keys.entry(key.to_owned()).or_default();
        line.step = step;
        line.leave(id, now + step);
    }

    /// A message was found in a retry queue, where somebody else or an earlier life of ours put it for `step`.
    #[cfg(feature = "kafka")]
    pub(crate) fn found(&mut self, key: &str, id: &MessageId, step: Duration, now: Instant) {
        if self.keys.get(key).is_none_or(|line| !line.numbers.contains_key(id)) {
            self.moved(key, id, step, now);
        }
    }

    /// A message that had come back was put back untried: until it comes again it is away. One that came later may be
    /// handed out before it.
    pub(crate) fn released(&mut self, key: &str, id: &MessageId, now: Instant) {
        if let Some(line) = self.keys.get_mut(key).filter(|line| line.numbers.contains_key(id)) {
            line.leave(id, now);
        }
    }

    /// What was here has gone back to the broker, which hands it out anew in its own order, to us or to another. That is
    /// the order in which it came, and what had waited came late: it is away again.
    #[cfg(feature = "rabbitmq")]
    pub(crate) fn lose(&mut self, now: Instant) {
        for line in self.keys.values_mut() {
            let here = std::mem::take(&mut line.here);
            line.away.extend(here.into_iter().map(|(number, id)| (number, (id, now))));
        }
    }

    /// A message is done with, one way or the other.
    pub(crate) fn gone(&mut self, key: &str, id: &MessageId) {
        let Some(line) = self.keys.get_mut(key) else { return };
        if let Some(number) = line.numbers.remove(id) {
            line.away.remove(&number);
            line.here.remove(&number);
        }
        if line.is_empty() {
            self.keys.remove(key);
        }
    }

    /// For how long the earlier ones of a key were put away.
    pub(crate) fn step(&self, key: &str) -> Option<Duration> {
        self.keys.get(key).map(|line| line.step)
    }
}

/// What the coming of a message means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// Nothing of its key is known to wait.
    New,
    /// It waited, and nothing earlier of its key is away.
    Back,
    /// Something earlier of its key is away.
    Held,
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_secs(5);

    fn id(text: &str) -> MessageId {
        MessageId::from(text)
    }

    #[test]
    fn later_ones_wait_until_the_earlier_are_back() {
        let (mut held, now) = (Held::default(), Instant::now());
        assert_eq!(held.came("k", &id("1")), Came::New);
        held.moved("k", &id("1"), STEP, now);
        assert_eq!(held.came("k", &id("2")), Came::Held);
        assert_eq!(held.came("other", &id("3")), Came::New);
        held.moved("k", &id("2"), STEP, now);
        assert_eq!(held.step("k"), Some(STEP));
        assert_eq!(held.came("k", &id("2")), Came::Held, "the first is still away");
        held.moved("k", &id("2"), STEP, now);
        assert_eq!(held.came("k", &id("1")), Came::Back);
        assert_eq!(held.came("k", &id("2")), Came::Back, "the first is here, so the lineup keeps the order");
        assert_eq!(held.came("k", &id("4")), Came::New);
        held.gone("k", &id("1"));
        held.gone("k", &id("2"));
        assert!(held.keys.is_empty());
    }

    #[test]
    fn many_messages_of_one_key_are_not_walked_along() {
        let (mut held, now) = (Held::default(), Instant::now());
        let ids: Vec<MessageId> = (0..100_000).map(|n| id(&n.to_string())).collect();
        // Walking along would take ten thousand million steps here, and the test would not end.
        ids.iter().for_each(|id| held.moved("k", id, STEP, now));
        ids.iter().skip(1).for_each(|id| assert_eq!(held.came("k", id), Came::Held));
        ids.iter().for_each(|id| assert_eq!(held.came("k", id), Came::Back));
        assert!(held.follows("k", &ids[99_999]));
        ids.iter().for_each(|id| held.gone("k", id));
        assert!(held.keys.is_empty());
    }

    #[test]
    #[cfg(feature = "rabbitmq")]
    fn what_went_back_to_the_broker_is_away_until_it_comes_again() {
        let (mut held, now) = (Held::default(), Instant::now());
        held.moved("k", &id("1"), STEP, now);
        held.moved("k", &id("2"), STEP, now);
        assert_eq!(held.came("k", &id("1")), Came::Back);
        held.lose(now);
        assert_eq!(held.came("k", &id("3")), Came::Held, "it may be handed out first");
        assert_eq!(held.came("k", &id("2")), Came::Held);
        assert_eq!((held.came("k", &id("1")), held.came("k", &id("2"))), (Came::Back, Came::Back));
    }

    #[test]
    fn what_is_released_is_away_until_it_comes_again() {
        let (mut held, now) = (Held::default(), Instant::now());
        held.moved("k", &id("1"), STEP, now);
        assert_eq!(held.came("k", &id("1")), Came::Back);
        held.released("k", &id("1"), now);
        held.released("k", &id("9"), now);
        assert_eq!(held.came("k", &id("2")), Came::Held);
        assert_eq!(held.came("k", &id("1")), Came::Back);
        assert_eq!(held.came("k", &id("2")), Came::New);
    }

    #[test]
    fn what_follows_one_that_is_here_is_not_the_first() {
        let (mut held, now) = (Held::default(), Instant::now());
        held.moved("k", &id("1"), STEP, now);
        held.moved("k", &id("2"), STEP, now);
        assert!(!held.follows("k", &id("2")), "the first is away, so this is held");
        held.came("k", &id("1"));
        assert!(held.follows("k", &id("2")) && !held.follows("k", &id("1")) && !held.follows("o", &id("2")));
        held.gone("k", &id("1"));
        assert!(!held.follows("k", &id("2")));
    }

    #[test]
    #[cfg(feature = "kafka")]
    fn what_is_found_waiting_holds_its_key_unless_it_is_known() {
        let (mut held, now) = (Held::default(), Instant::now());
        held.found("k", &id("1"), STEP, now);
        assert_eq!(held.came("k", &id("2")), Came::Held);
        assert_eq!(held.came("k", &id("1")), Came::Back);
        held.found("k", &id("1"), STEP, now);
        assert_eq!(held.came("k", &id("2")), Came::New, "it is here already");
    }

    #[test]
    #[cfg(feature = "rabbitmq")]
    fn what_does_not_come_back_is_not_waited_for() {
        let (mut held, now) = (Held::default(), Instant::now());
        held.moved("k", &id("1"), STEP, now);
        let late = now + STEP + GRACE;
        assert!(!held.is_overdue(late - Duration::from_secs(1)) && held.is_overdue(late));
        held.drained(late - Duration::from_secs(1));
        assert_eq!(held.came("k", &id("2")), Came::Held, "it may be in what was not read since");
        held.drained(late);
        assert_eq!(held.came("k", &id("2")), Came::New);
        assert!(held.keys.is_empty());
    }
}
