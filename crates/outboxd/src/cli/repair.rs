//! `retry` and `skip`: what to do with messages that are set aside.

use outbox::admin::Repair;

use super::args::RepairArgs;
use super::consent::{Answer, ask, messages};
use super::output::Output;
use crate::ops::Office;
use crate::ops::repair::{self, RepairRequest};
use crate::trouble::Exit;

/// Retries or skips; tells first how many messages are meant.
pub async fn repair(
    args: &RepairArgs,
    deed: Repair,
    office: &Office,
    output: &mut Output,
) -> anyhow::Result<Exit> {
    let by = args.by.name();
    let mut request = RepairRequest {
        source: args.selection.source.clone(),
        filter: Some(args.selection.filter()?.to_string()),
        ids: args.ids.clone(),
        dry_run: true,
        ..RepairRequest::default()
    };
    let mut told = repair::repair(office, deed, &request, &by).await?;
    let more = if told.at_least { " or more" } else { "" };
    let meant = format!("{}{more}", messages(told.matched));
    let answer = ask(&format!("{} {meant}", told.verb), told.matched, args.consent, output)?;
    if answer == Answer::Yes {
        request.dry_run = false;
        told = repair::repair(office, deed, &request, &by).await?;
        output.notes(&told.remark);
    }
    if output.is_json() {
        output.json(&told)?;
    } else if answer == Answer::Yes {
        let past = if deed == Repair::Retry { "due again" } else { "skipped" };
        output.line(format_args!("{} {past}", messages(told.changed)))?;
    } else {
        output.line(format_args!("{meant} matched"))?;
    }
    Ok(Exit::Ok)
}
