//! Messages that match.

use std::fmt;

use jiff::Timestamp;
use outbox::Cause;
use outbox::admin::{Entry, Filter};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Office, Opened, Selection};
use crate::mistake::did_you_mean;
use crate::trouble::Trouble;

/// A page has at most so many.
pub const MOST: u32 = 10_000;

/// A page has so many if nothing is said.
pub const USUAL: u32 = 100;

/// Somebody before a page has at most so many messages looked at: a filter that hits nothing would read the whole log.
const LOOK: u32 = 20_000;

/// Which messages to list.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListRequest {
    /// Only this source.
    pub source: Option<String>,
    /// Which messages, as in `type:order.* state:dead`.
    pub filter: Option<String>,
    /// After this position of one source, to page on.
    pub after: Option<u64>,
    /// At most so many; 100 by default.
    #[param(minimum = 1, maximum = 10_000)]
    pub limit: Option<u32>,
    /// From the newest to the oldest.
    #[serde(default)]
    pub newest_first: bool,
}

/// A page of messages.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Listing {
    /// One for each message and pipe.
    pub messages: Vec<Listed>,
    /// What to give as `after` for the next page; none if this is the last.
    pub next: Option<u64>,
    /// Enough was looked at before the page was full. There may be more that matches, or nothing: go on with `next`, and with
    /// one source if there are several.
    pub partial: bool,
}

/// A message on a pipe. A cursor is called by the name of its pipe everywhere outside of the library.
#[derive(Debug, Serialize, ToSchema)]
pub struct Listed {
    /// The name of the source.
    pub source: String,
    /// Its place in the source.
    pub position: u64,
    /// Its id.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its key.
    pub key: Option<String>,
    /// When it happened.
    #[schema(value_type = String, format = DateTime)]
    pub occurred_at: Timestamp,
    /// The pipe; none if nothing reads the source yet.
    pub pipe: Option<String>,
    /// Where it stands there.
    pub state: &'static str,
    /// Attempts spent.
    pub attempts: u32,
    /// When it is due again.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub due: Option<Timestamp>,
    /// Why it is set aside.
    pub cause: Option<Why>,
}

/// Why something failed.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Why {
    /// A stable code, as in `NO_ROUTE`.
    pub code: String,
    /// A sentence for people.
    pub detail: String,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.detail)
    }
}

impl From<&Cause> for Why {
    fn from(cause: &Cause) -> Self {
        Self { code: cause.code.to_string(), detail: cause.detail.clone() }
    }
}

impl Listed {
    /// An entry of a source.
    pub fn new(source: &str, entry: &Entry) -> Self {
        Self {
            source: source.to_owned(),
            position: entry.position,
            id: entry.id.to_string(),
            kind: entry.kind.clone(),
            key: entry.key.clone(),
            occurred_at: entry.occurred_at,
            pipe: entry.cursor.clone(),
            state: entry.stand.as_str(),
            attempts: entry.attempts,
            due: entry.due,
            cause: entry.cause.as_ref().map(Why::from),
        }
    }
}

/// Lists messages, oldest first unless told otherwise.
pub async fn list(office: &Office, request: &ListRequest) -> Result<Listing, Trouble> {
    let selection = Selection::parse(request.filter.as_deref().unwrap_or_default())?;
    let limit = limit(request.limit)?;
    office.look("cannot list", page(office, request, &selection, limit)).await
}

async fn page(
    office: &Office,
    request: &ListRequest,
    selection: &Selection,
    limit: u32,
) -> Result<Listing, Trouble> {
    let opened = office.open_all(request.source.as_deref()).await?;
    if request.after.is_some() && opened.len() > 1 {
        return Err(Trouble::usage("'after' is a position in one source", "name that source as well"));
    }
    check_pipe(office, selection.pipe.as_deref(), &opened).await?;
    // What a database cannot count is beyond its last message.
    let after = request.after.map(|after| after.min(i64::MAX.unsigned_abs()));
    let filter = Filter { after, limit, newest_first: request.newest_first, ..selection.filter() };
    let mut listing = Listing::default();
    for source in &opened {
        let page = source.log.admin().page(&filter, office.is_hurried().then_some(LOOK)).await;
        let page = page.map_err(|error| source.trouble("cannot list", &error))?;
        listing.messages.extend(page.entries.iter().map(|entry| Listed::new(&source.source.name, entry)));
        listing.partial |= page.is_cut;
        listing.next = page.next.filter(|_| opened.len() == 1);
    }
    Ok(listing)
}

/// How many a page has.
pub(super) fn limit(asked: Option<u32>) -> Result<u32, Trouble> {
    match asked.unwrap_or(USUAL) {
        limit @ 1..=MOST => Ok(limit),
        other => {
            Err(Trouble::usage(format!("limit: {other} is not between 1 and {MOST}"), "page on for more"))
        }
    }
}

/// A pipe that neither the configuration nor a log knows is a slip of the pen, not an empty result.
pub(super) async fn check_pipe(
    office: &Office,
    name: Option<&str>,
    opened: &[Opened<'_>],
) -> Result<(), Trouble> {
    let Some(name) = name else { return Ok(()) };
    if office.plan.pipes.contains_key(name) {
        return Ok(());
    }
    let mut known: Vec<String> = office.plan.pipes.keys().cloned().collect();
    for source in opened {
        let cursors = source.log.admin().status().await;
        let cursors = cursors.map_err(|error| source.trouble("cannot read the status", &error))?;
        known.extend(cursors.into_iter().map(|cursor| cursor.cursor));
    }
    if known.iter().any(|pipe| pipe == name) {
        return Ok(());
    }
    let help = did_you_mean(name, known.iter().map(String::as_str));
    Err(Trouble::usage(format!("there is no pipe '{name}'"), help).unknown())
}
