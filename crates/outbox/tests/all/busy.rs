//! Lanes of a relay that has work without end, and of one that comes to help.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use outbox::{Claim, Message, Source, Verdict};

pub(crate) const LANES: u32 = 4;

/// More than a lane needs for every round.
pub(crate) fn work() -> impl Iterator<Item = Message> {
    (0..50).flat_map(|number| {
        (0..40).map(move |key| Message::new("t", number.to_string()).key(format!("k{key}")))
    })
}

const ROUNDS: usize = 100;

/// `one` makes its next claim before it settles the last: a claim of each of its lanes is always open. `two` gets its share
/// nevertheless.
pub(crate) async fn assert_lanes_are_given_back(one: &[Arc<dyn Source>], two: &[Arc<dyn Source>]) {
    let mut open: Vec<VecDeque<Claim>> = Vec::new();
    for lane in one {
        let claim = lane.claim(1).await.unwrap();
        assert_eq!(claim.messages.len(), 1, "alone it has them all");
        open.push(VecDeque::from([claim]));
    }
    let mut theirs = vec![false; two.len()];
    for _ in 0..ROUNDS {
        for (lane, open) in one.iter().zip(&mut open) {
            open.extend(Some(lane.claim(1).await.unwrap()).filter(|claim| !claim.messages.is_empty()));
            if let Some(claim) = open.pop_front() {
                lane.settle(&claim, &[Verdict::Done]).await.unwrap();
            }
        }
        for (lane, is_theirs) in two.iter().zip(&mut theirs) {
            let claim = lane.claim(1).await.unwrap();
            if !claim.messages.is_empty() {
                lane.settle(&claim, &[Verdict::Done]).await.unwrap();
                *is_theirs = true;
            }
        }
        if theirs.iter().filter(|is_theirs| **is_theirs).count() * 2 >= two.len() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the second relay has never had its share: {theirs:?}");
}
