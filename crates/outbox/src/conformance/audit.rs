//! The clauses of an [`Audit`].

use std::sync::Arc;

use crate::audit::{Audit, Entry, Filter};
use crate::message::MessageId;

/// A fresh, empty book.
pub trait AuditFixture: Send + Sync {
    /// The book under test.
    fn audit(&self) -> Arc<dyn Audit>;
}

/// Runs every clause of an audit against the fixture.
#[macro_export]
macro_rules! audit_suite {
    ($fixture:expr) => {
        $crate::conformance_tests! { audit, $fixture,
            u1_what_is_written_is_listed_as_it_was_given_the_newest_first
            u2_a_list_has_what_matches_in_pages_and_changes_nothing
        }
    };
}

fn actions(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.action.as_str()).collect()
}

pub async fn u1_what_is_written_is_listed_as_it_was_given_the_newest_first(fixture: &impl AuditFixture) {
    let (audit, id) = (fixture.audit(), MessageId::new());
    let entries = [
        Entry::new("ada", "retry", "orders.dlq").message(&id),
        Entry::new("bob", "discard", "orders.dlq").detail("it's old"),
        // Whatever a message is called, what was done to it is written down.
        Entry::new("ada", "edit", "outbox.errors").message(&MessageId::from("m\0x")),
    ];
    audit.write(&entries).await.unwrap();
    audit.write(&[]).await.unwrap();
    let all = audit.list(&Filter::default()).await.unwrap();
    assert_eq!(actions(&all), ["edit", "discard", "retry"]);
    for (given, found) in entries.iter().rev().zip(&all) {
        assert_eq!((&given.who, &given.target, &given.detail), (&found.who, &found.target, &found.detail));
        assert_eq!(given.at.as_millisecond(), found.at.as_millisecond());
    }
    assert_eq!(all[2].message_id, Some(id));
}

pub async fn u2_a_list_has_what_matches_in_pages_and_changes_nothing(fixture: &impl AuditFixture) {
    let (audit, id) = (fixture.audit(), MessageId::new());
    let entries = [
        Entry::new("ada", "retry", "orders.dlq").message(&id),
        Entry::new("bob", "discard", "orders.dlq"),
        Entry::new("ada", "edit", "outbox.errors"),
    ];
    audit.write(&entries).await.unwrap();
    let all = audit.list(&Filter::default()).await.unwrap();
    let long_ago = "2020-01-01T00:00:00Z".parse().ok();
    for (filter, expected) in [
        (Filter { who: Some("ada".into()), ..Filter::default() }, vec!["edit", "retry"]),
        (Filter { action: Some("discard".into()), ..Filter::default() }, vec!["discard"]),
        (Filter { target: Some("orders.dlq".into()), limit: 1, ..Filter::default() }, vec!["discard"]),
        (Filter { message_id: Some(id), ..Filter::default() }, vec!["retry"]),
        (Filter { before: Some(all[1].seq), ..Filter::default() }, vec!["retry"]),
        (Filter { older_than: long_ago, ..Filter::default() }, vec![]),
        (Filter { newer_than: long_ago, ..Filter::default() }, vec!["edit", "discard", "retry"]),
    ] {
        let found = audit.list(&filter).await.unwrap();
        assert_eq!(actions(&found), expected, "{filter:?}");
    }
    assert_eq!(audit.list(&Filter::default()).await.unwrap(), all, "nothing has changed");
}
