//! `retry` and `skip`: what to do with messages that are set aside.

use outbox::MessageId;
use outbox::admin::{Filter, Repair, Stand};
use serde_json::json;

use super::args::{By, RepairArgs};
use super::consent::{Answer, ask, messages};
use super::list::check_pipe;
use super::output::Output;
use crate::ops::{Book, Office, Opened, Tally, written_down};
use crate::trouble::{Exit, Trouble};

/// Retries or skips; tells first how many messages are meant.
pub async fn repair(
    args: &RepairArgs,
    deed: Repair,
    office: &Office,
    output: &mut Output,
) -> anyhow::Result<Exit> {
    let opened = office.open_all(args.selection.source.as_deref()).await?;
    check_pipe(args.selection.pipe.as_deref(), &office.plan, &opened).await?;
    let filters = filters(args);
    let verb = match deed {
        Repair::Retry => "retry",
        Repair::Skip => "skip",
    };
    let each = async |dry_run: bool, tally: &Tally| -> Result<(), Trouble> {
        for source in &opened {
            for filter in &filters {
                let repaired = source.log.admin().repair(filter, deed, dry_run).await;
                tally.add(repaired.map_err(|error| source.trouble(&format!("cannot {verb}"), &error))?);
            }
        }
        Ok(())
    };
    let matched = Tally::default();
    each(true, &matched).await?;
    let matched = matched.count();
    let answer = ask(&format!("{verb} {}", messages(matched)), matched, args.consent, output)?;
    let changed = match answer {
        Answer::Yes => {
            let book = book(office, &args.by, output).await?;
            let ids: Vec<MessageId> = args.ids.iter().map(|id| id.as_str().into()).collect();
            let detail = json!({ "matched": matched, "selection": args.selection.to_json() });
            let (at, tally) = (target(&opened), Tally::default());
            written_down(book.as_ref(), (verb, &at, &ids, detail), &tally, each(false, &tally)).await?
        }
        Answer::No => 0,
    };
    if output.is_json() {
        output.json(&json!({ "verb": verb, "matched": matched, "changed": changed }))?;
    } else if answer == Answer::Yes {
        let past = if deed == Repair::Retry { "due again" } else { "skipped" };
        output.line(format_args!("{} {past}", messages(changed)))?;
    } else {
        output.line(format_args!("{} matched", messages(matched)))?;
    }
    Ok(Exit::Ok)
}

/// The book, or a remark that there is none.
pub async fn book(office: &Office, by: &By, output: &Output) -> Result<Option<Book>, Trouble> {
    let book = Book::open_if_there(&office.plan, &office.databases, &by.name()).await?;
    Ok(book.map_err(|remark| output.note(remark)).ok())
}

fn target(opened: &[Opened<'_>]) -> String {
    opened.iter().map(|source| source.source.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// One filter per id, or one for all. Without ids and state only the dead are meant: those wait for a person,
/// the others will go on by themselves.
fn filters(args: &RepairArgs) -> Vec<Filter> {
    let mut filter = args.selection.filter();
    if args.ids.is_empty() {
        filter.stand = filter.stand.or(Some(Stand::Dead));
        return vec![filter];
    }
    args.ids.iter().map(|id| Filter { id: Some(id.as_str().into()), ..filter.clone() }).collect()
}
