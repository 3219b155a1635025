//! `dlq export`: dead letters with headers and payload, one JSON object per line.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;

use anyhow::Context;

use super::args::DlqExportArgs;
use super::list::{finish, tell_more};
use crate::cli::consent::messages;
use crate::cli::output::Output;
use crate::ops::Office;
use crate::ops::dead::{Sight, Wanted};
use crate::ops::told::Unseen;
use crate::trouble::Exit;

/// Writes every letter that is meant. What cannot be looked at is told, and the rest is written.
pub async fn export(args: &DlqExportArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let sight = Sight::look(office, Wanted::new(&args.ids, args.picked.request())).await?;
    let (more, unseen) = (sight.more(), sight.unseen.iter().map(Unseen::from).collect::<Vec<_>>());
    // Payloads are nobody else's business.
    let mut file = match &args.out {
        Some(path) => {
            let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
            Some(BufWriter::new(opened.with_context(|| format!("cannot make {}", path.display()))?))
        }
        None => None,
    };
    let mut count = 0;
    for (place, dead) in sight.letters() {
        // One after the other: together they may be more than memory holds.
        let mut dead = dead.clone();
        place.complete(&mut dead).await?;
        let line = serde_json::to_string(&dead.whole(&place.name(), true))?;
        match &mut file {
            Some(file) => writeln!(file, "{line}")?,
            None => output.line(line)?,
        }
        count += 1;
    }
    if let (Some(mut file), Some(path)) = (file, &args.out) {
        file.flush()?;
        file.get_ref().sync_all()?;
        output.note(format_args!("{} written to {}", messages(count), path.display()));
    }
    tell_more(&more, output);
    finish(&unseen, output)
}
