//! The clauses of a [`Source`] on a broker: a queue or a topic.
//!
//! Some are those of a log. What differs is here: a broker hands messages over one after the other, so that they may come
//! in any number of claims; several consumers share a queue rather than stand by; what is done is gone for good, or is read
//! anew by a group of another name; and a dead message cannot hold its key.
//!
//! A fixture has retry steps of 100 ms and 700 ms, and one partition: order is asked for.

use std::time::{Duration, Instant};

pub use super::source::{
    SourceFixture, s1_what_is_committed_comes_and_what_is_rolled_back_does_not,
    s4_a_retry_comes_when_its_delay_is_over_with_its_attempts,
    s8_messages_of_a_key_come_in_the_order_of_writing, s12_claim_does_not_wait_and_wait_ends,
    s13_everything_arrives_as_it_was_written,
};
use super::{assert_nothing, claim_some, dead, drain, named, names, retry, settle_all};
use crate::error::ErrorKind;
use crate::policy::Verdict;
use crate::source::{Claim, Source};

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

/// Claims until so many have come, in as many claims as it takes, and leaves them open.
async fn claim_of(source: &impl Source, limit: usize, count: usize) -> Vec<Claim> {
    let mut open: Vec<Claim> = Vec::new();
    while all_names(&open).len() < count {
        open.push(claim_some(source, limit).await.unwrap());
    }
    open
}

fn all_names(claims: &[Claim]) -> Vec<String> {
    claims.iter().flat_map(|claim| names(&claim.messages)).collect()
}

/// One verdict per name.
fn verdicts(claim: &Claim, verdict: &impl Fn(&str) -> Verdict) -> Vec<Verdict> {
    names(&claim.messages).iter().map(|name| verdict(name)).collect()
}

async fn settle_each(source: &impl Source, claims: &[Claim], verdict: impl Fn(&str) -> Verdict) {
    for claim in claims {
        source.settle(claim, &verdicts(claim, &verdict)).await.unwrap();
    }
}

/// Without a second owner: at a broker it would not stand by, but take its share.
pub async fn s2_what_is_claimed_is_not_handed_out_again(fixture: &impl SourceFixture) {
    fixture.enqueue((0..6).map(|n| named(&n.to_string(), "")).collect()).await;
    let source = fixture.source("c");
    let open = claim_of(&source, 2, 4).await;
    let mut came = all_names(&open);
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
    let open = claim_of(&source, 10, 2).await;
    settle_each(&source, &open, |name| dead(name == "one")).await;
    assert_nothing(&source, "both are dead").await;
    fixture.enqueue(vec![named("next of one", "h"), named("next of two", "g")]).await;
    let open = claim_of(&source, 10, 2).await;
    let is_free = |claim: &Claim| (0..claim.messages.len()).all(|index| !claim.is_held(index));
    assert!(open.iter().all(is_free), "nothing is held");
    settle_each(&source, &open, |_| Verdict::Done).await;
    assert_eq!(all_names(&open), ["next of one", "next of two"]);
    source.close().await.unwrap();
    assert_nothing(&fixture.source("c"), "they are dead for the next owner, too").await;
}

pub async fn s6_what_is_behind_comes_after_the_earlier_one_in_order(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("1", "k"), named("2", "k"), named("3", "k"), named("other", "o")]).await;
    let source = fixture.source("c");
    let open = claim_of(&source, 10, 4).await;
    let verdict = |name: &str| match name {
        "1" => retry(Duration::from_millis(100)),
        "other" => Verdict::Done,
        _ => Verdict::Behind,
    };
    settle_each(&source, &open, verdict).await;
    fixture.enqueue(vec![named("4", "k")]).await;
    // The fourth is read while the first waits: flagged, and put behind, too.
    assert_eq!(names(&drain(&source, 4).await), ["1", "2", "3", "4"]);
    assert_nothing(&source, "all is done").await;
    fixture.enqueue(vec![named("5", "k")]).await;
    assert!(!claim_some(&source, 10).await.unwrap().is_held(0), "the key is free again");
}

pub async fn s7_what_is_released_comes_again_unchanged_and_in_order(fixture: &impl SourceFixture) {
    fixture.enqueue((0..4).map(|n| named(&n.to_string(), "k")).collect()).await;
    let source = fixture.source("c");
    for _ in 0..3 {
        let open = claim_of(&source, 10, 4).await;
        assert_eq!(all_names(&open), ["0", "1", "2", "3"]);
        assert!(open.iter().flat_map(|claim| &claim.messages).all(|message| message.attempts == 0));
        settle_each(&source, &open, |_| Verdict::Released).await;
    }
    let open = claim_of(&source, 10, 4).await;
    settle_each(&source, &open, |name| if name == "0" { Verdict::Done } else { Verdict::Released }).await;
    assert_eq!(names(&drain(&source, 3).await), ["1", "2", "3"]);
}

pub async fn s7_what_is_released_with_a_later_claim_open_is_not_lost(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("1", "k"), named("2", "k"), named("3", "k"), named("4", "x")]).await;
    let source = fixture.source("c");
    let open = claim_of(&source, 2, 4).await;
    settle_each(&source, &open, |name| if name == "4" { Verdict::Done } else { Verdict::Released }).await;
    let came = drain(&source, 3).await;
    assert_eq!(names(&came), ["1", "2", "3"]);
    assert!(came.iter().all(|message| message.attempts == 0), "nothing was charged");
    assert_nothing(&source, "the fourth was done").await;
}

pub async fn s9_a_repeated_settle_changes_nothing_more(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("1", "a"), named("2", "b")]).await;
    let source = fixture.source("c");
    let open = claim_of(&source, 10, 2).await;
    let verdict = |name: &str| if name == "1" { Verdict::Done } else { retry(Duration::ZERO) };
    settle_each(&source, &open, verdict).await;
    settle_each(&source, &open, verdict).await;
    assert_eq!(names(&drain(&source, 1).await), ["2"]);
    settle_each(&source, &open, verdict).await;
    assert_nothing(&source, "a late repetition must not bring it back").await;
}

pub async fn s10_a_lost_claim_cannot_be_settled(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("1", ""), named("2", "")]).await;
    let paused = fixture.source("c");
    let open = claim_of(&paused, 10, 2).await;
    fixture.expire("c").await;
    let next = fixture.source("c");
    let taken = claim_of(&next, 10, 2).await;
    assert_eq!(all_names(&taken), ["1", "2"], "taken over");
    for claim in &open {
        let stale = verdicts(claim, &|name| if name == "1" { dead(true) } else { Verdict::Done });
        let error = paused.settle(claim, &stale).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    }
    settle_each(&next, &taken, |_| Verdict::Done).await;
    assert_nothing(&next, "the stale settle left no trace").await;
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
