//! Reads the broker's answers to a batch. Pure, because a mistake here is a lost message.
//!
//! For an unroutable message the broker sends it back first (`basic.return`) and then acknowledges it. The
//! driver keeps what came back in a queue and hands the front of that queue to whichever confirm completes
//! next, so a returned message arrives with another message's confirm as often as with its own. What can be
//! known from that:
//!
//! - A return always precedes the confirm of its own message, and every confirm takes one from a queue that is
//!   not empty. So when every confirm of the batch has come, every return has been handed out with one of them,
//!   and what is acknowledged and not among the returned is delivered.
//! - When some confirms are missing (the channel closed, time ran out), a return may be left in the queue. Its
//!   message, if acknowledged, was handed somebody else's return: had the queue been empty at its confirm, its
//!   own would have been handed out before. So an acknowledgement that bears a stranger proves nothing then.
//!
//! That holds only if whoever reads confirms drops none that has come.

use std::collections::HashSet;

/// What was received for one publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Receipt {
    /// Acknowledged, with the id of the returned message that came along.
    Ack(Option<String>),
    /// Not taken, with the id of the returned message that came along.
    Nack(Option<String>),
    /// No confirm: not sent, cut off, or not in time.
    None,
}

/// What became of one publish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Routed and stored.
    Delivered,
    /// Routed nowhere, and returned.
    Unroutable,
    /// Refused by a queue.
    Nacked,
    /// Not known.
    Unknown,
}

/// What became of each of `ids`, published on one channel of which nothing else was pending.
pub(super) fn read(ids: &[&str], receipts: &[Receipt]) -> Vec<Fate> {
    let returned: HashSet<&str> = receipts
        .iter()
        .filter_map(|receipt| match receipt {
            Receipt::Ack(returned) | Receipt::Nack(returned) => returned.as_deref(),
            Receipt::None => None,
        })
        .collect();
    // A return that is none of ours cannot be; if it is, trust no acknowledgement that bears one.
    let are_ours = || returned.is_subset(&ids.iter().copied().collect());
    let is_complete =
        receipts.iter().all(|receipt| *receipt != Receipt::None) && (returned.is_empty() || are_ours());
    ids.iter()
        .zip(receipts)
        .map(|(id, receipt)| match receipt {
            _ if returned.contains(id) => Fate::Unroutable,
            Receipt::Ack(None) => Fate::Delivered,
            Receipt::Ack(Some(_)) if is_complete => Fate::Delivered,
            Receipt::Nack(_) => Fate::Nacked,
            Receipt::Ack(Some(_)) | Receipt::None => Fate::Unknown,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn ack(returned: &str) -> Receipt {
        Receipt::Ack(Some(returned.to_owned()))
    }

    #[test]
    fn k2_a_return_counts_whoever_brings_it() {
        let fates = read(&["a", "b", "c"], &[Receipt::Ack(None), ack("c"), Receipt::Ack(None)]);
        assert_eq!(fates, [Fate::Delivered, Fate::Delivered, Fate::Unroutable]);
    }

    #[test]
    fn k5_an_acknowledgement_with_a_stranger_proves_nothing_when_confirms_are_missing() {
        let fates = read(&["a", "b", "c"], &[Receipt::Ack(None), ack("c"), Receipt::None]);
        assert_eq!(fates, [Fate::Delivered, Fate::Unknown, Fate::Unroutable]);
        assert_eq!(read(&["a", "b"], &[ack("x"), Receipt::Nack(None)]), [Fate::Unknown, Fate::Nacked]);
    }

    proptest! {
        /// The driver and a broker in small: returns before acknowledgements, in any order of messages, the
        /// queue of returns shared, cut off after any number of steps.
        #[test]
        fn k2_nothing_unroutable_is_ever_called_delivered(
            routable in proptest::collection::vec(any::<bool>(), 1..12),
            order in any::<u64>(),
            returned_early in any::<u64>(),
            cut in 0usize..14,
        ) {
            let ids: Vec<String> = (0..routable.len()).map(|n| n.to_string()).collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let mut turns: Vec<usize> = (0..ids.len()).collect();
            turns.sort_by_key(|turn| (order >> turn) & 1);
            let mut receipts = vec![Receipt::None; ids.len()];
            let mut waiting = VecDeque::new();
            // Some returns come long before their acknowledgement, the others just before it.
            let early = |turn: usize| (returned_early >> turn) & 1 == 1;
            waiting.extend((0..ids.len()).filter(|turn| !routable[*turn] && early(*turn)));
            for &turn in turns.iter().take(cut) {
                if !routable[turn] && !early(turn) {
                    waiting.push_back(turn);
                }
                receipts[turn] = Receipt::Ack(waiting.pop_front().map(|turn: usize| ids[turn].to_owned()));
            }
            for (turn, fate) in read(&ids, &receipts).into_iter().enumerate() {
                match fate {
                    Fate::Delivered => prop_assert!(routable[turn]),
                    Fate::Unroutable => prop_assert!(!routable[turn]),
                    Fate::Nacked => prop_assert!(false),
                    Fate::Unknown => prop_assert!(cut < ids.len(), "all confirmed, all known"),
                }
            }
        }
    }
}
