//! Connections that break under one and the same message, time after time.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use crate::message::MessageId;

/// So often a connection may break under a message until that is the message's doing.
const MOST: u32 = 5;

/// So many messages are remembered.
const REMEMBERED: usize = 64;

/// Messages under which a connection broke, and how often, while the database answered others.
///
/// A server that drops whoever sends it too much, or falls over one statement, looks like an outage. Taken for one
/// without end, a single message would stop all others.
#[derive(Debug, Default)]
pub(crate) struct Cuts(Mutex<VecDeque<(MessageId, u32)>>);

impl Cuts {
    /// A connection broke under the message, while the database answers others; tells whether it is the message's doing.
    pub(crate) fn is_by(&self, id: &MessageId) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = known.iter().position(|(other, _)| other == id);
        let times = 1 + at.and_then(|at| known.remove(at)).map_or(0, |(_, times)| times);
        if times >= MOST {
            return true;
        }
        if known.len() >= REMEMBERED {
            known.pop_front();
        }
        known.push_back((id.clone(), times));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_blamed_after_five_times_whatever_comes_between() {
        let (cuts, one, other) = (Cuts::default(), MessageId::new(), MessageId::new());
        let blamed: Vec<_> = (0..10).map(|_| (cuts.is_by(&one), cuts.is_by(&other))).collect();
        let fifth = |n: usize| n % 5 == 4;
        let expected: Vec<_> = (0..10).map(|n| (fifth(n), fifth(n))).collect();
        assert_eq!(blamed, expected, "each attempt begins anew");
    }

    #[test]
    fn only_so_many_are_remembered() {
        let (cuts, one) = (Cuts::default(), MessageId::new());
        for _ in 0..MOST - 1 {
            cuts.is_by(&one);
        }
        for _ in 0..REMEMBERED {
            cuts.is_by(&MessageId::new());
        }
        assert!(!cuts.is_by(&one), "it was forgotten");
        assert_eq!(cuts.0.lock().unwrap().len(), REMEMBERED);
    }
}
