//! `dlq list`: what is dead, oldest first.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::args::DlqListArgs;
use super::{Dead, Seen, Wanted, look, places};
use crate::cli::list::shorten;
use crate::cli::output::Output;
use crate::plan::Plan;
use crate::quantity::show_age;
use crate::trouble::{Exit, Trouble};

/// Lists dead letters. A place that does not answer does not hide the others.
pub async fn list(args: &DlqListArgs, plan: &Plan, output: &mut Output) -> anyhow::Result<Exit> {
    let wanted = Wanted::new(&args.ids, &args.picked);
    let (places, mut troubles) = places(plan, args.picked.source.as_deref()).await?;
    let (seen, unseen) = look(&places, &wanted).await;
    troubles.extend(unseen);
    let found: Vec<&Dead> = seen.iter().flat_map(|(_, seen)| &seen.dead).collect();
    let more = cut_off(seen.iter().map(|(place, seen)| (place.source().name.as_str(), seen)));
    if output.is_json() {
        let letters: Vec<Value> = found.iter().map(|dead| dead.to_json()).collect();
        output.json(&json!({ "letters": letters, "more": more }))?;
    } else if found.is_empty() {
        let where_seen = if troubles.is_empty() { "" } else { " in what could be looked at" };
        output.note(format_args!("no dead letter matches{where_seen}"));
    } else {
        write_table(&found, output)?;
    }
    tell_more(&more, output);
    finish(troubles, output)
}

/// The sources of which not all was looked at.
pub fn cut_off<'s>(seen: impl Iterator<Item = (&'s str, &'s Seen)>) -> Vec<String> {
    seen.filter(|(_, seen)| seen.more).map(|(source, _)| source.to_owned()).collect()
}

/// Says that there is more than was looked at.
pub fn tell_more(sources: &[String], output: &Output) {
    for source in sources {
        output.note(format_args!("source '{source}' has more that was not looked at: raise --most"));
    }
}

/// What was seen is told; then what could not be.
pub fn finish(troubles: Vec<Trouble>, output: &mut Output) -> anyhow::Result<Exit> {
    output.flush()?;
    for trouble in &troubles {
        output.error(trouble, trouble.help());
    }
    Ok(troubles.first().map_or(Exit::Ok, |first| first.exit))
}

fn write_table(found: &[&Dead], output: &mut Output) -> std::io::Result<()> {
    let now = Timestamp::now();
    let header = ["id", "type", "key", "attempts", "age", "source", "origin", "cause"];
    let rows: Vec<Vec<String>> = found.iter().map(|dead| cells(dead, now)).collect();
    output.table(&header, &rows)
}

fn cells(dead: &Dead, now: Timestamp) -> Vec<String> {
    vec![
        dead.message.id.to_string(),
        dead.message.kind.clone(),
        dead.message.key.clone().unwrap_or_else(|| "-".to_owned()),
        dead.attempts.to_string(),
        show_age(now.duration_since(dead.since()).as_secs_f64()),
        dead.source.clone(),
        dead.origin.clone(),
        dead.cause.as_ref().map_or("-".to_owned(), |cause| shorten(&cause.to_string())),
    ]
}
