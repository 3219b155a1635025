//! `errors resolve`: nothing is left to do.

use indicatif::ProgressBar;
use outbox::MessageId;
use outbox::errors::ErrorRecord;
use serde_json::json;

use super::args::ErrorsResolveArgs;
use super::desk::{Desk, Found, errors};
use crate::backends::Databases;
use crate::cli::consent::{Answer, ask};
use crate::cli::output::Output;
use crate::cli::progress::bar;
use crate::ops::{Book, Tally, written_down};
use crate::plan::Plan;
use crate::trouble::{Exit, Trouble};

/// Closes errors; tells first how many are meant.
pub async fn resolve(args: &ErrorsResolveArgs, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    let found = Found::look(plan, &args.chosen, output).await?;
    let answer = ask(&format!("resolve {}", errors(found.matched)), found.matched, args.consent, output)?;
    if answer != Answer::Yes {
        return found.report("errors resolve", "resolved", None, output);
    }
    let (mut done, progress) = (0, bar(found.matched));
    let book = Book::open(plan, &Databases::default(), &args.by.name()).await?;
    for (desk, records) in found.tables.iter().filter(|(_, records)| !records.is_empty()) {
        let ids: Vec<MessageId> = records.iter().map(|record| record.message_id.clone()).collect();
        let detail = json!({ "selection": args.chosen.to_json(), "note": args.note });
        let tally = Tally::default();
        let act = close(desk, records, book.who(), args.note.as_deref(), (&tally, &progress));
        done +=
            written_down(Some(&book), ("errors.resolve", &desk.name(), &ids, detail), &tally, act).await?;
    }
    progress.finish_and_clear();
    found.report("errors resolve", "resolved", Some(done), output)
}

async fn close(
    desk: &Desk<'_>,
    records: &[ErrorRecord],
    by: &str,
    note: Option<&str>,
    (tally, progress): (&Tally, &ProgressBar),
) -> Result<(), Trouble> {
    for record in records {
        let closed = desk.log.resolve(&record.id, by, note).await;
        closed.map_err(|error| desk.trouble("cannot resolve the error", &error))?;
        tally.add(1);
        progress.inc(1);
    }
    Ok(())
}
