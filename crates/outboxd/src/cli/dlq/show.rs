//! `dlq show`: one dead letter with all that is known of its death.

use super::args::DlqShowArgs;
use super::list::finish;
use crate::cli::output::{Output, printable};
use crate::ops::Office;
use crate::ops::dead::{self, WholeLetter};
use crate::trouble::Exit;

/// Shows a letter; its payload only when asked, since it may hold what not everybody should see.
pub async fn show(args: &DlqShowArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let shown = dead::show(office, args.source.as_deref(), &args.id, args.payload).await?;
    if output.is_json() {
        output.json(&shown)?;
    } else {
        for whole in &shown.letters {
            print(whole, args.payload, output)?;
        }
    }
    finish(&shown.unseen, output)
}

fn print(whole: &WholeLetter, with_payload: bool, output: &mut Output) -> std::io::Result<()> {
    let letter = &whole.letter;
    let mut field = |name: &str, value: &str| output.line(format_args!("{name:<14}{}", printable(value)));
    field("id", letter.id.as_str())?;
    field("type", &letter.kind)?;
    field("key", letter.key.as_deref().unwrap_or("-"))?;
    field("source", &letter.source)?;
    field("lies in", &whole.place)?;
    field("origin", &letter.origin)?;
    field("cause", &letter.cause.as_ref().map_or("-".to_owned(), ToString::to_string))?;
    field("attempts", &letter.attempts.to_string())?;
    let times = [("first failed", letter.first_failed_at), ("given up", letter.failed_at)];
    for (name, time) in times.into_iter().filter_map(|(name, time)| Some((name, time?))) {
        field(name, &time.to_string())?;
    }
    field("occurred", &letter.occurred_at.to_string())?;
    field("content type", &whole.content_type)?;
    for (name, value) in &whole.headers {
        field("header", &format!("{name}: {value}"))?;
    }
    let hint = if with_payload { "below" } else { "shown with --payload" };
    field("payload", &format!("{} bytes, {hint}", whole.payload_bytes))?;
    if with_payload {
        output.line("")?;
        output.payload(&whole.payload.bytes())?;
        output.line("")?;
    }
    Ok(())
}
