//! The clauses of a [`Source`], on a log.

use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::{assert_nothing, claim_exactly, claim_some, dead, drain, named, names, retry, settle_all};
use crate::error::ErrorKind;
use crate::message::{Message, MessageId};
use crate::policy::Verdict;
use crate::source::Source;

/// A fresh, empty store and what the clauses do to it.
#[async_trait]
pub trait SourceFixture: Send + Sync {
    /// The source under test.
    type Source: Source;

    /// Writes messages in one transaction and commits it.
    async fn enqueue(&self, messages: Vec<Message>);

    /// Writes messages in one transaction and rolls it back.
    async fn roll_back(&self, messages: Vec<Message>);

    /// A new owner for the cursor of this name, as another process would make it.
    fn source(&self, cursor: &str) -> Self::Source;

    /// Lets the lease on the cursor run out, as time would.
    async fn expire(&self, cursor: &str);
}

/// Runs every clause of a source against the fixture.
#[macro_export]
macro_rules! source_suite {
    ($fixture:expr) => {
        $crate::conformance_tests! { source, $fixture,
            s1_what_is_committed_comes_and_what_is_rolled_back_does_not
            s2_what_is_claimed_is_not_handed_out_again
            s3_what_is_done_does_not_come_again
            s4_a_retry_comes_when_its_delay_is_over_with_its_attempts
            s5_a_dead_message_stays_away_and_holds_its_key_if_told
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

pub async fn s1_what_is_committed_comes_and_what_is_rolled_back_does_not(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("one", "")]).await;
    fixture.roll_back(vec![named("never", "")]).await;
    fixture.enqueue(vec![named("two", "")]).await;
    let source = fixture.source("c");
    assert_eq!(names(&drain(&source, 2).await), ["one", "two"]);
    assert_nothing(&source, "the rest was rolled back").await;
}

pub async fn s2_what_is_claimed_is_not_handed_out_again(fixture: &impl SourceFixture) {
    fixture.enqueue((0..6).map(|n| named(&n.to_string(), "")).collect()).await;
    let source = fixture.source("c");
    let first = claim_some(&source, 2).await.unwrap();
    let second = claim_some(&source, 2).await.unwrap();
    assert_eq!(names(&first.messages), ["0", "1"]);
    assert_eq!(names(&second.messages), ["2", "3"]);
    assert_nothing(&fixture.source("c"), "another owner has to stand by").await;
    settle_all(&source, &first, &retry(Duration::ZERO)).await;
    settle_all(&source, &second, &Verdict::Done).await;
    let again = claim_some(&source, 1).await.unwrap();
    let other = claim_some(&source, 10).await.unwrap();
    let mut all = [names(&again.messages), names(&other.messages)].concat();
    if all.len() < 4 {
        all.extend(names(&claim_some(&source, 10).await.unwrap().messages));
    }
    all.sort();
    assert_eq!(all, ["0", "1", "4", "5"], "each once, also those set aside");
}

pub async fn s3_what_is_done_does_not_come_again(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("one", "k"), named("two", "")]).await;
    let source = fixture.source("c");
    drain(&source, 2).await;
    assert_nothing(&source, "all is done").await;
    source.close().await.unwrap();
    assert_nothing(&fixture.source("c"), "all is done for the next owner, too").await;
    assert_eq!(drain(&fixture.source("other"), 2).await.len(), 2, "another cursor has its own progress");
}

pub async fn s4_a_retry_comes_when_its_delay_is_over_with_its_attempts(fixture: &impl SourceFixture) {
    let message = named("one", "k").header("a", "b");
    fixture.enqueue(vec![message.clone()]).await;
    let source = fixture.source("c");
    let claim = claim_some(&source, 10).await.unwrap();
    assert_eq!(claim.messages[0].attempts, 0);
    assert!(!claim.is_set_aside(), "it is new");
    let delay = Duration::from_millis(700);
    let settled_after = Instant::now();
    let verdict = Verdict::Retry { after: delay, attempts: 3, cause: super::cause() };
    source.settle(&claim, &[verdict]).await.unwrap();
    let again = claim_some(&source, 10).await.unwrap();
    // Two clocks are at work, the store's and ours; a few milliseconds are theirs.
    assert!(settled_after.elapsed() >= delay - Duration::from_millis(20), "{:?}", settled_after.elapsed());
    assert_eq!(again.messages[0].attempts, 3);
    assert!(again.is_set_aside(), "it was set aside, and the claim must say so");
    let came = Message { attempts: 0, ..again.messages[0].clone() };
    assert_eq!(came.id, message.id);
    assert_eq!((came.payload, came.headers, came.key), (message.payload, message.headers, message.key));
    settle_all(&source, &again, &Verdict::Done).await;
    assert_nothing(&source, "it is done").await;
}

pub async fn s5_a_dead_message_stays_away_and_holds_its_key_if_told(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("held", "h"), named("let go", "g")]).await;
    let source = fixture.source("c");
    let claim = claim_some(&source, 10).await.unwrap();
    source.settle(&claim, &[dead(true), dead(false)]).await.unwrap();
    assert_nothing(&source, "both are dead").await;
    fixture.enqueue(vec![named("next of held", "h"), named("next of let go", "g"), named("free", "")]).await;
    let claim = claim_some(&source, 10).await.unwrap();
    let came: Vec<_> =
        names(&claim.messages).into_iter().zip((0..).map(|index| claim.is_held(index))).collect();
    let came: Vec<_> = came.iter().map(|(name, held)| (name.as_str(), *held)).collect();
    let free = [("next of let go", false), ("free", false)];
    let flagged = [("next of held", true), free[0], free[1]];
    assert!(came == free || came == flagged, "held: flagged or not there; all others: free; but {came:?}");
    let verdict = |held: bool| if held { Verdict::Behind } else { Verdict::Done };
    let verdicts: Vec<_> = came.iter().map(|(_, held)| verdict(*held)).collect();
    source.settle(&claim, &verdicts).await.unwrap();
    assert_nothing(&source, "the next of a held key waits for a person, too").await;
}

pub async fn s6_what_is_behind_comes_after_the_earlier_one_in_order(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("1", "k"), named("2", "k"), named("3", "k"), named("other", "o")]).await;
    let source = fixture.source("c");
    let claim = claim_exactly(&source, 4).await;
    let verdicts = [retry(Duration::from_millis(100)), Verdict::Behind, Verdict::Behind, Verdict::Done];
    source.settle(&claim, &verdicts).await.unwrap();
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
        let claim = claim_exactly(&source, 4).await;
        assert_eq!(names(&claim.messages), ["0", "1", "2", "3"]);
        assert!(claim.messages.iter().all(|message| message.attempts == 0));
        settle_all(&source, &claim, &Verdict::Released).await;
    }
    let claim = claim_exactly(&source, 4).await;
    let verdicts = [Verdict::Done, Verdict::Released, Verdict::Released, Verdict::Released];
    source.settle(&claim, &verdicts).await.unwrap();
    assert_eq!(names(&drain(&source, 3).await), ["1", "2", "3"]);
}

pub async fn s7_what_is_released_with_a_later_claim_open_is_not_lost(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("1", "k"), named("2", "k"), named("3", "k"), named("4", "x")]).await;
    let source = fixture.source("c");
    let first = claim_exactly(&source, 2).await;
    let second = claim_exactly(&source, 2).await;
    settle_all(&source, &first, &Verdict::Released).await;
    source.settle(&second, &[Verdict::Released, Verdict::Done]).await.unwrap();
    let came = drain(&source, 3).await;
    assert_eq!(names(&came), ["1", "2", "3"]);
    assert!(came.iter().all(|message| message.attempts == 0), "nothing was charged");
    assert_nothing(&source, "the fourth was done").await;
}

pub async fn s8_messages_of_a_key_come_in_the_order_of_writing(fixture: &impl SourceFixture) {
    for round in 0..20 {
        let keys = ["a", "b", "c"];
        fixture.enqueue(keys.iter().map(|key| named(&format!("{key}{round:02}"), key)).collect()).await;
    }
    let came = names(&drain(&fixture.source("c"), 60).await);
    for key in ["a", "b", "c"] {
        let of_key: Vec<_> = came.iter().filter(|name| name.starts_with(key)).collect();
        assert_eq!(of_key.len(), 20);
        assert!(of_key.is_sorted(), "{of_key:?}");
    }
}

pub async fn s9_a_repeated_settle_changes_nothing_more(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("1", "a"), named("2", "b")]).await;
    let source = fixture.source("c");
    let claim = claim_exactly(&source, 2).await;
    let verdicts = [Verdict::Done, retry(Duration::ZERO)];
    source.settle(&claim, &verdicts).await.unwrap();
    source.settle(&claim, &verdicts).await.unwrap();
    assert_eq!(names(&drain(&source, 1).await), ["2"]);
    source.settle(&claim, &verdicts).await.unwrap();
    assert_nothing(&source, "a late repetition must not bring it back").await;
}

pub async fn s10_a_lost_claim_cannot_be_settled(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("1", ""), named("2", "")]).await;
    let paused = fixture.source("c");
    let claim = claim_exactly(&paused, 2).await;
    fixture.expire("c").await;
    let next = fixture.source("c");
    let taken = claim_exactly(&next, 2).await;
    assert_eq!(names(&taken.messages), ["1", "2"], "taken over");
    let error = paused.settle(&claim, &[dead(true), Verdict::Done]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    settle_all(&next, &taken, &Verdict::Done).await;
    assert_nothing(&next, "the stale settle left no trace").await;
}

pub async fn s11_after_close_another_goes_on_at_once(fixture: &impl SourceFixture) {
    fixture.enqueue(vec![named("1", "k"), named("2", "k")]).await;
    let leaving = fixture.source("c");
    let claim = claim_some(&leaving, 1).await.unwrap();
    settle_all(&leaving, &claim, &Verdict::Done).await;
    claim_some(&leaving, 1).await.unwrap();
    leaving.close().await.unwrap();
    let next = fixture.source("c");
    assert_eq!(
        names(&next.claim(10).await.unwrap().messages),
        ["2"],
        "at once, and only what is not settled"
    );
}

pub async fn s12_claim_does_not_wait_and_wait_ends(fixture: &impl SourceFixture) {
    let source = fixture.source("c");
    let claimed = tokio::time::timeout(super::PATIENCE, source.claim(10)).await.expect("claim waits");
    assert!(claimed.unwrap().messages.is_empty());
    let waited = source.wait(Duration::from_millis(50));
    tokio::time::timeout(super::PATIENCE, waited).await.expect("wait does not end");
}

pub async fn s13_everything_arrives_as_it_was_written(fixture: &impl SourceFixture) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let at = "2024-02-29T12:34:56.789Z".parse().unwrap();
    let written = Message::new("Übung.erstellt", every_byte)
        .id(MessageId::from(uuid::Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001)))
        .key("schlüssel \"1\"; --")
        .content_type("application/x-anything")
        .occurred_at(at)
        .header("x-empty", "")
        .header("Mixed-Case", "π ≠ 3 \u{1F980} \"quoted\" \\ back\n line")
        .correlation("c-1")
        .causation("c-0")
        .saga("s-1", "3");
    let empty = Message::new("empty", "").occurred_at(at);
    fixture.enqueue(vec![written.clone(), empty.clone()]).await;
    let came = drain(&fixture.source("c"), 2).await;
    assert_eq!(came, [written, empty]);
}
