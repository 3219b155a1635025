//! `show`: the whole life of a message, over all pipes that the configuration names.

mod print;

use super::args::ShowArgs;
use super::output::Output;
use crate::ops::Office;
use crate::ops::show::{Shown, life};
use crate::trouble::Exit;

/// Shows a message; its payload only when asked, since it may hold what not everybody should see.
pub async fn show(args: &ShowArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let life = life(office, &args.id, args.source.as_deref()).await?;
    if output.is_json() {
        output.json(&Shown::new(&args.id, &life, &office.plan, args.payload))?;
    } else {
        print::print(&args.id, &life, &office.plan, args.payload, output)?;
    }
    Ok(Exit::Ok)
}
