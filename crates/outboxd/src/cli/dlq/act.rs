//! `dlq retry` and `dlq discard`: what is meant is told first, then asked, then done.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use outbox::MessageId;
use outbox::letters::Act;
use serde_json::json;

use super::args::DlqActArgs;
use super::list::{cut_off, tell_more};
use super::{Dead, Place, Seen, Wanted, look, places};
use crate::backends::Databases;
use crate::cli::consent::{Answer, ask, messages};
use crate::cli::output::{Output, printable};
use crate::cli::progress::bar;
use crate::ops::Book;
use crate::plan::Plan;
use crate::trouble::{Exit, Trouble};

/// So many ids are named before somebody says yes.
const SAMPLE: usize = 5;

/// Returns or discards.
pub async fn act(args: &DlqActArgs, act: Act, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    let wanted = Wanted::new(&args.ids, &args.picked);
    let (places, troubles) = places(plan, args.picked.source.as_deref()).await?;
    if let Some(trouble) = troubles.into_iter().next() {
        return Err(trouble.into());
    }
    let (seen, troubles) = look(&places, &wanted).await;
    // Nothing is done by halves: whoever wants to go on without this source says so.
    if let Some(trouble) = troubles.into_iter().next() {
        return Err(trouble.into());
    }
    let verb = if act == Act::Return { "retry" } else { "discard" };
    let found: Vec<&Dead> = seen.iter().flat_map(|(_, seen)| &seen.dead).collect();
    let (matched, missing) = (found.len() as u64, wanted.missing(found.iter().copied()));
    preview(&found, output);
    tell_more(&cut_off(seen.iter().map(|(place, seen)| (place.source().name.as_str(), seen))), output);
    let answer = ask(&format!("{verb} {}", messages(matched)), matched, args.consent, output)?;
    let done = match answer {
        Answer::Yes => {
            let book = Book::open(plan, &Databases::default(), &args.by.name()).await?;
            go_through(args, act, &seen, (&book, &wanted), output).await?
        }
        Answer::No => 0,
    };
    if output.is_json() {
        let sample: Vec<_> = found.iter().map(|dead| dead.message.id.clone()).collect();
        let verb = format!("dlq {verb}");
        output.json(
            &json!({ "verb": verb, "matched": matched, "changed": done, "missing": missing, "ids": sample }),
        )?;
    } else if answer == Answer::Yes {
        let past = if act == Act::Return { "sent back" } else { "removed" };
        output.line(format_args!("{} {past}", messages(done)))?;
    } else {
        output.line(format_args!("{} matched", messages(matched)))?;
    }
    match missing.first() {
        None => Ok(Exit::Ok),
        Some(first) => {
            let others =
                if missing.len() > 1 { format!(", nor {} others", missing.len() - 1) } else { String::new() };
            let what = format!("there is no dead letter '{first}'{others}");
            Err(Trouble::new(Exit::Failed, what, "check the id; somebody else may have dealt with it").into())
        }
    }
}

/// What is meant, by type and cause, and the first of them.
fn preview(found: &[&Dead], output: &Output) {
    let mut groups: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for dead in found {
        let code = dead.cause.as_ref().map_or("-", |cause| cause.code.as_ref());
        *groups.entry((&dead.origin, &dead.message.kind, code)).or_default() += 1;
    }
    for ((origin, kind, code), count) in groups {
        output.note(printable(&format!("{count} of type {kind} with {code}, from {origin}")));
    }
    for dead in found.iter().take(SAMPLE) {
        output.note(printable(&format!("  {}", dead.message.id)));
    }
    if found.len() > SAMPLE {
        output.note(format_args!("  and {} more", found.len() - SAMPLE));
    }
}

async fn go_through(
    args: &DlqActArgs,
    act: Act,
    seen: &[(&Place<'_>, Seen)],
    (book, wanted): (&Book, &Wanted),
    output: &Output,
) -> Result<u64, Trouble> {
    let total = seen.iter().map(|(_, seen)| seen.dead.len() as u64).sum();
    let progress = bar(total);
    let action = if act == Act::Return { "dlq.retry" } else { "dlq.discard" };
    let mut before = 0;
    for (place, seen) in seen.iter().filter(|(_, seen)| !seen.dead.is_empty()) {
        let ids: Vec<MessageId> = seen.dead.iter().map(|dead| dead.message.id.clone()).collect();
        let page = book.begin(action, &place.name(), &ids, wanted.to_json()).await?;
        let here = AtomicU64::new(0);
        let tell = |done: u64| {
            here.store(done, Ordering::Relaxed);
            progress.set_position(before + done);
        };
        let acted = place.act(&seen.dead, act, book.who(), args.rate, &tell).await;
        let acted = match acted {
            Ok(acted) => acted,
            Err(trouble) => {
                progress.finish_and_clear();
                let done = here.into_inner();
                page.failed(done, &trouble).await;
                output.note(format_args!("{} of {total} were done before it failed", before + done));
                return Err(trouble);
            }
        };
        before += acted.acted;
        page.done(json!({ "changed": acted.acted, "missing": acted.missing })).await?;
        for id in &acted.missing {
            output.note(printable(&format!("'{id}' is not there any more")));
        }
    }
    progress.finish_and_clear();
    Ok(before)
}
