//! The clauses of a [`Source`](crate::Source) on a broker: a queue or a topic.
//!
//! Most are those of a log. What differs is here: a broker hands messages over when it is ready, so that nothing is there
//! in the very moment of the first claim; several consumers share a queue rather than stand by; what is done is gone for
//! good, or is read anew by a group of another name; and a dead message cannot hold its key.
//!
//! A fixture has retry steps of 100 ms and 700 ms, and one partition: order is asked for.

use std::time::{Duration, Instant};

pub use super::source::{
    SourceFixture, s1_what_is_committed_comes_and_what_is_rolled_back_does_not,
    s4_a_retry_comes_when_its_delay_is_over_with_its_attempts,
    s6_what_is_behind_comes_after_the_earlier_one_in_order,
    s7_what_is_released_comes_again_unchanged_and_in_order,
    s7_what_is_released_with_a_later_claim_open_is_not_lost,
    s8_messages_of_a_key_come_in_the_order_of_writing, s9_a_repeated_settle_changes_nothing_more,
    s10_a_lost_claim_cannot_be_settled, s12_claim_does_not_wait_and_wait_ends,
    s13_everything_arrives_as_it_was_written,
};
use super::{assert_nothing, claim_some, dead, drain, named, names, retry, settle_all};
use crate::policy::Verdict;
use crate::source::Source;

/// A queue or topic that was left is free in less than this: nobody waited until a broker noticed the absence.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Runs every clause of a source against the fixture of a queue or topic.
#[macro_export]
macro_rules! broker_source_suite {
    ($fixture:expr) => {
        $crate::conformance_tests! { broker, $fixture,
            s1_what_is_committed_comes_and_what_is_rolled_back_does_not
            s2_what_is_claimed_is_not_handed_out_again
            s3_what_is_done_does_not_come_again
            s4_a_retry_comes_when_its_delay_is_over_with_its_attempts
            s5_a_dead_message_stays_away_and_its_key_goes_on
            s6_what_is_behind_comes_after_the_earlier_one_in_order
            s7_what_is_released_comes_again_unchanged_and_in_order
            s7_what_is_released_with_a_later_claim_open_is_not_lost
            s8_messages_of_a_key_come_in_the_order_of_writing
            s9_a_repeated_settle_changes_nothing_more
            s10_a_lost_claim_cannot_be_settled
            s11_after_close_another_goes_on_at_once
            s12_claim_does_not_wait_and_wait_ends
            s13_everything_arrives_as_it_was_written
        }
    };
}

/// Without a second owner: at a broker it would not stand by, but take its share.
pub async fn s2_what_is_claimed_is_not_handed_out_again(fixture: &impl SourceFixture) {
    fixture.enqueue((0..6).map(|n| named(&n.to_string(), "")).collect()).await;
    let source = fixture.source("c");
    let (mut open, mut came) = (Vec::new(), Vec::new());
    while came.len() < 4 {
        let claim = claim_some(&source, 2).await.unwrap();
        came.extend(names(&claim.messages));
        open.push(claim);
    }
    settle_all(&source, &open[0], &retry(Duration::ZERO)).await;
    let again = names(&open[0].messages);
    for claim in &open[1..] {
        settle_all(&source, claim, &Verdict::Done).await;
    }
    let rest = 6 - came.len() + again.len();
    came.extend(names(&drain(&source, rest).await));
    came.sort();
    let mut expected: Vec<String> = (0..6).map(|n| n.to_string()).chain(again).collect();
    expected.sort();
    assert_eq!(came, expected, "each once, and what was set aside once more");
    assert_nothing(&source, "all is done").await;
}

/// Without a second cursor: a queue is one.
pub async fn s3_what_is_done_does_not_come_again(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("one", "k"), named("two", "")]).await;
    let source = fixture.source("c");
    drain(&source, 2).await;
    assert_nothing(&source, "all is done").await;
    source.close().await.unwrap();
    let next = fixture.source("c");
    fixture.enqueue(vec![named("three", "")]).await;
    assert_eq!(names(&drain(&next, 1).await), ["three"], "the rest is done for the next owner, too");
}

/// A broker keeps dead letters apart, so the key goes on whatever the verdict says of it.
pub async fn s5_a_dead_message_stays_away_and_its_key_goes_on(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("one", "h"), named("two", "g")]).await;
    let source = fixture.source("c");
    let mut came = Vec::new();
    while came.len() < 2 {
        let claim = claim_some(&source, 10).await.unwrap();
        came.extend(names(&claim.messages));
        settle_all(&source, &claim, &dead(came.len() < 2)).await;
    }
    assert_nothing(&source, "both are dead").await;
    fixture.enqueue(vec![named("next of one", "h"), named("next of two", "g")]).await;
    let mut came = Vec::new();
    while came.len() < 2 {
        let claim = claim_some(&source, 10).await.unwrap();
        assert!((0..claim.messages.len()).all(|index| !claim.is_held(index)), "nothing is held");
        came.extend(names(&claim.messages));
        settle_all(&source, &claim, &Verdict::Done).await;
    }
    assert_eq!(came, ["next of one", "next of two"]);
    source.close().await.unwrap();
    assert_nothing(&fixture.source("c"), "they are dead for the next owner, too").await;
}

/// At once is within the time that a broker takes to hand a queue or topic to another.
pub async fn s11_after_close_another_goes_on_at_once(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("1", "k"), named("2", "k")]).await;
    let leaving = fixture.source("c");
    let claim = claim_some(&leaving, 1).await.unwrap();
    settle_all(&leaving, &claim, &Verdict::Done).await;
    claim_some(&leaving, 1).await.unwrap();
    leaving.close().await.unwrap();
    let closed = Instant::now();
    let claim = claim_some(&fixture.source("c"), 10).await.unwrap();
    assert!(closed.elapsed() < AT_ONCE, "{:?}", closed.elapsed());
    assert_eq!(names(&claim.messages), ["2"], "only what is not settled");
}
