//! How far what a queue had was read: what should have come by then and did not has gone to another consumer. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// Nothing has come for so long, on a connection that lives: there was nothing.
const QUIET: Duration = Duration::from_secs(5);

/// How much there is to read is asked no more often than this.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// It is not worth more looks than this.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// The reading of one connection. Tags are those of the broker, which counts what it gives from one on.
#[derive(Debug)]
pub(super) struct Tide {
    /// When something came last, or the reading began.
    came: Instant,
    given: u64,
    looked: Option<Instant>,
    asked: Option<Instant>,
    /// What was in the queue at this time has no tag above this one.
    mark: Option<(Instant, u64)>,
}

impl Tide {
    pub(super) fn new(now: Instant) -> Self {
        Self { came: now, given: 0, looked: None, asked: None, mark: None }
    }

    /// The broker has given a message.
    pub(super) fn gave(&mut self, tag: u64, now: Instant) {
        (self.came, self.given) = (now, tag);
    }

    /// Whether it is time to look for what does not come.
    pub(super) fn is_to_look(&mut self, now: Instant) -> bool {
        let is_time = self.looked.is_none_or(|looked| looked + LOOK_AGAIN <= now);
        if is_time {
            self.looked = Some(now);
        }
        is_time
    }

    /// Whether it is time to ask how many messages there are.
    pub(super) fn is_to_ask(&self, now: Instant) -> bool {
        self.mark.is_none() && self.asked.is_none_or(|asked| asked + ASK_AGAIN <= now)
    }

    /// There were so many messages in the queue; up to `on_the_way` others may be given and not taken in yet.
    pub(super) fn had(&mut self, messages: u64, on_the_way: u64, now: Instant) {
        self.asked = Some(now);
        self.mark = Some((now, self.given + on_the_way + messages));
    }

    /// The time up to which all that the queue had was claimed, as far as is known; told once. `first` is the tag of the
    /// first message that is here and not claimed.
    pub(super) fn claimed(&mut self, first: Option<u64>, is_idle: bool, now: Instant) -> Option<Instant> {
        let is_quiet = is_idle && self.came + QUIET <= now;
        let is_past = |tag: u64| self.given > tag && first.is_none_or(|first| first > tag);
        let at = match self.mark {
            _ if is_quiet => now,
            Some((at, tag)) if is_past(tag) => at,
            _ => return None,
        };
        self.mark = None;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_has_just_begun_tells_nothing() {
        let now = Instant::now();
        let mut tide = Tide::new(now);
        assert_eq!(tide.claimed(None, true, now), None);
        assert_eq!(tide.claimed(None, true, now + QUIET), Some(now + QUIET));
        assert_eq!(tide.claimed(None, false, now + QUIET), None, "something is not done");
        tide.gave(1, now + QUIET);
        assert_eq!(tide.claimed(None, true, now + QUIET), None);
    }

    #[test]
    fn under_a_backlog_what_was_there_is_counted_off() {
        let now = Instant::now();
        let mut tide = Tide::new(now);
        assert!(tide.is_to_look(now) && !tide.is_to_look(now) && tide.is_to_look(now + LOOK_AGAIN));
        assert!(tide.is_to_ask(now));
        tide.gave(5, now);
        // Up to 2 are on the way, 10 are in the queue: the last of them has tag 17 at most.
        tide.had(10, 2, now);
        assert!(!tide.is_to_ask(now + ASK_AGAIN));
        let late = now + Duration::from_secs(3);
        tide.gave(17, late);
        assert_eq!(tide.claimed(None, false, late), None);
        tide.gave(18, late);
        assert_eq!(tide.claimed(Some(17), false, late), None, "it is here, and its turn has not come");
        assert_eq!(tide.claimed(Some(18), false, late), Some(now));
        assert_eq!(tide.claimed(Some(18), false, late), None, "told once");
        assert!(!tide.is_to_ask(late) && tide.is_to_ask(now + ASK_AGAIN));
    }
}
