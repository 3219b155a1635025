//! `errors resolve`: nothing is left to do.

use super::args::ErrorsResolveArgs;
use super::{count, preview, report};
use crate::cli::consent::{Answer, ask};
use crate::cli::output::Output;
use crate::cli::progress::bar;
use crate::ops::Office;
use crate::ops::errors::Found;
use crate::trouble::Exit;

/// Closes errors; tells first how many are meant.
pub async fn resolve(args: &ErrorsResolveArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let found = Found::look(office, args.chosen.ids.clone(), args.chosen.request()).await?;
    preview(&found, output);
    let matched = found.matched();
    if ask(&format!("resolve {}", count(matched)), matched, args.consent, output)? != Answer::Yes {
        return report(&found.only_looked("errors resolve"), None, output);
    }
    let progress = bar(matched);
    let tell = |done| progress.set_position(done);
    let settled = found.resolve(&args.by.name(), args.note.as_deref(), &tell).await;
    progress.finish_and_clear();
    report(&settled?, Some("resolved"), output)
}
