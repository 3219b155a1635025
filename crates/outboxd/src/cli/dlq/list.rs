//! `dlq list`: what is dead, oldest first.

use jiff::Timestamp;

use super::args::DlqListArgs;
use crate::cli::list::shorten;
use crate::cli::output::Output;
use crate::ops::Office;
use crate::ops::dead::{self, Letter, Wanted};
use crate::ops::told::Unseen;
use crate::quantity::show_age;
use crate::trouble::Exit;

/// Lists dead letters. A place that does not answer does not hide the others.
pub async fn list(args: &DlqListArgs, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    let told = dead::list(office, Wanted::new(&args.ids, args.picked.request())).await?;
    if output.is_json() {
        output.json(&told)?;
    } else if told.letters.is_empty() {
        let where_seen = if told.unseen.is_empty() { "" } else { " in what could be looked at" };
        output.note(format_args!("no dead letter matches{where_seen}"));
    } else {
        write_table(&told.letters, output)?;
    }
    tell_more(&told.more, output);
    finish(&told.unseen, output)
}

/// Says that there is more than was looked at.
pub fn tell_more(sources: &[String], output: &Output) {
    for source in sources {
        output.note(format_args!("source '{source}' has more that was not looked at: raise --most"));
    }
}

/// What was seen is told; then what could not be.
pub fn finish(unseen: &[Unseen], output: &mut Output) -> anyhow::Result<Exit> {
    output.flush()?;
    for place in unseen {
        output.error(&place.error, &place.help);
    }
    Ok(unseen.first().map_or(Exit::Ok, |first| first.exit))
}

fn write_table(found: &[Letter], output: &mut Output) -> std::io::Result<()> {
    let now = Timestamp::now();
    let header = ["id", "type", "key", "attempts", "age", "source", "origin", "cause"];
    let rows: Vec<Vec<String>> = found.iter().map(|letter| cells(letter, now)).collect();
    output.table(&header, &rows)
}

fn cells(letter: &Letter, now: Timestamp) -> Vec<String> {
    vec![
        letter.id.to_string(),
        letter.kind.clone(),
        letter.key.clone().unwrap_or_else(|| "-".to_owned()),
        letter.attempts.to_string(),
        show_age(now.duration_since(letter.since()).as_secs_f64()),
        letter.source.clone(),
        letter.origin.clone(),
        letter.cause.as_ref().map_or("-".to_owned(), |cause| shorten(&cause.to_string())),
    ]
}
