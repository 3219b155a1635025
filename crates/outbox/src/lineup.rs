//! Who may go next: the claims that are in the pipe, and the order of their keys. Pure, called by the loop.
//!
//! Invariant: of one key at most one message is out for delivery, and it is the earliest that is not decided.
//! Once a message of a key is decided as anything but done, no later one of that key goes out until the source
//! itself knows that the key is held, and says so with its claims.

use std::collections::{HashMap, VecDeque};

use tokio::time::Instant;

use crate::message::Message;
use crate::policy::{Order, Verdict};
use crate::ready::{Group, Ready};
use crate::source::{Claim, Lease};

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
    /// Of the claims that were in the pipe when it was made, the lease that ends first.
    lease: Option<Lease>,
}

impl Batch {
    /// Whether it may have become somebody else's before anybody began to deliver it.
    pub(crate) fn is_expired(&self) -> bool {
        self.lease.as_ref().is_some_and(Lease::is_expired)
    }
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
    /// It was released, so that the source does not set it aside: the later ones are released as well, or they would
    /// be set aside before it.
    released: bool,
}

/// A claim that put up bars and is settled, and the newest claim that they hold for.
#[derive(Debug, Clone, Copy)]
struct Settled {
    by: u64,
    until: u64,
}

impl KeyLine {
    fn is_idle(&self) -> bool {
        !self.out && self.waiting.is_empty() && self.bar.is_none()
    }

    fn is_barred(&self, claim: u64) -> bool {
        self.bar.is_some_and(|bar| bar.until.is_none_or(|until| claim <= until))
    }

    fn put_bar(&mut self, by: u64, released: bool) {
        self.bar = Some(Bar { by, until: None, released });
    }
}

/// The claims in the pipe, oldest first.
#[derive(Debug)]
pub(crate) struct Lineup {
    order: Order,
    open: VecDeque<Open>,
    ready: Ready,
    keys: HashMap<String, KeyLine>,
    /// Bars of settled claims, with their keys, until they concern nobody any more.
    lifting: VecDeque<(Settled, Vec<String>)>,
}

impl Lineup {
    pub(crate) fn new(order: Order, group: Group) -> Self {
        Self {
            order,
            open: VecDeque::new(),
            ready: Ready::new(group),
            keys: HashMap::new(),
            lifting: VecDeque::new(),
        }
    }

    /// Takes a claim in. Numbers only grow.
    pub(crate) fn admit(&mut self, number: u64, mut claim: Claim) {
        let messages: Vec<_> = std::mem::take(&mut claim.messages).into_iter().map(Some).collect();
        let count = messages.len();
        if self.order == Order::None {
            claim.give_up_order();
        }
        let defects = claim.defects().to_vec();
        self.open.push_back(Open { number, claim, messages, verdicts: vec![None; count], undecided: count });
        for (index, cause) in defects {
            self.write(Ticket { claim: number, index }, Verdict::defect(cause));
        }
        for index in 0..count {
            self.line_up(Ticket { claim: number, index });
        }
    }

    fn line_up(&mut self, ticket: Ticket) {
        let Some(open) = self.open.back().filter(|open| open.verdicts[ticket.index].is_none()) else {
            return;
        };
        let Some(message) = &open.messages[ticket.index] else { return };
        let key = match &message.key {
            Some(key) if self.order == Order::Key => key,
            _ => return self.ready.push(message, ticket),
        };
        let (held, first) = (open.claim.is_held(ticket.index), open.claim.is_set_aside());
        if !self.keys.contains_key(key) {
            self.keys.insert(key.clone(), KeyLine::default());
        }
        let Some(line) = self.keys.get_mut(key) else { return };
        if held || (!first && line.is_barred(ticket.claim)) {
            let released = !held && line.bar.is_some_and(|bar| bar.released);
            line.put_bar(ticket.claim, released);
            self.write(ticket, if released { Verdict::Released } else { Verdict::Behind });
        } else if line.out || !line.waiting.is_empty() {
            line.waiting.push_back(ticket);
        } else {
            line.out = true;
            self.ready.push(message, ticket);
        }
    }

    /// Up to `most` messages that may go out now, and together.
    pub(crate) fn next_batch(&mut self, most: usize) -> Option<Batch> {
        let tickets = self.ready.next(most);
        if tickets.is_empty() {
            return None;
        }
        let mut messages = Vec::with_capacity(tickets.len());
        for ticket in &tickets {
            messages.extend(self.slot(*ticket).and_then(|open| open.messages[ticket.index].take()));
        }
        debug_assert_eq!(messages.len(), tickets.len(), "a ticket is ready once");
        let leases = self.open.iter().filter_map(|open| open.claim.lease());
        let lease = leases.min_by_key(|lease| lease.expires_at()).cloned();
        Some(Batch { tickets, messages, lease })
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
                if let Some(message) = waiting_at(&self.open, next) {
                    self.ready.push(message, next);
                }
            } else if let Some(key) = key
                && line.is_idle()
            {
                self.keys.remove(key);
            }
            return;
        }
        let followers = std::mem::take(&mut line.waiting);
        line.put_bar(followers.back().map_or(ticket.claim, |last| last.claim), released);
        for follower in followers {
            self.write(follower, if released { Verdict::Released } else { Verdict::Behind });
        }
    }

    /// Decides everything that is not out as released: nothing more shall go out now.
    pub(crate) fn release(&mut self) {
        for ticket in self.ready.take() {
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
        let mut barred = Vec::new();
        for (key, line) in &mut self.keys {
            if let Some(bar) = line.bar.as_mut().filter(|bar| bar.by == number) {
                bar.until = Some(newest);
                barred.push(key.clone());
            }
        }
        if !barred.is_empty() {
            self.lifting.push_back((Settled { by: number, until: newest }, barred));
        }
        let oldest = self.open.front().map(|open| open.number).or(claiming.then_some(newest));
        let concerns_nobody = |settled: &Settled| oldest.is_none_or(|oldest| settled.until < oldest);
        while self.lifting.front().is_some_and(|(settled, _)| concerns_nobody(settled)) {
            let Some((Settled { by, until }, keys)) = self.lifting.pop_front() else { return };
            for key in keys {
                let Some(line) = self.keys.get_mut(&key) else { continue };
                if line.bar.is_some_and(|bar| bar.by == by && bar.until == Some(until)) {
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
        *self = Self::new(self.order, self.ready.group());
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
        let place = place_of(&self.open, ticket)?;
        self.open.get_mut(place)
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

/// Where the claim of a ticket is, if it is still there.
fn place_of(claims: &VecDeque<Open>, ticket: Ticket) -> Option<usize> {
    let first = claims.front()?.number;
    // Numbers have gaps (empty claims are not admitted), so this is a search, over a handful of claims.
    let from = usize::try_from(ticket.claim.checked_sub(first)?).ok()?.min(claims.len() - 1);
    (0..=from).rev().find(|place| claims[*place].number == ticket.claim)
}

/// The message of a ticket that has not gone out.
fn waiting_at(claims: &VecDeque<Open>, ticket: Ticket) -> Option<&Message> {
    claims[place_of(claims, ticket)?].messages[ticket.index].as_ref()
}

#[cfg(test)]
#[path = "lineup_tests.rs"]
mod tests;
