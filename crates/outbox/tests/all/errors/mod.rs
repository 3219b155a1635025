//! The error log and the book of what people did, on real databases.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Arc;

use jiff::Timestamp;
use outbox::audit::Audit;
use outbox::conformance::audit::AuditFixture;
use outbox::conformance::errors::ErrorLogFixture;
use outbox::errors::{ErrorFilter, ErrorLog, ErrorRecord, ErrorSink, ErrorTable, FIELDS, Resolution};
use outbox::{Message, MessageId, Outcome, Sink, code};

/// A log, what it cannot keep, and whatever must live as long.
struct Fixture<T> {
    log: Arc<dyn ErrorLog>,
    unfit: Option<ErrorRecord>,
    _alive: T,
}

impl<T: Send + Sync> ErrorLogFixture for Fixture<T> {
    fn log(&self) -> Arc<dyn ErrorLog> {
        self.log.clone()
    }
    fn unfit(&self) -> Option<ErrorRecord> {
        self.unfit.clone()
    }
}

/// A book, and whatever must live as long.
struct Book<T> {
    audit: Arc<dyn Audit>,
    _alive: T,
}

impl<T: Send + Sync> AuditFixture for Book<T> {
    fn audit(&self) -> Arc<dyn Audit> {
        self.audit.clone()
    }
}

/// A failure of a message with this id.
fn failure(id: &str) -> ErrorRecord {
    ErrorRecord::of(&Message::new("order.placed", "x").id(id), Timestamp::now())
}

/// `ErrorLogs` with a column for everything, named after its field.
fn all_columns() -> ErrorTable {
    let fields = FIELDS.into_iter().filter(|field| *field != "resolved");
    ErrorTable::parse(None, "ErrorLogs", fields.map(|field| (field, field))).unwrap()
}

/// `ErrorLogs` with what an application usually has, and a column that tells whether it is resolved.
fn few_columns() -> ErrorTable {
    let columns = [
        ("id", "Id"),
        ("error", "ErrorMessage"),
        ("payload", "Payload"),
        ("resolved", "Resolved"),
        ("last_seen", "At"),
    ];
    ErrorTable::parse(None, "ErrorLogs", columns).unwrap()
}

/// What holds of a table with few columns, whose id is that of the message.
async fn assert_few(log: Arc<dyn ErrorLog>) {
    let sink = ErrorSink::new(log.clone());
    let id = MessageId::new();
    let message = |at: &str| {
        let message = Message::new("order.placed", r#"{"a": 1}"#).id(id.as_str());
        message.header("MT-Fault-Message", "no stock").header("x-error-at", at)
    };
    let first = message("2026-01-31T12:00:00Z");
    assert_eq!(sink.deliver(&[first.clone(), first.clone()]).await, vec![Outcome::Delivered; 2]);
    let outcomes = sink.deliver(&[Message::new("a", "").id("no uuid"), first.clone()]).await;
    assert!(
        matches!(&outcomes[0], Outcome::Rejected(why) if why.permanent && why.cause.code == code::UNFIT),
        "{outcomes:?}"
    );
    assert_eq!(outcomes[1], Outcome::Delivered);
    let list = async |stand| {
        let filter = ErrorFilter { resolution: Some(stand), with_payload: true, ..ErrorFilter::default() };
        log.list(&filter).await.unwrap()
    };
    let open = list(Resolution::Open).await;
    assert_eq!((open.len(), open[0].id.as_str(), &open[0].message_id), (1, id.as_str(), &id));
    assert_eq!((open[0].cause.detail.as_str(), &*open[0].payload), ("no stock", &br#"{"a": 1}"#[..]));
    log.returned(id.as_str(), "ada").await.unwrap();
    assert_eq!((list(Resolution::Open).await.len(), list(Resolution::Resolved).await.len()), (0, 1));
    assert_eq!(sink.deliver(&[first]).await, [Outcome::Delivered]);
    assert_eq!(list(Resolution::Open).await.len(), 0, "the same failure again is no news");
    assert_eq!(sink.deliver(&[message("2026-01-31T12:00:05Z")]).await, [Outcome::Delivered]);
    assert_eq!((list(Resolution::Open).await.len(), list(Resolution::Resolved).await.len()), (1, 0));
    let by_code = ErrorFilter { code: Some("X".into()), ..ErrorFilter::default() };
    let error = log.list(&by_code).await.unwrap_err();
    assert!(error.to_string().contains("has no column for 'code'"), "{error}");
}
