//! `/messages`: what is in an outbox, by a filter, page by page. Nothing is counted.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use outbox::admin::Stand;
use serde::Deserialize;

use super::frame::{Frame, page_with};
use super::given::Params;
use super::said::{asked, shell};
use super::text::when;
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::ops::Selection;
use crate::ops::messages::{ListRequest, Listing, list};
use crate::plan::Plan;

/// A page has so many.
const PAGE: u32 = 50;

/// Which messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    #[serde(default)]
    source: String,
    #[serde(default)]
    filter: String,
    after: Option<u64>,
    #[serde(default)]
    oldest_first: bool,
}

#[derive(Template)]
#[template(path = "messages.html")]
struct Messages {
    frame: Frame,
    /// The outboxes.
    sources: Vec<String>,
    /// The one that is shown.
    source: String,
    filter: String,
    /// Whether this is the first page.
    first: bool,
    oldest_first: bool,
    tabs: Vec<Tab>,
    shown: Listing,
    /// What is wrong with the filter or the source, and what to do.
    trouble: Option<(String, String)>,
    /// What is meant can be retried and skipped.
    repairable: bool,
    command: String,
}

struct Tab {
    word: &'static str,
    filter: String,
    chosen: bool,
}

/// The same filter in other states. Pure.
fn tabs(filter: &str) -> Vec<Tab> {
    let selection = Selection::parse(filter).unwrap_or_default();
    let states = [
        None,
        Some(Stand::Pending),
        Some(Stand::Waiting),
        Some(Stand::Behind),
        Some(Stand::Dead),
        Some(Stand::Done),
    ];
    let tab = |state: Option<Stand>| Tab {
        word: state.map_or("all", Stand::as_str),
        filter: Selection { state, ..selection.clone() }.to_string(),
        chosen: selection.state == state,
    };
    states.into_iter().map(tab).collect()
}

fn outboxes(plan: &Plan) -> Vec<String> {
    plan.sources.values().filter(|source| !source.is_on_broker()).map(|source| source.name.clone()).collect()
}

/// A page of messages.
pub(super) async fn messages(
    State(shared): State<Arc<Shared>>,
    frame: Frame,
    Params(Asked { source, filter, after, oldest_first }): Params<Asked>,
) -> Response {
    let office = &shared.options.office;
    let sources = outboxes(&office.plan);
    let source = asked(&source).or_else(|| sources.first().cloned()).unwrap_or_default();
    let request = ListRequest {
        source: asked(&source),
        filter: asked(&filter),
        after,
        limit: Some(PAGE),
        newest_first: !oldest_first,
    };
    let listed = if sources.is_empty() { Ok(Listing::default()) } else { list(office, &request).await };
    let (shown, trouble, status) = match listed {
        Ok(shown) => (shown, None, StatusCode::OK),
        Err(trouble) => {
            let told = (trouble.to_string(), trouble.help().to_owned());
            let status = Refusal::from(trouble).status();
            (Listing::default(), Some(told), status)
        }
    };
    let state = Selection::parse(&filter).ok().and_then(|selection| selection.state);
    let repairable = matches!(state, Some(Stand::Waiting | Stand::Behind | Stand::Dead));
    let mut command = format!("outboxd list --source {}", shell(&source));
    if !filter.trim().is_empty() {
        command = format!("{command} --filter {}", shell(filter.trim()));
    }
    if !oldest_first {
        command.push_str(" --newest-first");
    }
    let said = frame.said.is_some();
    let first = after.is_none();
    let tabs = tabs(&filter);
    let shown = Messages {
        frame,
        sources,
        source,
        filter,
        first,
        oldest_first,
        tabs,
        shown,
        trouble,
        repairable,
        command,
    };
    page_with(status, said, &shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tab_changes_only_the_state() {
        let tabs = tabs("type:order.* state:dead");
        let dead = tabs.iter().find(|tab| tab.word == "dead").expect("there is one");
        assert!(dead.chosen && tabs.iter().filter(|tab| tab.chosen).count() == 1);
        let done = tabs.iter().find(|tab| tab.word == "done").expect("there is one");
        assert_eq!(
            (done.filter.as_str(), tabs[0].filter.as_str()),
            ("type:order.* state:done", "type:order.*")
        );
    }
}
