//! Who may go next: the claims that are in the pipe, and the order of their keys. Pure, called by the loop.
//!
//! Invariant: of one key at most one message is out for delivery, and it is the earliest that is not decided.
//! Once a message of a key is decided as anything but done, no later one of that key goes out until the source
//! itself knows that the key is held, and says so with its claims.

use std::collections::{HashMap, VecDeque};

use tokio::time::Instant;

use crate::message::Message;
use crate::policy::{Order, Verdict};
use crate::source::Claim;

/// A place in the lineup: which claim, which message of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    claim: u64,
    index: usize,
}

/// Messages that go out together, each with its ticket.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) tickets: Vec<Ticket>,
    pub(crate) messages: Vec<Message>,
}

/// A claim of which every message is decided.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) number: u64,
    pub(crate) claim: Claim,
    pub(crate) verdicts: Vec<Verdict>,
}

#[derive(Debug)]
struct Open {
    number: u64,
    claim: Claim,
    messages: Vec<Option<Message>>,
    verdicts: Vec<Option<Verdict>>,
    undecided: usize,
}

/// The messages of one key that are in the pipe.
#[derive(Debug, Default)]
struct KeyLine {
    out: bool,
    waiting: VecDeque<Ticket>,
    bar: Option<Bar>,
}

/// Why later messages of a key stay back: one of claim `by` was decided as not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bar {
    by: u64,
    /// Once `by` is settled: the newest claim that was begun before the source knew. Those after it are flagged
    /// by the source itself.
    until: Option<u64>,
}

impl KeyLine {
    fn is_idle(&self) -> bool {
        !self.out && self.waiting.is_empty() && self.bar.is_none()
    }

    fn is_barred(&self, claim: u64) -> bool {
        self.bar.is_some_and(|bar| bar.until.is_none_or(|until| claim <= until))
    }

    fn put_bar(&mut self, by: u64) {
        self.bar = Some(Bar { by, until: None });
    }
}

/// The claims in the pipe, oldest first.
#[derive(Debug)]
pub(crate) struct Lineup {
    order: Order,
    open: VecDeque<Open>,
    ready: VecDeque<Ticket>,
    keys: HashMap<String, KeyLine>,
    /// Bars of settled claims, with their keys, until they concern nobody any more.
    lifting: VecDeque<(Bar, Vec<String>)>,
}

impl Lineup {
    pub(crate) fn new(order: Order) -> Self {
        Self {
            order,
            open: VecDeque::new(),
            ready: VecDeque::new(),
            keys: HashMap::new(),
            lifting: VecDeque::new(),
        }
    }

    /// Takes a claim in. Numbers only grow.
    pub(crate) fn admit(&mut self, number: u64, mut claim: Claim) {
        let messages: Vec<_> = std::mem::take(&mut claim.messages).into_iter().map(Some).collect();
        let count = messages.len();
        self.open.push_back(Open { number, claim, messages, verdicts: vec![None; count], undecided: count });
        for index in 0..count {
            self.line_up(Ticket { claim: number, index });
        }
    }

    fn line_up(&mut self, ticket: Ticket) {
        let Some(open) = self.open.back() else { return };
        let key = match &open.messages[ticket.index] {
            Some(Message { key: Some(key), .. }) if self.order == Order::Key => key,
            _ => return self.ready.push_back(ticket),
        };
        let (held, first) = (open.claim.is_held(ticket.index), open.claim.is_set_aside());
        if !self.keys.contains_key(key) {
            self.keys.insert(key.clone(), KeyLine::default());
        }
        let Some(line) = self.keys.get_mut(key) else { return };
        if held || (!first && line.is_barred(ticket.claim)) {
            line.put_bar(ticket.claim);
            self.write(ticket, Verdict::Behind);
        } else if line.out || !line.waiting.is_empty() {
            line.waiting.push_back(ticket);
        } else {
            line.out = true;
            self.ready.push_back(ticket);
        }
    }

    /// Up to `most` messages that may go out now.
    pub(crate) fn next_batch(&mut self, most: usize) -> Option<Batch> {
        let count = self.ready.len().min(most);
        if count == 0 {
            return None;
        }
        let tickets: Vec<_> = self.ready.drain(..count).collect();
        let mut messages = Vec::with_capacity(count);
        for ticket in &tickets {
            messages.extend(self.slot(*ticket).and_then(|open| open.messages[ticket.index].take()));
        }
        debug_assert_eq!(messages.len(), tickets.len(), "a ticket is ready once");
        Some(Batch { tickets, messages })
    }

    /// Writes down the verdict on a message that was out, and lets the next of its key go or stay.
    pub(crate) fn decide(&mut self, ticket: Ticket, key: Option<&str>, verdict: Verdict) {
        let goes_on = matches!(verdict, Verdict::Done | Verdict::Dead { holds: false, .. });
        let released = verdict == Verdict::Released;
        if !self.write(ticket, verdict) {
            return;
        }
        let Some(line) = key.and_then(|key| self.keys.get_mut(key)) else { return };
        line.out = false;
        if goes_on {
            if let Some(next) = line.waiting.pop_front() {
                line.out = true;
                self.ready.push_back(next);
            } else if let Some(key) = key
                && line.is_idle()
            {
                self.keys.remove(key);
            }
            return;
        }
        let followers = std::mem::take(&mut line.waiting);
        line.put_bar(followers.back().map_or(ticket.claim, |last| last.claim));
        for follower in followers {
            self.write(follower, if released { Verdict::Released } else { Verdict::Behind });
        }
    }

    /// Decides everything that is not out as released: nothing more shall go out now.
    pub(crate) fn release(&mut self) {
        for ticket in std::mem::take(&mut self.ready) {
            let key = self.slot(ticket).and_then(|open| open.messages[ticket.index].as_ref()?.key.clone());
            self.decide(ticket, key.as_deref(), Verdict::Released);
        }
    }

    /// The oldest claim, once all of it is decided. It still counts until it is settled.
    pub(crate) fn take_decided(&mut self) -> Option<Decided> {
        if self.open.front()?.undecided > 0 {
            return None;
        }
        let Open { number, claim, verdicts, .. } = self.open.pop_front()?;
        Some(Decided { number, claim, verdicts: verdicts.into_iter().flatten().collect() })
    }

    /// The claim is settled. `newest` is the newest claim that was begun before that; `claiming` tells whether it
    /// is still being made, so that its messages are yet to come.
    ///
    /// Claims up to `newest` may have been read before the source knew which keys this one set aside, so the
    /// bars that it put up hold for those.
    pub(crate) fn settled(&mut self, number: u64, newest: u64, claiming: bool) {
        let bar = Bar { by: number, until: Some(newest) };
        let mut barred = Vec::new();
        for (key, line) in &mut self.keys {
            if line.bar.is_some_and(|bar| bar.by == number) {
                line.bar = Some(bar);
                barred.push(key.clone());
            }
        }
        if !barred.is_empty() {
            self.lifting.push_back((bar, barred));
        }
        let oldest = self.open.front().map(|open| open.number).or(claiming.then_some(newest));
        let concerns_nobody =
            |bar: &Bar| oldest.is_none_or(|oldest| bar.until.is_some_and(|until| until < oldest));
        while self.lifting.front().is_some_and(|(bar, _)| concerns_nobody(bar)) {
            let Some((bar, keys)) = self.lifting.pop_front() else { return };
            for key in keys {
                let Some(line) = self.keys.get_mut(&key) else { continue };
                if line.bar == Some(bar) {
                    line.bar = None;
                }
                if line.is_idle() {
                    self.keys.remove(&key);
                }
            }
        }
    }

    /// Forgets everything: the claims are lost.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.order);
    }

    /// Claims that are not taken out as decided.
    pub(crate) fn claims(&self) -> usize {
        self.open.len()
    }

    /// Whether any claim may have become somebody else's.
    pub(crate) fn is_expired(&self) -> bool {
        self.open.iter().any(|open| open.claim.is_expired())
    }

    /// When the first claim may become somebody else's, as far as is known now.
    pub(crate) fn expires_at(&self) -> Option<Instant> {
        self.open.iter().filter_map(|open| open.claim.expires_at()).min()
    }

    fn slot(&mut self, ticket: Ticket) -> Option<&mut Open> {
        let first = self.open.front()?.number;
        // Numbers have gaps (empty claims are not admitted), so this is a search, over a handful of claims.
        let from = usize::try_from(ticket.claim.checked_sub(first)?).ok()?.min(self.open.len() - 1);
        self.open.range_mut(..=from).rev().find(|open| open.number == ticket.claim)
    }

    /// Tells whether the ticket was good: one from before `clear` has no place any more.
    fn write(&mut self, ticket: Ticket, verdict: Verdict) -> bool {
        let Some(open) = self.slot(ticket) else { return false };
        if open.verdicts[ticket.index].replace(verdict).is_none() {
            open.undecided -= 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sink::{Cause, code};

    fn claim(keys: &[&str]) -> Claim {
        let messages = keys.iter().map(|key| {
            let message = Message::new("t", "");
            if key.is_empty() { message } else { message.key(key) }
        });
        Claim::new(messages.collect(), ())
    }

    fn retry() -> Verdict {
        Verdict::Retry { after: Duration::ZERO, attempts: 1, cause: Cause::new(code::HANDLER, "") }
    }

    fn keys(batch: &Batch) -> Vec<&str> {
        batch.messages.iter().map(|message| message.key.as_deref().unwrap_or("")).collect()
    }

    fn decide_all(lineup: &mut Lineup, batch: &Batch, verdict: &Verdict) {
        for (ticket, message) in batch.tickets.iter().zip(&batch.messages) {
            lineup.decide(*ticket, message.key.as_deref(), verdict.clone());
        }
    }

    #[test]
    fn one_of_a_key_is_out_and_other_keys_go_on() {
        let mut lineup = Lineup::new(Order::Key);
        lineup.admit(1, claim(&["a", "a", "b", "", ""]));
        let first = lineup.next_batch(10).unwrap();
        assert_eq!(keys(&first), ["a", "b", "", ""]);
        assert!(lineup.next_batch(10).is_none());
        decide_all(&mut lineup, &first, &Verdict::Done);
        let second = lineup.next_batch(10).unwrap();
        assert_eq!(keys(&second), ["a"]);
        assert!(lineup.take_decided().is_none());
        decide_all(&mut lineup, &second, &Verdict::Done);
        assert_eq!(lineup.take_decided().unwrap().verdicts, vec![Verdict::Done; 5]);
        lineup.settled(1, 1, false);
        assert!(lineup.keys.is_empty());
    }

    #[test]
    fn without_order_everything_goes_at_once() {
        let mut lineup = Lineup::new(Order::None);
        lineup.admit(1, claim(&["a", "a"]).with_held(vec![true, false]));
        assert_eq!(lineup.next_batch(10).unwrap().messages.len(), 2);
    }

    #[test]
    fn what_follows_a_failure_stays_behind_across_claims_until_the_source_knows() {
        let mut lineup = Lineup::new(Order::Key);
        lineup.admit(1, claim(&["a", "a"]));
        lineup.admit(2, claim(&["a", "b"]));
        let batch = lineup.next_batch(10).unwrap();
        assert_eq!(keys(&batch), ["a", "b"]);
        lineup.decide(batch.tickets[0], Some("a"), retry());
        let decided = lineup.take_decided().unwrap();
        assert_eq!(decided.verdicts, [retry(), Verdict::Behind]);
        // Claim 3 was begun before claim 1 was settled: the source could not flag its message.
        lineup.settled(1, 3, true);
        lineup.admit(3, claim(&["a"]));
        lineup.decide(batch.tickets[1], Some("b"), Verdict::Done);
        assert_eq!(lineup.take_decided().unwrap().verdicts, [Verdict::Behind, Verdict::Done]);
        lineup.settled(2, 4, true);
        // The first comes again; nothing of its key can be earlier, so no bar is for it.
        lineup.admit(4, claim(&["a"]).of_set_aside());
        assert!(lineup.next_batch(1).is_some());
        assert_eq!(lineup.take_decided().unwrap().verdicts, [Verdict::Behind]);
        lineup.settled(3, 4, false);
        // Claim 5 was begun after all of that was settled: from here on the source flags.
        lineup.admit(5, claim(&["b"]));
        assert!(lineup.next_batch(1).is_some());
    }

    #[test]
    fn a_held_message_bars_its_key_for_what_is_in_the_pipe_already() {
        let mut lineup = Lineup::new(Order::Key);
        lineup.admit(1, claim(&["a"]).with_held(vec![true]));
        lineup.admit(2, claim(&["a"]));
        assert!(lineup.next_batch(10).is_none());
        assert_eq!(lineup.take_decided().unwrap().verdicts, [Verdict::Behind]);
    }

    #[test]
    fn a_dead_message_that_does_not_hold_lets_the_next_go() {
        let mut lineup = Lineup::new(Order::Key);
        lineup.admit(1, claim(&["a", "a"]));
        let batch = lineup.next_batch(10).unwrap();
        let dead = Verdict::Dead { attempts: 1, cause: Cause::new(code::HANDLER, ""), holds: false };
        lineup.decide(batch.tickets[0], Some("a"), dead);
        assert!(lineup.next_batch(10).is_some());
    }

    #[test]
    fn release_decides_what_is_not_out_and_what_waits_behind_it() {
        let mut lineup = Lineup::new(Order::Key);
        lineup.admit(1, claim(&["a", "a", "b", "b", ""]));
        let batch = lineup.next_batch(1).unwrap();
        lineup.release();
        assert!(lineup.next_batch(10).is_none());
        lineup.decide(batch.tickets[0], Some("a"), Verdict::Released);
        assert_eq!(lineup.take_decided().unwrap().verdicts, vec![Verdict::Released; 5]);
    }

    #[test]
    fn tickets_from_before_a_clear_do_nothing() {
        let mut lineup = Lineup::new(Order::Key);
        lineup.admit(1, claim(&["a"]));
        let batch = lineup.next_batch(1).unwrap();
        lineup.clear();
        lineup.admit(2, claim(&["a"]));
        lineup.decide(batch.tickets[0], Some("a"), Verdict::Done);
        assert!(lineup.take_decided().is_none());
    }
}
