//! Who does what to which message: written down before it is done, and completed after.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outbox::audit::{Audit, Entry, Filter};
use outbox::{ErrorKind, MessageId};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Office;
use crate::backends::Databases;
use crate::connection::Connection;
use crate::plan::{AuditPlan, Plan};
use crate::trouble::{Exit, Trouble};

/// The book in which repairs are written down.
pub struct Book {
    audit: Arc<dyn Audit>,
    connection: Connection,
    who: String,
}

/// A deed that was begun.
pub struct Page<'b> {
    book: &'b Book,
    action: String,
    target: String,
    /// What its entries have in common.
    act: String,
}

impl Book {
    /// The book of a configuration, or why there is none: without one nothing is repaired. `by` is who acts.
    pub async fn open(plan: &Plan, databases: &Databases, by: &str) -> Result<Self, Trouble> {
        let Some(AuditPlan { connection, .. }) = &plan.audit else {
            let what = "there is no place to write down who does this";
            let help = "name a database: [audit] with on = \"connection\", then run `outboxd migrate`";
            return Err(Trouble::new(Exit::Config, what, help));
        };
        let audit = databases.audit(connection).await;
        let audit = audit.map_err(|error| no_book(connection, &error))?;
        Ok(Self { audit, connection: connection.clone(), who: by.to_owned() })
    }

    /// The same for what is done to outboxes, which were there before the book. Where nobody has chosen a place for it,
    /// and the one database that there is has no tables of ours, as with mapped tables, they go on without; then this
    /// says so. Not so over HTTP, where only the book knows who did it: there nothing is done without.
    pub async fn open_if_there(office: &Office, by: &str) -> Result<Result<Self, String>, Trouble> {
        let book = office.book(by).await?;
        match book.audit.list(&Filter { limit: 1, ..Filter::default() }).await {
            Ok(_) => Ok(Ok(book)),
            Err(error) if error.kind() == ErrorKind::NotMigrated && office.is_hurried() => {
                let trouble = no_book(&book.connection, &error);
                Err(Trouble::new(Exit::Config, trouble.to_string(), trouble.help()))
            }
            Err(error) if error.kind() == ErrorKind::NotMigrated && !is_chosen(&office.plan) => {
                Ok(Err(format!(
                    "not written down who did this: add [audit] with on = \"{}\" and run `outboxd migrate`",
                    book.connection.name
                )))
            }
            Err(error) => Err(no_book(&book.connection, &error)),
        }
    }

    /// Who acts.
    pub fn who(&self) -> &str {
        &self.who
    }

    /// Writes down what is about to be done to these messages at `target`; `detail` is what else there is to say.
    pub async fn begin(
        &self,
        action: &str,
        target: &str,
        ids: &[MessageId],
        detail: Value,
    ) -> Result<Page<'_>, Trouble> {
        let page = Page {
            book: self,
            action: action.to_owned(),
            target: target.to_owned(),
            act: Uuid::now_v7().simple().to_string(),
        };
        let mut entries = vec![page.entry(json!({ "begins": detail, "messages": ids.len() }))];
        entries.extend(ids.iter().map(|id| page.entry(json!({})).message(id)));
        self.write(&entries).await?;
        Ok(page)
    }

    async fn write(&self, entries: &[Entry]) -> Result<(), Trouble> {
        self.audit.write(entries).await.map_err(|error| no_book(&self.connection, &error))
    }
}

/// What is about to be done: the action, where, to which messages, and what else there is to say.
pub type About<'a> = (&'a str, &'a str, &'a [MessageId], Value);

/// How many messages were changed so far: also what fails half-way has changed some.
#[derive(Debug, Default)]
pub struct Tally(AtomicU64);

impl Tally {
    /// So many more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// So many so far.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Does something that counts the messages that it changes, written down before and after, if there is a book.
pub async fn written_down(
    book: Option<&Book>,
    (action, target, ids, detail): About<'_>,
    changed: &Tally,
    act: impl Future<Output = Result<(), Trouble>>,
) -> Result<u64, Trouble> {
    let Some(book) = book else { return act.await.map(|()| changed.count()) };
    let page = book.begin(action, target, ids, detail).await?;
    if let Err(trouble) = act.await {
        page.failed(changed.count(), &trouble).await;
        return Err(trouble);
    }
    page.done(json!({ "changed": changed.count() })).await.map(|()| changed.count())
}

fn is_chosen(plan: &Plan) -> bool {
    plan.audit.as_ref().is_some_and(|audit| audit.chosen)
}

fn no_book(connection: &Connection, error: &outbox::Error) -> Trouble {
    no_table("cannot write down who does this", connection, error)
}

/// The book cannot be used for what is being done.
pub(super) fn no_table(doing: &str, connection: &Connection, error: &outbox::Error) -> Trouble {
    if error.kind() == ErrorKind::NotMigrated {
        let what = format!("{doing}: '{}' has no table for it", connection.name);
        let name = &connection.name;
        let help =
            format!("add [audit] with on = \"{name}\" or another database, then run `outboxd migrate`");
        return Trouble::new(Exit::Failed, what, help);
    }
    Trouble::at_database(doing, connection, error)
}

impl Page<'_> {
    fn entry(&self, mut detail: Value) -> Entry {
        detail["act"] = json!(self.act);
        Entry::new(&self.book.who, &self.action, &self.target).detail(detail.to_string())
    }

    /// It is done, with this result.
    pub async fn done(self, result: Value) -> Result<(), Trouble> {
        self.book.write(&[self.entry(json!({ "done": result }))]).await
    }

    /// It failed, after so many were done. What went wrong is the news, and not that this could not be written.
    pub async fn failed(self, done: u64, why: &(dyn std::fmt::Display + Sync)) {
        let entry = self.entry(json!({ "failed": why.to_string(), "changed": done }));
        if let Err(trouble) = self.book.write(&[entry]).await {
            tracing::warn!("{trouble}; {}", trouble.help());
        }
    }
}
