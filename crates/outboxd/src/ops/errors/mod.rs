//! What is in the error tables, and what a person does about it.

mod chosen;
mod desk;
mod edit;
mod found;
mod view;
mod ways;

use outbox::letters::Pace;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use chosen::{Chosen, Standing};
pub use desk::{Desk, desks, tables};
pub use edit::{EditRequest, Edited, TheOne, edit};
pub use found::{Found, Settled};
pub use view::{ErrorEntry, WholeError};

use super::{Office, Tell, asked, check_id};
use crate::trouble::{Exit, Trouble};

/// Errors that match, by their first failure.
#[derive(Debug, Serialize, ToSchema)]
pub struct Errors {
    /// The errors.
    pub errors: Vec<ErrorEntry>,
    /// The sinks whose tables have more that matches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<String>,
}

/// One error, or all of one message.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ShownErrors)]
pub struct Shown {
    /// The errors.
    pub errors: Vec<WholeError>,
}

/// Which errors are sent back.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ErrorsRetryRequest)]
pub struct RetryRequest {
    /// These errors, by their own id or by that of the message; without ids all that match.
    #[serde(default, deserialize_with = "asked::ids")]
    #[schema(min_items = 1)]
    pub ids: Vec<String>,
    /// Which errors.
    #[serde(flatten)]
    pub chosen: Chosen,
    /// No more than so many in a time, as in 50/s or 10/m.
    #[serde(default, deserialize_with = "asked::rate")]
    #[schema(value_type = Option<String>)]
    pub rate: Option<Pace>,
    /// All are meant: for whoever neither names ids nor says which.
    #[serde(default)]
    pub all: bool,
    /// Only tells what is meant.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which errors are closed.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ErrorsResolveRequest)]
pub struct ResolveRequest {
    /// These errors, by their own id or by that of the message; without ids all that match.
    #[serde(default, deserialize_with = "asked::ids")]
    #[schema(min_items = 1)]
    pub ids: Vec<String>,
    /// Which errors.
    #[serde(flatten)]
    pub chosen: Chosen,
    /// What was found or done.
    pub note: Option<String>,
    /// All are meant: for whoever neither names ids nor says which.
    #[serde(default)]
    pub all: bool,
    /// Only tells what is meant.
    #[serde(default)]
    pub dry_run: bool,
}

impl RetryRequest {
    /// Whether somebody says which errors are meant, or that it is all of them.
    pub fn is_meant(&self) -> Result<(), Trouble> {
        asked::not_all_by_mistake(self.all, &[self.dry_run, !self.ids.is_empty(), self.chosen.says_which()])
    }
}

impl ResolveRequest {
    /// Whether somebody says which errors are meant, or that it is all of them.
    pub fn is_meant(&self) -> Result<(), Trouble> {
        asked::not_all_by_mistake(self.all, &[self.dry_run, !self.ids.is_empty(), self.chosen.says_which()])
    }
}

/// There is no error of this id.
pub fn no_such(id: &str) -> Trouble {
    let help = "check the id: that of the error, or that of its message";
    Trouble::new(Exit::Failed, format!("there is no error '{id}'"), help).unknown()
}

/// Lists errors.
pub async fn list(office: &Office, ids: Vec<String>, chosen: Chosen) -> Result<Errors, Trouble> {
    let found = Found::look(office, ids, chosen).await?;
    Ok(Errors { errors: found.entries(), more: found.more })
}

/// Shows the error of this id, or all of that message.
pub async fn show(
    office: &Office,
    sink: Option<&str>,
    id: &str,
    with_payload: bool,
) -> Result<Shown, Trouble> {
    check_id(id)?;
    let look = async {
        let mut errors = Vec::new();
        for desk in desks(office, sink).await? {
            let records = desk.find(id).await?;
            errors.extend(records.iter().map(|record| WholeError::of(desk.sink, record, with_payload)));
        }
        Ok(errors)
    };
    let errors = office.look("cannot look at the error tables", look).await?;
    if errors.is_empty() { Err(no_such(id)) } else { Ok(Shown { errors }) }
}

/// Sends errors back to where they failed; with `dry_run` only tells which.
pub async fn retry(
    office: &Office,
    request: RetryRequest,
    by: &str,
    tell: Tell<'_>,
) -> Result<Settled, Trouble> {
    let RetryRequest { ids, chosen, rate, dry_run, .. } = request;
    let found = Found::look(office, ids, chosen).await?;
    if dry_run {
        found.ways()?;
        return Ok(found.only_looked("errors retry"));
    }
    found.send_back(by, rate, tell).await
}

/// Closes errors; with `dry_run` only tells which.
pub async fn resolve(
    office: &Office,
    request: ResolveRequest,
    by: &str,
    tell: Tell<'_>,
) -> Result<Settled, Trouble> {
    let ResolveRequest { ids, chosen, note, dry_run, .. } = request;
    let found = Found::look(office, ids, chosen).await?;
    if dry_run {
        return Ok(found.only_looked("errors resolve"));
    }
    found.resolve(by, note.as_deref(), tell).await
}
