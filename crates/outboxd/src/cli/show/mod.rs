//! `show`: the whole life of a message, over all pipes that the configuration names.

mod gather;
mod life;
mod print;
mod unsearched;

use self::gather::gather;
use super::args::ShowArgs;
use super::output::Output;
use crate::ops::{Office, choose};
use crate::trouble::Exit;

/// Shows a message; its payload only when asked, since it may hold what not everybody should see.
pub async fn show(args: &ShowArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let plan = &*office.plan;
    let sources = choose(plan, args.source.as_deref())?;
    let (life, troubles) = gather(office, &sources, &args.id.as_str().into()).await;
    if !life.is_known() {
        let first = troubles.into_iter().next();
        return Err(first
            .unwrap_or_else(|| unsearched::not_found(plan, &args.id, args.source.as_deref()))
            .into());
    }
    if output.is_json() {
        output.json(&print::to_json(&args.id, &life, plan, args.payload))?;
    } else {
        print::print(&args.id, &life, plan, args.payload, output)?;
    }
    Ok(Exit::Ok)
}
