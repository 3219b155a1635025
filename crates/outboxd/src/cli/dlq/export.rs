//! `dlq export`: dead letters with headers and payload, one JSON object per line.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;

use anyhow::Context;

use super::args::DlqExportArgs;
use super::list::{cut_off, finish, tell_more};
use super::{Wanted, look, places};
use crate::cli::consent::messages;
use crate::cli::output::Output;
use crate::plan::Plan;
use crate::trouble::Exit;

/// Writes every letter that is meant. What cannot be looked at is told, and the rest is written.
pub async fn export(args: &DlqExportArgs, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    let wanted = Wanted::new(&args.ids, &args.picked);
    let (places, mut troubles) = places(plan, args.picked.source.as_deref()).await?;
    let (seen, unseen) = look(&places, &wanted).await;
    troubles.extend(unseen);
    let more = cut_off(seen.iter().map(|(place, seen)| (place.source().name.as_str(), seen)));
    // Payloads are nobody else's business.
    let mut file = match &args.out {
        Some(path) => {
            let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            Some(BufWriter::new(opened.with_context(|| format!("cannot make {}", path.display()))?))
        }
        None => None,
    };
    let mut count = 0;
    for (place, seen) in seen {
        for mut dead in seen.dead {
            place.complete(&mut dead).await?;
            let line = dead.to_whole_json(true);
            match &mut file {
                Some(file) => writeln!(file, "{line}")?,
                None => output.line(line)?,
            }
            count += 1;
        }
    }
    if let (Some(mut file), Some(path)) = (file, &args.out) {
        file.flush()?;
        file.get_ref().sync_all()?;
        output.note(format_args!("{} written to {}", messages(count), path.display()));
    }
    tell_more(&more, output);
    finish(troubles, output)
}
