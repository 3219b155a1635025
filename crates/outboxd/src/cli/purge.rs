//! `purge`: removes what every pipe has done, in small steps.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use super::args::PurgeArgs;
use super::consent::{Answer, ask, messages};
use super::open_all;
use super::output::Output;
use crate::plan::Plan;
use crate::quantity::show_duration;
use crate::trouble::Exit;

/// Small enough that nobody waits for it, large enough to get on.
const STEP: u32 = 1_000;

/// Where counting for the question stops.
const COUNTED: u32 = 10_000;

/// Removes what is old and done; tells first how much that is.
pub async fn purge(args: &PurgeArgs, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    let opened = open_all(plan, args.source.as_deref()).await?;
    let mut matched = 0;
    for source in &opened {
        let counted = source.log.admin().purge(args.older_than, COUNTED, true).await;
        matched += counted.map_err(|error| source.trouble("cannot purge", &error))?;
    }
    let more = if matched >= u64::from(COUNTED) { " or more" } else { "" };
    let deed = format!("remove {}{more} older than {}", messages(matched), show_duration(args.older_than));
    let answer = ask(&deed, matched, args.consent, output)?;
    let mut removed = 0;
    if answer == Answer::Yes {
        // The default target is silent when standard error is no terminal.
        let progress = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        progress.set_style(ProgressStyle::with_template("{spinner} {pos} removed, {per_sec}")?);
        for source in &opened {
            loop {
                let step = source.log.admin().purge(args.older_than, STEP, false).await;
                let step = step.map_err(|error| source.trouble("cannot purge", &error))?;
                removed += step;
                progress.set_position(removed);
                if step < u64::from(STEP) {
                    break;
                }
            }
        }
        progress.finish_and_clear();
    }
    if output.is_json() {
        output.json(&json!({ "verb": "purge", "matched": matched, "changed": removed }))?;
    } else if answer == Answer::Yes {
        output.line(format_args!("{} removed", messages(removed)))?;
    } else {
        output.line(format_args!("{}{more} matched", messages(matched)))?;
    }
    Ok(Exit::Ok)
}
