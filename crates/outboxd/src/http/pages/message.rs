//! `/messages/{source}/{id}`: the whole life of a message.

use std::sync::Arc;

use askama::Template;
use axum::extract::{Path, State};
use axum::response::Response;
use outbox::Message;
use outbox::admin::Stand;

use super::frame::{Frame, page};
use super::payload::Payload;
use super::said::shell;
use super::steps::{Step, steps};
use super::text::{grouped, when};
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::person::{Person, may_see_payloads};
use crate::ops::show::{Life, life};

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

/// One message.
pub(super) async fn message(
    State(shared): State<Arc<Shared>>,
    frame: Frame,
    Path((source, id)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let office = &shared.options.office;
    // Also beyond its outbox: what became of it at brokers and consumers is what one wants to know.
    let life = office.look("cannot show the message", life(office, &id, None)).await?;
    // Whoever comes from a dead letter or an error does not know its outbox.
    let source = life.written.first().map_or(source, |written| written.source.clone());
    let shows = may_see(&shared, &frame.person);
    let payload = life.message.as_ref().filter(|_| shows).map(|message| Payload::of(&message.payload));
    let entries = || {
        life.written.iter().filter(|written| written.source == source).flat_map(|written| &written.entries)
    };
    let repairable = entries().any(|entry| matches!(entry.stand, Stand::Waiting | Stand::Dead));
    let command = format!("outboxd show {}{}", shell(&id), if shows { " --payload" } else { "" });
    let (state, steps) = (life.state(&office.plan).as_str(), steps(&life));
    Ok(page(&frame.clone(), &Shown { frame, source, id, state, life, steps, payload, repairable, command }))
}
