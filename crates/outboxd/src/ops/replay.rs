//! Moves a pipe back.

use jiff::Timestamp;
use outbox::admin::ReplayFrom;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::messages::check_pipe;
use super::repair::book;
use super::{Office, Tally, choose_one, log_options, written_down};
use crate::trouble::Trouble;

/// From where messages come again: one of the three.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRequest {
    /// The source, if the pipe is not in the configuration.
    pub source: Option<String>,
    /// From the first message that is kept.
    #[serde(default)]
    pub from_start: bool,
    /// From this time on.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub from_time: Option<Timestamp>,
    /// From this message on.
    pub from_id: Option<String>,
    /// Only tells how many would come again.
    #[serde(default)]
    pub dry_run: bool,
}

/// What became of a replay.
#[derive(Debug, Serialize, ToSchema)]
pub struct Replayed {
    /// What was to be done: `replay`.
    pub verb: &'static str,
    /// The pipe.
    pub pipe: String,
    /// How many messages were meant; 10000 means that or more.
    pub matched: u64,
    /// How many come again.
    pub changed: u64,
    /// What else somebody should know.
    #[serde(skip)]
    pub remark: Option<String>,
}

/// Moves the cursor of a pipe back; with `dry_run` only tells how many messages would come again.
pub async fn replay(
    office: &Office,
    pipe: &str,
    request: &ReplayRequest,
    by: &str,
) -> Result<Replayed, Trouble> {
    let from = from(request)?;
    super::check_id(pipe)?;
    let configured = office.plan.pipes.get(pipe).map(|pipe| pipe.from.as_str());
    let source = choose_one(&office.plan, request.source.as_deref().or(configured))?;
    let help = "make rows pending again in the table itself; `outboxd retry` does so for dead ones";
    log_options(source, "its marks are its only progress, and no cursor can be moved back", help)?;
    let trouble = |error: outbox::Error| Trouble::at_source("cannot replay", source, &error);
    let preview = async {
        let opened = office.open(source).await?;
        check_pipe(office, Some(pipe), std::slice::from_ref(&opened)).await?;
        let matched = opened.log.admin().replay(pipe, &from, true).await.map_err(trouble)?;
        Ok((opened, matched))
    };
    let (opened, matched) = office.look("cannot replay", preview).await?;
    let done = |changed, remark| Replayed { verb: "replay", pipe: pipe.to_owned(), matched, changed, remark };
    if request.dry_run || matched == 0 {
        return Ok(done(0, None));
    }
    let (book, remark) = book(office, by).await?;
    let detail = json!({ "pipe": pipe, "from": format!("{from:?}"), "matched": matched });
    let tally = Tally::default();
    let act = async {
        tally.add(opened.log.admin().replay(pipe, &from, false).await.map_err(trouble)?);
        Ok(())
    };
    let changed = written_down(book.as_ref(), ("replay", &source.name, &[], detail), &tally, act).await?;
    Ok(done(changed, remark))
}

/// The one point that was named.
fn from(request: &ReplayRequest) -> Result<ReplayFrom, Trouble> {
    match (request.from_start, request.from_time, &request.from_id) {
        (true, None, None) => Ok(ReplayFrom::Start),
        (false, Some(time), None) => Ok(ReplayFrom::Time(time)),
        (false, None, Some(id)) => {
            super::check_id(id)?;
            Ok(ReplayFrom::Message(id.as_str().into()))
        }
        (false, None, None) => {
            let help = "give one of from_start, from_time and from_id";
            Err(Trouble::usage("nothing says from where messages are to come again", help))
        }
        _ => {
            let help = "give only one of from_start, from_time and from_id";
            Err(Trouble::usage("there are several points from where messages are to come again", help))
        }
    }
}
