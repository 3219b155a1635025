//! `errors retry`: sends messages back to where they failed, and notes that.

use super::args::ErrorsRetryArgs;
use super::{count, preview, report};
use crate::cli::consent::{Answer, ask};
use crate::cli::output::Output;
use crate::cli::progress::bar;
use crate::ops::Office;
use crate::ops::errors::Found;
use crate::trouble::Exit;

/// Sends errors back; tells first how many are meant.
pub async fn retry(args: &ErrorsRetryArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let found = Found::look(office, args.chosen.ids.clone(), args.chosen.request()).await?;
    preview(&found, output);
    // Who cannot send them back need not ask.
    found.ways()?;
    let matched = found.matched();
    if ask(&format!("send back {}", count(matched)), matched, args.consent, output)? != Answer::Yes {
        return report(&found.only_looked("errors retry"), None, output);
    }
    let progress = bar(matched);
    let tell = |done| progress.set_position(done);
    let settled = found.send_back(&args.by.name(), args.rate, &tell).await;
    progress.finish_and_clear();
    report(&settled?, Some("sent back"), output)
}
