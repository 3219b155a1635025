//! `/failures`: all that waits for a person, grouped by cause, and the ways to each of it.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;

use super::deed::{Deed, UNKNOWN, known};
use super::edit::{is_editable, mark};
use super::frame::{Frame, page};
use super::given::{At, Params};
use super::message::may_see;
use super::payload::Payload;
use super::said::{carried, shell};
use super::text::{grouped, when};
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::ops::dead::{self, Letters, Picked, Wanted, WholeLetter};
use crate::ops::errors::{self, Chosen, Errors, Standing, WholeError};
use crate::ops::failures::{Failures, Group, Place, failures};

/// A list has at most so many.
const MOST: std::num::NonZeroU32 = std::num::NonZeroU32::new(200).expect("it is not zero");

#[derive(Template)]
#[template(path = "failures.html")]
struct Shown {
    frame: Frame,
    shown: Failures,
}

impl Shown {
    /// What can be done to a whole group; nothing if that would mean others, too.
    fn deed(&self, group: &Group) -> Option<Deed> {
        Deed::is_exact(group).then(|| Deed::of_group(group))
    }
}

/// Where failures lie, in words.
fn place(place: &Place) -> String {
    match place {
        Place::Outbox { source, pipe: Some(pipe) } => format!("outbox {source}, pipe {pipe}"),
        Place::Outbox { source, pipe: None } => format!("outbox {source}"),
        Place::Letters { place, .. } => format!("dead letters in {place}"),
        Place::Errors { sink } => format!("error table {sink}"),
    }
}

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { UNKNOWN } else { text }
}

/// The page that lists a group one by one.
fn list_of(group: &Group) -> String {
    let query = |pairs: &[(&str, &str)]| {
        url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish()
    };
    let (kind, code) = (or_unknown(&group.kind), or_unknown(&group.code));
    match &group.place {
        Place::Outbox { source, .. } => {
            let filter = Deed::of_group(group).filter;
            format!("/messages?{}", query(&[("source", source), ("filter", &filter)]))
        }
        Place::Letters { source, .. } => {
            format!("/failures/letters?{}", query(&[("source", source), ("type", kind), ("code", code)]))
        }
        Place::Errors { sink } => {
            format!("/failures/errors?{}", query(&[("sink", sink), ("type", kind), ("code", code)]))
        }
    }
}

/// All failures by cause.
pub(super) async fn show(State(shared): State<Arc<Shared>>, frame: Frame) -> Response {
    let shown = failures(&shared.options.office).await;
    let shown = Shown { frame, shown };
    page(&shown.frame, &shown)
}

/// Which letters or errors to list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    #[serde(default)]
    source: String,
    #[serde(default)]
    sink: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    state: String,
}

impl Which {
    fn kind(&self) -> Option<String> {
        carried(known(&self.kind))
    }

    fn code(&self) -> Option<String> {
        carried(known(&self.code))
    }

    /// What can be done to all of them; nothing if no filter finds just these.
    fn deed(&self, of: impl FnOnce(&str, &str) -> Deed) -> Option<Deed> {
        let is_exact = self.kind != UNKNOWN && self.code != UNKNOWN;
        is_exact.then(|| of(&self.kind, &self.code))
    }
}

#[derive(Template)]
#[template(path = "letters.html")]
struct LetterList {
    frame: Frame,
    which: Which,
    shown: Letters,
    deed: Option<Deed>,
}

/// Dead letters, one by one.
pub(super) async fn letters(
    State(shared): State<Arc<Shared>>,
    frame: Frame,
    Params(which): Params<Which>,
) -> Result<Response, Refusal> {
    let picked = Picked {
        source: carried(&which.source),
        kind: which.kind(),
        code: which.code(),
        most: Some(MOST),
        ..Picked::default()
    };
    let deed = which.deed(|kind, code| Deed::of_letters(&which.source, kind, code, None));
    let mut shown = dead::list(&shared.options.office, Wanted::new(&[], picked)).await?;
    shown.letters.retain(|letter| {
        (which.kind != UNKNOWN || letter.kind.is_empty())
            && (which.code != UNKNOWN
                || letter.cause.as_ref().is_none_or(|cause| known(&cause.code).is_empty()))
    });
    Ok(page(&frame.clone(), &LetterList { frame, which, shown, deed }))
}

#[derive(Template)]
#[template(path = "letter.html")]
struct OneLetter {
    frame: Frame,
    letter: WholeLetter,
    payload: Option<Payload>,
    deed: Deed,
}

/// One dead letter.
pub(super) async fn letter(
    State(shared): State<Arc<Shared>>,
    frame: Frame,
    At((source, id)): At<(String, String)>,
) -> Result<Response, Refusal> {
    let shows = may_see(&shared, &frame.person);
    let shown = dead::show(&shared.options.office, Some(&source), &id, shows).await?;
    let unseen = || Refusal::later("it cannot be looked at now", "try again in a while");
    let letter = shown.letters.into_iter().next().ok_or_else(unseen)?;
    let payload = shows.then(|| Payload::of(&letter.payload.bytes()));
    let deed = Deed::of_letters(&source, "", "", Some(&id));
    Ok(page(&frame.clone(), &OneLetter { frame, letter, payload, deed }))
}

#[derive(Template)]
#[template(path = "errors.html")]
struct ErrorList {
    frame: Frame,
    which: Which,
    shown: Errors,
    deed: Option<Deed>,
}

/// Errors of a table, one by one.
pub(super) async fn error_list(
    State(shared): State<Arc<Shared>>,
    frame: Frame,
    Params(which): Params<Which>,
) -> Result<Response, Refusal> {
    let state = match which.state.as_str() {
        "returned" => Standing::Returned,
        "resolved" => Standing::Resolved,
        "any" => Standing::Any,
        _ => Standing::Open,
    };
    let chosen = Chosen {
        sink: carried(&which.sink),
        state,
        kind: which.kind(),
        code: which.code(),
        most: Some(MOST),
        ..Chosen::default()
    };
    let deed = which.deed(|kind, code| Deed::of_errors(&which.sink, kind, code, None));
    let mut shown = errors::list(&shared.options.office, Vec::new(), chosen).await?;
    shown.errors.retain(|error| {
        (which.kind != UNKNOWN || error.kind.is_empty())
            && (which.code != UNKNOWN || known(&error.cause.code).is_empty())
    });
    Ok(page(&frame.clone(), &ErrorList { frame, which, shown, deed }))
}

#[derive(Template)]
#[template(path = "error.html")]
struct OneError {
    frame: Frame,
    error: WholeError,
    payload: Option<Payload>,
    original: Option<Payload>,
    deed: Deed,
}

impl OneError {
    /// What a page can edit, with the mark of what it is now.
    fn editable(&self) -> Option<(&str, String)> {
        let text = self.error.payload.text.as_deref().filter(|text| is_editable(text))?;
        Some((text, mark(text.as_bytes())))
    }

    fn command(&self) -> String {
        let (sink, id) = (shell(&self.error.entry.sink), shell(&self.error.entry.id));
        format!("outboxd errors edit --sink {sink} {id}")
    }

    fn is_open(&self) -> bool {
        self.error.entry.state.as_str() == "open"
    }
}

/// One error.
pub(super) async fn error(
    State(shared): State<Arc<Shared>>,
    frame: Frame,
    At((sink, id)): At<(String, String)>,
) -> Result<Response, Refusal> {
    let shows = may_see(&shared, &frame.person);
    let shown = errors::show(&shared.options.office, Some(&sink), &id, shows).await?;
    let gone = || Refusal::later("it cannot be looked at now", "try again in a while");
    let error = shown.errors.into_iter().next().ok_or_else(gone)?;
    let payload = shows.then(|| Payload::of(&error.payload.bytes()));
    let original = (shows && error.edited).then(|| Payload::of(&error.original.bytes()));
    let deed = Deed::of_errors(&sink, "", "", Some(&id));
    Ok(page(&frame.clone(), &OneError { frame, error, payload, original, deed }))
}
