//! `purge`: removes what every pipe has done, in small steps.

use std::time::Duration;

use serde_json::json;

use super::args::PurgeArgs;
use super::consent::{Answer, ask, messages};
use super::output::Output;
use super::progress::counter;
use super::repair::book;
use crate::ops::{Office, Opened, Tally, written_down};
use crate::quantity::show_duration;
use crate::trouble::{Exit, Trouble};

/// Small enough that nobody waits for it, large enough to get on.
const STEP: u32 = 1_000;

/// Where counting for the question stops.
const COUNTED: u32 = 10_000;

/// Removes what is old and done; tells first how much that is.
pub async fn purge(args: &PurgeArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let opened = office.open_all(args.source.as_deref()).await?;
    let mut matched = 0;
    for source in &opened {
        let counted = source.log.admin().purge(args.older_than, COUNTED, true).await;
        matched += counted.map_err(|error| source.trouble("cannot purge", &error))?;
    }
    let more = if matched >= u64::from(COUNTED) { " or more" } else { "" };
    let deed = format!("remove {}{more} older than {}", messages(matched), show_duration(args.older_than));
    let answer = ask(&deed, matched, args.consent, output)?;
    let removed = match answer {
        Answer::Yes => {
            let book = book(office, &args.by, output).await?;
            let names: Vec<&str> = opened.iter().map(|source| source.source.name.as_str()).collect();
            let detail = json!({ "older_than": show_duration(args.older_than), "matched": matched });
            let tally = Tally::default();
            let act = remove(&opened, args.older_than, &tally);
            written_down(book.as_ref(), ("purge", &names.join(", "), &[], detail), &tally, act).await?
        }
        Answer::No => 0,
    };
    if output.is_json() {
        output.json(&json!({ "verb": "purge", "matched": matched, "changed": removed }))?;
    } else if answer == Answer::Yes {
        output.line(format_args!("{} removed", messages(removed)))?;
    } else {
        output.line(format_args!("{}{more} matched", messages(matched)))?;
    }
    Ok(Exit::Ok)
}

/// Removes, in small steps.
async fn remove(opened: &[Opened<'_>], older_than: Duration, tally: &Tally) -> Result<(), Trouble> {
    let progress = counter("removed");
    for source in opened {
        loop {
            let step = source.log.admin().purge(older_than, STEP, false).await;
            let step = step.map_err(|error| source.trouble("cannot purge", &error))?;
            tally.add(step);
            progress.set_position(tally.count());
            if step < u64::from(STEP) {
                break;
            }
        }
    }
    progress.finish_and_clear();
    Ok(())
}
