//! Connections that break under one and the same message, time after time.

use std::sync::{Mutex, PoisonError};

use crate::message::MessageId;

/// So often in a row a connection may break under a message until that is the message's doing.
const MOST: u32 = 5;

/// The message under which a connection broke last, and how often in a row.
///
/// A server that drops whoever sends it too much, or falls over one statement, looks like an outage. Taken for one
/// without end, a single message would stop all others.
#[derive(Debug, Default)]
pub(super) struct Cuts(Mutex<Option<(MessageId, u32)>>);

impl Cuts {
    /// A connection broke under the message, while the database answers others; tells whether it is the message's doing.
    pub(super) fn is_by(&self, id: &MessageId) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.take().filter(|(known, _)| known == id).map_or(0, |(_, times)| times);
        let times = before + 1;
        *last = (times < MOST).then(|| (id.clone(), times));
        times >= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_blamed_only_for_many_in_a_row() {
        let (cuts, one, other) = (Cuts::default(), MessageId::new(), MessageId::new());
        for _ in 0..10 {
            assert!(!cuts.is_by(&one) && !cuts.is_by(&other));
        }
        let blamed: Vec<_> = (0..10).map(|_| cuts.is_by(&one)).collect();
        let expected = [false, false, false, false, true, false, false, false, false, true];
        assert_eq!(blamed, expected, "each attempt begins anew");
    }
}
