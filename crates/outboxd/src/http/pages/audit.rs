//! `/audit`: who did what, the newest first.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use serde_json::Value;

use super::frame::{Frame, page};
use super::given::Params;
use super::text::when;
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::pages::said::asked;
use crate::ops::audit::{AuditEntry, AuditRequest, Entries, audit};

/// A page has so many.
const PAGE: u32 = 50;

#[derive(Template)]
#[template(path = "audit.html")]
struct Book {
    frame: Frame,
    asked: Asked,
    shown: Entries,
}

/// Which entries.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    #[serde(default)]
    by: String,
    #[serde(default)]
    action: String,
    #[serde(default)]
    id: String,
    before: Option<u64>,
}

impl Asked {
    fn is_any(&self) -> bool {
        self.by.is_empty() && self.action.is_empty() && self.id.is_empty()
    }
}

/// What else there is to say, in a line. Pure.
fn detail(entry: &AuditEntry) -> String {
    match &entry.detail {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(all) => {
            let pairs = all.iter().filter(|(name, value)| *name != "act" && says_something(value));
            pairs.map(|(name, value)| format!("{name} {}", in_words(value))).collect::<Vec<_>>().join(" · ")
        }
        other => other.to_string(),
    }
}

fn says_something(value: &Value) -> bool {
    !value.is_null() && value.as_array().is_none_or(|all| !all.is_empty())
}

fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(all) if all.is_empty() => "all".to_owned(),
        Value::Object(all) => all
            .iter()
            .filter(|(_, value)| says_something(value))
            .map(|(name, value)| format!("{name}={}", in_words(value)))
            .collect::<Vec<_>>()
            .join(" "),
        other => other.to_string(),
    }
}

/// The book.
pub(super) async fn book(
    State(shared): State<Arc<Shared>>,
    frame: Frame,
    Params(asked_for): Params<Asked>,
) -> Result<Response, Refusal> {
    let request = AuditRequest {
        by: asked(&asked_for.by),
        action: asked(&asked_for.action),
        id: asked(&asked_for.id),
        before: asked_for.before,
        limit: Some(PAGE),
        ..AuditRequest::default()
    };
    let shown = audit(&shared.options.office, &request).await?;
    Ok(page(&frame.clone(), &Book { frame, asked: asked_for, shown }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_done_is_told_in_a_line() {
        let entry = |detail: Value| AuditEntry {
            number: 1,
            at: jiff::Timestamp::UNIX_EPOCH,
            by: "eve".to_owned(),
            action: "retry".to_owned(),
            target: "orders".to_owned(),
            id: None,
            detail,
        };
        assert_eq!(detail(&entry(Value::Null)), "");
        let told =
            detail(&entry(json!({ "act": "x", "matched": 3, "selection": { "code": "IO" }, "note": null })));
        assert_eq!(told, "matched 3 · selection code=IO");
    }
}
