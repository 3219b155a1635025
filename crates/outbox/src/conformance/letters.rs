//! The clauses of [`DeadLetters`], on a queue or topic with a source that reads it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use async_trait::async_trait;

use super::source::SourceFixture;
use super::{cause, claim_exactly, dead, drain, named, names, retry, settle_all};
use crate::letters::{Act, Acted, DeadLetters, Deed, Letter, Pace, Role};
use crate::message::{Message, MessageId, header};
use crate::source::Source;

/// A fresh queue or topic with its dead letters.
#[async_trait]
pub trait LettersFixture: SourceFixture {
    /// The dead letters under test.
    type Letters: DeadLetters;

    /// The dead letters.
    fn letters(&self) -> &Self::Letters;

    /// The name of the queue or topic that messages are read from.
    fn origin(&self) -> &str;

    /// Puts a payload without any id among the dead letters, as somebody else could.
    async fn put(&self, payload: &str);

    /// Takes away the queue or topic that letters are returned to.
    async fn lose_origin(&self);
}

/// Runs every clause of dead letters against the fixture.
#[macro_export]
macro_rules! letters_suite {
    ($fixture:expr) => {
        $crate::conformance_tests! { letters, $fixture,
            q1_a_look_tells_the_oldest_first_and_whether_there_are_more
            q2_a_look_changes_nothing_however_often
            q3_every_letter_has_an_id_and_tells_of_its_death
            q4_a_returned_letter_comes_again_as_it_was_with_no_attempts_and_who_did_it
            q5_a_discarded_letter_is_gone
            q6_what_was_not_chosen_stays_in_its_order
            q7_letters_are_returned_in_the_order_in_which_they_lie
            q8_an_id_that_is_not_there_is_told
            q9_what_cannot_be_returned_stays
            q10_a_pace_is_kept
            q11_what_waits_for_its_retry_is_told_and_still_comes
            q12_how_much_lies_where_is_told
        }
    };
}

/// Lets messages die, in order.
async fn bury(fixture: &impl LettersFixture, messages: Vec<Message>) {
    let count = messages.len();
    fixture.enqueue(messages).await;
    let source = fixture.source("c");
    let claim = claim_exactly(&source, count).await;
    settle_all(&source, &claim, &dead(false)).await;
    source.close().await.unwrap();
}

async fn look(fixture: &impl LettersFixture) -> Vec<Letter> {
    fixture.letters().look(1_000).await.unwrap().letters
}

fn of(letters: &[Letter]) -> Vec<String> {
    names(&letters.iter().map(|letter| letter.message.clone()).collect::<Vec<_>>())
}

fn ids(letters: &[Letter]) -> Vec<MessageId> {
    letters.iter().map(|letter| letter.message.id.clone()).collect()
}

async fn act(fixture: &impl LettersFixture, act: Act, ids: &[MessageId]) -> crate::Result<Acted> {
    let deed = Deed { ids, act, by: "ann@desk", pace: None, tell: &|_| {} };
    fixture.letters().act(&deed).await
}

async fn come(fixture: &impl LettersFixture, count: usize) -> Vec<Message> {
    let source = fixture.source("c");
    let came = drain(&source, count).await;
    source.close().await.unwrap();
    came
}

pub async fn q1_a_look_tells_the_oldest_first_and_whether_there_are_more(fixture: &impl LettersFixture) {
    bury(fixture, (0..5).map(|n| named(&n.to_string(), "")).collect()).await;
    let some = fixture.letters().look(3).await.unwrap();
    assert_eq!((of(&some.letters), some.more), (vec!["0".into(), "1".into(), "2".into()], true));
    let all = fixture.letters().look(5).await.unwrap();
    assert_eq!((all.letters.len(), all.more), (5, false));
    assert!(!fixture.letters().place().is_empty());
}

pub async fn q2_a_look_changes_nothing_however_often(fixture: &impl LettersFixture) {
    bury(fixture, (0..7).map(|n| named(&n.to_string(), "k")).collect()).await;
    let first = look(fixture).await;
    assert_eq!(of(&first), ["0", "1", "2", "3", "4", "5", "6"]);
    for n in 0..25 {
        let most = 1 + n % 7;
        let some = fixture.letters().look(most).await.unwrap();
        assert_eq!(some.letters, first[..most], "look {n}");
        assert_eq!(some.more, most < 7, "look {n}");
    }
    assert_eq!(look(fixture).await, first);
}

pub async fn q3_every_letter_has_an_id_and_tells_of_its_death(fixture: &impl LettersFixture) {
    let message = named("1", "k").header("team", "a").saga("s-1", "2");
    bury(fixture, vec![message.clone()]).await;
    fixture.put("bare").await;
    let letters = look(fixture).await;
    let letter = &letters[0];
    assert_eq!((&letter.message.id, &letter.message.key), (&message.id, &message.key));
    assert_eq!((&letter.message.payload, &letter.message.kind), (&message.payload, &message.kind));
    assert_eq!(letter.message.headers["team"], "a");
    assert_eq!((letter.origin.as_deref(), letter.attempts), (Some(fixture.origin()), 1));
    assert_eq!(letter.cause, Some(cause()));
    assert!(letter.failed_at.is_some() && letter.first_failed_at <= letter.failed_at);
    let bare = &letters[1];
    assert_eq!(names(std::slice::from_ref(&bare.message)), ["bare"]);
    assert!(!bare.message.id.as_str().is_empty());
    assert_eq!(ids(&look(fixture).await), ids(&letters));
    let acted = act(fixture, Act::Discard, std::slice::from_ref(&bare.message.id)).await.unwrap();
    assert_eq!((acted.acted, look(fixture).await.len()), (1, 1), "that id will do");
}

pub async fn q4_a_returned_letter_comes_again_as_it_was_with_no_attempts_and_who_did_it(
    fixture: &impl LettersFixture,
) {
    let message = named("1", "k").header("team", "a").content_type("text/plain");
    bury(fixture, vec![message.clone()]).await;
    let acted = act(fixture, Act::Return, std::slice::from_ref(&message.id)).await.unwrap();
    assert_eq!(acted, Acted { acted: 1, missing: vec![] });
    assert!(look(fixture).await.is_empty());
    let mut came = come(fixture, 1).await.remove(0);
    assert_eq!(came.headers.remove(header::RETURNED_BY).as_deref(), Some("ann@desk"));
    let at = came.headers.remove(header::RETURNED_AT).unwrap();
    assert!(at.parse::<jiff::Timestamp>().is_ok(), "{at}");
    assert_eq!((&came.id, &came.kind, &came.key), (&message.id, &message.kind, &message.key));
    assert_eq!((&came.payload, &came.content_type), (&message.payload, &message.content_type));
    assert_eq!((&came.headers, came.attempts), (&message.headers, 0));
}

pub async fn q5_a_discarded_letter_is_gone(fixture: &impl LettersFixture) {
    let messages = vec![named("1", "k"), named("2", "k"), named("3", "")];
    let first = messages[0].id.clone();
    bury(fixture, messages).await;
    let acted = act(fixture, Act::Discard, &[first]).await.unwrap();
    assert_eq!(acted, Acted { acted: 1, missing: vec![] });
    assert_eq!(of(&look(fixture).await), ["2", "3"]);
    act(fixture, Act::Return, &ids(&look(fixture).await)).await.unwrap();
    assert_eq!(names(&come(fixture, 2).await), ["2", "3"], "and nothing else");
}

pub async fn q6_what_was_not_chosen_stays_in_its_order(fixture: &impl LettersFixture) {
    let messages: Vec<Message> = (0..9).map(|n| named(&n.to_string(), "k")).collect();
    bury(fixture, messages.clone()).await;
    let chosen: Vec<MessageId> = [1, 4, 8].map(|n: usize| messages[n].id.clone()).to_vec();
    act(fixture, Act::Return, &chosen).await.unwrap();
    assert_eq!(of(&look(fixture).await), ["0", "2", "3", "5", "6", "7"]);
    let chosen: Vec<MessageId> = [0, 5].map(|n: usize| messages[n].id.clone()).to_vec();
    act(fixture, Act::Discard, &chosen).await.unwrap();
    assert_eq!(of(&look(fixture).await), ["2", "3", "6", "7"]);
    bury(fixture, come(fixture, 3).await).await;
    assert_eq!(of(&look(fixture).await), ["2", "3", "6", "7", "1", "4", "8"], "they died again, later");
}

pub async fn q7_letters_are_returned_in_the_order_in_which_they_lie(fixture: &impl LettersFixture) {
    let messages: Vec<Message> = (0..120).map(|n| named(&n.to_string(), "k")).collect();
    bury(fixture, messages.clone()).await;
    let mut backwards: Vec<MessageId> = messages.iter().map(|message| message.id.clone()).collect();
    backwards.reverse();
    let told = Mutex::new(Vec::new());
    let tell = |done: u64| told.lock().unwrap().push(done);
    let deed = Deed { ids: &backwards, act: Act::Return, by: "ann", pace: None, tell: &tell };
    assert_eq!(fixture.letters().act(&deed).await.unwrap().acted, 120);
    let told = told.into_inner().unwrap();
    assert!(told.is_sorted() && told.last() == Some(&120), "{told:?}");
    let expected: Vec<String> = (0..120).map(|n| n.to_string()).collect();
    assert_eq!(names(&come(fixture, 120).await), expected);
}

pub async fn q8_an_id_that_is_not_there_is_told(fixture: &impl LettersFixture) {
    let message = named("1", "k");
    bury(fixture, vec![message.clone(), named("2", "k")]).await;
    let unknown = MessageId::new();
    let chosen = [unknown.clone(), message.id.clone(), message.id.clone()];
    let acted = act(fixture, Act::Return, &chosen).await.unwrap();
    assert_eq!(acted.acted, 1);
    assert_eq!(acted.missing.len(), 2, "asked for twice, and there once");
    assert!(acted.missing.contains(&unknown) && acted.missing.contains(&message.id));
    assert_eq!(of(&look(fixture).await), ["2"]);
}

pub async fn q9_what_cannot_be_returned_stays(fixture: &impl LettersFixture) {
    bury(fixture, vec![named("1", "k"), named("2", "k")]).await;
    let letters = look(fixture).await;
    fixture.lose_origin().await;
    let error = act(fixture, Act::Return, &ids(&letters)).await.unwrap_err();
    assert!(error.chain().contains(fixture.origin()), "{}", error.chain());
    assert_eq!(look(fixture).await, letters);
}

pub async fn q10_a_pace_is_kept(fixture: &impl LettersFixture) {
    let messages: Vec<Message> = (0..10).map(|n| named(&n.to_string(), "k")).collect();
    let all: Vec<MessageId> = messages.iter().map(|message| message.id.clone()).collect();
    bury(fixture, messages).await;
    let began = Instant::now();
    let pace = Some(Pace::new(10, Duration::from_secs(1)));
    let deed = Deed { ids: &all, act: Act::Return, by: "ann", pace, tell: &|_| {} };
    assert_eq!(fixture.letters().act(&deed).await.unwrap().acted, 10);
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
}

pub async fn q11_what_waits_for_its_retry_is_told_and_still_comes(fixture: &impl LettersFixture) {
    let message = named("1", "k");
    fixture.enqueue(vec![message.clone()]).await;
    let source = fixture.source("c");
    let claim = claim_exactly(&source, 1).await;
    settle_all(&source, &claim, &retry(Duration::from_millis(700))).await;
    let waiting = fixture.letters().retries(100).await.unwrap();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    let one = &waiting[0];
    assert_eq!((&one.message.id, one.attempts), (&message.id, 1));
    assert_eq!(one.cause, Some(cause()));
    assert!(one.due > one.failed_at && one.failed_at.is_some(), "{one:?}");
    assert!(one.place.contains("retry"), "{one:?}");
    let came = drain(&source, 1).await;
    assert_eq!((&came[0].id, came[0].attempts), (&message.id, 1));
    source.close().await.unwrap();
    assert!(fixture.letters().retries(100).await.unwrap().is_empty());
}

pub async fn q12_how_much_lies_where_is_told(fixture: &impl LettersFixture) {
    // Two are dead, one waits, three are left.
    bury(fixture, vec![named("1", "a"), named("2", "b")]).await;
    fixture.enqueue(vec![named("3", "c")]).await;
    let source = fixture.source("c");
    let claim = claim_exactly(&source, 1).await;
    settle_all(&source, &claim, &retry(Duration::from_secs(60))).await;
    source.close().await.unwrap();
    fixture.enqueue(vec![named("4", "d"), named("5", "d"), named("6", "d")]).await;
    let told = async || {
        let mut sums = std::collections::BTreeMap::new();
        for depth in fixture.letters().depths().await.unwrap() {
            *sums.entry(depth.role).or_insert(0) += depth.messages;
        }
        (sums[&Role::Work], sums[&Role::Retry], sums[&Role::Dead])
    };
    assert_eq!(told().await, (3, 1, 2));
    assert_eq!(told().await, (3, 1, 2), "to ask changes nothing");
    let letters = look(fixture).await;
    act(fixture, Act::Discard, &ids(&letters)[..1]).await.unwrap();
    assert_eq!(told().await, (3, 1, 1));
}
