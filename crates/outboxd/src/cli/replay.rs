//! `replay`: moves a pipe back.

use outbox::admin::COUNTED_AT_MOST;

use super::args::ReplayArgs;
use super::consent::{Answer, ask, messages};
use super::output::Output;
use crate::ops::Office;
use crate::ops::replay::{self, ReplayRequest};
use crate::trouble::Exit;

/// Moves the cursor of a pipe back; tells first how many messages come again.
pub async fn replay(args: &ReplayArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let (pipe, by) = (&args.pipe, args.by.name());
    let mut request = ReplayRequest {
        source: args.source.clone(),
        from_start: args.from_start,
        from_time: args.from_time,
        from_id: args.from_id.clone(),
        dry_run: true,
    };
    let mut told = replay::replay(office, pipe, &request, &by).await?;
    let matched = told.matched;
    let count =
        if matched >= COUNTED_AT_MOST { format!("{matched} or more messages") } else { messages(matched) };
    let answer = ask(&format!("repeat {count} on pipe '{pipe}'"), matched, args.consent, output)?;
    if answer == Answer::Yes {
        request.dry_run = false;
        told = replay::replay(office, pipe, &request, &by).await?;
        output.notes(&told.remark);
    }
    if output.is_json() {
        output.json(&told)?;
    } else if answer == Answer::Yes {
        output.line(format_args!("{} will come again on pipe '{pipe}'", messages(told.changed)))?;
    } else {
        output.line(format_args!("{count} matched"))?;
    }
    Ok(Exit::Ok)
}
