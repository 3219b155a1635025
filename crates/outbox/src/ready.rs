//! Which messages may go out now, and which of them together. Pure, kept by the lineup.

use std::collections::{HashMap, VecDeque};

use crate::lineup::Ticket;
use crate::message::Message;

/// Which messages may go to the sink together, in one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Group {
    /// Any.
    #[default]
    None,
    /// Those of one type. The types take turns, and go side by side as far as the concurrency allows.
    Type,
}

impl Group {
    fn of(self, message: &Message) -> &str {
        match self {
            Self::None => "",
            Self::Type => &message.kind,
        }
    }
}

/// The tickets of messages that may go out, by group.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    group: Group,
    /// Never an empty one, so that types which come and go leave nothing behind.
    groups: HashMap<String, VecDeque<Ticket>>,
    /// Every group once; the first goes next.
    turns: VecDeque<String>,
}

impl Ready {
    pub(crate) fn new(group: Group) -> Self {
        Self { group, ..Self::default() }
    }

    pub(crate) fn group(&self) -> Group {
        self.group
    }

    pub(crate) fn push(&mut self, message: &Message, ticket: Ticket) {
        let name = self.group.of(message);
        if let Some(tickets) = self.groups.get_mut(name) {
            tickets.push_back(ticket);
        } else {
            self.groups.insert(name.to_owned(), VecDeque::from([ticket]));
            self.turns.push_back(name.to_owned());
        }
    }

    /// Up to `most` of the group whose turn it is, in the order in which they came.
    pub(crate) fn next(&mut self, most: usize) -> Vec<Ticket> {
        let Some(name) = self.turns.pop_front() else { return Vec::new() };
        let Some(tickets) = self.groups.get_mut(&name) else { return Vec::new() };
        let batch = tickets.drain(..most.min(tickets.len())).collect();
        if tickets.is_empty() {
            self.groups.remove(&name);
        } else {
            self.turns.push_back(name);
        }
        batch
    }

    /// All there are.
    pub(crate) fn take(&mut self) -> Vec<Ticket> {
        self.turns.clear();
        self.groups.drain().flat_map(|(_, tickets)| tickets).collect()
    }
}
