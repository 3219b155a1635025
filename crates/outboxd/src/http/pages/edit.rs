//! Another payload for an error, typed into a page: what nobody touched stays as it is, to the byte.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;

use super::carry_out::to_the_end;
use super::frame::done;
use super::given::{At, Filled};
use super::message::may_see;
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::person::Operator;
use crate::ops::Office;
use crate::ops::errors::{self, Chosen, EditRequest, RetryRequest, TheOne};

/// Whether a browser gives a text back as it was: it writes the ends of lines in its own way, and drops what is no sign. Pure.
pub(super) fn is_editable(text: &str) -> bool {
    !text.contains(['\r', '\0'])
}

/// Tells what was shown from what it is by now. Nobody gains by making two alike. Pure.
pub(super) fn mark<T: Hash>(shown: &[T]) -> String {
    let mut hasher = DefaultHasher::new();
    shown.hash(&mut hasher);
    format!("{}-{:016x}", shown.len(), hasher.finish())
}

fn page_of(sink: &str, id: &str) -> String {
    let part = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
    format!("/failures/errors/{}/{}", part(sink), part(id))
}

/// Refuses if the payload is no longer the one that was shown, or never could be shown as it is.
async fn still_is(office: &Office, request: &EditRequest, shown: &str) -> Result<(), Refusal> {
    let one = TheOne::find(office, request.sink.as_deref(), &request.id).await?;
    let payload = &one.record.payload;
    if !std::str::from_utf8(payload).is_ok_and(is_editable) {
        let help = "use `outboxd errors edit`, which takes a file";
        return Err(Refusal::bad("a page cannot give this payload back as it is", help));
    }
    if mark(payload) != shown {
        let help = "go back, load the page again and look at what it is now";
        let error = "somebody has changed the payload meanwhile; nothing was done";
        return Err(Refusal::new(StatusCode::CONFLICT, error, help));
    }
    Ok(())
}

/// Another payload.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    payload: String,
    /// What it was when the form was written.
    mark: String,
    /// `edit` or `edit and retry`.
    then: String,
}

/// Changes the payload of an error, and sends it back if that is asked for.
pub(super) async fn edit(
    State(shared): State<Arc<Shared>>,
    Operator(person): Operator,
    At((sink, id)): At<(String, String)>,
    Filled(Edit { payload, mark, then }): Filled<Edit>,
) -> Result<Response, Refusal> {
    if !may_see(&shared, &person) {
        let help = "who may is set by 'payloads' of [http]; the command line edits, too";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "nobody sees payloads here", help));
    }
    // A browser ends a line in its own way; what has such ends of its own is not edited here.
    let payload = Some(payload.replace("\r\n", "\n"));
    let here = page_of(&sink, &id);
    let request = EditRequest {
        id: id.clone(),
        sink: Some(sink.clone()),
        payload,
        payload_base64: None,
        dry_run: false,
    };
    let retry = (then == "retry").then(|| {
        let chosen = Chosen { sink: Some(sink), ..Chosen::default() };
        RetryRequest { ids: vec![id], chosen, ..Default::default() }
    });
    let office = shared.office.clone();
    let carried_out = async move {
        still_is(&office, &request, &mark).await?;
        let edited = errors::edit(&office, request, &person.name).await?;
        let changed =
            if edited.changed == 1 { "Its payload is changed" } else { "It had that payload already" };
        let Some(retry) = retry else { return Ok(format!("{changed}. The first one is kept.")) };
        let sent = errors::retry(&office, retry, &person.name, &|_| {}).await?;
        Ok(format!("{changed}, and it is sent back: {} of {}.", sent.changed, sent.matched))
    };
    let said = to_the_end(&shared.office, carried_out).await?;
    shared.board.changed().await;
    Ok(done(&here, said.as_deref().unwrap_or("It takes a while and goes on by itself.")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_browser_gives_back_as_it_was_is_edited_in_a_page() {
        assert!(is_editable("{\n \"a\": 1\n}") && is_editable("\n") && is_editable(""));
        assert!(!is_editable("a\r\nb") && !is_editable("a\rb") && !is_editable("a\0"));
    }

    #[test]
    fn a_mark_tells_payloads_apart() {
        assert_eq!(mark(b"one"), mark(b"one"));
        assert_ne!(mark(b"one"), mark(b"two"));
    }

    #[test]
    fn an_id_is_no_path() {
        assert_eq!(page_of("errors", "a/../b?c"), "/failures/errors/errors/a%2F%2E%2E%2Fb%3Fc");
    }
}
