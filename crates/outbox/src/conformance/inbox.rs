//! The clauses of an [`Inbox`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::{PATIENCE, cause, named};
use crate::inbox::{Failed, Failure, Handler, Inbox};
use crate::message::MessageId;
use crate::sink::{Outcome, Sink, code};

/// A fresh inbox, with something beside it that a handler can write to.
#[async_trait]
pub trait InboxFixture: Send + Sync {
    /// The inbox under test.
    type Inbox: Inbox;

    /// The inbox.
    fn inbox(&self) -> Arc<Self::Inbox>;

    /// Writes a line in the transaction, as a handler would.
    async fn write(tx: &mut <Self::Inbox as Inbox>::Tx, line: &str);

    /// The lines that are committed, in order.
    async fn lines(&self) -> Vec<String>;
}

/// Runs every clause of an inbox against the fixture.
#[macro_export]
macro_rules! inbox_suite {
    ($fixture:expr) => {
        $crate::conformance_tests! { inbox, $fixture,
            i1_an_id_is_new_the_first_time
            i2_an_id_is_known_from_then_on
            i3_what_is_not_committed_was_never_recorded
            i4_consumers_do_not_see_each_other
            i5_of_two_at_once_one_commits_it_as_new
            i6_undo_takes_back_one_message_and_no_other
            i7_pruning_forgets_only_what_is_old_in_steps
            i7_pruning_forgets_notes_too
            i7_pruning_forgets_only_what_is_the_consumers
            i8_known_tells_what_is_committed_and_changes_nothing
            i9_a_note_changes_nothing_of_what_is_handled
            i9_history_tells_the_life_of_a_message_in_order
        }
    };
}

async fn record(fixture: &impl InboxFixture, consumer: &str, ids: &[&MessageId]) -> Vec<bool> {
    let inbox = fixture.inbox();
    let mut tx = inbox.begin().await.unwrap();
    let new = inbox.record(&mut tx, consumer, ids).await.unwrap();
    inbox.commit(tx).await.unwrap();
    new
}

pub async fn i1_an_id_is_new_the_first_time(fixture: &impl InboxFixture) {
    let (a, b) = (MessageId::new(), MessageId::from("any text, 'quoted'"));
    assert_eq!(record(fixture, "c", &[&a, &b]).await, [true, true]);
}

pub async fn i2_an_id_is_known_from_then_on(fixture: &impl InboxFixture) {
    let (a, b, inbox) = (MessageId::new(), MessageId::new(), fixture.inbox());
    let mut tx = inbox.begin().await.unwrap();
    assert_eq!(inbox.record(&mut tx, "c", &[&a]).await.unwrap(), [true]);
    assert_eq!(inbox.record(&mut tx, "c", &[&a]).await.unwrap(), [false]);
    inbox.commit(tx).await.unwrap();
    assert_eq!(record(fixture, "c", &[&b, &a]).await, [true, false]);
}

pub async fn i3_what_is_not_committed_was_never_recorded(fixture: &impl InboxFixture) {
    let (a, inbox) = (MessageId::new(), fixture.inbox());
    let mut tx = inbox.begin().await.unwrap();
    assert_eq!(inbox.record(&mut tx, "c", &[&a]).await.unwrap(), [true]);
    drop(tx);
    assert_eq!(record(fixture, "c", &[&a]).await, [true]);
}

pub async fn i4_consumers_do_not_see_each_other(fixture: &impl InboxFixture) {
    let a = MessageId::new();
    assert_eq!(record(fixture, "one", &[&a]).await, [true]);
    assert_eq!(record(fixture, "two", &[&a]).await, [true]);
}

pub async fn i5_of_two_at_once_one_commits_it_as_new(fixture: &impl InboxFixture) {
    let message = named("once", "");
    let handler = |inbox| Handler::new(inbox, "c", |_tx, _message| async { Ok::<(), Failure>(()) });
    let (one, two) = (handler(fixture.inbox()), handler(fixture.inbox()));
    let messages = [message.clone()];
    let both = futures_util::future::join(one.deliver(&messages), two.deliver(&messages));
    let (first, second) = tokio::time::timeout(PATIENCE, both).await.expect("they block each other");
    // Whoever came second saw the id as known, or could not get through; both is right, twice is not.
    assert!(first == [Outcome::Delivered] || second == [Outcome::Delivered], "{first:?} {second:?}");
    assert_eq!(record(fixture, "c", &[&message.id]).await, [false]);
}

pub async fn i6_undo_takes_back_one_message_and_no_other<F: InboxFixture>(fixture: &F) {
    let (a, b, c) = (MessageId::new(), MessageId::new(), MessageId::new());
    let inbox = fixture.inbox();
    record(fixture, "other", &[&b]).await;
    let mut tx = inbox.begin().await.unwrap();
    inbox.record(&mut tx, "c", &[&a, &b, &c]).await.unwrap();
    for (id, line, fails) in [(&a, "a", false), (&b, "b", true), (&c, "c", false)] {
        inbox.mark(&mut tx).await.unwrap();
        F::write(&mut tx, line).await;
        if fails {
            inbox.undo(&mut tx, "c", id).await.unwrap();
        }
    }
    inbox.commit(tx).await.unwrap();
    assert_eq!(fixture.lines().await, ["a", "c"]);
    assert_eq!(record(fixture, "c", &[&a, &b, &c]).await, [false, true, false]);
    assert_eq!(record(fixture, "other", &[&b]).await, [false], "another consumer keeps its own");

    // The same through a handler, with a panic and a failure among the messages of one batch.
    let handler = Handler::new(fixture.inbox(), "h", |_tx, message: crate::Message| async move {
        match &*message.payload {
            b"panics" => panic!("told to"),
            b"dead" => Err(Failure::dead("never")),
            _ => Ok(()),
        }
    });
    let messages = [named("fine", ""), named("panics", ""), named("dead", ""), named("fine too", "")];
    let outcomes = handler.deliver(&messages).await;
    assert_eq!((&outcomes[0], &outcomes[3]), (&Outcome::Delivered, &Outcome::Delivered));
    assert!(matches!(&outcomes[1], Outcome::Rejected(r) if r.cause.code == code::PANIC && !r.permanent));
    assert!(matches!(&outcomes[2], Outcome::Rejected(r) if r.cause.code == code::HANDLER && r.permanent));
    let ids: Vec<_> = messages.iter().map(|message| &message.id).collect();
    assert_eq!(record(fixture, "h", &ids).await, [false, true, true, false]);
}

pub async fn i7_pruning_forgets_only_what_is_old_in_steps(fixture: &impl InboxFixture) {
    let ids: Vec<_> = (0..5).map(|_| MessageId::new()).collect();
    record(fixture, "c", &ids.iter().collect::<Vec<_>>()).await;
    let inbox = fixture.inbox();
    assert_eq!(inbox.prune("c", Duration::from_secs(3600), 100).await.unwrap(), 0);
    // Some stores keep whole seconds or milliseconds; let the ids become older than nothing.
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(inbox.prune("c", Duration::ZERO, 3).await.unwrap(), 3);
    assert_eq!(inbox.prune("c", Duration::ZERO, 3).await.unwrap(), 2);
    assert_eq!(record(fixture, "c", &ids.iter().collect::<Vec<_>>()).await, [true; 5]);
}

/// Notes a failure of each.
async fn note(fixture: &impl InboxFixture, consumer: &str, ids: &[&MessageId], attempt: u32) {
    let cause = cause();
    let failures: Vec<_> =
        ids.iter().map(|id| Failed { id, attempt, cause: &cause, dead: attempt > 2 }).collect();
    fixture.inbox().note(consumer, &failures).await.unwrap();
}

pub async fn i7_pruning_forgets_notes_too(fixture: &impl InboxFixture) {
    let (a, b, inbox) = (MessageId::new(), MessageId::new(), fixture.inbox());
    record(fixture, "c", &[&a]).await;
    note(fixture, "c", &[&a, &b, &b, &b], 1).await;
    assert_eq!(inbox.prune("c", Duration::from_secs(3600), 100).await.unwrap(), 0);
    assert_eq!(inbox.history(&b).await.unwrap().len(), 3);
    tokio::time::sleep(Duration::from_millis(20)).await;
    // Ids go first, and a step is a step.
    assert_eq!(inbox.prune("c", Duration::ZERO, 2).await.unwrap(), 2);
    assert_eq!(inbox.known("c", &[&a]).await.unwrap(), [false]);
    assert_eq!(inbox.prune("c", Duration::ZERO, 2).await.unwrap(), 2);
    assert_eq!(inbox.prune("c", Duration::ZERO, 2).await.unwrap(), 1);
    assert_eq!(inbox.prune("c", Duration::ZERO, 2).await.unwrap(), 0);
    assert_eq!(inbox.history(&b).await.unwrap(), []);
}

pub async fn i7_pruning_forgets_only_what_is_the_consumers(fixture: &impl InboxFixture) {
    let (a, b, inbox) = (MessageId::new(), MessageId::new(), fixture.inbox());
    for consumer in ["one", "two"] {
        record(fixture, consumer, &[&a]).await;
        note(fixture, consumer, &[&b], 1).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(inbox.prune("nobody", Duration::ZERO, 100).await.unwrap(), 0);
    assert_eq!(inbox.prune("one", Duration::ZERO, 100).await.unwrap(), 2);
    assert_eq!(inbox.known("one", &[&a]).await.unwrap(), [false]);
    assert_eq!(inbox.known("two", &[&a]).await.unwrap(), [true], "its window may be longer");
    let notes = inbox.history(&b).await.unwrap();
    assert!(matches!(&notes[..], [note] if note.consumer == "two"), "{notes:?}");
    assert_eq!(inbox.prune("two", Duration::ZERO, 100).await.unwrap(), 2);
}

pub async fn i8_known_tells_what_is_committed_and_changes_nothing(fixture: &impl InboxFixture) {
    let (a, b, odd) = (MessageId::new(), MessageId::new(), MessageId::from("it's \\ \"odd\" ?"));
    let inbox = fixture.inbox();
    assert!(inbox.known("c", &[]).await.unwrap().is_empty());
    assert_eq!(inbox.known("c", &[&a, &b, &odd]).await.unwrap(), [false; 3]);
    assert_eq!(record(fixture, "c", &[&b, &odd]).await, [true; 2], "asking records nothing");
    assert_eq!(inbox.known("c", &[&a, &b, &odd, &b]).await.unwrap(), [false, true, true, true]);
    assert_eq!(inbox.known("other", &[&a, &b, &odd]).await.unwrap(), [false; 3]);
    let mut tx = inbox.begin().await.unwrap();
    inbox.record(&mut tx, "c", &[&a]).await.unwrap();
    drop(tx);
    assert_eq!(inbox.known("c", &[&a, &b]).await.unwrap(), [false, true]);
}

pub async fn i9_a_note_changes_nothing_of_what_is_handled(fixture: &impl InboxFixture) {
    let (a, b, inbox) = (MessageId::new(), MessageId::new(), fixture.inbox());
    record(fixture, "c", &[&a]).await;
    note(fixture, "c", &[&a, &b], 1).await;
    inbox.note("c", &[]).await.unwrap();
    assert_eq!(inbox.known("c", &[&a, &b]).await.unwrap(), [true, false]);
    assert_eq!(record(fixture, "c", &[&a, &b]).await, [false, true]);
}

pub async fn i9_history_tells_the_life_of_a_message_in_order(fixture: &impl InboxFixture) {
    let (id, other, inbox) = (MessageId::new(), MessageId::new(), fixture.inbox());
    assert_eq!(inbox.history(&id).await.unwrap(), []);
    // A handler notes its rejections by itself.
    let handler = Handler::new(fixture.inbox(), "one", |_tx, message: crate::Message| async move {
        match message.attempts {
            0 => Err(Failure::retry("not yet")),
            1 => Err(Failure::dead("never").code(code::UNFIT)),
            _ => Ok(()),
        }
    });
    let mut message = named("told", "");
    message.id = id.clone();
    for attempts in 0..3 {
        message.attempts = attempts;
        handler.deliver(std::slice::from_ref(&message)).await;
        // So that no two of them are of the same moment, where moments are milliseconds.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    note(fixture, "two", &[&other, &id], 3).await;
    let history = inbox.history(&id).await.unwrap();
    let told: Vec<_> = history
        .iter()
        .map(|one| match &one.failed {
            Some(failed) => format!("{} {} {} {}", one.consumer, failed.attempt, failed.cause, failed.dead),
            None => format!("{} handled", one.consumer),
        })
        .collect();
    let expected = [
        "one 1 HANDLER: not yet false",
        "one 2 UNFIT: never true",
        "one handled",
        "two 3 HANDLER: told to fail true",
    ];
    assert_eq!(told, expected);
    let ages = history.iter().map(|one| jiff::Timestamp::now().duration_since(one.at.unwrap()).as_secs());
    assert!(ages.into_iter().all(|age| (-5..60).contains(&age)), "{history:?}");
}
