//! What is to be done to many at once: first a look at what is meant, then the deed, then what came of it.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{Form, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use outbox::admin::{Repair, Stand};
use outbox::letters::Act;
use serde::Deserialize;

use super::frame::{Frame, back, done, page};
use super::said::{asked, shell};
use super::text::grouped;
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::person::Operator;
use crate::ops::dead::{self, ActRequest, Picked};
use crate::ops::errors::{self, Chosen, ResolveRequest, RetryRequest};
use crate::ops::failures::{Group, Place};
use crate::ops::messages::{ListRequest, list};
use crate::ops::repair::{RepairRequest, repair};
use crate::ops::{Office, Selection};

/// So long somebody waits for what they pressed.
const PATIENCE: Duration = Duration::from_secs(20);

/// So many are shown of what is meant.
const SAMPLE: u32 = 5;

/// What to do with what.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Deed {
    /// `retry`, `skip`, `discard` or `resolve`.
    pub(super) verb: String,
    /// `outbox`, `letters` or `errors`.
    pub(super) place: String,
    /// The source, or the sink of an error table.
    pub(super) name: String,
    /// Which messages of an outbox.
    pub(super) filter: String,
    /// Which letters or errors: their type, …
    pub(super) kind: String,
    /// … their cause, …
    pub(super) code: String,
    /// … and this one.
    pub(super) id: String,
    /// What was found or done, for whoever reads the table later.
    pub(super) note: String,
    /// Where to go after that.
    pub(super) back: String,
}

/// What a deed means, or what came of it.
#[derive(Debug, Default)]
struct Meant {
    matched: u64,
    changed: u64,
    /// How many of what.
    causes: Vec<String>,
    /// Some of them.
    sample: Vec<String>,
    /// There is more that was not looked at.
    more: bool,
    remark: Option<String>,
}

impl Deed {
    /// What can be done to a group.
    pub(super) fn of_group(group: &Group) -> Self {
        let code = Some(&group.code).filter(|code| *code != "-").cloned().unwrap_or_default();
        match &group.place {
            Place::Outbox { source, pipe } => {
                let selection = Selection {
                    kind: Some(group.kind.clone()),
                    code: asked(&code),
                    pipe: pipe.clone(),
                    state: Some(Stand::Dead),
                    ..Selection::default()
                };
                Self::of_outbox(source, &selection.to_string())
            }
            Place::Letters { source, .. } => Self::of_letters(source, &group.kind, &code, ""),
            Place::Errors { sink } => Self::of_errors(sink, &group.kind, &code, ""),
        }
    }

    fn of(place: &str, name: &str) -> Self {
        Self {
            place: place.to_owned(),
            name: name.to_owned(),
            back: "/failures".to_owned(),
            ..Self::default()
        }
    }

    /// To messages of an outbox.
    pub(super) fn of_outbox(source: &str, filter: &str) -> Self {
        Self { filter: filter.to_owned(), ..Self::of("outbox", source) }
    }

    /// To dead letters.
    pub(super) fn of_letters(source: &str, kind: &str, code: &str, id: &str) -> Self {
        let (kind, code, id) = (kind.to_owned(), code.to_owned(), id.to_owned());
        Self { kind, code, id, ..Self::of("letters", source) }
    }

    /// To errors of a table.
    pub(super) fn of_errors(sink: &str, kind: &str, code: &str, id: &str) -> Self {
        Self { place: "errors".to_owned(), ..Self::of_letters(sink, kind, code, id) }
    }

    /// What it says, as fields of a form.
    pub(super) fn fields(&self) -> Vec<(&'static str, &str)> {
        let all: [(&'static str, &str); 7] = [
            ("place", &self.place),
            ("name", &self.name),
            ("filter", &self.filter),
            ("kind", &self.kind),
            ("code", &self.code),
            ("id", &self.id),
            ("back", &self.back),
        ];
        all.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    /// The verbs that its place knows, each with its word for a button.
    pub(super) fn verbs(&self) -> &'static [(&'static str, &'static str)] {
        match self.place.as_str() {
            "outbox" => &[("retry", "Retry"), ("skip", "Skip")],
            "letters" => &[("retry", "Retry"), ("discard", "Discard")],
            _ => &[("retry", "Retry"), ("resolve", "Resolve")],
        }
    }

    fn is_known(&self) -> bool {
        let is_place = ["outbox", "letters", "errors"].contains(&self.place.as_str());
        is_place && self.verbs().iter().any(|(verb, _)| *verb == self.verb)
    }

    /// What will happen.
    fn sentence(&self) -> &'static str {
        match (self.place.as_str(), self.verb.as_str()) {
            ("outbox", "retry") => {
                "Each is tried again at once, with all its attempts. Later messages of its key still wait for it."
            }
            ("outbox", _) => {
                "Each is let go: it does not come again on its pipe, and its key goes on. This cannot be undone."
            }
            ("letters", "retry") => {
                "Each goes back to where it died and is handled again, with all its attempts."
            }
            ("letters", _) => "Each is removed for good. This cannot be undone.",
            (_, "retry") => {
                "Each is sent back to where it failed, as it stands in the table, and is marked as returned."
            }
            _ => "Each is closed: nothing is left to do. It stays in the table with your name.",
        }
    }

    /// Whether it can be undone.
    fn is_final(&self) -> bool {
        matches!(self.verb.as_str(), "skip" | "discard")
    }

    fn command(&self) -> String {
        let mut words: Vec<String> = match self.place.as_str() {
            "outbox" => vec!["outboxd".into(), self.verb.clone(), "--source".into(), shell(&self.name)],
            "letters" => vec!["outboxd dlq".into(), self.verb.clone(), "--source".into(), shell(&self.name)],
            _ => vec!["outboxd errors".into(), self.verb.clone(), "--sink".into(), shell(&self.name)],
        };
        for (flag, value) in [("--filter", &self.filter), ("--type", &self.kind), ("--code", &self.code)] {
            if !value.is_empty() {
                words.extend([flag.to_owned(), shell(value)]);
            }
        }
        if !self.id.is_empty() {
            words.push(shell(&self.id));
        }
        words.join(" ")
    }

    /// Does it, or only looks.
    async fn carry_out(&self, office: &Office, by: &str, dry_run: bool) -> Result<Meant, Refusal> {
        match self.place.as_str() {
            "outbox" => self.in_outbox(office, by, dry_run).await,
            "letters" => self.to_letters(office, by, dry_run).await,
            _ => self.to_errors(office, by, dry_run).await,
        }
    }

    async fn in_outbox(&self, office: &Office, by: &str, dry_run: bool) -> Result<Meant, Refusal> {
        let verb = if self.verb == "retry" { Repair::Retry } else { Repair::Skip };
        let (source, filter) = (asked(&self.name), asked(&self.filter));
        let request =
            RepairRequest { source: source.clone(), filter: filter.clone(), ids: Vec::new(), dry_run };
        let changed = repair(office, verb, &request, by).await?;
        let mut meant = Meant {
            matched: changed.matched,
            changed: changed.changed,
            remark: changed.remark,
            ..Meant::default()
        };
        if dry_run {
            let request = ListRequest { source, filter, limit: Some(SAMPLE), ..ListRequest::default() };
            let listed = list(office, &request).await?;
            let sample = listed.messages.into_iter().map(|one| {
                let why = one.cause.map(|why| format!(": {} {}", why.code, why.detail)).unwrap_or_default();
                format!("{} {}{why}", one.kind, one.id)
            });
            meant.sample = sample.collect();
        }
        Ok(meant)
    }

    async fn to_letters(&self, office: &Office, by: &str, dry_run: bool) -> Result<Meant, Refusal> {
        let picked = Picked {
            source: asked(&self.name),
            kind: asked(&self.kind),
            code: asked(&self.code),
            ..Picked::default()
        };
        let ids = asked(&self.id).into_iter().collect();
        let act = if self.verb == "retry" { Act::Return } else { Act::Discard };
        let acted =
            dead::act(office, act, ActRequest { ids, picked, rate: None, dry_run }, by, &|_| {}).await?;
        let sample = acted.ids.iter().take(SAMPLE as usize).map(ToString::to_string).collect();
        let remark = (!acted.gone.is_empty()).then(|| format!("{} had gone already", acted.gone.len()));
        Ok(Meant {
            matched: acted.matched,
            changed: acted.changed,
            causes: acted.causes.iter().map(ToString::to_string).collect(),
            sample,
            more: !acted.more.is_empty(),
            remark,
        })
    }

    async fn to_errors(&self, office: &Office, by: &str, dry_run: bool) -> Result<Meant, Refusal> {
        let chosen = Chosen {
            sink: asked(&self.name),
            kind: asked(&self.kind),
            code: asked(&self.code),
            ..Chosen::default()
        };
        let ids: Vec<String> = asked(&self.id).into_iter().collect();
        let settled = if self.verb == "retry" {
            let request = RetryRequest { ids, chosen, rate: None, dry_run };
            errors::retry(office, request, by, &|_| {}).await?
        } else {
            let request = ResolveRequest { ids, chosen, note: asked(&self.note), dry_run };
            errors::resolve(office, request, by, &|_| {}).await?
        };
        Ok(Meant {
            matched: settled.matched,
            changed: settled.changed,
            causes: settled.causes.iter().map(ToString::to_string).collect(),
            sample: Vec::new(),
            more: !settled.more.is_empty(),
            remark: None,
        })
    }
}

#[derive(Template)]
#[template(path = "deed.html")]
struct Preview {
    frame: Frame,
    deed: Deed,
    meant: Meant,
}

impl Preview {
    /// How many, in words.
    fn count(&self) -> String {
        let (noun, many) = match self.deed.place.as_str() {
            "outbox" => ("message", "messages"),
            "letters" => ("dead letter", "dead letters"),
            _ => ("error", "errors"),
        };
        let least = if self.meant.more { "at least " } else { "" };
        match self.meant.matched {
            1 => format!("{least}1 {noun}"),
            count => format!("{least}{} {many}", grouped(count)),
        }
    }
}

/// Does something to its end, also when the browser is gone: what is written down as begun must not be left half done.
/// Nothing, if it takes longer than anybody should look at an empty page.
pub(super) async fn to_the_end<T: Send + 'static>(
    deed: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<Option<T>, Refusal> {
    match tokio::time::timeout(PATIENCE, tokio::spawn(deed)).await {
        Ok(Ok(done)) => done.map(Some),
        Ok(Err(panic)) => {
            tracing::error!(%panic, "a request ended by a bug");
            let help = "see the log, and report it";
            Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "it ended by a bug", help))
        }
        Err(_) => Ok(None),
    }
}

fn unknown() -> Refusal {
    Refusal::bad("nobody knows how to do that", "go back to the page and press a button there")
}

/// What is meant, before anything is done.
pub(super) async fn preview(
    State(shared): State<Arc<Shared>>,
    Operator(person): Operator,
    frame: Frame,
    Query(deed): Query<Deed>,
) -> Result<Response, Refusal> {
    if !deed.is_known() {
        return Err(unknown());
    }
    let meant = deed.carry_out(&shared.options.office, &person.name, true).await?;
    Ok(page(&frame.clone(), &Preview { frame, deed, meant }))
}

/// Does it.
pub(super) async fn act(
    State(shared): State<Arc<Shared>>,
    Operator(person): Operator,
    Form(deed): Form<Deed>,
) -> Result<Response, Refusal> {
    if !deed.is_known() {
        return Err(unknown());
    }
    let (office, theirs) = (shared.office.clone(), deed.clone());
    let carried_out = to_the_end(async move { theirs.carry_out(&office, &person.name, false).await }).await?;
    let Some(meant) = carried_out else {
        return Ok(done(
            back(&deed.back),
            "It takes a while and goes on by itself; the audit tells when it is done.",
        ));
    };
    let verb = match deed.verb.as_str() {
        "retry" => "Retried",
        "skip" => "Skipped",
        "discard" => "Discarded",
        _ => "Resolved",
    };
    let mut said = format!("{verb} {} of {}.", grouped(meant.changed), grouped(meant.matched));
    if meant.more {
        said.push_str(" There are more, which were not looked at: do it again.");
    }
    if let Some(remark) = &meant.remark {
        said = format!("{said} {remark}");
    }
    Ok(done(back(&deed.back), &said))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deed_is_one_that_its_place_knows() {
        let deed = |place: &str, verb: &str| Deed { verb: verb.to_owned(), ..Deed::of(place, "x") };
        assert!(deed("outbox", "skip").is_known() && deed("letters", "discard").is_known());
        assert!(deed("errors", "resolve").is_known() && deed("errors", "retry").is_known());
        for (place, verb) in
            [("outbox", "discard"), ("letters", "resolve"), ("moon", "retry"), ("outbox", "")]
        {
            assert!(!deed(place, verb).is_known(), "{place} {verb}");
        }
    }

    #[test]
    fn a_deed_is_also_a_command() {
        let deed = Deed { verb: "skip".to_owned(), ..Deed::of_outbox("orders", "type:order.* state:dead") };
        assert_eq!(deed.command(), "outboxd skip --source orders --filter 'type:order.* state:dead'");
        let deed = Deed { verb: "resolve".to_owned(), ..Deed::of_errors("errors", "order", "HTTP_500", "") };
        assert_eq!(deed.command(), "outboxd errors resolve --sink errors --type order --code HTTP_500");
    }
}
