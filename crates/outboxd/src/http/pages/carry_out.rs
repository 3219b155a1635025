//! A deed to many at once: first a look at what is meant, then the deed, then what came of it.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use jiff::Timestamp;
use outbox::admin::{Repair, Stand};
use outbox::letters::Act;

use super::deed::{Deed, mark_of};
use super::frame::{Frame, back, done, page};
use super::given::{Filled, Params};
use super::said::{asked, carried};
use super::text::grouped;
use crate::http::Shared;
use crate::http::answer::Refusal;
use crate::http::person::Operator;
use crate::ops::dead::{self, ActRequest, Picked};
use crate::ops::errors::{self, Chosen, ResolveRequest, RetryRequest};
use crate::ops::messages::{ListRequest, Listed, MOST, list};
use crate::ops::repair::{RepairRequest, repair};
use crate::ops::{Office, Selection};

/// So long somebody waits for what they pressed.
const PATIENCE: Duration = Duration::from_secs(20);

/// So many are shown of what is meant.
const SAMPLE: usize = 5;

/// What a deed means, or what came of it.
#[derive(Debug, Default)]
struct Meant {
    matched: u64,
    changed: u64,
    /// How many of what.
    causes: Vec<String>,
    /// Some of them.
    sample: Vec<String>,
    /// In an outbox: tells them from others.
    mark: String,
    /// There is more that was not looked at.
    more: bool,
    remark: Option<String>,
}

/// What came of a deed.
enum Came {
    Done(Meant),
    /// It means something else now than whoever pressed the button was shown: nothing was done.
    Changed(Meant),
}

impl Deed {
    /// Does it, if it means no more than was shown.
    async fn carry_out_as_shown(&self, office: &Office, by: &str) -> Result<Came, Refusal> {
        let now = self.carry_out(office, by, true).await?;
        if !self.covers(now.matched, &now.mark) {
            return Ok(Came::Changed(now));
        }
        Ok(Came::Done(self.carry_out(office, by, false).await?))
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
        let (source, filter) = (carried(&self.name), asked(&self.filter));
        // Who names one is written down with its id, so that its page can tell of it.
        let ids = Selection::parse(&self.filter)?.id.into_iter().collect();
        let request = RepairRequest { source: source.clone(), filter, ids, dry_run, ..Default::default() };
        let changed = repair(office, verb, &request, by).await?;
        let mut meant = Meant {
            matched: changed.matched,
            changed: changed.changed,
            more: changed.at_least,
            remark: changed.remark,
            ..Meant::default()
        };
        if dry_run {
            let filter = Some(self.meant()?);
            let request = ListRequest { source, filter, limit: Some(MOST), ..ListRequest::default() };
            let mut listed = list(office, &request).await?.messages;
            // A message that is named may be done on another pipe; there nothing is repaired.
            let set_aside = [Stand::Waiting, Stand::Behind, Stand::Dead].map(Stand::as_str);
            listed.retain(|one| set_aside.contains(&one.state));
            meant.mark = mark_of(&listed);
            meant.sample = listed.iter().take(SAMPLE).map(told).collect();
        }
        Ok(meant)
    }

    async fn to_letters(&self, office: &Office, by: &str, dry_run: bool) -> Result<Meant, Refusal> {
        let picked = Picked {
            source: carried(&self.name),
            kind: carried(&self.kind),
            code: carried(&self.code),
            older_than: self.older_than(Timestamp::now()),
            ..Picked::default()
        };
        let ids = self.id.iter().cloned().collect();
        let act = if self.verb == "retry" { Act::Return } else { Act::Discard };
        let acted =
            dead::act(office, act, ActRequest { ids, picked, dry_run, ..Default::default() }, by, &|_| {})
                .await?;
        let sample = acted.ids.iter().take(SAMPLE).map(ToString::to_string).collect();
        let remark = (!acted.gone.is_empty()).then(|| format!("{} had gone already", acted.gone.len()));
        Ok(Meant {
            matched: acted.matched,
            changed: acted.changed,
            causes: acted.causes.iter().map(ToString::to_string).collect(),
            sample,
            mark: String::new(),
            more: !acted.more.is_empty(),
            remark,
        })
    }

    async fn to_errors(&self, office: &Office, by: &str, dry_run: bool) -> Result<Meant, Refusal> {
        let chosen = Chosen {
            sink: carried(&self.name),
            kind: carried(&self.kind),
            code: carried(&self.code),
            older_than: self.older_than(Timestamp::now()),
            ..Chosen::default()
        };
        let ids: Vec<String> = self.id.iter().cloned().collect();
        let settled = if self.verb == "retry" {
            let request = RetryRequest { ids, chosen, dry_run, ..Default::default() };
            errors::retry(office, request, by, &|_| {}).await?
        } else {
            let request =
                ResolveRequest { ids, chosen, note: asked(&self.note), dry_run, ..Default::default() };
            errors::resolve(office, request, by, &|_| {}).await?
        };
        Ok(Meant {
            matched: settled.matched,
            changed: settled.changed,
            causes: settled.causes.iter().map(ToString::to_string).collect(),
            sample: Vec::new(),
            mark: String::new(),
            more: !settled.more.is_empty(),
            remark: None,
        })
    }
}

/// A message in a line.
fn told(one: &Listed) -> String {
    let why = one.cause.as_ref().map(|why| format!(": {} {}", why.code, why.detail)).unwrap_or_default();
    format!("{} {}{why}", one.kind, one.id)
}

#[derive(Template)]
#[template(path = "deed.html")]
struct Preview {
    frame: Frame,
    deed: Deed,
    meant: Meant,
    seen_at: Timestamp,
    /// Whoever looks has pressed the button already, when something else was meant.
    again: bool,
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

/// Does something to its end, whatever becomes of the browser. Nothing, if it takes longer than anybody should look at an
/// empty page.
pub(super) async fn to_the_end<T: Send + 'static>(
    office: &Office,
    deed: impl Future<Output = Result<T, Refusal>> + Send + 'static,
) -> Result<Option<T>, Refusal> {
    let carried_out = crate::http::to_the_end::to_the_end(office, deed);
    tokio::time::timeout(PATIENCE, carried_out).await.map_or(Ok(None), |done| done.map(Some))
}

fn unknown() -> Refusal {
    Refusal::bad("it is not clear what is to be done to what", "go back to the page and press a button there")
}

/// What is meant, before anything is done.
pub(super) async fn preview(
    State(shared): State<Arc<Shared>>,
    Operator(person): Operator,
    frame: Frame,
    Params(deed): Params<Deed>,
) -> Result<Response, Refusal> {
    if !deed.is_known() {
        return Err(unknown());
    }
    let (deed, seen_at) =
        (Deed { shown: None, seen_at: None, mark: String::new(), ..deed }, Timestamp::now());
    let meant = deed.carry_out(&shared.options.office, &person.name, true).await?;
    Ok(page(&frame.clone(), &Preview { frame, deed, meant, seen_at, again: false }))
}

/// Does it.
pub(super) async fn act(
    State(shared): State<Arc<Shared>>,
    Operator(person): Operator,
    mut frame: Frame,
    Filled(deed): Filled<Deed>,
) -> Result<Response, Refusal> {
    if !deed.is_known() {
        return Err(unknown());
    }
    let (office, theirs, seen_at) = (shared.office.clone(), deed.clone(), Timestamp::now());
    let carried_out =
        to_the_end(&shared.office, async move { theirs.carry_out_as_shown(&office, &person.name).await })
            .await?;
    let meant = match carried_out {
        Some(Came::Done(meant)) => meant,
        Some(Came::Changed(meant)) => {
            // This page has no address of its own to come back to.
            frame.address = back(&deed.back).to_owned();
            return Ok(page(&frame.clone(), &Preview { frame, deed, meant, seen_at, again: true }));
        }
        None => {
            let said = "It takes a while and goes on by itself; the audit tells when it is done.";
            return Ok(done(back(&deed.back), said));
        }
    };
    shared.board.changed().await;
    let verb = match deed.verb.as_str() {
        "retry" => "Retried",
        "skip" => "Skipped",
        "discard" => "Discarded",
        _ => "Resolved",
    };
    let mut said = format!("{verb} {} of {}.", grouped(meant.changed), grouped(meant.matched));
    if let Some(fewer) =
        deed.shown.and_then(|shown| shown.checked_sub(meant.matched)).filter(|fewer| *fewer > 0)
    {
        said.push_str(&format!(" {} of those that were shown did not match any more.", grouped(fewer)));
    }
    if meant.more {
        said.push_str(" There are more, which were not looked at: do it again.");
    }
    if let Some(remark) = &meant.remark {
        said = format!("{said} {remark}");
    }
    Ok(done(back(&deed.back), &said))
}
