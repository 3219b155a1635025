//! `/messages/{source}/{id}`: the whole life of a message.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use outbox::Message;
use outbox::admin::Stand;

use super::frame::{Frame, page};
use super::given::At;
use super::payload::Payload;
use super::said::shell;
use super::steps::{Step, steps};
use super::text::{grouped, when};
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::person::{Person, may_see_payloads};
use crate::ops::audit::{AuditEntry, AuditRequest, audit};
use crate::ops::show::{Life, life};
use crate::ops::{Office, Selection};

#[derive(Template)]
#[template(path = "message.html")]
struct Shown {
    frame: Frame,
    source: String,
    id: String,
    state: &'static str,
    life: Life,
    steps: Vec<Step>,
    /// None if whoever looks may not see it.
    payload: Option<Payload>,
    /// A pipe of its outbox has set it aside.
    repairable: bool,
    /// What finds it, and nothing else.
    filter: String,
    command: String,
}

impl Shown {
    fn size(&self, message: &Message) -> String {
        format!("{} bytes", grouped(message.payload.len() as u64))
    }
}

/// Whether somebody may see payloads here.
pub(super) fn may_see(shared: &Shared, person: &Person) -> bool {
    may_see_payloads(person, shared.options.access.payloads)
}

/// The life of a message as it stands in an outbox, or in the first that has it.
async fn life_in(office: &Office, source: &str, id: &str) -> Result<(String, Life), Refusal> {
    // Also beyond its outbox: what became of it at brokers and consumers is what one wants to know. Each place has its own
    // time to answer, so one that does not hides no other.
    let mut found = life(office, id, None).await?;
    let source = outbox_of(source, &found);
    let is_first = found.written.first().is_none_or(|written| written.source == source);
    if !is_first && found.written.iter().any(|written| written.source == source) {
        // Another outbox has another message of that id.
        found.message = life(office, id, Some(&source)).await?.message;
    }
    if found.written.iter().any(|written| written.source == source) {
        found.written.retain(|written| written.source == source);
    }
    Ok((source, found))
}

/// Whoever comes from a dead letter or an error does not know the outbox. Pure.
fn outbox_of(source: &str, life: &Life) -> String {
    let first = life.written.first().filter(|_| source == "-");
    first.map_or(source, |written| &written.source).to_owned()
}

/// What is written down of people who did something to a message, and why nothing can be told of it.
async fn deeds(office: &Office, id: &str) -> (Vec<AuditEntry>, Option<String>) {
    let Some(book) = &office.plan.audit else { return (Vec::new(), None) };
    match audit(office, &AuditRequest { id: Some(id.to_owned()), ..AuditRequest::default() }).await {
        Ok(told) => (told.entries, None),
        // Where nobody has asked for a book, none is missed.
        Err(trouble) => (Vec::new(), book.chosen.then(|| trouble.to_string())),
    }
}

/// One message.
pub(super) async fn message(
    State(shared): State<Arc<Shared>>,
    frame: Frame,
    At((source, id)): At<(String, String)>,
) -> Result<Response, Refusal> {
    let office = &shared.options.office;
    let (found, (book, unread)) = futures_util::join!(life_in(office, &source, &id), deeds(office, &id));
    let (source, mut life) = found?;
    life.unseen.extend(unread);
    let shows = may_see(&shared, &frame.person);
    let payload = life.message.as_ref().filter(|_| shows).map(|message| Payload::of(&message.payload));
    let entries = || {
        life.written.iter().filter(|written| written.source == source).flat_map(|written| &written.entries)
    };
    let repairable = entries().any(|entry| matches!(entry.stand, Stand::Waiting | Stand::Dead));
    let command = format!("outboxd show {}{}", shell(&id), if shows { " --payload" } else { "" });
    let filter = Selection { id: Some(id.clone()), ..Selection::default() }.to_string();
    let (state, steps) = (life.state(&office.plan).as_str(), steps(&life, &book));
    let shown = Shown { frame, source, id, state, life, steps, payload, repairable, filter, command };
    Ok(page(&shown.frame, &shown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::show::Written;

    #[test]
    fn the_outbox_that_was_asked_for_is_shown_and_the_first_only_if_none_was() {
        let written = |source: &str| Written { source: source.to_owned(), entries: Vec::new() };
        let life = Life { written: vec![written("a"), written("b")], ..Life::default() };
        assert_eq!((outbox_of("b", &life), outbox_of("-", &life)), ("b".to_owned(), "a".to_owned()));
        assert_eq!(outbox_of("-", &Life::default()), "-");
    }
}
