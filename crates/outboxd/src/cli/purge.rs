//! `purge`: removes what every pipe has done, in small steps.

use super::args::PurgeArgs;
use super::consent::{Answer, ask, messages};
use super::output::Output;
use super::progress::counter;
use crate::ops::Office;
use crate::ops::purge::{self, PurgeRequest};
use crate::quantity::show_duration;
use crate::trouble::Exit;

/// Removes what is old and done; tells first how much that is.
pub async fn purge(args: &PurgeArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let (source, by, age) = (args.source.as_deref(), args.by.name(), show_duration(args.older_than));
    let mut request = PurgeRequest { older_than: age.clone(), dry_run: true };
    let mut told = purge::purge(office, source, &request, &by, &|_| ()).await?;
    let more = if told.at_least { " or more" } else { "" };
    let meant = format!("{}{more}", messages(told.matched));
    let answer = ask(&format!("remove {meant} older than {age}"), told.matched, args.consent, output)?;
    if answer == Answer::Yes {
        request.dry_run = false;
        let progress = counter("removed");
        let tell = |removed| progress.set_position(removed);
        told = purge::purge(office, source, &request, &by, &tell).await?;
        progress.finish_and_clear();
        output.notes(&told.remark);
    }
    if output.is_json() {
        output.json(&told)?;
    } else if answer == Answer::Yes {
        output.line(format_args!("{} removed", messages(told.changed)))?;
    } else {
        output.line(format_args!("{meant} matched"))?;
    }
    Ok(Exit::Ok)
}
