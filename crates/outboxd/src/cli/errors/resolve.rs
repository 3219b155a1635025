//! `errors resolve`: nothing is left to do.

use outbox::MessageId;
use outbox::errors::ErrorRecord;
use serde_json::json;

use super::args::ErrorsResolveArgs;
use super::desk::{Desk, desks, preview, told_missing};
use crate::cli::audit::{Book, written_down};
use crate::cli::consent::{Answer, ask};
use crate::cli::output::Output;
use crate::plan::Plan;
use crate::trouble::{Exit, Trouble};

/// Closes errors; tells first how many are meant.
pub async fn resolve(args: &ErrorsResolveArgs, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    let mut found = Vec::new();
    for desk in desks(plan, args.chosen.sink.as_deref()).await? {
        let records = desk.choose(&args.chosen).await?;
        found.push((desk, records));
    }
    let all = || found.iter().flat_map(|(_, records)| records);
    let (matched, missing) = (all().count() as u64, args.chosen.missing(all()));
    preview(all(), output);
    let answer = ask(&format!("resolve {}", errors(matched)), matched, args.consent, output)?;
    let mut done = 0;
    if answer == Answer::Yes {
        let book = Book::open(plan, &args.by).await?;
        for (desk, records) in found.iter().filter(|(_, records)| !records.is_empty()) {
            let ids: Vec<MessageId> = records.iter().map(|record| record.message_id.clone()).collect();
            let detail = json!({ "selection": args.chosen.to_json(), "note": args.note });
            let act = close(desk, records, book.who(), args.note.as_deref());
            done += written_down(Some(&book), ("errors.resolve", &desk.name(), &ids, detail), output, act)
                .await?;
        }
    }
    if output.is_json() {
        output.json(
            &json!({ "verb": "errors resolve", "matched": matched, "changed": done, "missing": missing }),
        )?;
    } else if answer == Answer::Yes {
        output.line(format_args!("{} resolved", errors(done)))?;
    } else {
        output.line(format_args!("{} matched", errors(matched)))?;
    }
    told_missing(&missing)
}

async fn close(
    desk: &Desk<'_>,
    records: &[ErrorRecord],
    by: &str,
    note: Option<&str>,
) -> Result<u64, Trouble> {
    for record in records {
        let closed = desk.log.resolve(&record.id, by, note).await;
        closed.map_err(|error| desk.trouble("cannot resolve the error", &error))?;
    }
    Ok(records.len() as u64)
}

/// A number of errors, in words.
pub fn errors(count: u64) -> String {
    format!("{count} error{}", if count == 1 { "" } else { "s" })
}
