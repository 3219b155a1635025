//! `replay`: moves a pipe back.

use outbox::admin::{COUNTED_AT_MOST, ReplayFrom};
use serde_json::json;

use super::args::ReplayArgs;
use super::consent::{Answer, ask, messages};
use super::list::check_pipe;
use super::output::Output;
use super::repair::book;
use crate::ops::{Office, Tally, choose_one, log_options, written_down};
use crate::trouble::Exit;

/// Moves the cursor of a pipe back; tells first how many messages come again.
pub async fn replay(args: &ReplayArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let plan = &*office.plan;
    let configured = plan.pipes.get(&args.pipe).map(|pipe| pipe.from.as_str());
    let source = choose_one(plan, args.source.as_deref().or(configured))?;
    let help = "make rows pending again in the table itself; `outboxd retry` does so for dead ones";
    log_options(source, "its marks are its only progress, and no cursor can be moved back", help)?;
    let opened = office.open(source).await?;
    check_pipe(Some(&args.pipe), plan, std::slice::from_ref(&opened)).await?;
    let from = match (&args.from_id, args.from_time) {
        (Some(id), _) => ReplayFrom::Message(id.as_str().into()),
        (None, Some(time)) => ReplayFrom::Time(time),
        (None, None) => ReplayFrom::Start,
    };
    let trouble = |error: outbox::Error| opened.trouble("cannot replay", &error);
    let matched = opened.log.admin().replay(&args.pipe, &from, true).await.map_err(trouble)?;
    let count =
        if matched >= COUNTED_AT_MOST { format!("{matched} or more messages") } else { messages(matched) };
    let answer = ask(&format!("repeat {count} on pipe '{}'", args.pipe), matched, args.consent, output)?;
    let changed = match answer {
        Answer::Yes => {
            let book = book(office, &args.by, output).await?;
            let detail = json!({ "pipe": args.pipe, "from": format!("{from:?}"), "matched": matched });
            let tally = Tally::default();
            let act = async {
                tally.add(opened.log.admin().replay(&args.pipe, &from, false).await.map_err(trouble)?);
                Ok(())
            };
            written_down(book.as_ref(), ("replay", &source.name, &[], detail), &tally, act).await?
        }
        Answer::No => 0,
    };
    if output.is_json() {
        output
            .json(&json!({ "verb": "replay", "pipe": args.pipe, "matched": matched, "changed": changed }))?;
    } else if answer == Answer::Yes {
        output.line(format_args!("{} will come again on pipe '{}'", messages(changed), args.pipe))?;
    } else {
        output.line(format_args!("{count} matched"))?;
    }
    Ok(Exit::Ok)
}
