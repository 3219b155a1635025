//! `errors`: what is in the error tables, and what a person does about it.

pub mod args;

mod edit;
mod list;
mod resolve;
mod retry;
mod show;

use self::args::ErrorsVerb;
use super::output::{Output, printable};
use crate::ops::Office;
use crate::ops::errors::{Found, Settled};
use crate::trouble::{Exit, Trouble};

/// So many are named before somebody says yes.
const SAMPLE: usize = 5;

/// Does what was typed after `errors`.
pub async fn errors(verb: &ErrorsVerb, office: &Office, output: &mut Output) -> anyhow::Result<Exit> {
    match verb {
        ErrorsVerb::List(args) => list::list(args, office, output).await,
        ErrorsVerb::Show(args) => show::show(args, office, output).await,
        ErrorsVerb::Retry(args) => retry::retry(args, office, output).await,
        ErrorsVerb::Edit(args) => edit::edit(args, office, output).await,
        ErrorsVerb::Resolve(args) => resolve::resolve(args, office, output).await,
    }
}

/// A number of errors, in words.
fn count(count: u64) -> String {
    format!("{count} error{}", if count == 1 { "" } else { "s" })
}

/// What is meant, by origin, type and cause, and the first of them.
fn preview(found: &Found<'_>, output: &Output) {
    for cause in found.causes() {
        output.note(printable(&cause.to_string()));
    }
    for record in found.records().take(SAMPLE) {
        output.note(printable(&format!("  {} (message {})", record.id, record.message_id)));
    }
    let others = found.records().skip(SAMPLE).count();
    if others > 0 {
        output.note(format_args!("  and {others} more"));
    }
    for sink in &found.more {
        output.note(format_args!("the table of sink '{sink}' has more that matches: raise --most"));
    }
}

/// Says what was done, and what was asked for by name and is not there. `participle` is what was done to them, if anybody
/// said yes.
fn report(settled: &Settled, participle: Option<&str>, output: &mut Output) -> anyhow::Result<Exit> {
    if output.is_json() {
        output.json(settled)?;
    } else {
        let (number, what) = participle.map_or((settled.matched, "matched"), |done| (settled.changed, done));
        output.line(format_args!("{} {what}", count(number)))?;
    }
    let Some(first) = settled.missing.first() else { return Ok(Exit::Ok) };
    let what = format!("there is no such error '{first}'");
    let help = "check the id; --state any also finds what was returned or resolved";
    Err(Trouble::new(Exit::Failed, what, help).into())
}
