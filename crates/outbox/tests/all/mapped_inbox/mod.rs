//! An inbox in a table that exists already.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use outbox::{Failure, Handler, Inbox, InboxTable, Message, MessageId, Outcome, Sink, code};

/// The table of the suites, with everything in it.
fn table() -> InboxTable {
    let table = InboxTable::parse(None, "Handled", "EventId").unwrap();
    table.at("HandledAt").unwrap().consumer("Consumer").unwrap().prune(true).unwrap()
}

/// `ProcessedEvents (EventId, ProcessedAt)`, which is one consumer's.
fn processed() -> InboxTable {
    InboxTable::parse(None, "ProcessedEvents", "EventId").unwrap().at("ProcessedAt").unwrap()
}

/// What holds of `ProcessedEvents` with UUIDs, where nothing of ours was ever migrated.
async fn assert_processed<I: Inbox>(inbox: I) {
    let inbox = Arc::new(inbox);
    let fails = |message: &Message| &*message.payload == b"fails";
    let sink = Handler::new(inbox.clone(), "notifications", move |_tx, message: Message| async move {
        if fails(&message) { Err(Failure::retry("told to")) } else { Ok(()) }
    });
    let (fine, fails, odd) =
        (Message::new("a", "fine"), Message::new("a", "fails"), Message::new("a", "").id("order-1"));
    let shouted = Message::new("a", "").id(fine.id.as_str().to_uppercase());
    let outcomes = sink.deliver(&[fine.clone(), fails.clone()]).await;
    assert_eq!(outcomes[0], Outcome::Delivered);
    assert!(
        matches!(&outcomes[1], Outcome::Rejected(rejection) if rejection.cause.detail == "told to"),
        "{outcomes:?}"
    );
    assert_eq!(sink.deliver(std::slice::from_ref(&shouted)).await, [Outcome::Delivered]);
    let outcomes = sink.deliver(std::slice::from_ref(&odd)).await;
    assert!(
        matches!(&outcomes[0], Outcome::Rejected(rejection) if rejection.permanent && rejection.cause.code == code::UNFIT),
        "{outcomes:?}"
    );
    let ids: [&MessageId; 4] = [&fine.id, &shouted.id, &fails.id, &odd.id];
    assert_eq!(inbox.known("notifications", &ids).await.unwrap(), [true, true, false, false]);
    let history = inbox.history(&fine.id).await.unwrap();
    assert_eq!(
        (history.len(), history[0].consumer.as_str(), &history[0].failed),
        (1, "ProcessedEvents", &None)
    );
    let age = jiff::Timestamp::now().duration_since(history[0].at.unwrap()).as_secs();
    assert!((-5..60).contains(&age), "{history:?}");
    assert!(inbox.history(&fails.id).await.unwrap().is_empty(), "there is no place for notes");
    // It is somebody else's table.
    assert_eq!(inbox.prune("notifications", Duration::ZERO, 100).await.unwrap(), 0);
    assert_eq!(inbox.known("notifications", &ids).await.unwrap(), [true, true, false, false]);
}
